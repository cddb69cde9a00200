//! The values of fields, as they are written.

use std::fmt::{self, Display};
use std::net::{Ipv4Addr, Ipv6Addr};

use narrows_units::{WordError, Words};

use crate::field::{ETHER_TYPES, Field, PROTOCOLS, Takes, most};

/// Bytes of the longest payload or option value in a rule (mmb's `MMB_MAX_FIELD_LEN`).
const LONGEST: usize = 64;

/// The word for the box's own address.
const OWN: &str = "self";

/// What a field is compared with or set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number; addresses are such, too.
    Number(u128),
    /// Addresses that begin with the first `length` bits of `address`, whose others are 0.
    Prefix {
        /// The address.
        address: u128,
        /// Bits of it that count.
        length: u8,
    },
    /// The box's own address of the field's version of IP.
    Own,
    /// Bytes.
    Bytes(Vec<u8>),
    /// An interface by its name.
    Interface(String),
}

impl Value {
    /// Reads the next word as a value of `field`.
    ///
    /// # Errors
    /// When there is none, or it is no such value.
    pub(crate) fn parse(field: Field, words: &mut Words<'_>) -> Result<Self, WordError> {
        let allowed = || format!("the value of `{}`: {}", field.name(), field.values());
        let word = words.take().ok_or_else(|| words.ended(allowed()))?;
        Self::read(field, word.text).ok_or_else(|| word.refused(allowed()))
    }

    /// The value of `field` that `word` spells.
    pub(crate) fn read(field: Field, word: &str) -> Option<Self> {
        let number = || number(word).filter(|n| *n <= most(field.width()));
        Some(match field.row().takes {
            Takes::Number | Takes::Flag => Self::Number(number()?),
            Takes::Protocol => {
                let named = PROTOCOLS.iter().find(|(name, _)| *name == word);
                Self::Number(match named {
                    Some((_, value)) => u128::from(*value),
                    None => number()?,
                })
            }
            Takes::EtherType => {
                let named = ETHER_TYPES.iter().find(|(name, _)| *name == word);
                Self::Number(match named {
                    Some((_, value)) => u128::from(*value),
                    None => number()?,
                })
            }
            Takes::Version => Self::Number(match word {
                "ip" | "ip4" | "4" => 4,
                "ip6" | "6" => 6,
                _ => return None,
            }),
            Takes::Address4 | Takes::Address6 if word == OWN => Self::Own,
            Takes::Address4 => address(word, 32, |text| {
                text.parse().ok().map(|a: Ipv4Addr| u32::from(a).into())
            })?,
            Takes::Address6 => address(word, 128, |text| {
                text.parse().ok().map(|a: Ipv6Addr| a.into())
            })?,
            Takes::Bytes => Self::Bytes(bytes(word)?),
            Takes::Interface => Self::Interface(word.to_owned()),
            Takes::Constant(_) | Takes::Nothing => return None,
        })
    }

    /// Writes it as the value of `field`.
    pub(crate) fn write(&self, field: Field, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, field.row().takes) {
            (Self::Number(n), Takes::Protocol) => {
                let named = PROTOCOLS.iter().find(|(_, value)| u128::from(*value) == *n);
                match named {
                    Some((name, _)) => f.write_str(name),
                    None => n.fmt(f),
                }
            }
            (Self::Number(n), Takes::EtherType) => {
                let named = ETHER_TYPES
                    .iter()
                    .find(|(_, value)| u128::from(*value) == *n);
                match named {
                    Some((name, _)) => f.write_str(name),
                    None => write!(f, "x{n:04x}"),
                }
            }
            (Self::Number(n), Takes::Version) => write!(f, "ip{n}"),
            (Self::Number(n), Takes::Address4) => Ipv4Addr::from(*n as u32).fmt(f),
            (Self::Number(n), Takes::Address6) => Ipv6Addr::from(*n).fmt(f),
            (Self::Number(n), _) => n.fmt(f),
            (Self::Prefix { address, length }, Takes::Address4) => {
                write!(f, "{}/{length}", Ipv4Addr::from(*address as u32))
            }
            (Self::Prefix { address, length }, _) => {
                write!(f, "{}/{length}", Ipv6Addr::from(*address))
            }
            (Self::Own, _) => f.write_str(OWN),
            (Self::Bytes(bytes), _) => {
                f.write_str("x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            (Self::Interface(name), _) => f.write_str(name),
        }
    }
}

/// The mask of the first `length` of `width` bits.
pub(crate) fn prefix_mask(width: u8, length: u8) -> u128 {
    let below = most(width - length);
    most(width) & if length == width { u128::MAX } else { !below }
}

/// A decimal number, or `x` and a hexadecimal one.
fn number(text: &str) -> Option<u128> {
    let hex = text.strip_prefix('x').or_else(|| text.strip_prefix("0x"));
    let (digits, radix) = hex.map_or((text, 10), |hex| (hex, 16));
    let plain = !digits.is_empty() && digits.bytes().all(|b| char::from(b).is_digit(radix));
    // Most numbers have few digits, and 64 bits are read quicker.
    match digits.len() {
        _ if !plain => None,
        1..=16 => u64::from_str_radix(digits, radix).ok().map(u128::from),
        _ => u128::from_str_radix(digits, radix).ok(),
    }
}

/// An address, or a prefix of one.
fn address(text: &str, width: u8, read: impl Fn(&str) -> Option<u128>) -> Option<Value> {
    let Some((address, length)) = text.split_once('/') else {
        return read(text).map(Value::Number);
    };
    let length = number(length).filter(|length| *length <= u128::from(width))? as u8;
    let address = read(address)? & prefix_mask(width, length);
    Some(Value::Prefix { address, length })
}

/// `x` and an even number of hexadecimal digits.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix('x'))?;
    let digits = hex
        .chars()
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect::<Option<Vec<u8>>>()?;
    let fits = !digits.is_empty() && digits.len() % 2 == 0 && digits.len() <= 2 * LONGEST;
    fits.then(|| {
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_pairs_of_hexadecimal_digits_up_to_the_longest_value() {
        assert_eq!(bytes("x00a5Ff"), Some(vec![0x00, 0xa5, 0xff]));
        assert_eq!(bytes("0x10"), Some(vec![0x10]));
        for text in ["", "x", "x1", "x123", "xg0", "10", "x+1"] {
            assert_eq!(bytes(text), None, "{text}");
        }
        let repeated = |count: usize| bytes(&format!("x{}", "5a".repeat(count)));
        assert_eq!(repeated(LONGEST), Some(vec![0x5a; LONGEST]));
        assert_eq!(repeated(LONGEST + 1), None);
    }

    #[test]
    fn a_number_has_digits_and_nothing_else() {
        assert_eq!(number("0"), Some(0));
        assert_eq!(number("9999999999999999"), Some(9_999_999_999_999_999));
        assert_eq!(number("xffffffffffffffff"), Some(u64::MAX.into()));
        assert_eq!(number("0x1ffffffffffffffff"), Some((1 << 65) - 1));
        assert_eq!(number("18446744073709551616"), Some(1 << 64));
        for text in ["", "x", "0x", "+5", "x+5", "-1", "1_000", "ff", "5 "] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn a_version_of_ip_is_a_name_or_a_number() {
        let version = |word: &str| Value::read(Field::named("net-proto").unwrap(), word);
        for (word, number) in [("ip", 4), ("ip4", 4), ("4", 4), ("ip6", 6), ("6", 6)] {
            assert_eq!(version(word), Some(Value::Number(number)), "{word}");
        }
        assert_eq!(version("5"), None);
    }
}
