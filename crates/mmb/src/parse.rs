//! Reads rules.

use narrows_units::{Word, WordError, Words};

use crate::field::{Field, Layer, Takes};
use crate::rule::{CONDITIONS, Condition, Constraint, DropRate, Named, Rule, Strip, Target, Test};
use crate::value::Value;

/// The words that begin targets.
pub(crate) const TARGETS: [&str; 7] = ["mod", "add", "strip", "drop", "accept", "map", "shuffle"];

/// What an option may hold at most: 40 bytes of options, without kind and length
/// (RFC 9293 §3.1).
const OPTION_BYTES: usize = 38;

const MATCH: &str = "`all`, a field, or `!` and a field";
const TARGET: &str = "a target: mod, add, strip, drop, accept, map or shuffle";
const MATCH_OR_TARGET: &str = "a field, or a target: mod, add, strip, drop, accept, map or shuffle";

impl Rule {
    /// Reads a rule: `add …`, `add-stateless …` or `add-stateful …`, with or without `mmb`
    /// before it.
    ///
    /// # Errors
    /// The first word that cannot stand where it does; the span is that in `line`.
    pub fn parse(line: &str) -> Result<Self, WordError> {
        let mut words = Words::new(line);
        words.take_if("mmb");
        let word = words.needed("`add`, `add-stateless` or `add-stateful`")?;
        let stateful = match word.text {
            "add" | "add-stateless" => false,
            "add-stateful" => true,
            _ => return Err(word.refused("`add`, `add-stateless` or `add-stateful`")),
        };
        Self::parse_after_add(stateful, &mut words, &mut Vec::new())
    }

    /// Reads what follows `add`, and puts the words of its constraints' numbers into `numbers`.
    pub(crate) fn parse_after_add<'a>(
        stateful: bool,
        words: &mut Words<'a>,
        numbers: &mut Vec<Word<'a>>,
    ) -> Result<Self, WordError> {
        let mut constraints = Vec::new();
        let mut targets = Vec::new();
        let mut frame = None;
        if !words.take_if("all") {
            loop {
                let ready = !constraints.is_empty();
                match words.peek() {
                    Some(word) if ready && TARGETS.contains(&word.text) => break,
                    _ => {}
                }
                let (at, mut constraint, value) = constraint(words, ready)?;
                if !constraint.negated {
                    one_packet(&constraints, &at, constraint.named.field)?;
                }
                if constraint.named.field.layer() == Layer::Frame {
                    frame = Some(at);
                }
                if constraint.number_mut().is_some() {
                    numbers.extend(value);
                }
                constraints.push(constraint);
            }
        }
        if let Some(word) = frame.filter(|_| stateful) {
            let allowed = "a field of IP or of what is above: other frames have no connections";
            return Err(word.refused(allowed));
        }
        while let Some(word) = words.take() {
            if frame.is_some() && !["drop", "accept"].contains(&word.text) {
                let allowed =
                    "`drop` or `accept`: nothing else can be done to a frame that is not IP";
                return Err(word.refused(allowed));
            }
            let target = target(&word, words, stateful, &targets)?;
            if let Target::Set(Named { field, .. }, _) | Target::Map(field, _) = &target {
                one_packet(&constraints, &word, *field)?;
            }
            targets.push(target);
        }
        if targets.is_empty() {
            return Err(words.ended(TARGET));
        }
        Ok(Self::new(stateful, constraints, targets))
    }
}

/// Refuses `field`, which stands at `word`, if no packet has it that has all that `others`
/// ask for.
fn one_packet(others: &[Constraint], word: &Word<'_>, field: Field) -> Result<(), WordError> {
    let rival = others
        .iter()
        .filter(|other| !other.negated)
        .map(|other| other.named.field)
        .find(|other| !other.layer().goes_with(field.layer()));
    match rival {
        Some(other) => {
            let allowed = format!("fields of the same packet as `{}`", other.name());
            let help = "write a rule for each, or `!` where one is to be absent";
            Err(word.refused(allowed).with_help(help))
        }
        None => Ok(()),
    }
}

/// The error for `word`, which should be a field.
fn no_field(word: &Word<'_>, allowed: &str) -> WordError {
    let error = word.refused(allowed);
    let near = Field::all()
        .map(|field| (strsim::damerau_levenshtein(word.text, field.name()), field))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= 3);
    match near {
        Some((_, field)) => error.with_help(format!("did you mean `{}`?", field.name())),
        None => error.with_help("`narrows mmb fields` lists the fields and their values"),
    }
}

/// A field, and the kind that may follow it.
fn named<'a>(words: &mut Words<'a>, word: Word<'a>, allowed: &str) -> Result<Named, WordError> {
    let field = Field::named(word.text).ok_or_else(|| no_field(&word, allowed))?;
    let mut kind = None;
    if field.takes_kind() {
        let digits = |w: &Word<'_>| w.text.bytes().all(|b| b.is_ascii_digit());
        if let Some(number) = words.peek().filter(digits) {
            words.take();
            let allowed = || format!("a kind from 0 to 255 after `{}`", field.name());
            let refused = |_| number.refused(allowed());
            kind = Some(number.text.parse().map_err(refused)?);
        }
    }
    Ok(Named { field, kind })
}

/// `[!] field [[condition] value]`, the word that names the field, and that of the value, if
/// there is one. `ready`: a target might stand there instead.
fn constraint<'a>(
    words: &mut Words<'a>,
    ready: bool,
) -> Result<(Word<'a>, Constraint, Option<Word<'a>>), WordError> {
    let allowed = if ready { MATCH_OR_TARGET } else { MATCH };
    let mut word = words.needed(allowed)?;
    let mut negated = false;
    if let Some(rest) = word.text.strip_prefix('!') {
        negated = true;
        word = match rest {
            "" => words.needed("a field after `!`")?,
            text => Word {
                text,
                start: word.start + 1,
            },
        };
    }
    let named = named(words, word, allowed)?;
    let takes = named.field.row().takes;
    let condition = words
        .peek()
        .and_then(|w| CONDITIONS.iter().find(|(text, _)| *text == w.text));
    let condition = match condition {
        Some((_, condition)) => {
            let word = words.take();
            fits_condition(named, *condition, word.as_ref())?;
            Some(*condition)
        }
        None => None,
    };
    let mut written = None;
    let next = words.peek();
    let alone = next.is_none_or(|w| {
        w.text.starts_with('!') || TARGETS.contains(&w.text) || Field::named(w.text).is_some()
    });
    let test = if condition.is_none() && alone {
        if takes == Takes::Interface {
            return Err(words.ended("the name of an interface"));
        }
        Test::Alone
    } else if matches!(takes, Takes::Constant(_) | Takes::Nothing) {
        let next = next.filter(|_| !alone);
        let what = format!("a further field or {TARGET}: `{}` takes no value", named);
        return Err(next.map_or_else(|| words.ended(what.clone()), |w| w.refused(what.clone())));
    } else {
        written = next;
        let value = Value::parse(named.field, words)?;
        if matches!(value, Value::Prefix { .. })
            && !matches!(
                condition,
                None | Some(Condition::Equal | Condition::NotEqual)
            )
        {
            const ALLOWED: &str = "an address without a prefix, as its order is asked for";
            return Err(next.map_or_else(|| words.ended(ALLOWED), |w| w.refused(ALLOWED)));
        }
        Test::Is(condition.unwrap_or(Condition::Equal), value)
    };
    let constraint = Constraint {
        negated,
        named,
        test,
    };
    Ok((word, constraint, written))
}

/// Refuses an order of what has none.
fn fits_condition(
    named: Named,
    condition: Condition,
    word: Option<&Word<'_>>,
) -> Result<(), WordError> {
    let ordered = !matches!(
        named.field.row().takes,
        Takes::Bytes | Takes::Interface | Takes::Version
    );
    match word {
        Some(word) if !ordered && !matches!(condition, Condition::Equal | Condition::NotEqual) => {
            Err(word.refused(format!("`==` or `!=`: `{named}` has no order")))
        }
        _ => Ok(()),
    }
}

/// What follows the word of a target; `before` are the rule's targets so far.
fn target<'a>(
    word: &Word<'a>,
    words: &mut Words<'a>,
    stateful: bool,
    before: &[Target],
) -> Result<Target, WordError> {
    Ok(match word.text {
        "mod" => set(words)?,
        "add" => add(words)?,
        "strip" => strip(words, before)?,
        "drop" => {
            let rate = words
                .peek()
                .filter(|w| w.text.starts_with(|c: char| c.is_ascii_digit()));
            match rate {
                Some(rate) => {
                    words.take();
                    let allowed = "a chance in percent, 0 to 100 in steps of 0.01";
                    Target::Drop(DropRate::parse(rate.text).ok_or_else(|| rate.refused(allowed))?)
                }
                None => Target::Drop(DropRate::ALWAYS),
            }
        }
        "accept" => Target::Accept,
        "map" | "shuffle" if !stateful => {
            let help = format!("`{}` is for connections: `add-stateful …`", word.text);
            return Err(word.refused(TARGET).with_help(help));
        }
        "map" => {
            let field = listed(words, "map", Field::can_be_mapped)?;
            Target::Map(field, one_value(field, words)?)
        }
        "shuffle" => Target::Shuffle(listed(words, "shuffle", Field::can_be_shuffled)?),
        _ if Field::named(word.text).is_some() || word.text.starts_with('!') => {
            return Err(word
                .refused(TARGET)
                .with_help("constraints stand before all targets"));
        }
        _ => return Err(word.refused(TARGET)),
    })
}

/// A value that is one, and no prefix.
fn one_value(field: Field, words: &mut Words<'_>) -> Result<Value, WordError> {
    let mut before = words.clone();
    match Value::parse(field, words)? {
        Value::Prefix { .. } => {
            let word = before.needed("")?;
            Err(word.refused("one address, without a prefix"))
        }
        value => Ok(value),
    }
}

/// A field of those that a target takes.
fn listed(
    words: &mut Words<'_>,
    target: &str,
    takes: impl Fn(Field) -> bool,
) -> Result<Field, WordError> {
    let names: Vec<_> = Field::all()
        .filter(|field| takes(*field))
        .map(Field::name)
        .collect();
    let allowed = format!("a field for `{target}`: {}", names.join(", "));
    let word = words.needed(&allowed)?;
    let field = Field::named(word.text).filter(|field| takes(*field));
    field.ok_or_else(|| word.refused(allowed))
}

fn set(words: &mut Words<'_>) -> Result<Target, WordError> {
    const ALLOWED: &str = "a field that `mod` can write";
    let word = words.needed(ALLOWED)?;
    let named = named(words, word, ALLOWED)?;
    if !named.field.can_be_set() {
        return Err(word.refused(ALLOWED));
    }
    wants_kind(named, word)?;
    let value = match named.field.row().takes {
        Takes::Constant(_) => None,
        _ => Some(option_value(named, words)?),
    };
    Ok(Target::Set(named, value))
}

/// A value, which of an option has to have room in a header.
fn option_value(named: Named, words: &mut Words<'_>) -> Result<Value, WordError> {
    let mut before = words.clone();
    let value = one_value(named.field, words)?;
    match &value {
        Value::Bytes(bytes) if named.field.is_option() && bytes.len() > OPTION_BYTES => {
            let word = before.needed("")?;
            Err(word.refused(format!(
                "at most {OPTION_BYTES} bytes: no header has more room"
            )))
        }
        _ => Ok(value),
    }
}

/// Refuses an option of no stated kind, and the two that hold nothing.
fn wants_kind(named: Named, word: Word<'_>) -> Result<(), WordError> {
    let anonymous = named.field.takes_kind() && named.kind.is_none();
    if anonymous || named.field.is_option() && matches!(named.kind, Some(0 | 1)) {
        let allowed = format!("`{}` and a kind from 2 to 255", named.field.name());
        return Err(word.refused(allowed));
    }
    Ok(())
}

fn add(words: &mut Words<'_>) -> Result<Target, WordError> {
    const ALLOWED: &str = "a TCP option: `add` appends nothing else";
    let word = words.needed(ALLOWED)?;
    let named = named(words, word, ALLOWED)?;
    if !named.field.is_option() {
        return Err(word.refused(ALLOWED));
    }
    wants_kind(named, word)?;
    let empty = named.field.row().takes == Takes::Nothing
        || matches!(named.field.row().takes, Takes::Bytes)
            && words.peek().is_none_or(|w| TARGETS.contains(&w.text));
    let value = match empty {
        true => None,
        false => Some(option_value(named, words)?),
    };
    Ok(Target::Add(named, value))
}

fn strip(words: &mut Words<'_>, before: &[Target]) -> Result<Target, WordError> {
    const ALLOWED: &str = "`all`, a TCP option, or `!` and a TCP option";
    let mut word = words.needed(ALLOWED)?;
    let first = word;
    let mut keep = false;
    if let Some(rest) = word.text.strip_prefix('!') {
        keep = true;
        word = match rest {
            "" => words.needed("a TCP option after `!`")?,
            text => Word {
                text,
                start: word.start + 1,
            },
        };
    }
    let strip = if word.text == "all" && !keep {
        Strip::All
    } else {
        let named = named(words, word, ALLOWED)?;
        if !named.field.is_option() {
            return Err(word.refused(ALLOWED));
        }
        wants_kind(named, word)?;
        match keep {
            true => Strip::AllBut(named),
            false => Strip::This(named),
        }
    };
    let other = |target: &Target| match target {
        Target::Strip(before) => matches!(before, Strip::AllBut(_)) != keep,
        _ => false,
    };
    if before.iter().any(other) {
        let help = "a rule lists what is removed, or with `!` what is kept";
        return Err(first
            .refused("a further option of the same list")
            .with_help(help));
    }
    Ok(Target::Strip(strip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_mmb_s_guide_are_read_as_they_stand() {
        for line in [
            "mmb add all mod ip-ecn 0",
            "mmb add ip-proto udp drop",
            "mmb add ip-proto != tcp drop",
            "mmb add ip-proto != udp ip-proto != tcp drop",
            "mmb add tcp-dport 80 mod tcp-dport 443",
            "mmb add tcp-opt-mss strip tcp-opt-mss",
            "mmb add tcp-opt-mss > 1500 mod tcp-opt-mss 1460",
            "mmb add tcp-opt strip ! tcp-opt-mss",
            "mmb add tcp-opt strip tcp-opt-mss strip tcp-opt-wscale",
            "mmb add tcp-opt-timestamp strip all",
            "mmb add tcp-opt strip ! tcp-opt-mss strip ! tcp-opt-wscale",
            "mmb add tcp-opt ! tcp-opt-mss ! tcp-opt-wscale  drop",
            "mmb add ! tcp-opt-mss ! tcp-opt-wscale drop",
            "mmb add tcp-opt 22 drop",
            "mmb add-stateful ip-proto tcp ip-saddr 10.0.0.10/24 accept",
            "mmb add-stateful ip-proto tcp map ip-saddr 30.30.30.30 shuffle tcp-sport",
            "mmb add-stateless ip-ecn 1 mod ip-ecn 3",
            "add tcp-syn tcp-reserved x0f add tcp-opt 22 x0102 drop 12.50",
            "add in inside !ip6-eh 60 ip6-saddr 2001:db8::/32 mod ip6-hop-limit 64",
            "add in inside eth-type != arp ! eth-type x88cc drop 10",
        ] {
            let rule = Rule::parse(line).unwrap_or_else(|e| panic!("{line}: {e}"));
            let written = rule.to_string();
            assert_eq!(Rule::parse(&written).unwrap(), rule, "{written}");
        }
    }

    #[test]
    fn a_rule_prints_in_one_spelling() {
        for (line, written) in [
            (
                "mmb add-stateless ip-ttl == x40 drop 100",
                "add ip-ttl 64 drop",
            ),
            ("add net-proto 4 drop 12.00", "add net-proto ip4 drop 12"),
            (
                "add net-proto 6 net-proto ip6 drop 0.05",
                "add net-proto ip6 net-proto ip6 drop 0.05",
            ),
            (
                "add eth-type x806 eth-type 35020 accept",
                "add eth-type arp eth-type x88cc accept",
            ),
            (
                "add !tcp-syn ip-proto 6 drop 2.50%",
                "add ! tcp-syn ip-proto tcp drop 2.5",
            ),
            (
                "add-stateful ip-saddr 10.0.0.10/24 map ip-saddr self",
                "add-stateful ip-saddr 10.0.0.0/24 map ip-saddr self",
            ),
            (
                "add tcp-opt 253 xAB add tcp-opt-sackp accept",
                "add tcp-opt 253 xab add tcp-opt-sackp accept",
            ),
        ] {
            assert_eq!(Rule::parse(line).unwrap().to_string(), written);
        }
    }

    #[test]
    fn what_is_wrong_is_refused_at_its_place() {
        for (line, at) in [
            ("drop", "drop"),
            ("add", ""),
            ("add drop", "drop"),
            ("add eth-type arp ip-ttl 3 drop", "ip-ttl"),
            ("add eth-type arp net-proto ip4 drop", "net-proto"),
            ("add eth-type arp mod ip-ttl 3", "mod"),
            ("add ! eth-type arp strip all", "strip"),
            ("add-stateful eth-type arp accept", "eth-type"),
            ("add eth-type x10000 drop", "x10000"),
            ("add all", ""),
            ("add all ip-ttl 4 drop", "ip-ttl"),
            ("add ip-tll 4 drop", "ip-tll"),
            ("add ip-ttl 256 drop", "256"),
            ("add ip-ttl < drop", "drop"),
            ("add tcp-syn 2 drop", "2"),
            ("add ip-ce 3 drop", "3"),
            ("add in drop", ""),
            ("add ip-saddr < 10.0.0.0/8 drop", "10.0.0.0/8"),
            ("add ip-saddr 10.0.0.0/33 drop", "10.0.0.0/33"),
            ("add ip-payload < x00 drop", "<"),
            ("add ip-payload x0 drop", "x0"),
            ("add tcp-opt 256 drop", "256"),
            ("add tcp-dport 80 udp-dport 80 drop", "udp-dport"),
            ("add ip6-saddr ::1 mod ip-ttl 3", "mod"),
            ("add all drop 100.01", "100.01"),
            ("add all drop 1.001", "1.001"),
            ("add all drop 1.", "1."),
            ("add all drop 1.+5", "1.+5"),
            ("add ip-ttl +5 drop", "+5"),
            ("add ip-ttl x+5 drop", "x+5"),
            ("add net-proto ip5 drop", "ip5"),
            ("add all mod in x", "in"),
            ("add all mod tcp-opt x00", "tcp-opt"),
            ("add all map ip-saddr 10.0.0.1", "map"),
            ("add-stateful all map ip-ttl 4", "ip-ttl"),
            ("add-stateful all map ip-saddr 10.0.0.0/8", "10.0.0.0/8"),
            ("add-stateful all shuffle ip-saddr", "ip-saddr"),
            ("add all add ip-ttl 3", "ip-ttl"),
            ("add all strip ip-ttl", "ip-ttl"),
            ("add all strip tcp-syn", "tcp-syn"),
            ("add all strip !ip-ttl", "ip-ttl"),
            ("add all strip ! all", "all"),
            ("add all strip tcp-opt-mss strip ! tcp-opt-sack", "!"),
            ("add all strip tcp-opt 1", "tcp-opt"),
            ("add all accept ip-ttl 3", "ip-ttl"),
        ] {
            let error = Rule::parse(line).expect_err(line);
            assert_eq!(&line[error.span.clone()], at, "{line}: {error}");
        }
        let error = Rule::parse("add tcp-dprt 80 drop").unwrap_err();
        assert_eq!(error.help.as_deref(), Some("did you mean `tcp-dport`?"));
    }

    #[test]
    fn what_a_line_lacks_at_its_end_is_named() {
        for (line, allowed) in [
            ("add", MATCH),
            ("add tcp-syn", MATCH_OR_TARGET),
            ("add tcp-dport 80", MATCH_OR_TARGET),
            ("add all", TARGET),
        ] {
            let error = Rule::parse(line).expect_err(line).to_string();
            let expected = format!("but {allowed} is expected");
            assert!(error.contains(&expected), "{line}: {error}");
        }
    }

    #[test]
    fn a_constraint_behind_a_target_is_pointed_out() {
        let help = |line: &str| Rule::parse(line).expect_err(line).help;
        let misplaced = Some("constraints stand before all targets".to_owned());
        assert_eq!(help("add all accept ip-ttl 3"), misplaced);
        assert_eq!(help("add all accept ! tcp-syn"), misplaced);
        assert_eq!(help("add all accept !tcp-syn"), misplaced);
        assert_eq!(help("add all accept accepts"), None);
    }

    #[test]
    fn an_option_holds_what_a_header_has_room_for() {
        let line = |bytes: usize| format!("add all add tcp-opt 253 x{} drop", "ab".repeat(bytes));
        assert!(Rule::parse(&line(38)).is_ok());
        for bytes in [39, 40] {
            let line = line(bytes);
            let error = Rule::parse(&line).unwrap_err();
            assert!(line[error.span.clone()].starts_with("xab"));
            assert!(error.to_string().contains("at most 38 bytes"), "{error}");
        }
        // A payload is no option.
        let payload = format!("add all mod udp-payload x{}", "ab".repeat(64));
        assert!(Rule::parse(&payload).is_ok());
    }
}
