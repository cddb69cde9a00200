//! How long what is sent takes: 802.11's formulas.
//!
//! Sources: IEEE Std 802.11-2020; 21.3 and 21.4 are its very high throughput PHY (802.11ac).

use narrows_units::Duration;

/// aSIFSTime of the OFDM PHYs at 5 GHz (17.4.4, table 17-21; 21.4.4).
pub(super) const SIFS: Duration = Duration::from_micros(16);

/// aSlotTime there.
pub(super) const SLOT: Duration = Duration::from_micros(9);

/// SIFS and AIFSN of 3 slots: the idle time before the backoff of best effort (10.23.2.4; table
/// 9-155).
pub(super) const AIFS: Duration = Duration::from_micros(16 + 3 * 9);

/// aCWmin and aCWmax in slots (table 9-155, best effort).
pub(super) const CW_MIN: u32 = 15;
pub(super) const CW_MAX: u32 = 1023;

/// aPPDUMaxTime: what a PPDU lasts at most (21.4.4).
pub(super) const PPDU_MAX: Duration = Duration::from_micros(5_484);

/// Bytes of the largest A-MPDU: 2²⁰ − 1 (9.4.2.157.2, exponent 7).
pub(super) const AMPDU_MAX: u32 = (1 << 20) - 1;

/// Frames that a block ack answers: its bitmap of 64 bits (9.3.1.8).
pub(super) const WINDOW: u32 = 64;

/// A symbol and its long guard interval; the short one is half as long, of 0.8 µs (21.3.6).
const SYMBOL_NS: u64 = 4_000;
const SHORT_SYMBOL_NS: u64 = 3_600;

/// SERVICE and tail bits around a PSDU (21.3.8.3.1, one BCC encoder).
const SERVICE_AND_TAIL: u64 = 16 + 6;

/// L-STF, L-LTF, L-SIG, VHT-SIG-A, VHT-STF and VHT-SIG-B: 8, 8, 4, 8, 4 and 4 µs; VHT-LTFs of
/// 4 µs each beside these (21.3.3).
const PREAMBLE: Duration = Duration::from_micros(36);
const LTF: Duration = Duration::from_micros(4);

/// A compressed block ack of 32 bytes after a PPDU of this MCS, without high throughput: 20 µs of
/// preamble and ⌈(22 + 8·32)/bits⌉ symbols (9.3.1.8; 17.4.3). Of the mandatory rates 6, 12 and
/// 24 Mbit/s, which are 24, 48 and 96 bits a symbol, it is the highest that is not above the PPDU's
/// reference rate, which follows from its modulation: 6 of BPSK, 12 and 18 of QPSK (10.6.11).
pub(super) fn block_ack(mcs: u8) -> Duration {
    let bits: u64 = match mcs {
        0 => 24,
        1 | 2 => 48,
        _ => 96,
    };
    let symbols = (SERVICE_AND_TAIL + 8 * 32).div_ceil(bits);
    Duration::from_micros(20) + Duration::from_nanos(symbols * SYMBOL_NS)
}

/// The MPDU delimiter, a QoS data header, the FCS, and LLC with SNAP (9.7.1, 9.2.4, 802.2).
const PER_FRAME: u32 = 4 + 26 + 4 + 8;

/// Widths in MHz, and the data subcarriers that they have (table 21-5).
const WIDTHS: [(u32, u32); 4] = [(20, 52), (40, 108), (80, 234), (160, 468)];

/// Coded bits of a subcarrier and coding rate, by MCS (21.5).
const CODINGS: [(u32, u32, u32); 10] = [
    (1, 1, 2),
    (2, 1, 2),
    (2, 3, 4),
    (4, 1, 2),
    (4, 3, 4),
    (6, 2, 3),
    (6, 3, 4),
    (6, 5, 6),
    (8, 3, 4),
    (8, 5, 6),
];

/// The highest MCS.
pub(super) const MCS_MAX: u8 = CODINGS.len() as u8 - 1;

/// A channel and who sends over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Phy {
    /// Width of the channel in MHz.
    pub(super) width: u32,
    /// Spatial streams.
    pub(super) streams: u32,
    /// Whether guard intervals are short.
    pub(super) short: bool,
}

/// Whether a channel may be so wide.
pub(super) fn is_width(width: u32) -> bool {
    WIDTHS.iter().any(|(known, _)| *known == width)
}

impl Phy {
    /// Data bits of a symbol (N_DBPS); `None` of an MCS that the channel does not have, because
    /// they would be no whole number, as of 9 at 20 MHz, or because they do not divide among
    /// the encoders (tables 21-29 to 21-60).
    pub(super) fn bits(self, mcs: u8) -> Option<u32> {
        let (_, subcarriers) = WIDTHS.iter().find(|(width, _)| *width == self.width)?;
        let (bits, numerator, denominator) = CODINGS.get(usize::from(mcs))?;
        if let (80, 3, 6) | (160, 3, 9) = (self.width, self.streams, mcs) {
            return None;
        }
        let coded = subcarriers * self.streams * bits * numerator;
        (coded % denominator == 0).then(|| coded / denominator)
    }

    /// How long a PPDU of an MCS with `bytes` of A-MPDU lasts.
    pub(super) fn ppdu(self, bits: u32, bytes: u32) -> Duration {
        let symbols = (SERVICE_AND_TAIL + 8 * u64::from(bytes)).div_ceil(u64::from(bits.max(1)));
        let data = match self.short {
            false => symbols * SYMBOL_NS,
            // In whole symbols of the legacy signal (21.4.3).
            true => (symbols * SHORT_SYMBOL_NS).div_ceil(SYMBOL_NS) * SYMBOL_NS,
        };
        // As many as streams, and four of three (table 21-13).
        let ltfs = if self.streams == 3 { 4 } else { self.streams };
        PREAMBLE + LTF * u64::from(ltfs) + Duration::from_nanos(data)
    }
}

/// Bytes in an A-MPDU of an IP packet of `len`, padded to four.
pub(super) fn subframe(len: u32) -> u32 {
    (len + PER_FRAME).next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHY: Phy = Phy {
        width: 80,
        streams: 1,
        short: false,
    };

    #[test]
    fn rates_are_those_of_the_standards_tables() {
        // Tables 21-30, 21-34, 21-38 and 21-46 of IEEE Std 802.11-2020: Mbit/s with long guard
        // intervals, which are a quarter of the bits of a symbol.
        for (width, streams, mcs, mbit) in [
            (20, 1, 0, 6.5),
            (20, 1, 7, 65.0),
            (20, 1, 8, 78.0),
            (40, 2, 9, 360.0),
            (80, 1, 0, 29.3),
            (80, 1, 9, 390.0),
            (80, 2, 7, 585.0),
            (160, 1, 9, 780.0),
        ] {
            let phy = Phy {
                width,
                streams,
                ..PHY
            };
            let found = f64::from(phy.bits(mcs).unwrap()) / 4.0;
            assert!(
                (found - mbit).abs() < 0.06,
                "{width} {streams} {mcs}: {found}"
            );
        }
        let narrow = Phy { width: 20, ..PHY };
        assert_eq!(narrow.bits(9), None, "no whole number of bits");
        assert_eq!(PHY.bits(10), None);
        for (width, lacks) in [(80, 6), (160, 9)] {
            let phy = Phy {
                width,
                streams: 3,
                ..PHY
            };
            let missing: Vec<u8> = (0..=MCS_MAX)
                .filter(|mcs| phy.bits(*mcs).is_none())
                .collect();
            assert_eq!(missing, [lacks], "{width} MHz, three streams");
        }
        assert_eq!(
            Phy {
                streams: 3,
                ..narrow
            }
            .bits(9),
            Some(1040)
        );
    }

    #[test]
    fn a_block_ack_is_no_faster_than_what_it_answers() {
        // 278 bits: 12 symbols of 24, 6 of 48, 3 of 96.
        let lasts = [(0, 68), (1, 44), (2, 44), (3, 32), (9, 32)];
        for (mcs, us) in lasts {
            assert_eq!(block_ack(mcs), Duration::from_micros(us), "MCS {mcs}");
        }
    }

    #[test]
    fn a_ppdu_lasts_for_its_preamble_and_whole_symbols() {
        let us = |n| Duration::from_micros(n);
        let bits = PHY.bits(9).unwrap();
        assert_eq!(bits, 1560);
        // A packet of 1500 bytes is a subframe of 1544: (22 + 8·1544)/1560 is 7.93 symbols.
        assert_eq!(subframe(1500), 1544);
        assert_eq!(PHY.ppdu(bits, 1544), us(40 + 8 * 4));
        assert_eq!(PHY.ppdu(bits, 64 * 1544), us(40 + 507 * 4));
        let short = Phy { short: true, ..PHY };
        // 507 symbols of 3.6 µs are 1825.2 µs, in steps of four 1828.
        assert_eq!(short.ppdu(bits, 64 * 1544), us(40 + 1828));
        let three = Phy { streams: 3, ..PHY };
        assert_eq!(three.ppdu(3 * bits, 1544), us(52 + 3 * 4));
        assert_eq!(subframe(0), 44);
    }
}
