//! What the air carries: bits of a resource block by channel quality, and quality by distance.

use std::fmt;

use narrows_units::{Duration, Value};

/// A subframe, in which blocks are given out anew (TS 36.211 §4).
pub(super) const TTI: Duration = Duration::from_millis(1);

/// From a transport block to its next try: eight subframes of FDD (TS 36.213 §7.3, §8).
pub(super) const HARQ_ROUND: Duration = Duration::from_millis(8);

/// How often a transport block is sent at most (TS 36.331, maxHARQ-Tx; of the usual values n4).
pub(super) const MOST_TRIES: u32 = 4;

/// The highest channel quality indicator.
pub(super) const CQI_MAX: u8 = 15;

/// Blocks of the widest channel (TS 36.101 table 5.6-1), and of the narrowest.
pub(super) const BLOCKS: std::ops::RangeInclusive<u32> = 6..=100;

/// Resource elements of a block and subframe that carry data: 12 subcarriers, and 14 symbols less
/// three for control (TS 36.211 §6.2, §6.7).
const ELEMENTS: u64 = 12 * 11;

/// Bits of a resource element in ten thousandths, by CQI; of 0 there is no service (TS 36.213
/// table 7.2.3-1).
const EFFICIENCY: [u32; 16] = [
    0, 1_523, 2_344, 3_770, 6_016, 8_770, 11_758, 14_766, 19_141, 24_063, 27_305, 33_223, 39_023,
    45_234, 51_152, 55_547,
];

/// Whole bits of a resource block in a subframe.
pub(super) fn block_bits(cqi: u8) -> u64 {
    let efficiency = EFFICIENCY.get(usize::from(cqi)).copied().unwrap_or(0);
    ELEMENTS * u64::from(efficiency) / 10_000
}

/// Bytes of a transport block in `blocks` resource blocks.
pub(super) fn bytes(blocks: u32, cqi: u8) -> u64 {
    u64::from(blocks) * block_bits(cqi) / 8
}

/// A distance between a terminal and its base station, such as `500m` or `1.5km`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Distance {
    metres: u32,
}

impl Value for Distance {
    const ALLOWED: &'static str = "a distance from 1m to 100km, such as 500m or 1.5km";

    fn parse(word: &str) -> Option<Self> {
        let (number, unit) = match word.strip_suffix("km") {
            Some(number) => (number, 1_000.0),
            None => (word.strip_suffix('m')?, 1.0),
        };
        let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let metres = number.parse::<f64>().ok().filter(|_| plain)? * unit;
        let whole = libm::trunc(metres) == metres && (1.0..=100_000.0).contains(&metres);
        whole.then_some(Self {
            metres: metres as u32,
        })
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.metres % 1_000 {
            0 => write!(f, "{}km", self.metres / 1_000),
            _ => write!(f, "{}m", self.metres),
        }
    }
}

/// The quality at a distance from a base station alone with `blocks` resource blocks.
///
/// Path loss of an urban macro cell at 2 GHz, 128.1 + 37.6 log₁₀ of the kilometres, at least 70 dB;
/// 43 dBm up to 5 MHz and 46 dBm beyond (TR 36.942 §4.5.2, §12.1.3, §12.2); noise of −174 dBm/Hz
/// and 9 dB of the receiver. The quality is the highest whose efficiency is not above
/// log₂(1 + SINR/Γ), Γ = −ln(5 · 5·10⁻⁵)/1.5 (Piro and others, "An LTE module for the ns-3 network
/// simulator", 2011). Deviations: neither fading nor other cells, and no antenna gain.
pub(super) fn cqi_at(distance: Distance, blocks: u32) -> u8 {
    const BLOCK_HZ: f64 = 180_000.0;
    const BIT_ERRORS: f64 = 5e-5;
    let power = if blocks <= 25 { 43.0 } else { 46.0 };
    let loss = 128.1 + 37.6 * libm::log10(f64::from(distance.metres) / 1_000.0);
    let noise = -174.0 + 9.0 + 10.0 * libm::log10(BLOCK_HZ * f64::from(blocks));
    let sinr = libm::pow(10.0, (power - loss.max(70.0) - noise) / 10.0);
    let gap = -libm::log(5.0 * BIT_ERRORS) / 1.5;
    let efficiency = libm::log2(1.0 + sinr / gap) * 10_000.0;
    let fits = |cqi: &u8| f64::from(EFFICIENCY[usize::from(*cqi)]) <= efficiency;
    (0..=CQI_MAX).rev().find(fits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(word: &str) -> Distance {
        Distance::parse(word).unwrap()
    }

    #[test]
    fn six_blocks_of_the_best_quality_carry_4_4_mbit() {
        // Six blocks peak at 4,392 bits a subframe (TS 36.213 table 7.1.7.2.1-1, I_TBS 26).
        assert_eq!(8 * bytes(6, CQI_MAX), 4_392);
        assert_eq!(block_bits(1), 20);
        // 132 · 0.2344 = 30.94.
        assert_eq!(block_bits(2), 30);
        assert_eq!(bytes(100, 0), 0);
        assert_eq!(bytes(100, 16), 0);
    }

    #[test]
    fn quality_falls_with_distance_and_with_width() {
        // 1 km: 43 − 128.1 + 174 − 9 − 60.33 = 19.57 dB, 90.5; Γ = 5.529; log₂(17.4) = 4.12.
        assert_eq!(cqi_at(at("1km"), 6), 12);
        // 2 km: 11.32 dB less, 6.68; log₂(2.208) = 1.143.
        assert_eq!(cqi_at(at("2km"), 6), 5);
        assert_eq!(cqi_at(at("1m"), 6), CQI_MAX);
        assert_eq!(cqi_at(at("100km"), 6), 0);
        let all: Vec<u8> = (1..200)
            .map(|n| cqi_at(Distance { metres: n * 50 }, 50))
            .collect();
        assert!(all.is_sorted_by(|near, far| near >= far), "{all:?}");
        assert!(cqi_at(at("1km"), 25) > cqi_at(at("2km"), 25));
        // Three more decibels of power, and four times the noise.
        assert!(cqi_at(at("1km"), 25) >= cqi_at(at("1km"), 100));
    }

    #[test]
    fn distances_are_written_as_they_are_read() {
        for (word, written) in [("500m", "500m"), ("1.5km", "1500m"), ("2km", "2km")] {
            assert_eq!(at(word).to_string(), written);
        }
        for wrong in [
            "0m", "500", "km", "m", "1e3m", "-5m", "0.5m", "101km", "nanm",
        ] {
            assert_eq!(Distance::parse(wrong), None, "{wrong}");
        }
    }
}
