//! What queues, elements, applications and tests declare of their parameters is what the reader
//! takes, what is written, and what the schema takes.

use std::fmt::{Debug, Display};

use narrows_aqm::QueueSpec;
use narrows_scenario::{
    APP_KINDS, AppSpec, Draft, ELEMENT_KINDS, ElementSpec, FLENT_TESTS, QUEUE_KINDS, Refusal,
};
use narrows_units::{Bytes, Declared, Duration, Parameter, ParameterKind, Rate, Value, WordError};
use proptest::prelude::*;

use super::json_schema::Validator;

/// What a line of this kind has in any case, each behind its name.
fn needed(kind: &str) -> &'static [(&'static str, &'static str)] {
    match kind {
        "red" => &[("limit", "400000"), ("avpkt", "1000"), ("ecn", "")],
        "tbf" => &[
            ("rate", "1Mbit"),
            ("burst", "2000"),
            ("limit", "3000"),
            ("mtu", "2000"),
        ],
        "drr" => &[("class", "a")],
        "bearers" => &[("bearer", "a")],
        "htb" => &[("class", "a"), ("rate", "1Mbit")],
        "rate" => &[("", "1Mbit")],
        "rate trace" | "netem trace" => &[("", "a.csv")],
        "netem" => &[("delay", "10ms 1ms"), ("reorder", "1%")],
        "wifi" | "wifi ap" => &[("mcs", "7")],
        "by" => &[("dscp", "cs1 (netem delay 1ms)")],
        "police" => &[("rate", "1Mbit"), ("burst", "10kb")],
        "mtu" => &[("", "1400")],
        "tunnel" => &[("", "wireguard")],
        "switch" => &[("buffer", "1mb"), ("rate", "1Mbit")],
        "cell" => &[("blocks", "6"), ("cqi", "7")],
        _ => &[],
    }
}

/// The words that name `parameter`, which may be several.
fn name(parameter: &Parameter) -> String {
    let words = parameter.usage.split(' ');
    let words = words.take_while(|w| w.starts_with(|c: char| c.is_ascii_lowercase()));
    let words: Vec<_> = words.collect();
    match words[..] {
        _ if parameter.kind == ParameterKind::Flag => String::new(),
        // One of several that take the same.
        [one] => one.split('|').next().unwrap_or_default().to_owned(),
        // The alternatives of a choice are no part of the name.
        [first, choices] if choices.contains('|') => first.to_owned(),
        _ => words.join(" "),
    }
}

/// A line of the kind with `value` of `parameter`, and where the value begins.
fn line(declared: &Declared, parameter: &Parameter, value: &str) -> (String, usize) {
    let named = name(parameter);
    let positional = named.is_empty() && parameter.kind != ParameterKind::Flag;
    let kind = declared.name;
    let others = needed(kind).iter().filter(|(other, _)| match kind {
        // A buffer is given as a size or as a time.
        "tbf" if named == "latency" => *other != "limit",
        _ => *other != named || named.is_empty() && !positional,
    });
    // What has no name comes first, a class before what it has, and the rate of a switch last.
    let (after, before): (Vec<_>, Vec<_>) = others.partition(|(other, _)| {
        positional || matches!(&*named, "class" | "bearer") || (kind, *other) == ("switch", "rate")
    });
    let each = |(name, value): &&(&str, &str)| format!("{name} {value}").trim().to_owned();
    let mut words = vec![kind.to_owned()];
    words.extend(before.iter().map(each));
    words.extend(Some(named).filter(|named| !named.is_empty()));
    let at = words.join(" ").len() + 1;
    words.push(value.to_owned());
    words.extend(after.iter().map(each));
    (words.join(" "), at)
}

/// A number between the ends, at `part` of the way.
fn between(least: u64, most: u64, part: u8) -> u64 {
    let span = u128::from(most.saturating_sub(least));
    least + (span * u128::from(part) / 255) as u64
}

/// Values that are declared to be taken: the ends of the range, and one between them.
fn legal(p: &Parameter, part: u8) -> Vec<String> {
    let [least, most] = p.ends();
    let mut all: Vec<String> = [least, most]
        .into_iter()
        .flatten()
        .map(str::to_owned)
        .collect();
    // An end such as 1/256 is a number, but not a word.
    all.retain(|end| !end.contains('/'));
    let number = |end: Option<&str>, usual| end.and_then(|w| w.parse().ok()).unwrap_or(usual);
    let fraction = least.is_some_and(|end| end.contains('/'));
    match p.kind {
        ParameterKind::Flag => return p.names().map(str::to_owned).collect(),
        ParameterKind::Choice if !p.usage.contains('|') => return Vec::new(),
        ParameterKind::Choice => return p.choices().map(str::to_owned).collect(),
        ParameterKind::Words => return Vec::new(),
        ParameterKind::Number(_) if p.allowed.contains("power of two") => {
            all.push((1u32 << (part % 17)).to_string());
        }
        ParameterKind::Number(_)
            if least.or(most).is_some() || p.allowed == <u32 as Value>::ALLOWED =>
        {
            let least = number(least, u64::from(fraction));
            all.push(between(least, number(most, 65_535), part).to_string());
        }
        ParameterKind::Time => {
            let time = |end: Option<&str>, usual| end.and_then(Duration::parse).unwrap_or(usual);
            let least = time(least, Duration::from_micros(100)).as_nanos();
            let most = time(most, Duration::from_secs(1)).as_nanos();
            all.push(Duration::from_nanos(between(least, most, part)).to_string());
        }
        ParameterKind::Size => {
            let size =
                |end: Option<&str>, usual| end.and_then(Bytes::parse).map_or(usual, Bytes::get);
            let size = between(size(least, 1 << 10), size(most, 1 << 20), part);
            all.push(Bytes::new(size).to_string());
        }
        ParameterKind::Rate => {
            let rate = between(8_000, 10_000_000_000, part);
            all.push(Rate::from_bits(rate).to_string());
        }
        ParameterKind::Percentage => all.push(format!("{}%", 1 + part % 98)),
        ParameterKind::Number(_) => {}
    }
    all
}

/// Values of `p` that what is allowed or the default gives as examples, and of what has a grammar
/// one that follows it.
fn examples(kind: &str, p: &Parameter) -> Vec<String> {
    let grammar = match (kind, &*name(p)) {
        ("by", "dscp") => "cs1 (netem delay 1ms)",
        ("by", "else") => "(netem delay 1ms)",
        ("switch", "rate") => "1Mbit",
        ("prio", "band") => "0 queue (codel)",
        ("mmb", "") => "snat",
        ("netem trace", "") => "a.csv",
        _ => p.default,
    };
    let such_as = p.allowed.split("such as ").nth(1).unwrap_or_default();
    let examples = such_as.split(", ").flat_map(|e| e.split(" or "));
    let words = p.allowed.split([' ', ',']).map(|w| w.trim_matches('`'));
    let all = examples.chain(words).chain([grammar]);
    all.filter(|e| !e.is_empty()).map(str::to_owned).collect()
}

/// Values that are declared not to be taken: beyond the ends of the range, and those of another
/// kind.
fn wrong(p: &Parameter) -> Vec<String> {
    let [least, most] = p.ends();
    let beyond = |end: Option<&str>, by: i64| {
        let end: Option<i64> = end.and_then(|end| end.parse().ok());
        end.map(|end| (end + by).to_string())
    };
    let mut all: Vec<String> = match p.kind {
        ParameterKind::Flag | ParameterKind::Words => return Vec::new(),
        ParameterKind::Choice => vec!["nosuch".to_owned(), "1".to_owned()],
        ParameterKind::Number(_) => vec!["fast".to_owned(), "1ms".to_owned()],
        ParameterKind::Time => {
            let nanos = |end: Option<&str>| end.and_then(Duration::parse).map(Duration::as_nanos);
            let below = nanos(least).map(|ns| ns - 1);
            let above = nanos(most).map(|ns| ns + 1_000);
            let beyond = below.into_iter().chain(above).map(|ns| format!("{ns}ns"));
            beyond
                .chain(["fast", "5", "1Mbit", "-1ms"].map(str::to_owned))
                .collect()
        }
        ParameterKind::Size => {
            let size = |end: Option<&str>| end.and_then(Bytes::parse).map(Bytes::get);
            let below = size(least).map(|bytes| bytes - 1);
            // `4095Mb` and the like are the last whole ones below a power of two.
            let above = size(most).map(|bytes| bytes + (1 << 20));
            let beyond = below
                .into_iter()
                .chain(above)
                .map(|bytes| bytes.to_string());
            beyond
                .chain(["fast", "1ms", "-1"].map(str::to_owned))
                .collect()
        }
        ParameterKind::Rate => ["0bit", "fast", "5", "1ms"].map(str::to_owned).to_vec(),
        ParameterKind::Percentage => {
            let most = p.allowed.contains("100%").then_some("101%");
            let all = most.into_iter().chain(["-1%", "fast", "1ms"]);
            all.map(str::to_owned).collect()
        }
    };
    if matches!(p.kind, ParameterKind::Number(_)) {
        all.extend(beyond(least, -1));
        all.extend(beyond(most, 1));
    }
    all
}

/// Whether `value` of `parameter` is taken: of what is, what is written is read as the same. What
/// is refused elsewhere in the line does not go with another value.
fn is_taken<S: PartialEq + Debug + Display>(
    parse: &impl Fn(&str) -> Result<S, WordError>,
    (line, at): &(String, usize),
) -> Result<bool, String> {
    match parse(line) {
        Ok(spec) => {
            let written = spec.to_string();
            match parse(&written) {
                Ok(again) if again == spec => Ok(true),
                again => Err(format!("{line}: {written} is read as {again:?}")),
            }
        }
        Err(error) => Ok(error.span.start != *at),
    }
}

/// Sets each parameter of `kinds` to values that its declaration says are taken or not; what is
/// not as declared.
fn lines<S: PartialEq + Debug + Display>(
    kinds: &[Declared],
    parse: impl Fn(&str) -> Result<S, WordError>,
    part: u8,
) -> Vec<String> {
    let mut found = Vec::new();
    let each = kinds
        .iter()
        .flat_map(|kind| kind.parameters.iter().map(move |p| (kind, p)));
    for (declared, p) in each {
        let mut check = |value: &str, wanted: Option<bool>| {
            let line = line(declared, p, value);
            let taken = is_taken(&parse, &line).unwrap_or_else(|differs| {
                found.push(differs);
                true
            });
            if wanted.is_some_and(|wanted| wanted != taken) {
                let verb = if taken { "takes" } else { "refuses" };
                found.push(format!("{verb} {}, declared as {}", line.0, p.allowed));
            }
            taken
        };
        // Some flags belong to others.
        let must = (p.kind != ParameterKind::Flag).then_some(true);
        let mut taken = 0;
        for value in legal(p, part) {
            taken += usize::from(check(&value, must));
        }
        for value in examples(declared.name, p) {
            taken += usize::from(check(&value, None));
        }
        for value in wrong(p) {
            check(&value, Some(false));
        }
        if taken == 0 {
            found.push(format!("{} {} takes nothing", declared.name, p.usage));
        }
    }
    found
}

const BASE: &str = "version = 1\nname = \"x\"\nduration = \"60s\"\n\
    [[link]]\nname = \"l\"\nends = [\"client\", \"server\"]\n";

/// A file with a table of this kind that has `key`; values that are numbers are written as such.
fn file(declared: &Declared, p: &Parameter, value: &str) -> String {
    let head = match APP_KINDS.iter().any(|kind| kind.name == declared.name) {
        true => format!("[[{}]]\nname = \"a\"", declared.name),
        false => format!("[test]\nflent = \"{}\"", declared.name),
    };
    let key = p.names().next().unwrap_or_default();
    let is_number = matches!(p.kind, ParameterKind::Number(_) | ParameterKind::Size);
    let bare = is_number && value.parse::<i64>().is_ok();
    let value = if bare {
        value.to_owned()
    } else {
        format!("\"{value}\"")
    };
    format!("{BASE}{head}\nfrom = \"client\"\nto = \"server\"\n{key} = {value}\n")
}

/// Values of no type that a parameter of this kind has.
fn untyped(kind: ParameterKind) -> &'static [&'static str] {
    match kind {
        ParameterKind::Number(_) => &["\"5\"", "true", "1.5", "[1]"],
        ParameterKind::Time | ParameterKind::Rate | ParameterKind::Choice => {
            &["5", "true", "[\"5s\"]"]
        }
        ParameterKind::Size => &["true", "1.5", "[1]"],
        _ => &["true"],
    }
}

/// Sets each parameter of `kinds` in a file: the reader and the schema take and refuse the same.
fn files(kinds: &[Declared], schema: &Validator, part: u8) {
    let read = |text: &str| -> Result<String, Refusal> {
        let plan = Draft::read("x.toml", text.as_bytes())?.check()?;
        Ok(plan.to_toml())
    };
    for declared in kinds {
        for p in declared.parameters {
            let key = p.names().next().unwrap_or_default();
            let long = format!("[[app]]\nkind = \"{}\"", declared.name);
            let long = |text: &str| text.replace(&format!("[[{}]]", declared.name), &long);
            for value in legal(p, part) {
                let text = file(declared, p, &value);
                for text in [&text, &long(&text)] {
                    assert!(schema.takes(text), "{:?} of\n{text}", schema.faults(text));
                    match read(text) {
                        Ok(written) => assert!(schema.takes(&written), "{written}"),
                        // It may not go with the others.
                        Err(e) => assert_ne!(e.allowed(), p.allowed, "{}\n{text}", e.to_line()),
                    }
                }
            }
            let wrong = wrong(p).into_iter().map(|value| file(declared, p, &value));
            let good = file(declared, p, "@");
            let untyped = untyped(p.kind).iter();
            let untyped = untyped.map(|value| good.replace("\"@\"", value));
            for text in wrong.chain(untyped) {
                let refusal = read(&text).expect_err(&text);
                assert!(
                    refusal.key().ends_with(key),
                    "{}\n{text}",
                    refusal.to_line()
                );
                // Of a time that is too short or too long a schema knows the spelling alone.
                if !text.ends_with("ns\"\n") {
                    assert!(
                        !schema.takes(&text) && !schema.takes(&long(&text)),
                        "{text}"
                    );
                }
            }
        }
    }
}

/// An application of the kind that begins `line`, with the parameter that follows.
fn app(line: &str) -> Result<AppSpec, WordError> {
    let mut rest = line;
    let mut word = || {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = after;
        word
    };
    let mut spec = AppSpec::new(word()).expect("a kind");
    // What is written has all parameters.
    let names: Vec<_> = spec.parameters().map(|(name, _)| name).collect();
    let mut at = line.len() - rest.len();
    while at < line.len() {
        let (name, value) = line[at..].split_once(' ').unwrap_or((&line[at..], ""));
        let start = at + name.len() + 1;
        let ends = names
            .iter()
            .filter_map(|next| value.find(&format!(" {next} ")));
        let end = ends.min().unwrap_or(value.len());
        spec.set(name, &value[..end])
            .map_err(|e| e.shifted(start))?;
        at = start + end + 1;
    }
    Ok(spec)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_declared_of_a_parameter_is_what_is_read_written_and_in_the_schema(part: u8) {
        let mut found = lines(QUEUE_KINDS, QueueSpec::parse, part);
        found.extend(lines(ELEMENT_KINDS, ElementSpec::parse, part));
        found.extend(lines(APP_KINDS, app, part));
        prop_assert!(found.is_empty(), "{}", found.join("\n"));
        let schema = Validator::of_files();
        files(APP_KINDS, &schema, part);
        files(FLENT_TESTS, &schema, part);
    }
}
