//! Explicit flow measurement (RFC 9506) in the reserved bits of a TCP header:
//! which signal is in which bit, and how a handshake announces it.
//!
//! Byte 12 of the header has four bits beside the data offset. The lowest,
//! 0x01, is AE (RFC 9768) and never touched; the other three carry up to three
//! signals. A SYN and a SYN-ACK carry no signals but a three-bit code in the
//! same place that names the profile. Both are counted by no signal: packet
//! counts start with the first packet after them.

use std::fmt;

use narrows_units::{Value, WordError, Words};

use crate::tcp::TcpFlags;

/// One signal; its value is its bit in a set of signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Signal {
    /// Spin bit (RFC 9506 §2.1, RFC 9000 §17.4).
    Spin = 0x01,
    /// Valid edge counter, two bits (draft-trammell-tsvwg-spin-00).
    Vec = 0x02,
    /// Delay bit (RFC 9506 §2.2).
    Delay = 0x04,
    /// Square bit: blocks of N packets (RFC 9506 §3.2).
    Square = 0x08,
    /// Loss event bit (RFC 9506 §3.3).
    Loss = 0x10,
    /// Reflection square bit (RFC 9506 §3.4).
    Reflection = 0x20,
    /// Round-trip loss bit (RFC 9506 §3.1).
    RoundTripLoss = 0x40,
    /// ECN-echo event bit (RFC 9506 §3.5).
    EcnEcho = 0x80,
}

/// All signals with the words that name them, in the order in which a profile
/// is written.
const SIGNALS: [(Signal, &str); 8] = [
    (Signal::Spin, "s"),
    (Signal::Vec, "vec"),
    (Signal::Delay, "d"),
    (Signal::Square, "q"),
    (Signal::Loss, "l"),
    (Signal::Reflection, "r"),
    (Signal::RoundTripLoss, "t"),
    (Signal::EcnEcho, "e"),
];

impl Signal {
    /// All of them, in the order of their bits.
    pub const ALL: [Self; 8] = [
        Self::Spin,
        Self::Vec,
        Self::Delay,
        Self::Square,
        Self::Loss,
        Self::Reflection,
        Self::RoundTripLoss,
        Self::EcnEcho,
    ];

    /// The word that names it in a profile.
    pub fn word(self) -> &'static str {
        let found = SIGNALS.iter().find(|(signal, _)| *signal == self);
        found.map_or("", |(_, word)| word)
    }
}

/// The profiles that a handshake can announce; a profile's code is its place.
/// The codes 1, 2 and 3 are those of Guarna's patches (thesis, Politecnico di
/// Torino 2024), with 0x04 and 0x02 of byte 12 as their two bits.
const ANNOUNCED: [u8; 8] = [
    0,
    Signal::Delay as u8,
    Signal::Spin as u8,
    Signal::Delay as u8 | Signal::Square as u8,
    Signal::Spin as u8 | Signal::Vec as u8,
    Signal::Spin as u8 | Signal::Delay as u8 | Signal::Square as u8,
    Signal::Delay as u8 | Signal::Square as u8 | Signal::Loss as u8,
    Signal::Delay as u8 | Signal::Square as u8 | Signal::Reflection as u8,
];

/// A set of signals that fits the three bits, such as `d+q`; none by default.
///
/// Where each stands follows from the set alone: D in 0x02 and Q in 0x04; S in
/// 0x02, or in 0x08 beside D; S with the counter in 0x08, the counter's high
/// and low bit in 0x04 and 0x02; then L, R, T, E, in this order, in what is
/// left, the highest bit first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Profile {
    signals: u8,
}

impl Profile {
    /// No signal.
    pub const NONE: Self = Self { signals: 0 };

    /// The profile with all of `signals`.
    ///
    /// `None` where they do not fit three bits, or where one lacks another
    /// that it needs: R needs Q, T and the counter need S.
    pub fn of(signals: &[Signal]) -> Option<Self> {
        let set = signals.iter().fold(0, |set, s| set | *s as u8);
        Self::checked(set)
    }

    /// The profile with these bits of [`Signal`]; see [`of`](Self::of).
    pub fn checked(signals: u8) -> Option<Self> {
        let profile = Self { signals };
        let bits = signals.count_ones() + u32::from(profile.has(Signal::Vec));
        let needs = |signal, other| !profile.has(signal) || profile.has(other);
        let complete = needs(Signal::Reflection, Signal::Square)
            && needs(Signal::RoundTripLoss, Signal::Spin)
            && needs(Signal::Vec, Signal::Spin);
        (bits <= 3 && complete).then_some(profile)
    }

    /// The profile that a handshake names by `code`, of which the low three
    /// bits count.
    pub fn announced_by(code: u8) -> Self {
        Self {
            signals: ANNOUNCED[usize::from(code & 7)],
        }
    }

    /// The code that announces it: `None` for a profile that cannot be
    /// announced, 0 for no signal.
    pub fn code(self) -> Option<u8> {
        let at = ANNOUNCED.iter().position(|a| *a == self.signals)?;
        u8::try_from(at).ok()
    }

    /// Whether it has `signal`.
    pub const fn has(self, signal: Signal) -> bool {
        self.signals & signal as u8 != 0
    }

    /// Whether it has no signal.
    pub const fn is_none(self) -> bool {
        self.signals == 0
    }

    /// Its signals as bits of [`Signal`].
    pub const fn bits(self) -> u8 {
        self.signals
    }

    /// The bits of byte 12 that carry `signal`; 0 if it is not in the profile.
    pub fn mask(self, signal: Signal) -> u8 {
        if !self.has(signal) {
            return 0;
        }
        let low_taken = self.has(Signal::Delay) || self.has(Signal::Vec);
        let spin = if low_taken { 0x08 } else { 0x02 };
        match signal {
            Signal::Delay => return 0x02,
            Signal::Square => return 0x04,
            Signal::Vec => return 0x06,
            Signal::Spin => return spin,
            _ => {}
        }
        // The rest take what is left, the highest bit first.
        let mut free = 0x0e_u8;
        for (taken, bits) in [
            (Signal::Delay, 0x02),
            (Signal::Square, 0x04),
            (Signal::Vec, 0x06),
            (Signal::Spin, spin),
        ] {
            if self.has(taken) {
                free &= !bits;
            }
        }
        for (other, _) in &SIGNALS[4..] {
            if !self.has(*other) {
                continue;
            }
            let highest = 1 << free.checked_ilog2().unwrap_or_default();
            if *other == signal {
                return highest;
            }
            free &= !highest;
        }
        0
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = SIGNALS
            .iter()
            .filter(|(signal, _)| self.has(*signal))
            .map(|(_, word)| *word)
            .collect();
        f.pad(&if words.is_empty() {
            "none".to_owned()
        } else {
            words.join("+")
        })
    }
}

impl Value for Profile {
    const ALLOWED: &'static str = "signals joined by `+` such as d, s, d+q, s+vec, s+d+q, d+q+l, d+q+r, s+t or d+q+e (at most three bits; r needs q, t and vec need s)";

    fn parse(word: &str) -> Option<Self> {
        if word == "none" {
            return Some(Self::NONE);
        }
        let mut set = 0;
        for part in word.split('+') {
            let (signal, _) = SIGNALS.iter().find(|(_, name)| *name == part)?;
            if set & *signal as u8 != 0 {
                return None;
            }
            set |= *signal as u8;
        }
        Self::checked(set)
    }
}

impl std::str::FromStr for Profile {
    type Err = WordError;

    fn from_str(words: &str) -> Result<Self, WordError> {
        let mut words = Words::new(words);
        let profile = words.value()?;
        words.finish("nothing after the profile")?;
        Ok(profile)
    }
}

impl TcpFlags {
    /// The three usable bits where byte 12 has them (0x08, 0x04, 0x02): the
    /// signals of a packet, or twice the code of a SYN or SYN-ACK.
    pub const fn measurement_bits(self) -> u8 {
        ((self.0 & Self::RESERVED) >> 8) as u8
    }

    /// The code that a SYN or SYN-ACK announces.
    pub const fn announced_code(self) -> u8 {
        self.measurement_bits() >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(words: &str) -> Profile {
        words.parse().unwrap()
    }

    #[test]
    fn codes_announce_the_profiles_of_the_table_and_keep_those_of_the_thesis() {
        for (code, words) in [
            (0, "none"),
            (1, "d"),
            (2, "s"),
            (3, "d+q"),
            (4, "s+vec"),
            (5, "s+d+q"),
            (6, "d+q+l"),
            (7, "d+q+r"),
        ] {
            assert_eq!(Profile::announced_by(code), profile(words));
            assert_eq!(profile(words).code(), Some(code));
            assert_eq!(profile(words).to_string(), words);
        }
        assert_eq!(profile("s+t").code(), None);
    }

    #[test]
    fn every_signal_of_every_profile_has_bits_of_its_own() {
        let mut profiles = 0;
        for set in 0..=255 {
            let Some(profile) = Profile::checked(set) else {
                continue;
            };
            profiles += 1;
            let mut taken = 0;
            for (signal, _) in SIGNALS {
                let mask = profile.mask(signal);
                assert_eq!(mask != 0, profile.has(signal), "{profile}");
                let bits = if signal == Signal::Vec { 2 } else { 1 };
                assert!(mask == 0 || mask.count_ones() == bits, "{profile}");
                assert_eq!(mask & taken, 0, "{profile}");
                taken |= mask;
            }
            assert_eq!(taken & !0x0e, 0, "{profile}");
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        assert!(profiles > 30);
    }

    #[test]
    fn bits_stand_where_the_table_says() {
        use Signal::{Delay, EcnEcho, Loss, Reflection, RoundTripLoss, Spin, Square, Vec};
        let table: [(&str, &[(Signal, u8)]); 10] = [
            ("d", &[(Delay, 0x02)]),
            ("s", &[(Spin, 0x02)]),
            ("d+q", &[(Delay, 0x02), (Square, 0x04)]),
            ("s+vec", &[(Spin, 0x08), (Vec, 0x06)]),
            ("s+d+q", &[(Spin, 0x08), (Square, 0x04), (Delay, 0x02)]),
            ("d+q+l", &[(Loss, 0x08), (Square, 0x04), (Delay, 0x02)]),
            (
                "d+q+r",
                &[(Reflection, 0x08), (Square, 0x04), (Delay, 0x02)],
            ),
            ("s+t", &[(Spin, 0x02), (RoundTripLoss, 0x08)]),
            ("d+q+e", &[(EcnEcho, 0x08), (Square, 0x04), (Delay, 0x02)]),
            ("q+l+e", &[(Loss, 0x08), (Square, 0x04), (EcnEcho, 0x02)]),
        ];
        for (words, bits) in table {
            for (signal, mask) in bits {
                assert_eq!(profile(words).mask(*signal), *mask, "{words}");
            }
        }
    }

    #[test]
    fn profiles_that_do_not_fit_or_lack_a_signal_are_refused() {
        for words in [
            "", "x", "s+", "d+d", "r", "d+r", "t", "d+t", "vec", "s+vec+d", "s+d+q+l",
        ] {
            assert_eq!(<Profile as Value>::parse(words), None, "{words}");
        }
    }

    #[test]
    fn a_syns_code_and_a_packets_bits_leave_ae_out() {
        let flags = TcpFlags(TcpFlags::SYN | TcpFlags::AE | 0x600);
        assert_eq!(flags.measurement_bits(), 0x06);
        assert_eq!(
            Profile::announced_by(flags.announced_code()),
            profile("d+q")
        );
    }
}
