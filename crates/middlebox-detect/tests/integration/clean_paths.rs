//! Paths without a box: nothing is found, whatever they lose, delay and reorder.

#[allow(dead_code)]
use narrows_middlebox_detect::{Verdict, Way};
use narrows_units::Rng;

use super::simulated::{Path, found};

/// Of a thousand clean paths with losses of up to 10 % each way, alone or in bursts, jitter and
/// reordering: no box is found, and nearly everything is known to be absent. By the rule, the
/// chance that any of the thousand has a false find is 0.8 % at most; the draws are seeded.
#[test]
fn a_thousand_clean_paths_have_no_box() {
    let mut rng = Rng::for_name(1, "clean paths");
    let (mut unknown, mut lost) = (0, [0u32; 2]);
    for seed in 0..1_000 {
        let loss = rng.below(1_001);
        let loss = match rng.below(2) {
            0 => format!("loss {}.{:02}%", loss / 100, loss % 100),
            // Bursts of four, on average.
            _ => format!("loss gemodel {}.{:03}% 25%", loss / 400, loss * 5 % 1000),
        };
        let delay = 1 + rng.below(80);
        let jitter = rng.below(delay + 1);
        let reorder = rng.below(30);
        let words = format!("netem delay {delay}ms {jitter}ms {loss} reorder {reorder}%");
        let path = Path::new(seed).routers(1).element(&words).routers(1);
        let detection = path.detect();
        assert_eq!(found(&detection), [], "{seed}: {words}");
        assert_eq!(detection.cut_short, None, "{seed}: {words}");
        assert!(detection.others.is_empty(), "{seed}: {words}");
        let said = detection.findings.iter();
        unknown += said.filter(|f| f.verdict == Verdict::Unknown).count();
        for way in Way::BOTH {
            lost[way as usize] += detection.sent[way as usize] - detection.came[way as usize];
        }
    }
    assert_eq!(unknown, 0, "of 26,000 verdicts");
    // Without losses the test would show nothing.
    assert!(lost.iter().all(|lost| *lost > 1_000), "{lost:?}");
}

/// A path that loses a third of all packets each way, in bursts: verdicts are late or missing,
/// and none is wrong.
#[test]
fn on_a_path_that_loses_a_third_nothing_false_is_said() {
    for seed in 0..50 {
        let words = "netem delay 10ms 10ms loss gemodel 10% 20% 100% 0%";
        let path = Path::new(seed).element(words);
        assert_eq!(found(&path.detect()), [], "{seed}");
        let path = Path::new(seed).element(words);
        let path = path.boxed("udp-block", &[Way::Forward], Way::Forward);
        let found = found(&path.detect());
        let wanted = [("udp-block", Way::Forward)];
        assert!(found.is_empty() || found == wanted, "{seed}: {found:?}");
    }
}
