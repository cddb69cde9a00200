//! From one declaration of each event: the type, its parts, its bytes, its reports.

/// Declares the events of a run. Of each: its name in the type and in lists; whether it is
/// about a packet; who reports it; whether it is itself reduced to a count (`Counter`), or not
/// (`None`); then its fields with their types and, of those that are reduced to figures, the
/// unit and how ([`Reduce`](super::Reduce)). A field without a unit is a label.
macro_rules! events {
    ($(
        $(#[doc = $about:literal])+
        $variant:ident = $name:literal $(of $packet:ident)?, by $by:ident: $source:ty, $count:ident {
            $($(#[doc = $field_about:literal])+
            $field:ident: $type:ty $(, $unit:literal, $reduce:ident)?;)*
        }
    )+) => {
        /// One thing that happened.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Event<'a> {
            $($(#[doc = $about])+ $variant {
                /// Which one reports it.
                $by: $source,
                $(
                    /// The packet.
                    $packet: &'a Packet,
                )?
                $($(#[doc = $field_about])+ $field: $type,)*
            },)+
        }

        /// What is declared of each event, in the order of their numbers.
        pub const EVENTS: &[EventKind] = &[$(EventKind {
            name: $name,
            about: concat!($($about),+).trim_ascii(),
            by: stringify!($by),
            of_packet: events!(@of_packet $($packet)?),
            counted: events!(@counted $count),
            fields: &[$(EventField {
                name: stringify!($field),
                about: concat!($($field_about),+).trim_ascii(),
                shape: <$type as Value>::SHAPE,
                reduced: events!(@reduced $($unit, $reduce)?),
            },)*],
        },)+];

        /// The numbers of the events, as bytes have them.
        #[repr(u8)]
        enum Number {
            $($variant,)+
        }

        impl<'a> Event<'a> {
            /// Its index in [`EVENTS`].
            pub fn number(&self) -> u8 {
                match self {
                    $(Self::$variant { .. } => Number::$variant as u8,)+
                }
            }

            /// The event and its packet, apart, for sinks that keep both; a packet without
            /// content is in its place. [`about`](Self::about) puts them together again.
            pub fn parts(self) -> (Event<'static>, Option<&'a Packet>) {
                match self {
                    $(Self::$variant { $by, $($packet,)? $($field,)* } => (
                        Event::$variant { $by, $($packet: &NO_PACKET,)? $($field,)* },
                        [$(Some($packet),)? None][0],
                    ),)+
                }
            }

            /// The same about `packet`, if it is about one at all.
            pub fn about(self, packet: &'a Packet) -> Self {
                match self {
                    $(Self::$variant { $by, $($field,)* .. } => Event::$variant {
                        $by,
                        $($packet: packet,)?
                        $($field,)*
                    },)+
                }
            }

            /// What flows, probes and other sources report of themselves, for sinks that keep
            /// it; `None` of an event that is about a packet, a queue or a box.
            pub fn of_itself(self) -> Option<Event<'static>> {
                let of_itself = match self {
                    $(Self::$variant { .. } => events!(@of_itself $by),)+
                };
                match self.parts() {
                    (event, None) if of_itself => Some(event),
                    _ => None,
                }
            }

            /// Writes all but [`number`](Self::number), which a reader has to know first.
            pub fn write(&self, to: &mut impl Encoder) {
                match *self {
                    $(Self::$variant { $by, $($packet,)? $($field,)* } => {
                        $by.write(to);
                        $(to.packet($packet);)?
                        $($field.write(to);)*
                    })+
                }
            }

            /// Reads the event of that number. Its packet is what [`Decoder::packet`] read:
            /// [`about`](Self::about) puts it in.
            ///
            /// # Errors
            /// When the bytes are not what [`write`](Self::write) wrote.
            pub fn read(number: u8, from: &mut impl Decoder) -> Result<Event<'static>, Malformed> {
                Ok(match number {
                    $(n if n == Number::$variant as u8 => Event::$variant {
                        $by: Value::read(from)?,
                        $($packet: { from.packet()?; &NO_PACKET },)?
                        $($field: Value::read(from)?,)*
                    },)+
                    _ => return Err(Malformed),
                })
            }

            /// What it comes to by its declaration: a count of itself, and the value of each
            /// field that is reduced, with who reports it.
            #[allow(unused_variables)]
            pub fn reports(&self, report: &mut dyn FnMut(Source, TelemetryField, i64)) {
                match *self {
                    $(Self::$variant { $by, $($field,)* .. } => {
                        let by = Source::from($by);
                        events!(@count $count, report, by, $name, $($about),+);
                        $(
                            let name = concat!($name, "_", stringify!($field));
                            let about = concat!($($field_about),+).trim_ascii();
                            $(
                                let field = TelemetryField::new(name, $unit, about, Reduce::$reduce)
                                    .in_parts(<$type as Value>::PARTS);
                                report(by, field, $field.parts());
                            )?
                        )*
                    })+
                }
            }
        }
    };
    (@of_packet) => { false };
    (@of_packet $packet:ident) => { true };
    (@counted None) => { false };
    (@counted Counter) => { true };
    (@count None, $($rest:tt)+) => {};
    (@count Counter, $report:ident, $by:ident, $name:literal, $($about:literal),+) => {
        let about = concat!($($about),+).trim_ascii();
        $report($by, TelemetryField::new($name, "", about, Reduce::Counter), 1);
    };
    (@reduced) => { None };
    (@reduced $unit:literal, $reduce:ident) => { Some(($unit, Reduce::$reduce)) };
    (@of_itself flow) => { true };
    (@of_itself probe) => { true };
    (@of_itself source) => { true };
    (@of_itself $by:ident) => { false };
}

/// Declares an enum whose values have numbers in the order of the list.
macro_rules! choices {
    ($(#[doc = $about:literal])+ $name:ident {
        $($(#[doc = $choice_about:literal])+ $choice:ident,)+
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[doc = $choice_about])+ $choice,)+
        }

        impl $name {
            /// All of them, each at the index of its number.
            pub const ALL: &[Self] = &[$(Self::$choice),+];
        }

        impl Value for $name {
            const SHAPE: &'static str = concat!("one of", $(" ", stringify!($choice)),+);

            fn write(self, to: &mut impl Encoder) {
                to.number(self as u64);
            }

            fn read(from: &mut impl Decoder) -> Result<Self, Malformed> {
                let number = usize::try_from(from.number()?).map_err(|_| Malformed)?;
                Self::ALL.get(number).copied().ok_or(Malformed)
            }
        }
    };
}

/// Declares a group of values that an event has as one field.
macro_rules! group {
    ($(#[$attribute:meta])+ $name:ident {
        $($(#[doc = $about:literal])+ $field:ident: $type:ty,)+
    }) => {
        $(#[$attribute])+
        pub struct $name {
            $($(#[doc = $about])+ pub $field: $type,)+
        }

        impl Value for $name {
            const SHAPE: &'static str = concat!("", $(stringify!($field), " "),+).trim_ascii();

            fn write(self, to: &mut impl Encoder) {
                $(self.$field.write(to);)+
            }

            fn read(from: &mut impl Decoder) -> Result<Self, Malformed> {
                Ok(Self { $($field: Value::read(from)?,)+ })
            }
        }
    };
}
