//! The schema takes what the reader takes, and refuses what a schema can.

use narrows_scenario::{Draft, catalog};

use super::json_schema::Validator;

const GOOD: &str = include_str!("../corpus/scenario/prague-beside-cubic.toml");
const CAMPAIGN: &str = include_str!("../corpus/campaign/small.toml");

#[test]
fn the_schema_has_an_address_and_takes_the_whole_catalogue() {
    let id = narrows_scenario::schema()["$id"].clone();
    assert!(id.as_str().is_some_and(|id| id.starts_with("https://")));
    let schema = Validator::of_files();
    for entry in catalog::entries() {
        assert!(schema.takes(entry.text), "{}", entry.name);
    }
}

#[test]
fn every_key_of_the_schema_is_described() {
    let schema = narrows_scenario::schema();
    for (kind, table) in schema["$defs"].as_object().expect("definitions") {
        let keys = table.get("properties").and_then(|p| p.as_object());
        for (key, of) in keys.into_iter().flatten() {
            assert!(of.get("description").is_some(), "{kind}: {key}");
        }
    }
}

/// `good` with one part replaced.
fn broken(good: &str, part: &str, by: &str) -> String {
    assert!(good.contains(part), "{part}");
    good.replacen(part, by, 1)
}

#[test]
fn the_schema_refuses_what_the_reader_refuses_as_far_as_a_schema_can() {
    let schema = Validator::of_files();
    assert!(schema.takes(GOOD) && schema.takes(CAMPAIGN));
    let all = |key: &str, values: &[&str]| -> Vec<String> {
        let part = "start = \"1s\"";
        let with = |value: &&str| broken(GOOD, part, &format!("{part}\n{key} = {value}"));
        values.iter().map(with).collect()
    };
    let mut files = vec![
        broken(GOOD, "version  = 1", "version = 2"),
        broken(GOOD, "name     =", "nam ="),
        broken(GOOD, "duration = \"60s\"", "duration = 60"),
        broken(GOOD, "duration = \"60s\"", "duration = \"10\""),
        broken(GOOD, "queue dualpi2", "queue fqcodel"),
        broken(GOOD, "queue dualpi2", "queue"),
        broken(GOOD, "[[flow]]", "[[flows]]"),
        broken(GOOD, "from = \"client\"\n", ""),
        broken(GOOD, "[\"client\", \"server\"]", "[\"client\"]"),
        broken(GOOD, "name = \"access\"", "name = \"access/a\""),
        broken(GOOD, "name = \"access\"", "name = \"access\"\nmtu = 127"),
        broken(
            GOOD,
            "name = \"access\"",
            "name = \"access\"\ndatapath = \"xdp\"",
        ),
        broken(GOOD, "duration", "kind = \"campaigns\"\nduration"),
        broken(
            GOOD,
            "duration",
            "expected = [\"idle-botleneck\"]\nduration",
        ),
        broken(GOOD, "duration", "seed = -1\nduration"),
        broken(GOOD, "duration", "start_offset = \"no\"\nduration"),
        broken(GOOD, "duration", "host_model = { gso = true }\nduration"),
    ];
    files.extend(all("ip", &["5", "\"4\""]));
    files.extend(all("fast_open", &["1", "\"true\""]));
    files.extend(all("dscp", &["true", "[1]", "-1"]));
    files.extend(all("mark", &["1"]));
    files.extend(all("spin", &["\"of\"", "3"]));
    for cc in [
        "",
        "cubik",
        "bbr2",
        "kernel:",
        "quic:reno",
        "cubics",
        "kernel:bbr x",
    ] {
        files.push(broken(GOOD, "\"cubic\"\necn", &format!("\"{cc}\"\necn")));
    }
    for words in [
        "",
        "rat 1Mbit",
        "slow:rate 1Mbit",
        "tc qdisc add",
        "ratee 1Mbit",
    ] {
        files.push(broken(GOOD, "netem delay 10ms", words));
    }
    for text in &files {
        let read = Draft::read("mine.toml", text.as_bytes()).and_then(|draft| draft.check());
        assert!(read.is_err(), "{text}");
        assert!(!schema.takes(text), "{text}");
    }
    for (part, by) in [
        ("cell = \"{rate}/{cc}\"\n", ""),
        ("seeds = [1, 2, 3]", "seeds = \"1-200\""),
        ("within =", "between = \"kernels\"\nwithin ="),
        ("a = \"goodput_mbit of flow/f\"", "a = 1"),
        ("[published]", "[publish]"),
        ("cc = [\"cubic\", \"reno\"]", "cc = \"cubic\""),
    ] {
        assert!(!schema.takes(&broken(CAMPAIGN, part, by)), "{part}");
    }
}

#[test]
fn a_fault_is_where_the_mistake_is() {
    let schema = Validator::of_files();
    let start = "start = \"1s\"";
    let shorter = "duration = \"10\"";
    for (text, fault) in [
        (
            broken(GOOD, start, "startt = \"1s\""),
            "/flow/1/startt additionalProperties",
        ),
        (
            broken(GOOD, "duration = \"60s\"", shorter),
            "/duration pattern",
        ),
        (
            broken(GOOD, "[[flow]]", "[[flows]]"),
            "/flows additionalProperties",
        ),
        (
            broken(GOOD, "queue dualpi2", "queue fqcodel"),
            "/link/0/up/1 pattern",
        ),
        (
            broken(CAMPAIGN, "[published]", "[publish]"),
            "/publish additionalProperties",
        ),
    ] {
        let faults = schema.faults(&text);
        assert!(faults.contains(&fault.to_owned()), "{fault}: {faults:?}");
        assert_eq!(faults.len(), 1, "{faults:?}");
    }
}

#[test]
fn words_and_patterns_take_what_the_reader_takes() {
    let schema = Validator::of_files();
    for cc in [
        "reno",
        " cubic hystart off",
        "prague variant 2020",
        "kernel:bbr",
        "quic:bbr",
    ] {
        assert!(
            schema.takes(&broken(GOOD, "\"cubic\"\necn", &format!("\"{cc}\"\necn"))),
            "{cc}"
        );
    }
    for words in [
        "rate 1Mbit",
        "rate 1Mbit queue fq_codel flows 1",
        "rate 1Mbit overhead 4 queue red limit 10000 avpkt 1000",
        "rate trace q scale 50 queue pfifo",
        "slow: rate 1Mbit",
        "ä.1: rate 1Mbit",
        "tap mid",
        "mtu 1280",
        "box: nat",
    ] {
        assert!(
            schema.takes(&broken(GOOD, "netem delay 10ms", words)),
            "{words}"
        );
    }
}
