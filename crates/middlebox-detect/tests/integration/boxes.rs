//! Every ready box in either direction, and nothing else, on lossy and jittery paths.

use narrows_middlebox_detect::{Detection, Verdict, Way};

use Way::{Back, Forward};

use super::simulated::{Path, found};

/// Boxes that change or drop what goes by them in a way, whatever went the other way.
const ONE_WAY: [&str; 10] = [
    "ecn-bleach",
    "ect1-to-ect0",
    "ce-strip",
    "accecn-option-strip",
    "reserved-clear",
    "mss-clamp",
    "option-allow-list",
    "udp-block",
    "syn-data-drop",
    "spin-clear",
];

const ROUGH: &str = "netem delay 20ms 5ms loss 5% reorder 10%";

#[test]
fn every_probe_comes_where_nothing_is_lost() {
    let detection = Path::new(1).element("netem delay 5ms").detect();
    assert_eq!(detection.came, detection.sent);
    assert!(
        detection
            .findings
            .iter()
            .all(|f| f.verdict == Verdict::NotFound)
    );
}

fn findings(detection: &Detection) -> String {
    let each = detection.findings.iter();
    each.map(|f| format!("{} {:?}: {:?}, {}\n", f.name, f.way, f.verdict, f.evidence))
        .collect()
}

#[test]
fn boxes_of_one_way_are_found_in_that_way_only() {
    for (seed, name) in ONE_WAY.iter().enumerate() {
        for way in Way::BOTH {
            let path = Path::new(seed as u64).routers(1).element(ROUGH);
            let path = path.boxed(name, &[way], Forward).routers(1);
            let detection = path.detect();
            let all = findings(&detection);
            assert_eq!(found(&detection), [(*name, way)], "{all}");
            assert_eq!(detection.cut_short, None);
            assert!(detection.others.is_empty(), "{:?}", detection.others);
            // Two routers, the box between them.
            let mut each = detection.findings.iter();
            let finding = each.find(|f| f.verdict == Verdict::Found).unwrap();
            let place = finding.place.unwrap();
            let hops = [place.after.number, place.before.number];
            assert_eq!(hops, [1, 2], "{name} {way:?}");
            let router = |at: u8| Some(std::net::IpAddr::from([10, 1, 0, at]));
            let near = if way == Forward { [1, 4] } else { [4, 1] };
            assert_eq!(place.after.address, router(near[0]));
            assert_eq!(place.before.address, router(near[1]));
        }
    }
}

#[test]
fn boxes_of_both_ways_are_found_in_both() {
    for name in ONE_WAY {
        let path = Path::new(3).element(ROUGH);
        let detection = path.boxed(name, &Way::BOTH, Forward).detect();
        let wanted = Way::BOTH.map(|way| (name, way));
        assert_eq!(found(&detection), wanted, "{}", findings(&detection));
    }
}

#[test]
fn a_translation_is_found_at_either_side() {
    for (inside, way) in [(Forward, Forward), (Back, Back)] {
        let path = Path::new(4).routers(1).element(ROUGH);
        let path = path.boxed("snat", &Way::BOTH, inside).routers(1);
        let detection = path.detect();
        assert_eq!(
            found(&detection),
            [("snat", way)],
            "{}",
            findings(&detection)
        );
        // It hides whether a firewall stands behind it, and nothing else.
        let mut each = detection.findings.iter();
        let unknown = |name: &str| inside == Forward && name == "reflexive-firewall";
        let others = each.all(|f| f.verdict != Verdict::Unknown || unknown(f.name));
        assert!(others, "{}", findings(&detection));
        // It repairs what routers quote, so that they cannot tell where it is.
        assert!(detection.findings.iter().all(|f| f.place.is_none()));
    }
}

#[test]
fn a_filter_of_answers_is_found_at_either_side() {
    for (inside, way) in [(Forward, Back), (Back, Forward)] {
        let path = Path::new(5).routers(1).element(ROUGH).called();
        let path = path.boxed("reflexive-firewall", &Way::BOTH, inside);
        let detection = path.routers(1).detect();
        let wanted = [("reflexive-firewall", way)];
        assert_eq!(found(&detection), wanted, "{}", findings(&detection));
        let mut each = detection.findings.iter();
        let place = each.find_map(|f| f.place).unwrap();
        assert_eq!([place.after.number, place.before.number], [1, 2]);
    }
}

#[test]
fn shifted_sequence_numbers_are_found_in_both_ways() {
    let path = Path::new(6).element(ROUGH);
    let detection = path.boxed("sequence-shuffle", &Way::BOTH, Forward).detect();
    let wanted = Way::BOTH.map(|way| ("sequence-shuffle", way));
    assert_eq!(found(&detection), wanted, "{}", findings(&detection));
}

#[test]
fn boxes_are_found_over_ipv6_too() {
    for name in ["ecn-bleach", "mss-clamp", "udp-block", "spin-clear"] {
        let path = Path::new(7).over_v6().routers(1).element(ROUGH);
        let detection = path.boxed(name, &[Forward], Forward).routers(1).detect();
        assert_eq!(
            found(&detection),
            [(name, Forward)],
            "{}",
            findings(&detection)
        );
        let place = detection.findings.iter().find_map(|f| f.place).unwrap();
        assert_eq!([place.after.number, place.before.number], [1, 2], "{name}");
    }
}

#[test]
fn several_boxes_are_told_apart() {
    let path = Path::new(8).routers(1).element(ROUGH);
    let path = path.boxed("mss-clamp", &[Forward], Forward).routers(1);
    let path = path.boxed("ce-strip", &Way::BOTH, Forward).routers(1);
    let detection = path.boxed("udp-block", &[Back], Forward).detect();
    let wanted = [
        ("ce-strip", Forward),
        ("ce-strip", Back),
        ("mss-clamp", Forward),
        ("udp-block", Back),
    ];
    assert_eq!(found(&detection), wanted, "{}", findings(&detection));
    let place = |name, way| {
        let mut each = detection.findings.iter();
        let place = each.find(|f| f.name == name && f.way == way).unwrap().place;
        place.map(|place| [place.after.number, place.before.number])
    };
    assert_eq!(place("mss-clamp", Forward), Some([1, 2]));
    assert_eq!(place("ce-strip", Forward), Some([2, 3]));
    assert_eq!(place("ce-strip", Back), Some([1, 2]));
    assert_eq!(place("udp-block", Back), Some([0, 1]));
}

#[test]
fn what_no_box_of_the_catalogue_does_is_told_by_its_field() {
    let path = Path::new(9).element("netem delay 5ms");
    let rules = "add ip-proto tcp mod ip-dscp 10; add tcp-opt strip tcp-opt-wscale";
    let detection = path.boxed(rules, &[Forward], Forward).detect();
    assert_eq!(found(&detection), []);
    let fields: Vec<_> = detection.others.iter().map(|o| (o.way, o.field)).collect();
    assert_eq!(fields, [(Forward, "ip-dscp"), (Forward, "tcp-opt-wscale")]);
}

/// Fields of other changes on the way there; on the way back there are none.
fn changed(detection: &Detection) -> Vec<&'static str> {
    assert!(detection.others.iter().all(|other| other.way == Forward));
    detection.others.iter().map(|other| other.field).collect()
}

#[test]
fn a_box_that_sets_the_hops_left_is_reported_and_is_not_a_chain_of_routers() {
    for (rules, v6, field) in [
        ("add all mod ip-ttl 33", false, "ip-ttl"),
        ("add all mod ip-ttl 64", false, "ip-ttl"),
        ("add all mod ip-ttl 100", false, "ip-ttl"),
        ("add all mod ip-ttl 255", false, "ip-ttl"),
        ("add all mod ip6-hop-limit 33", true, "ip6-hop-limit"),
    ] {
        let path = Path::new(12);
        let path = if v6 { path.over_v6() } else { path };
        let path = path.routers(1).element(ROUGH);
        let path = path.boxed("mss-clamp", &[Forward], Forward).routers(1);
        let detection = path.boxed(rules, &[Forward], Forward).routers(1).detect();
        assert_eq!(detection.hops, [None, Some(3)], "{rules}");
        assert_eq!(changed(&detection), [field], "{rules}");
        // Routers before it still say where another one stands.
        assert_eq!(found(&detection), [("mss-clamp", Forward)], "{rules}");
        let place = detection.findings.iter().find_map(|f| f.place).unwrap();
        assert_eq!([place.after.number, place.before.number], [1, 2], "{rules}");
    }
}

#[test]
fn a_path_of_packets_below_1200_bytes_is_judged_as_any_other() {
    for words in ["mtu 1000", "mtu 576", "mtu 576 silent", "mtu 296 silent"] {
        let path = Path::new(13).element(words).element(ROUGH).element(words);
        let detection = path.boxed("ce-strip", &[Back], Forward).detect();
        assert_eq!(detection.cut_short, None, "{words}");
        assert_eq!(found(&detection), [("ce-strip", Back)], "{words}");
        let unknown = |f: &&narrows_middlebox_detect::Finding| f.verdict == Verdict::Unknown;
        assert_eq!(
            detection.findings.iter().filter(unknown).count(),
            0,
            "{words}"
        );
    }
}

#[test]
fn ce_on_every_packet_and_codepoints_that_were_not_sent_are_reported_and_marks_of_a_queue_are_not()
{
    for (rules, v6, fields) in [
        (
            "add ip-ect0 mod ip-ce; add ip-ect1 mod ip-ce",
            false,
            &["ip-ce"][..],
        ),
        (
            "add ip6-ect0 mod ip6-ce; add ip6-ect1 mod ip6-ce",
            true,
            &["ip6-ce"],
        ),
        ("add ip-non-ect mod ip-ect0", false, &["ip-ecn"]),
        ("add all mod ip-ce", false, &["ip-ecn", "ip-ce"]),
        ("add ip-ect0 mod ip-ect1", false, &["ip-ecn"]),
        // As a queue for L4S does that is never empty (RFC 9332).
        ("add ip-ect1 mod ip-ce", false, &[]),
    ] {
        let path = Path::new(14).element("netem delay 5ms");
        let path = if v6 { path.over_v6() } else { path };
        let detection = path.boxed(rules, &[Forward], Forward).detect();
        assert_eq!(changed(&detection), fields, "{rules}");
        assert_eq!(found(&detection), [], "{rules}");
    }
}

#[test]
fn options_in_another_order_are_reported_and_those_that_go_are_not_that() {
    for (rules, fields) in [
        (
            "add tcp-opt-mss strip tcp-opt-mss add tcp-opt-mss 8960",
            &["tcp-opt"][..],
        ),
        ("add tcp-opt-sackp strip tcp-opt-sackp", &["tcp-opt-sackp"]),
    ] {
        let path = Path::new(15).element(ROUGH);
        let detection = path.boxed(rules, &[Forward], Forward).detect();
        assert_eq!(changed(&detection), fields, "{rules}");
        assert_eq!(found(&detection), [], "{rules}");
    }
}

#[test]
fn without_a_responder_quotations_tell_what_they_show_and_no_more() {
    let path = Path::new(10).unanswered().element("netem delay 5ms");
    let path = path.routers(2).boxed("ecn-bleach", &Way::BOTH, Forward);
    let path = path.routers(1).boxed("mss-clamp", &Way::BOTH, Forward);
    let detection = path.routers(1).detect();
    assert!(!detection.responder);
    let all = findings(&detection);
    let wanted = [("ecn-bleach", Forward), ("mss-clamp", Forward)];
    assert_eq!(found(&detection), wanted, "{all}");
    let places: Vec<_> = detection.findings.iter().filter_map(|f| f.place).collect();
    let hops = |at: usize| [places[at].after.number, places[at].before.number];
    assert_eq!((hops(0), hops(1)), ([2, 3], [3, 4]));
    for finding in &detection.findings {
        // Only what the host itself quotes is known to have come to it as it was sent.
        let known = finding.name == "spin-clear" && finding.way == Forward;
        if finding.verdict == Verdict::NotFound {
            assert!(known, "{all}");
        }
    }
}

#[test]
fn the_same_seed_finds_the_same() {
    let detect = || {
        let path = Path::new(11).routers(2).element(ROUGH);
        path.boxed("ect1-to-ect0", &[Back], Forward).detect()
    };
    assert_eq!(detect(), detect());
}
