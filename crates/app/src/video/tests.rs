//! What a player asks for and when it plays.

use super::*;
use crate::kind::testing::{refused_at, with};

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn what_is_not_there_in_time_is_a_stall_until_enough_is() {
    let mut screen = Screen::new(at(0));
    assert_eq!(screen.play(at(300)), Seen::default(), "nothing was begun");
    assert!(!screen.add(ms(1_000), ms(2_000)));
    assert!(screen.add(ms(1_000), ms(2_000)), "two seconds are enough");
    assert_eq!(screen.runs_out(), Some(at(2_300)));
    let played = |played| Seen {
        played,
        ..Seen::default()
    };
    assert_eq!(screen.play(at(2_200)), played(ms(1_900)));
    assert_eq!(screen.buffer, ms(100));
    let stall = screen.play(at(2_500));
    assert_eq!((stall.stall, stall.still), (true, ms(200)));
    assert_eq!(stall.played, ms(100));
    let longer = screen.play(at(2_900));
    assert_eq!((longer.stall, longer.still), (false, ms(400)));
    assert!(!screen.add(ms(1_000), ms(2_000)), "one second is not");
    assert_eq!(screen.runs_out(), None);
    assert!(screen.add(ms(1_000), ms(2_000)));
    assert_eq!(screen.play(at(3_000)), played(ms(100)));
}

#[test]
fn words_print_back() {
    let mut spec = with(
        "video",
        &[
            ("ladder", "1Mbit 3Mbit"),
            ("rule", "bola"),
            ("segment", "2s"),
            ("buffer", "60s"),
            ("startup", "500ms"),
            ("pace", "1.25"),
        ],
    );
    let words = "video ladder 1Mbit 3Mbit rule bola segment 2s buffer 60s startup 500ms \
                 pace 1.25";
    assert_eq!(spec.to_string(), words);
    spec.set("pace", "off").expect("off");
    assert!(spec.to_string().ends_with("pace off"));
}

#[test]
fn wrong_values_are_refused_at_their_place() {
    refused_at(
        "video",
        &[
            ("ladder", "best", "best"),
            ("ladder", "2Mbit 1Mbit", "1Mbit"),
            ("rule", "random", "random"),
            ("segment", "0s", "0s"),
            ("buffer", "0s", "0s"),
            ("startup", "4", "4"),
            ("pace", "0.5", "0.5"),
            ("pace", "on", "on"),
        ],
    );
}
