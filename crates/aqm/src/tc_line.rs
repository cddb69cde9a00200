//! Lines that were written for tc: `tc qdisc add dev eth0 root handle 1: fq_codel limit 100`,
//! or as `tc qdisc show` prints them.
//!
//! What says where a discipline is put (device, parent, handle) has no meaning here, for that
//! is where the line stands; it is skipped. Grammar from tc(8) and iproute2 tc/tc_qdisc.c.

use narrows_units::{Word, WordError, Words};

/// Words before a discipline that are followed by a value, both without meaning here.
const SKIPPED_WITH_VALUE: &[&str] = &["dev", "parent", "handle", "refcnt"];
/// Words without meaning that stand alone; `link` and `replace` put a discipline as `add`
/// does.
const SKIPPED: &[&str] = &["root", "add", "replace", "change", "link"];

/// Whether `word` begins a line for tc.
fn begins(word: &str) -> bool {
    matches!(word, "sudo" | "tc" | "qdisc") || word.ends_with("/tc")
}

/// Why a word before the discipline is not taken.
fn refused(word: Word<'_>) -> Option<WordError> {
    let (allowed, reason) = match word.text {
        "del" | "delete" => (
            "`add`",
            "the line takes a discipline away; leave its words out",
        ),
        "show" | "list" | "ls" | "get" => (
            "`add`",
            "the line asks for what is there; paste what it prints",
        ),
        "class" | "filter" | "chain" | "action" | "monitor" | "exec" => (
            "`qdisc`",
            "classes and filters are not read; packets are sorted by `by` and by the queue \
             itself",
        ),
        "stab" => (
            "a discipline",
            "a table of sizes is not read: write `overhead BYTES` in the rate, or the framing \
             of cake",
        ),
        "estimator" | "est" => ("a discipline", "rates are measured in any case"),
        "ingress_block" | "egress_block" => ("a discipline", "filters are not read"),
        "ingress" | "clsact" => (
            "a discipline",
            "it holds no packets; write what is behind its filters",
        ),
        _ => return None,
    };
    Some(word.refused(allowed).with_help(reason))
}

/// The discipline of a line for tc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discipline<'a> {
    /// The word that it begins with.
    pub kind: Word<'a>,
    /// Its parameters.
    pub parameters: Word<'a>,
}

/// What a line for tc says of a discipline; `None` if `line` is not one for tc.
///
/// # Errors
/// When the line names no discipline, or what it does has no meaning here.
pub fn discipline_of(line: &str) -> Result<Option<Discipline<'_>>, WordError> {
    let mut words = Words::new(line);
    if !words.peek().is_some_and(|word| begins(word.text)) {
        return Ok(None);
    }
    let kind = loop {
        let word = words.needed("a discipline such as fq_codel")?;
        if begins(word.text) || word.text.starts_with('-') || skipped(word, &mut words)? {
            continue;
        }
        match refused(word) {
            Some(error) => return Err(error),
            None => break word,
        }
    };
    // What tc prints has its handle and place after the kind.
    if words.peek().is_some_and(|word| word.text.ends_with(':')) {
        words.take();
        while let Some(word) = words.peek() {
            let mut after = words.clone();
            after.take();
            if !skipped(word, &mut after)? {
                break;
            }
            words = after;
        }
    }
    let parameters = words.rest();
    Ok(Some(Discipline { kind, parameters }))
}

/// Whether `word` says where the discipline is put; the value is taken as well.
fn skipped(word: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
    let with_value = SKIPPED_WITH_VALUE.contains(&word.text);
    if with_value {
        words.needed("its value")?;
    }
    Ok(with_value || SKIPPED.contains(&word.text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QueueSpec;

    #[test]
    fn what_says_where_a_discipline_is_put_is_skipped() {
        for (line, queue) in [
            (
                "tc qdisc add dev eth0 root handle 1: cake bandwidth 20mbit nat docsis ack-filter",
                "cake bandwidth 20mbit nat docsis ack-filter",
            ),
            (
                "sudo tc qdisc replace dev wan0 parent 1:10 handle 10: fq_codel limit 100 ecn",
                "fq_codel limit 100 ecn",
            ),
            ("/sbin/tc -s qdisc add root dev eth0 codel", "codel"),
            ("qdisc add dev eth0 root pfifo limit 10", "pfifo limit 10"),
            (
                "tc  qdisc change  dev eth0 root pie   limit 100",
                "pie limit 100",
            ),
            (
                "tc qdisc add dev eth0 root red limit 400000 avpkt 1000 bandwidth 50Mbit",
                "red limit 400000 avpkt 1000 bandwidth 50Mbit",
            ),
            ("tc qdisc add dev eth0 root dualpi2", "dualpi2"),
            // As `tc qdisc show` prints it.
            (
                "qdisc cake 8001: dev eth0 root refcnt 2 bandwidth 20Mbit diffserv3 \
                 triple-isolate nonat nowash no-ack-filter split-gso rtt 100ms raw overhead 0",
                "cake bandwidth 20mbit",
            ),
            (
                "tc qdisc add dev eth0 root bfifo limit 64kb",
                "bfifo limit 64kb",
            ),
        ] {
            assert_eq!(QueueSpec::parse(line), QueueSpec::parse(queue), "{line}");
            assert!(QueueSpec::parse(queue).is_ok(), "{queue}");
        }
        assert_eq!(discipline_of("fq_codel limit 100"), Ok(None));
        assert_eq!(discipline_of(""), Ok(None));
    }

    #[test]
    fn what_has_no_meaning_is_refused_at_its_word() {
        for (line, at, says) in [
            ("tc qdisc del dev eth0 root", "del", "leave its words out"),
            ("tc qdisc show dev eth0", "show", "what it prints"),
            (
                "tc class add dev eth0 parent 1: classid 1:1",
                "class",
                "`by`",
            ),
            ("tc filter add dev eth0 parent 1: u32", "filter", "`by`"),
            (
                "tc qdisc add dev eth0 root stab overhead 40 linklayer atm cake",
                "stab",
                "overhead",
            ),
            (
                "tc qdisc add dev eth0 root estimator 1sec 8sec pfifo",
                "estimator",
                "in any case",
            ),
            ("tc qdisc add dev eth0 est 1sec 8sec pfifo", "est", "rates"),
            (
                "tc qdisc add dev eth0 ingress_block 1 clsact",
                "ingress_block",
                "filters",
            ),
            (
                "tc qdisc add dev eth0 egress_block 1 clsact",
                "egress_block",
                "filters",
            ),
            (
                "tc qdisc add dev eth0 handle ffff: ingress",
                "ingress",
                "no packets",
            ),
            (
                "tc qdisc add dev eth0 root netem delay 10ms",
                "netem",
                "element",
            ),
        ] {
            let error = QueueSpec::parse(line).unwrap_err();
            assert_eq!(&line[error.span.clone()], at, "{line}");
            let help = error.help.unwrap_or_default();
            assert!(help.contains(says), "{line}: {help}");
        }
        for line in ["tc", "tc qdisc add dev", "tc qdisc add dev eth0 root"] {
            let error = QueueSpec::parse(line).unwrap_err();
            assert_eq!(error.span, line.len()..line.len(), "{line}");
        }
        // A parameter that is wrong is found at its place in the whole line.
        let line = "tc qdisc add dev eth0 root fq_codel flows 0";
        let error = QueueSpec::parse(line).unwrap_err();
        assert_eq!(error.span, line.len() - 1..line.len());
    }
}
