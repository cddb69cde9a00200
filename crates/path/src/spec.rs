//! One box of a path as a scenario file writes it.

use std::net::IpAddr;

use narrows_aqm::{QUEUES, tc_line};
use narrows_core::{Change, EntityId, Packet};
use narrows_units::{Duration, Instant, WordError, Words};

use crate::kind::{Kind, LinkRate};
use crate::recording::{Rates, Recording};
use crate::site::Site;
use crate::tc::of_tc;
use crate::waiting::rng_of;
use crate::{AccessPointSpec, ELEMENTS, ElementSpec};

#[cfg(test)]
mod tests;

/// From one line for each kind of element (its first word, its name and its parameters; a
/// second word that makes it another kind): all that depends on which kinds there are. What
/// an element answers of itself is the [`Kind`](crate::kind::Kind) of its parameters.
macro_rules! elements {
    ($(
        $(#[doc = $doc:literal])+ $word:literal => $name:ident($spec:ty)
        $(, $(#[doc = $other_doc:literal])+ $second:literal => $other:ident($other_spec:ty))?;
    )+) => {
        /// What a scenario file says about one box. Which words each kind has, its
        /// parameters say.
        #[derive(Clone, Debug, PartialEq)]
        pub enum ElementSpec {
            $($(#[doc = $doc])+ $name($spec), $($(#[doc = $other_doc])+ $other($other_spec),)?)+
        }

        /// The words that elements begin with.
        pub const ELEMENTS: &[&str] = &[$($word),+];

        /// What each kind of element is, and its parameters.
        pub const ELEMENT_KINDS: &[narrows_units::Declared] = &[$(
            narrows_units::Declared {
                name: $word,
                about: concat!($($doc),+).trim_ascii(),
                parameters: <$spec as $crate::kind::Kind>::PARAMETERS,
            },
            $(narrows_units::Declared {
                name: concat!($word, " ", $second),
                about: concat!($($other_doc),+).trim_ascii(),
                parameters: <$other_spec as $crate::kind::Kind>::PARAMETERS,
            },)?
        )+];

        impl ElementSpec {
            /// Reads the words after the first one, `word`, which may be laid over an
            /// element; `None` if there is no such kind.
            pub(crate) fn read(
                word: &str,
                words: &mut narrows_units::Words<'_>,
                before: Option<&Self>,
            ) -> Option<Result<Self, narrows_units::WordError>> {
                fn given<K: $crate::kind::Kind>(
                    words: &mut narrows_units::Words<'_>,
                    before: Option<&ElementSpec>,
                ) -> Result<K, narrows_units::WordError> {
                    match before {
                        Some(before) => K::over(before, words),
                        None => K::parse(words),
                    }
                }
                Some(match word {
                    $($word => {
                        $(if words.take_if($second) {
                            return Some(given(words, before).map(Self::$other));
                        })?
                        given(words, before).map(Self::$name)
                    })+
                    _ => return None,
                })
            }

            /// The word that starts it, which is also its name where it has none.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => $word, $(Self::$other(_) => $word,)?)+
                }
            }

            /// The box itself, at its place.
            pub fn build(&self, site: &Site<'_>) -> Box<dyn narrows_core::Element> {
                elements!(@each self, k => $crate::kind::Kind::build(k, site);
                    $($name $(, $other)?;)+)
            }

            /// What it is to those who do not know its kind.
            pub fn facts(&self) -> Facts<'_> {
                elements!(@each self, k => $crate::kind::Kind::facts(k);
                    $($name $(, $other)?;)+)
            }

            /// How long a packet of `mtu` bytes of IP with the code point `dscp` takes
            /// through it while it is empty, jitter left out. Where the ECN field decides,
            /// it is the longest way, for the packets of a flow do not all have the same.
            pub fn base_delay(&self, dscp: u8, mtu: u32) -> narrows_units::Duration {
                elements!(@each self, k => $crate::kind::Kind::base_delay(k, dscp, mtu);
                    $($name $(, $other)?;)+)
            }

            /// The file that it takes something from, if it names one.
            pub fn file(&mut self) -> Option<&mut dyn NamesFile> {
                elements!(@each self, k => $crate::kind::Kind::file(k);
                    $($name $(, $other)?;)+)
            }
        }

        impl std::fmt::Display for ElementSpec {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                elements!(@each self, k => std::fmt::Display::fmt(k, f);
                    $($name $(, $other)?;)+)
            }
        }
    };
    (@each $of:expr, $k:ident => $do:expr; $($name:ident $(, $other:ident)?;)+) => {
        match $of {
            $(Self::$name($k) => $do, $(Self::$other($k) => $do,)?)+
        }
    };
}

fn allowed() -> String {
    let (last, kinds) = ELEMENTS.split_last().unwrap_or((&"", &[]));
    format!("an element: {} or {last}", kinds.join(", "))
}

impl ElementSpec {
    /// Reads one element's words.
    ///
    /// # Errors
    /// When they are no element's; the span is that in `line`. It may be one for tc.
    pub fn parse(line: &str) -> Result<Self, WordError> {
        if let Some(discipline) = tc_line::discipline_of(line)? {
            return of_tc(discipline, line);
        }
        let mut words = Words::new(line);
        let kind = words.needed(&allowed())?;
        Self::read(kind.text, &mut words, None).unwrap_or_else(|| {
            let error = kind.refused(allowed());
            Err(match kind.text {
                "delay" | "loss" | "reorder" | "duplicate" | "slot" => {
                    error.with_help(format!("write `netem {}`", line.trim()))
                }
                "tbf" | "htb" => error.with_help("write `rate 50Mbit shaper queue …` for a shaper"),
                other if other == "queue" || QUEUES.contains(&other) => {
                    error.with_help("a queue belongs to a rate: `rate 50Mbit queue fq_codel`")
                }
                _ => error,
            })
        })
    }

    /// Reads the words of a node. There `wifi` is an access point, whether `ap` follows or not.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), which also reads what is no node.
    pub fn parse_node(line: &str) -> Result<Self, WordError> {
        let mut words = Words::new(line);
        if words.take_if("wifi") {
            words.take_if("ap");
            return AccessPointSpec::parse(&mut words).map(Self::AccessPoint);
        }
        Self::parse(line)
    }

    /// The element with `line` laid over it, words of any element. Of words of the same
    /// kind, what they do not name stays: of `rate` the overhead, the shaper and the
    /// queue with its parameters, of `netem` each clause. A recording in place of a
    /// rate, or a rate in place of a recording, keeps the queue. A rate over a switch is that
    /// of its ports, and `wifi` over an access point what a station of it has. All else is another
    /// element in its place.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn overlaid(&self, line: &str) -> Result<Self, WordError> {
        let mut words = Words::new(line);
        let kind = words.take().map_or("", |kind| kind.text);
        if let (Self::Switch(switch), "rate") = (self, kind) {
            return switch.with_rate(&mut words).map(Self::Switch);
        }
        if let (Self::AccessPoint(_), "wifi") = (self, kind) {
            words.take_if("ap");
            return AccessPointSpec::over(self, &mut words).map(Self::AccessPoint);
        }
        Self::read(kind, &mut words, Some(self)).unwrap_or_else(|| Self::parse(line))
    }

    /// The rates that it has from the start of a run on, if it is known at each time which.
    pub fn rates(&self) -> Option<Rates> {
        match self.facts().link?.rate {
            LinkRate::Constant(rate) => Some(Rates::new(vec![(Instant::ZERO, rate)])),
            LinkRate::Recorded(Recording::Rates(rates)) => Some(Rates::clone(rates)),
            LinkRate::Recorded(Recording::Opportunities(_)) => None,
        }
    }

    /// How long a packet may wait in its queue before it is marked for that alone, if its
    /// queue has such a threshold for a single packet.
    pub fn marking_step(&self) -> Option<Duration> {
        self.facts().link?.queue.marking_step()
    }

    /// Bytes that it counts for each packet above its IP length; 0 where it has no rate.
    pub fn overhead_bytes(&self) -> u32 {
        self.facts().link.map_or(0, |link| link.overhead)
    }

    /// The bucket into which the queue of the element `name` sorts `packet` in a
    /// run with `seed`; `None` where no queue keeps flows apart.
    pub fn bucket_of(&self, seed: u64, name: &str, packet: &Packet) -> Option<usize> {
        let queue = self.facts().link?.queue;
        queue.bucket_of(rng_of(seed, name), packet)
    }

    /// Tries `change` words on a box of this kind, so that a scenario with a
    /// wrong change is refused before anything runs.
    ///
    /// # Errors
    /// What the change would fail with.
    pub fn check_change(&self, words: &str) -> Result<(), WordError> {
        let site = Site {
            entity: EntityId(0),
            name: "check",
            seed: 0,
            mtu: 1500,
            forward: true,
            addresses: [IpAddr::V4([0; 4].into()), IpAddr::V6([0; 16].into())],
            other_end: None,
            ports: &[],
        };
        let change = Change {
            words: words.to_owned(),
            port: 0,
        };
        self.build(&site).change(Instant::ZERO, &change)
    }
}

narrows_units::written_as_words!(ElementSpec);
