//! Elements as arguments for tc.

use narrows_aqm::QueueSpec;
use narrows_path::RateSpec;
use narrows_scenario::ElementSpec;

/// Bytes of the Ethernet header, which the kernel counts on a device.
const ETHERNET: u32 = narrows_path::DEFAULT_OVERHEAD;

/// Packets that netem holds where the element sets no limit: as many as come.
const NO_LIMIT: u32 = 1_000_000;

/// Words of netem that tc(8) has (tc-netem(8)).
const NETEM: &[&str] = &[
    "delay",
    "distribution",
    "normal",
    "pareto",
    "paretonormal",
    "loss",
    "random",
    "state",
    "gemodel",
    "ecn",
    "duplicate",
    "corrupt",
    "reorder",
    "gap",
    "slot",
    "packets",
    "bytes",
    "limit",
];

/// Queues that tc has, with their words (tc-fq_codel(8) and so on), and what they need.
const QUEUES: &[(&str, &[&str], &str)] = &[
    ("pfifo", &["limit"], ""),
    ("bfifo", &["limit"], ""),
    (
        "codel",
        &[
            "limit",
            "target",
            "interval",
            "ecn",
            "noecn",
            "ce_threshold",
        ],
        "",
    ),
    (
        "fq_codel",
        &[
            "limit",
            "flows",
            "quantum",
            "target",
            "ce_threshold",
            "ce_threshold_selector",
            "interval",
            "memory_limit",
            "drop_batch",
            "ecn",
            "noecn",
        ],
        "",
    ),
    (
        "pie",
        &[
            "limit",
            "target",
            "tupdate",
            "alpha",
            "beta",
            "ecn",
            "noecn",
            "bytemode",
            "nobytemode",
            "dq_rate_estimator",
            "no_dq_rate_estimator",
        ],
        "",
    ),
    (
        "fq_pie",
        &[
            "limit",
            "flows",
            "target",
            "tupdate",
            "alpha",
            "beta",
            "quantum",
            "memory_limit",
            "ecn_prob",
            "ecn",
            "noecn",
            "bytemode",
            "nobytemode",
            "dq_rate_estimator",
            "no_dq_rate_estimator",
        ],
        "Linux 5.6 and iproute2 5.5",
    ),
    (
        "red",
        &[
            "limit",
            "min",
            "max",
            "avpkt",
            "burst",
            "adaptive",
            "probability",
            "bandwidth",
            "ecn",
            "harddrop",
            "nodrop",
        ],
        "",
    ),
    (
        "sfq",
        &[
            "limit", "perturb", "quantum", "divisor", "flows", "depth", "headdrop",
        ],
        "",
    ),
    (
        "fq",
        &[
            "limit",
            "flow_limit",
            "quantum",
            "initial_quantum",
            "maxrate",
            "buckets",
            "pacing",
            "nopacing",
            "refill_delay",
            "low_rate_threshold",
            "orphan_mask",
            "ce_threshold",
            "bands",
            "priomap",
            "weights",
        ],
        "",
    ),
    ("prio", &["bands", "priomap"], ""),
    (
        "cake",
        &[
            "bandwidth",
            "unlimited",
            "besteffort",
            "precedence",
            "diffserv3",
            "diffserv4",
            "diffserv8",
            "flowblind",
            "srchost",
            "dsthost",
            "hosts",
            "flows",
            "dual-srchost",
            "dual-dsthost",
            "triple-isolate",
            "nat",
            "nonat",
            "wash",
            "nowash",
            "ingress",
            "egress",
            "ack-filter",
            "ack-filter-aggressive",
            "no-ack-filter",
            "split-gso",
            "no-split-gso",
            "rtt",
            "datacentre",
            "lan",
            "metro",
            "regional",
            "internet",
            "oceanic",
            "satellite",
            "interplanetary",
            "raw",
            "conservative",
            "overhead",
            "mpu",
            "noatm",
            "atm",
            "ptm",
            "memlimit",
            "ethernet",
            "docsis",
            "ether-vlan",
        ],
        "Linux 4.19 and iproute2 4.19",
    ),
    (
        "dualpi2",
        &[
            "limit",
            "memlimit",
            "target",
            "tupdate",
            "alpha",
            "beta",
            "step_thresh",
            "min_qlen_step",
            "coupling_factor",
            "drop_on_overload",
            "overflow",
            "drop_enqueue",
            "drop_dequeue",
            "classic_protection",
            "l4s_ect",
            "any_ect",
            "split_gso",
            "no_split_gso",
            "max_rtt",
            "typical_rtt",
        ],
        "Linux 6.17 and iproute2 6.18",
    ),
];

/// What follows `tc qdisc add dev DEVICE` for each discipline of an element on a link with `mtu`
/// bytes of IP, in order.
///
/// # Errors
/// What of it tc does not have, as the end of a sentence.
pub(crate) fn disciplines(spec: &ElementSpec, mtu: u32) -> Result<Vec<Vec<String>>, String> {
    match spec {
        ElementSpec::Netem(netem) => {
            let mut words = words(&netem.to_string());
            if let Some(strange) = strange(&words[1..], NETEM) {
                return Err(format!("tc's netem has no `{strange}`"));
            }
            if netem.limit.is_none() {
                words.extend(["limit".to_owned(), NO_LIMIT.to_string()]);
            }
            let mut root = words_of("root handle 1:");
            root.append(&mut words);
            Ok(vec![root])
        }
        ElementSpec::Rate(rate) => {
            let mut inner = words_of("parent 1:1 handle 2:");
            inner.append(&mut queue(&rate.queue, mtu)?);
            Ok(vec![bucket(rate, mtu)?, inner])
        }
        other => Err(format!(
            "`{}` is no queueing discipline; `netem …` and `rate …` are",
            other.kind()
        )),
    }
}

/// What the disciplines of `spec` need that not every machine has: a kind, and of what age kernel
/// and iproute2 have to be.
pub(crate) fn needs(spec: &ElementSpec) -> Option<(&'static str, &'static str)> {
    let ElementSpec::Rate(rate) = spec else {
        return None;
    };
    let words = rate.queue.to_string();
    let kind = words.split_whitespace().next()?;
    let known = QUEUES.iter().find(|(name, ..)| *name == kind);
    known
        .map(|(name, _, needs)| (*name, *needs))
        .filter(|(_, needs)| !needs.is_empty())
}

/// A token bucket that lets a rate through; it holds a millisecond's worth, and at least two
/// frames.
fn bucket(spec: &RateSpec, mtu: u32) -> Result<Vec<String>, String> {
    let extra = spec.overhead.checked_sub(ETHERNET).ok_or_else(|| {
        format!(
            "`overhead {}` is less than the {ETHERNET} bytes of Ethernet, which the kernel counts",
            spec.overhead
        )
    })?;
    let bits = spec.rate.as_bits();
    if bits < 8 {
        return Err(format!("`rate {}` is less than a byte a second", spec.rate));
    }
    let frame = u64::from(mtu + spec.overhead);
    let burst = (bits / 8 / 1_000).max(2 * frame);
    if burst > u64::from(u32::MAX) {
        return Err(format!("`rate {}` is more than tbf takes", spec.rate));
    }
    let mut words = words_of("root handle 1: tbf rate");
    words.push(format!("{bits}bit"));
    words.extend(["burst".to_owned(), burst.to_string()]);
    // What tbf would hold itself: its queue is put in below.
    words.extend(["limit".to_owned(), (1_000 * frame).to_string()]);
    if extra > 0 {
        words.extend(["overhead".to_owned(), extra.to_string()]);
    }
    Ok(words)
}

fn queue(spec: &QueueSpec, mtu: u32) -> Result<Vec<String>, String> {
    let mut words = words(&spec.to_string());
    let kind = words.first().cloned().unwrap_or_default();
    let Some((_, known, _)) = QUEUES.iter().find(|(name, ..)| *name == kind) else {
        return Err(format!("`{kind}` is not written as lines for tc"));
    };
    if let Some(strange) = strange(&words[1..], known) {
        return Err(format!("tc's {kind} has no `{strange}`"));
    }
    if words.len() == 1 {
        match kind.as_str() {
            "pfifo" => words.extend(words_of("limit 1000")),
            "bfifo" => words.extend(["limit".to_owned(), (1_000 * (mtu + ETHERNET)).to_string()]),
            _ => {}
        }
    }
    Ok(words)
}

/// The first of `words` that begins as a word does and is none of `known`.
fn strange<'w>(words: &'w [String], known: &[&str]) -> Option<&'w str> {
    let is_word = |word: &&str| !word.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let mut words = words.iter().map(String::as_str).filter(is_word);
    words.find(|word| !known.contains(word))
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn words_of(text: &str) -> Vec<String> {
    words(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str) -> Result<Vec<String>, String> {
        let spec = ElementSpec::parse(words).expect("an element");
        let all = disciplines(&spec, 1500)?;
        Ok(all.iter().map(|words| words.join(" ")).collect())
    }

    #[test]
    fn elements_are_the_lines_that_one_would_write_for_tc() {
        assert_eq!(
            of("netem delay 10ms 1ms loss random 0.5%").unwrap(),
            ["root handle 1: netem delay 10ms 1ms loss random 0.5% limit 1000000"]
        );
        assert_eq!(
            of("rate 50Mbit queue fq_codel target 1ms").unwrap(),
            [
                "root handle 1: tbf rate 50000000bit burst 6250 limit 1514000",
                "parent 1:1 handle 2: fq_codel target 1ms"
            ]
        );
        assert_eq!(
            of("rate 1Mbit overhead 38").unwrap(),
            [
                "root handle 1: tbf rate 1000000bit burst 3076 limit 1538000 overhead 24",
                "parent 1:1 handle 2: pfifo limit 1000"
            ]
        );
        let needs = |words: &str| needs(&ElementSpec::parse(words).unwrap());
        assert!(
            needs("rate 1Mbit queue dualpi2")
                .unwrap()
                .1
                .contains("6.17")
        );
        assert_eq!(needs("rate 1Mbit queue codel"), None);
    }

    #[test]
    fn what_tc_has_not_is_named() {
        for (words, named) in [
            ("tap mid", "`tap`"),
            ("rate 1Mbit overhead 0", "overhead 0"),
            ("rate 1Mbit queue dualpi2 variant rfc9332", "variant"),
            ("rate 1Mbit queue cobalt", "cobalt"),
            ("rate 1Mbit queue htb class a rate 1Mbit", "htb"),
            ("rate 1Mbit queue prio band 0 queue (codel)", "band"),
            ("netem delay 10ms 1ms ordered", "ordered"),
            ("mmb mss-clamp", "`mmb`"),
        ] {
            let why = of(words).unwrap_err();
            assert!(why.contains(named), "{words}: {why}");
        }
    }
}
