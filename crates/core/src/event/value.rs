//! What the fields of events are made of, and how each type goes through bytes.

use std::net::SocketAddr;

use narrows_units::Duration;

use super::telemetry::{Source, TelemetryField};
use super::{EntityId, FlowId};
use crate::packet::Packet;
use crate::queue::Band;

/// What was read is no event, or ends within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Takes the values of an event in their order.
pub trait Encoder {
    /// A number.
    fn number(&mut self, value: u64);

    /// A number of either sign.
    fn signed(&mut self, value: i64) {
        // Zigzag: small numbers of either sign stay small.
        self.number(((value << 1) ^ (value >> 63)) as u64);
    }

    /// A text.
    fn text(&mut self, text: &str);

    /// The packet that the event is about.
    fn packet(&mut self, packet: &Packet);

    /// A field of telemetry: there are few, and each is met often.
    fn field(&mut self, field: TelemetryField);

    /// The names of a queue's bands, likewise.
    fn names(&mut self, names: &'static [&'static str]);
}

/// Gives the values that an [`Encoder`] took, in the same order.
///
/// # Errors
/// Each of its methods refuses what is not such a value.
#[allow(clippy::missing_errors_doc)]
pub trait Decoder {
    /// A number.
    fn number(&mut self) -> Result<u64, Malformed>;

    /// A number of either sign.
    fn signed(&mut self) -> Result<i64, Malformed> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A text.
    fn text(&mut self) -> Result<&str, Malformed>;

    /// Reads the packet that the event is about, and keeps it.
    fn packet(&mut self) -> Result<(), Malformed>;

    /// A field of telemetry.
    fn field(&mut self) -> Result<TelemetryField, Malformed>;

    /// The names of a queue's bands.
    fn names(&mut self) -> Result<&'static [&'static str], Malformed>;
}

/// A type that fields of events have.
pub trait Value: Copy {
    /// What it is, for the guide.
    const SHAPE: &'static str;

    /// How many parts, which [`parts`](Self::parts) counts, make a unit of a field.
    const PARTS: u64 = 1;

    /// The value of a field that is reduced to figures, in whole parts of its unit.
    fn parts(self) -> i64 {
        0
    }

    /// Hands it to `to`.
    fn write(self, to: &mut impl Encoder);

    /// Takes it from `from`.
    ///
    /// # Errors
    /// When what is there is no such value.
    fn read(from: &mut impl Decoder) -> Result<Self, Malformed>;
}

/// Whole numbers, which go through bytes as they are.
macro_rules! numbers {
    ($($type:ty)+) => {$(
        impl Value for $type {
            const SHAPE: &'static str = "number";

            fn parts(self) -> i64 {
                i64::try_from(self).unwrap_or(i64::MAX)
            }

            fn write(self, to: &mut impl Encoder) {
                to.number(self.into());
            }

            fn read(from: &mut impl Decoder) -> Result<Self, Malformed> {
                Self::try_from(from.number()?).map_err(|_| Malformed)
            }
        }
    )+};
}

numbers!(u8 u32 u64);

/// Indices into lists of the run.
macro_rules! ids {
    ($($type:ident $shape:literal)+) => {$(
        impl Value for $type {
            const SHAPE: &'static str = $shape;

            fn write(self, to: &mut impl Encoder) {
                self.0.write(to);
            }

            fn read(from: &mut impl Decoder) -> Result<Self, Malformed> {
                Value::read(from).map(Self)
            }
        }
    )+};
}

ids!(EntityId "entity" FlowId "flow");

impl Value for i64 {
    const SHAPE: &'static str = "number";

    fn parts(self) -> i64 {
        self
    }

    fn write(self, to: &mut impl Encoder) {
        to.signed(self);
    }

    fn read(from: &mut impl Decoder) -> Result<Self, Malformed> {
        from.signed()
    }
}

impl Value for bool {
    const SHAPE: &'static str = "yes or no";

    fn parts(self) -> i64 {
        self.into()
    }

    fn write(self, to: &mut impl Encoder) {
        to.number(self.into());
    }

    fn read(from: &mut impl Decoder) -> Result<Self, Malformed> {
        match from.number()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }
}

/// In a field that is reduced, in milliseconds.
impl Value for Duration {
    const SHAPE: &'static str = "time";

    const PARTS: u64 = 1_000_000;

    fn parts(self) -> i64 {
        self.as_nanos().parts()
    }

    fn write(self, to: &mut impl Encoder) {
        to.number(self.as_nanos());
    }

    fn read(from: &mut impl Decoder) -> Result<Self, Malformed> {
        from.number().map(Self::from_nanos)
    }
}

impl Value for f64 {
    const SHAPE: &'static str = "number";

    const PARTS: u64 = 1_000_000;

    fn parts(self) -> i64 {
        (self * Self::PARTS as f64) as i64
    }

    fn write(self, to: &mut impl Encoder) {
        to.number(self.to_bits());
    }

    fn read(from: &mut impl Decoder) -> Result<Self, Malformed> {
        from.number().map(Self::from_bits)
    }
}

impl<T: Value> Value for Option<T> {
    const SHAPE: &'static str = T::SHAPE;

    fn write(self, to: &mut impl Encoder) {
        self.is_some().write(to);
        if let Some(value) = self {
            value.write(to);
        }
    }

    fn read(from: &mut impl Decoder) -> Result<Self, Malformed> {
        let there = bool::read(from)?;
        there.then(|| T::read(from)).transpose()
    }
}

impl<T: Value> Value for (T, T) {
    const SHAPE: &'static str = T::SHAPE;

    fn write(self, to: &mut impl Encoder) {
        self.0.write(to);
        self.1.write(to);
    }

    fn read(from: &mut impl Decoder) -> Result<Self, Malformed> {
        Ok((T::read(from)?, T::read(from)?))
    }
}

impl Value for SocketAddr {
    const SHAPE: &'static str = "address and port";

    fn write(self, to: &mut impl Encoder) {
        to.text(&self.to_string());
    }

    fn read(from: &mut impl Decoder) -> Result<Self, Malformed> {
        from.text()?.parse().map_err(|_| Malformed)
    }
}

impl Value for Source {
    const SHAPE: &'static str = "flow or entity";

    fn write(self, to: &mut impl Encoder) {
        let (is_flow, id) = match self {
            Self::Flow(FlowId(id)) => (true, id),
            Self::Entity(EntityId(id)) => (false, id),
        };
        is_flow.write(to);
        id.write(to);
    }

    fn read(from: &mut impl Decoder) -> Result<Self, Malformed> {
        Ok(match bool::read(from)? {
            true => Self::Flow(Value::read(from)?),
            false => Self::Entity(Value::read(from)?),
        })
    }
}

impl Value for TelemetryField {
    const SHAPE: &'static str = "declared quantity";

    fn write(self, to: &mut impl Encoder) {
        to.field(self);
    }

    fn read(from: &mut impl Decoder) -> Result<Self, Malformed> {
        from.field()
    }
}

impl Value for Band {
    const SHAPE: &'static str = "band";

    fn write(self, to: &mut impl Encoder) {
        to.names(self.names());
        to.number(self.index() as u64);
    }

    fn read(from: &mut impl Decoder) -> Result<Self, Malformed> {
        let (names, index) = (from.names()?, u8::read(from)?);
        let known = names.get(usize::from(index)).is_some();
        known.then(|| Self::new(names, index)).ok_or(Malformed)
    }
}
