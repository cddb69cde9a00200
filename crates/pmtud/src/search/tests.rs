use proptest::prelude::*;

use super::*;

fn known(arrived: Option<u16>, failed: Option<u16>) -> Known {
    Known {
        headers: 28,
        base: 1_200,
        max: 1_472,
        arrived,
        failed,
        failed_last: false,
    }
}

/// What a search tries on a path that carries datagrams of `largest` bytes, and says nothing.
fn tried(search: Search, largest: u16) -> Vec<u16> {
    let mut known = known(None, None);
    let mut sizes = Vec::new();
    while let Some(size) = search.next(&known) {
        sizes.push(size);
        known.failed_last = size > largest;
        if size <= largest {
            known.arrived = Some(size);
        } else {
            known.failed = Some(size);
        }
        assert!(sizes.len() < 2_000, "{search} ends");
    }
    sizes
}

#[test]
fn words_print_back_and_wrong_ones_are_refused_at_their_place() {
    for words in [
        "step 1",
        "step 50",
        "table",
        "binary",
        "linear 80",
        "bisect",
        "bisect floor 1300",
        "bisect within 8",
        "bisect floor 1252 within 1",
        "sctp",
        "adaptive",
        "quinn",
        "s2n-quic",
        "neqo",
        "msquic",
        "picoquic",
    ] {
        assert_eq!(Search::parse(words).unwrap().to_string(), words);
    }
    for (words, at) in [
        ("", ""),
        ("step", ""),
        ("step 0", "0"),
        ("step 70000", "70000"),
        ("linear x", "x"),
        ("bisect 20", "20"),
        ("bisect within 0", "0"),
        ("table 7", "7"),
        ("halves", "halves"),
    ] {
        let error = Search::parse(words).unwrap_err();
        assert_eq!(&words[error.span.clone()], at, "{words}: {error}");
    }
    for (words, _) in SEARCHES {
        let first = words.split(' ').next().unwrap();
        let mut names = first.split('|');
        assert!(names.all(|name| SEARCH_WORDS.contains(name)), "{first}");
    }
}

#[test]
fn steps_go_up_from_the_base_and_end_at_the_first_that_fails() {
    assert_eq!(
        tried(Search::Step(50), 1_464),
        [1_200, 1_250, 1_300, 1_350, 1_400, 1_450]
    );
    assert_eq!(tried(Search::Step(50), 1_344), [1_200, 1_250, 1_300, 1_350]);
    assert_eq!(
        tried(Search::Linear(80), 1_472),
        [1_200, 1_280, 1_360, 1_440, 1_472]
    );
    assert_eq!(
        tried(Search::Table, 1_432),
        [1_232, 1_332, 1_372, 1_398, 1_412, 1_464]
    );
}

#[test]
fn binary_tries_the_largest_then_middles() {
    assert_eq!(tried(Search::Binary, 1_472), [1_472]);
    assert_eq!(
        tried(Search::Binary, 1_464),
        [
            1_472, 1_336, 1_404, 1_438, 1_455, 1_463, 1_467, 1_465, 1_464
        ]
    );
}

#[test]
fn bisection_stops_where_no_more_than_that_is_between() {
    let bisect = Search::Bisect {
        floor: 0,
        within: 20,
    };
    // Upper bound 1473, as the largest was not tried.
    assert_eq!(tried(bisect, 1_472), [1_200, 1_336, 1_404, 1_438, 1_455]);
    let exact = Search::Bisect {
        floor: 0,
        within: 1,
    };
    assert_eq!(tried(exact, 1_472).last(), Some(&1_472));
    let floor = Search::Bisect {
        floor: 1_400,
        within: 20,
    };
    assert!(tried(floor, 1_472).iter().all(|size| *size >= 1_400));
}

#[test]
fn sctp_goes_up_by_32_and_then_by_4_from_the_last_that_arrived() {
    assert_eq!(
        tried(Search::Sctp, 1_270),
        [1_200, 1_232, 1_264, 1_296, 1_268, 1_272]
    );
}

#[test]
fn adaptive_tries_the_largest_the_usual_and_one_byte_above() {
    assert_eq!(tried(Search::Adaptive, 1_472), [1_472]);
    // MTU 1492: sizes up to 1464 arrive, and 1465 does not.
    assert_eq!(
        tried(Search::Adaptive, 1_464),
        [1_472, 1_392, 1_432, 1_452, 1_464, 1_465]
    );
    // An MTU that is not usual is found to the byte as well.
    assert!(tried(Search::Adaptive, 1_441).contains(&1_441));
}

#[test]
fn the_cells_of_the_report_without_reports_are_tried_as_published() {
    // MAMI report, section 3.1.3: link MTU, then sizes that arrived of step 1, step 50 and
    // table, sizes tried of binary, and what each finds.
    for (mtu, step, fifty, table, binary) in [
        (1_500, (273, 1_472), (6, 1_450), (7, 1_472), (1, 1_472)),
        (1_492, (265, 1_464), (6, 1_450), (6, 1_464), (9, 1_464)),
        (1_480, (253, 1_452), (6, 1_450), (5, 1_412), (9, 1_452)),
        (1_460, (233, 1_432), (5, 1_400), (5, 1_412), (9, 1_432)),
        (1_454, (227, 1_426), (5, 1_400), (5, 1_412), (9, 1_426)),
        (1_372, (145, 1_344), (3, 1_300), (2, 1_332), (9, 1_344)),
    ] {
        let largest = mtu - 28;
        let arrived = |search| {
            let sizes = tried(search, largest);
            let arrived: Vec<u16> = sizes.into_iter().filter(|size| *size <= largest).collect();
            (arrived.len(), *arrived.iter().max().unwrap())
        };
        assert_eq!(arrived(Search::Step(1)), step, "{mtu}");
        assert_eq!(arrived(Search::Step(50)), fifty, "{mtu}");
        assert_eq!(arrived(Search::Table), table, "{mtu}");
        let sizes = tried(Search::Binary, largest);
        assert_eq!((sizes.len(), arrived(Search::Binary).1), binary, "{mtu}");
    }
}

proptest! {
    /// No search leaves what is known, tries a size twice or finds more than is there; those
    /// that go to the byte find exactly that.
    #[test]
    fn searches_stay_inside_what_is_known(largest in 1_200_u16..=1_472, step in 1_u16..400) {
        for search in [
            Search::Step(step), Search::Table, Search::Binary, Search::Linear(step),
            Search::Bisect { floor: 0, within: step }, Search::Sctp, Search::Adaptive,
        ] {
            let sizes = tried(search, largest);
            let mut unique = sizes.clone();
            unique.sort_unstable();
            unique.dedup();
            prop_assert_eq!(unique.len(), sizes.len(), "{} twice: {:?}", search, sizes);
            prop_assert!(sizes.iter().all(|size| (1_200..=1_472).contains(size)));
            let found = sizes.iter().filter(|size| **size <= largest).max().copied();
            let exact = matches!(search, Search::Binary | Search::Adaptive | Search::Step(1));
            if exact && found.unwrap_or(1_200) != largest {
                prop_assert!(false, "{} found {:?} of {}", search, found, largest);
            }
        }
    }

    #[test]
    fn what_is_next_is_above_what_arrived_and_below_what_failed(
        arrived in proptest::option::of(1_200_u16..1_472), above in 1_u16..300, failed: bool,
    ) {
        let limit = arrived.unwrap_or(1_200) + above;
        let known = known(arrived, failed.then_some(limit));
        for search in [Search::Binary, Search::Adaptive, Search::Sctp, Search::Table] {
            if let Some(next) = search.next(&known) {
                prop_assert!(known.is_open(next), "{} of {:?}: {}", search, known, next);
            }
        }
    }
}

#[test]
fn stacks_try_what_their_rules_say() {
    for (words, largest, sizes) in [
        // The middle of 1200 and 1452, and upwards; the largest as the last step.
        ("quinn", 1_472, vec![1_326, 1_389, 1_420, 1_452]),
        ("quinn", 1_400, vec![1_326, 1_389, 1_420]),
        ("quinn", 1_300, vec![1_326, 1_262, 1_293, 1_325]),
        ("s2n-quic", 1_472, vec![1_472]),
        ("s2n-quic", 1_400, vec![1_472, 1_336, 1_404, 1_370]),
        ("neqo", 1_472, vec![1_252, 1_352, 1_392, 1_444, 1_472]),
        ("neqo", 1_400, vec![1_252, 1_352, 1_392, 1_444]),
        ("msquic", 1_472, vec![1_300, 1_380, 1_460, 1_472]),
        ("msquic", 1_400, vec![1_300, 1_380, 1_460]),
        ("picoquic", 1_472, vec![1_472]),
        ("picoquic", 1_420, vec![1_472, 1_400]),
        ("picoquic", 1_300, vec![1_472, 1_400]),
    ] {
        let search = Search::parse(words).unwrap();
        assert_eq!(tried(search, largest), sizes, "{words} on {largest}");
    }
}
