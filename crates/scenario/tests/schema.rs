//! The patterns of the schema: what the reader takes, they take.

use regex::Regex;

/// The patterns that `schema()` gives to elements and to `cc`.
fn patterns() -> (Regex, Regex) {
    let schema = narrows_scenario::schema();
    let of = |pointer: &str| {
        let pattern = schema.pointer(pointer).and_then(|p| p.as_str());
        let pattern = pattern.unwrap_or_else(|| panic!("{pointer}: {schema:#}"));
        Regex::new(pattern).expect("a pattern")
    };
    (
        of("/$defs/Element/pattern"),
        of("/$defs/Flow/properties/cc/pattern"),
    )
}

#[test]
fn the_schema_has_an_address_and_takes_what_the_catalogue_has() {
    assert!(
        narrows_scenario::schema()["$id"]
            .as_str()
            .is_some_and(|id| id.starts_with("https://"))
    );
    let (element, control) = patterns();
    let (mut elements, mut controls) = (0, 0);
    for entry in narrows_scenario::catalog::entries() {
        let file: toml::Table = entry.text.parse().expect("TOML");
        if file.get("kind").and_then(|k| k.as_str()) == Some("campaign") {
            continue;
        }
        let tables = |key: &str| {
            file.get(key)
                .and_then(|t| t.as_array())
                .cloned()
                .unwrap_or_default()
        };
        for link in tables("link") {
            for side in ["up", "down"] {
                for words in link
                    .get(side)
                    .and_then(|w| w.as_array())
                    .into_iter()
                    .flatten()
                {
                    let words = words.as_str().expect("words");
                    assert!(element.is_match(words), "{}: {words}", entry.name);
                    elements += 1;
                }
            }
        }
        for flow in tables("flow") {
            if let Some(words) = flow.get("cc").and_then(|w| w.as_str()) {
                assert!(control.is_match(words), "{}: {words}", entry.name);
                controls += 1;
            }
        }
    }
    assert!(elements > 10 && controls > 5, "{elements} {controls}");
}

#[test]
fn the_schema_refuses_what_the_reader_refuses_for_its_first_word() {
    let (element, control) = patterns();
    for words in [
        "reno",
        " cubic hystart off",
        "prague variant 2020",
        "kernel:bbr",
        "quic:bbr",
    ] {
        assert!(control.is_match(words), "{words}");
    }
    for words in [
        "",
        "cubik",
        "bbr",
        "kernel:",
        "quic:reno",
        "cubics",
        "kernel:bbr x",
    ] {
        assert!(!control.is_match(words), "{words}");
        let flow = [words.to_owned()];
        let draft = narrows_scenario::Draft::from_words(&["rate 1Mbit".to_owned()], &flow);
        assert!(draft.and_then(|d| d.check()).is_err(), "{words}");
    }
    for words in [
        "rate 1Mbit",
        "slow: rate 1Mbit",
        "tap mid",
        "netem delay 10ms",
    ] {
        assert!(element.is_match(words), "{words}");
    }
    for words in [
        "",
        "rat 1Mbit",
        "slow:rate 1Mbit",
        "tc qdisc add",
        "ratee 1Mbit",
    ] {
        assert!(!element.is_match(words), "{words}");
    }
}
