//! Tins: which packets are in which by their DS field, their names, thresholds and weights.
//!
//! Figures from Linux net/sched/sch_cake.c v6.17 (`cake_config_*` and the tables before
//! them); names as tc prints them (iproute2 tc/q_cake.c).

use narrows_units::word_for;

/// Code points that one table names.
const CODE_POINTS: usize = 64;
/// Weight of the first of eight tins, in bytes of deficit (`quantum`).
const WEIGHT_OF_EIGHT: i32 = 256;
/// Weight of a tin that may have the whole rate (`quantum`).
const WEIGHT: i32 = 1024;
/// Weight of the only tin (`tin_quantum`).
const WEIGHT_ALONE: i32 = 65_535;

/// How packets are sorted into tins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Diffserv {
    /// One tin.
    BestEffort,
    /// Eight by the upper three bits.
    Precedence,
    /// Bulk, best effort and voice.
    #[default]
    Three,
    /// With video.
    Four,
    /// Eight by the classes of RFC 4594.
    Eight,
}

/// The words of tc, of which `diffserv` is an older one for `diffserv4`.
pub(super) const MODES: &[(&str, Diffserv)] = &[
    ("besteffort", Diffserv::BestEffort),
    ("precedence", Diffserv::Precedence),
    ("diffserv3", Diffserv::Three),
    ("diffserv4", Diffserv::Four),
    ("diffserv8", Diffserv::Eight),
    ("diffserv", Diffserv::Four),
];

/// Names of the tins of each mode by their number, which is the band of a packet.
pub const TIN_NAMES: &[(Diffserv, &[&str])] = &[
    (Diffserv::BestEffort, &["tin_0"]),
    (Diffserv::Precedence, EIGHT_NAMES),
    (Diffserv::Three, &["best_effort", "bulk", "voice"]),
    (Diffserv::Four, &["best_effort", "bulk", "video", "voice"]),
    (Diffserv::Eight, EIGHT_NAMES),
];

/// All of them.
pub(super) const ALL_NAMES: &[&str] = &[
    "best_effort",
    "bulk",
    "video",
    "voice",
    "tin_0",
    "tin_1",
    "tin_2",
    "tin_3",
    "tin_4",
    "tin_5",
    "tin_6",
    "tin_7",
];

/// Names of the tins of `mode`.
pub(super) fn names(mode: Diffserv) -> &'static [&'static str] {
    let named = TIN_NAMES.iter().find(|(of, _)| *of == mode);
    named.map_or(&ALL_NAMES[..1], |(_, names)| names)
}

const EIGHT_NAMES: &[&str] = &[
    "tin_0", "tin_1", "tin_2", "tin_3", "tin_4", "tin_5", "tin_6", "tin_7",
];

/// Tin of each code point with eight tins by class: the code points that have a class, each
/// with its tin; all others are in tin 2.
const CLASSES_OF_EIGHT: &[(&[u8], u8)] = &[
    // Lower effort (RFC 8622): with bulk since Linux v5.9.
    (&[1], 0),
    // Maximum throughput (TOS2), CS1 and AF1x.
    (&[2, 8, 10, 12, 14], 1),
    // Video: AF3x, CS3 and AF4x.
    (&[24, 26, 28, 30, 34, 36, 38], 3),
    // Transactions of low latency: minimum delay (TOS4) and AF2x.
    (&[4, 18, 20, 22], 4),
    // Shells: CS2.
    (&[16], 5),
    // CS4, CS5, voice admit and EF.
    (&[32, 40, 44, 46], 6),
    // CS6 and CS7.
    (&[48, 56], 7),
];

/// Tin of each code point that has one of its own with four tins; all others are in tin 0.
const CLASSES_OF_FOUR: &[(&[u8], u8)] = &[
    // Bulk: lower effort and CS1.
    (&[1, 8], 1),
    // Video: TOS4, CS2, AF2x, CS3, AF3x and AF4x.
    (&[4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38], 2),
    // Voice: CS4, CS5, voice admit, EF, CS6 and CS7.
    (&[32, 40, 44, 46, 48, 56], 3),
];

/// The same with three.
const CLASSES_OF_THREE: &[(&[u8], u8)] = &[
    (&[1, 8], 1),
    // Voice: TOS4, voice admit, EF, CS6 and CS7.
    (&[4, 44, 46, 48, 56], 2),
];

/// A table of all code points.
const fn table(usual: u8, classes: &[(&[u8], u8)]) -> [u8; CODE_POINTS] {
    let mut table = [usual; CODE_POINTS];
    let mut class = 0;
    while class < classes.len() {
        let (code_points, tin) = classes[class];
        let mut i = 0;
        while i < code_points.len() {
            table[code_points[i] as usize] = tin;
            i += 1;
        }
        class += 1;
    }
    table
}

const OF_EIGHT: [u8; CODE_POINTS] = table(2, CLASSES_OF_EIGHT);
const OF_FOUR: [u8; CODE_POINTS] = table(0, CLASSES_OF_FOUR);
const OF_THREE: [u8; CODE_POINTS] = table(0, CLASSES_OF_THREE);

/// What a tin gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// The rate up to which it has priority, in bytes per second; 0 without a shaper.
    pub threshold: u64,
    /// Its weight where nothing shapes, in bytes of deficit.
    pub weight: i32,
}

impl Diffserv {
    /// The tin of a packet with the code point `dscp`.
    pub(super) fn tin_of(self, dscp: u8) -> u8 {
        let at = usize::from(dscp) % CODE_POINTS;
        match self {
            Self::BestEffort => 0,
            Self::Precedence => (dscp % 64) >> 3,
            Self::Three => OF_THREE[at],
            Self::Four => OF_FOUR[at],
            Self::Eight => OF_EIGHT[at],
        }
    }

    /// What each tin gets of `rate` bytes per second, 0 if nothing shapes.
    pub(super) fn shares(self, rate: u64) -> Vec<Share> {
        // Parts of the whole by shifts.
        let parts = |shifts: &[u32]| {
            let part = |shift: &u32| Share {
                threshold: rate >> shift,
                weight: WEIGHT >> shift,
            };
            shifts.iter().map(part).collect()
        };
        match self {
            Self::BestEffort => vec![Share {
                threshold: rate,
                weight: WEIGHT_ALONE,
            }],
            Self::Three => parts(&[0, 4, 2]),
            Self::Four => parts(&[0, 4, 1, 2]),
            Self::Precedence | Self::Eight => {
                let mut next = Share {
                    threshold: rate,
                    weight: WEIGHT_OF_EIGHT,
                };
                let of_eight = |_| {
                    let this = next;
                    // Each has 7/8 of the one before.
                    next = Share {
                        threshold: ((u128::from(this.threshold) * 7) >> 3) as u64,
                        weight: (this.weight * 7) >> 3,
                    };
                    this
                };
                (0..8).map(of_eight).collect()
            }
        }
    }

    /// Its word.
    pub(super) fn word(self) -> &'static str {
        word_for(MODES, &self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables of sch_cake.c v6.17, eight code points a line.
    const KERNEL: [(Diffserv, [&str; 8]); 3] = [
        (
            Diffserv::Eight,
            [
                "20124222", "12121212", "52424242", "32323232", "62323232", "62226262", "72222222",
                "72222222",
            ],
        ),
        (
            Diffserv::Four,
            [
                "01002000", "10000000", "20202020", "20202020", "30202020", "30003030", "30000000",
                "30000000",
            ],
        ),
        (
            Diffserv::Three,
            [
                "01002000", "10000000", "00000000", "00000000", "00000000", "00002020", "20000000",
                "20000000",
            ],
        ),
    ];

    #[test]
    fn each_of_64_code_points_is_in_the_tin_that_linux_has() {
        for (mode, rows) in KERNEL {
            let digits = rows.concat();
            assert_eq!(digits.len(), 64);
            for (dscp, digit) in (0u8..).zip(digits.bytes()) {
                assert_eq!(mode.tin_of(dscp), digit - b'0', "{mode:?} {dscp}");
            }
        }
        for dscp in 0..64 {
            assert_eq!(Diffserv::BestEffort.tin_of(dscp), 0);
            assert_eq!(Diffserv::Precedence.tin_of(dscp), dscp / 8);
        }
    }

    #[test]
    fn thresholds_are_the_parts_that_tc_cake_8_states() {
        let thresholds = |mode: Diffserv| -> Vec<u64> {
            mode.shares(16_000).iter().map(|s| s.threshold).collect()
        };
        // Bulk 6.25 %, video 50 %, voice 25 %.
        assert_eq!(thresholds(Diffserv::Three), [16_000, 1_000, 4_000]);
        assert_eq!(thresholds(Diffserv::Four), [16_000, 1_000, 8_000, 4_000]);
        assert_eq!(thresholds(Diffserv::BestEffort), [16_000]);
        // 7/8 of the one before, rounded down each time.
        let eight = [16_000, 14_000, 12_250, 10_718, 9_378, 8_205, 7_179, 6_281];
        assert_eq!(thresholds(Diffserv::Eight), eight);
        assert_eq!(thresholds(Diffserv::Precedence), eight);
    }

    #[test]
    fn weights_are_those_of_the_thresholds() {
        let weights =
            |mode: Diffserv| -> Vec<i32> { mode.shares(0).iter().map(|s| s.weight).collect() };
        assert_eq!(weights(Diffserv::Three), [1024, 64, 256]);
        assert_eq!(weights(Diffserv::Four), [1024, 64, 512, 256]);
        assert_eq!(weights(Diffserv::BestEffort), [65_535]);
        let eight = [256, 224, 196, 171, 149, 130, 113, 98];
        assert_eq!(weights(Diffserv::Eight), eight);
    }

    #[test]
    fn each_tin_has_a_name() {
        for (word, mode) in MODES {
            let named = TIN_NAMES.iter().find(|(of, _)| of == mode);
            let names = named.unwrap_or_else(|| panic!("{word}")).1;
            assert_eq!(names.len(), mode.shares(0).len(), "{word}");
        }
    }
}
