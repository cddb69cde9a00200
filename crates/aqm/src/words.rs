//! Words round trip, are refused with their place, and never panic.

use narrows_core::EntityId;
use narrows_units::{Bytes, Declared, Duration, ParameterKind, Rate, Rng};
use proptest::prelude::*;

use crate::arbitrary::any_of_grammars;
use crate::codel::Selector;
use crate::dualpi2::{Percent, StepThreshold, Variant};
use crate::testing::ETHERNET;
use crate::{QUEUE_KINDS, QueueSpec, cake, cnq, cobalt, codel, dualpi2, fifo, fq_codel, pie, red};

fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (1u64..4_000).prop_map(Duration::from_millis),
        (1_000u64..4_000_000_000).prop_map(Duration::from_nanos),
    ]
}

fn maybe<S: Strategy>(s: S) -> impl Strategy<Value = Option<S::Value>>
where
    S::Value: Clone,
{
    proptest::option::of(s)
}

fn any_fifo() -> impl Strategy<Value = fifo::FifoConfig> {
    maybe(1u64..5_000_000).prop_map(|limit| fifo::FifoConfig {
        limit: limit.map(Bytes::new),
    })
}

fn any_codel() -> impl Strategy<Value = codel::CodelConfig> {
    (1u32.., time(), time(), any::<bool>(), maybe(time())).prop_map(
        |(limit, target, interval, ecn, ce_threshold)| codel::CodelConfig {
            limit,
            target,
            interval,
            ecn,
            ce_threshold,
        },
    )
}

fn any_fq_codel() -> impl Strategy<Value = fq_codel::FqCodelConfig> {
    (
        any_codel(),
        1u32..=65_536,
        maybe(256u32..=1 << 20),
        maybe((any::<u8>(), any::<u8>())),
        1u64..=1 << 31,
        1u32..,
    )
        .prop_map(|(c, flows, quantum, selector, memory, drop_batch)| {
            fq_codel::FqCodelConfig {
                limit: c.limit,
                flows,
                quantum,
                target: c.target,
                interval: c.interval,
                ce_threshold: c.ce_threshold,
                ce_threshold_selector: selector.map(|(value, mask)| Selector { value, mask }),
                memory_limit: Bytes::new(memory),
                drop_batch,
                ecn: c.ecn,
            }
        })
}

fn any_pie() -> impl Strategy<Value = pie::PieConfig> {
    (
        (1u32.., time(), time(), 1u32..=32, 1u32..=32),
        any::<[bool; 3]>(),
    )
        .prop_map(
            |((limit, target, tupdate, alpha, beta), flags)| pie::PieConfig {
                limit,
                target,
                tupdate,
                alpha,
                beta,
                ecn: flags[0],
                bytemode: flags[1],
                dq_rate_estimator: flags[2],
            },
        )
}

/// Thresholds that tc accepts: min below max, a burst that covers min.
fn any_red() -> impl Strategy<Value = red::RedConfig> {
    (
        (1_000u32..1_000_000, 1u32..1_000, 1u32..1_500, 1u32..100),
        (0.001f64..0.999, 1_000u64..1_000_000_000),
        any::<[bool; 4]>(),
    )
        .prop_map(
            |((limit, min, avpkt, more), (probability, rate), flags)| red::RedConfig {
                limit,
                min: Some(min),
                max: Some(min + 50 * more),
                avpkt,
                burst: Some(min / avpkt + more),
                adaptive: flags[0],
                probability,
                bandwidth: Rate::from_bits(rate),
                ecn: flags[1],
                harddrop: flags[2],
                nodrop: flags[1] && flags[3],
            },
        )
}

fn any_dualpi2() -> impl Strategy<Value = dualpi2::DualPi2Config> {
    let step = prop_oneof![
        time().prop_map(StepThreshold::Time),
        (1u32..).prop_map(StepThreshold::Packets)
    ];
    (
        (0usize..3, maybe(1u32..), maybe(1u32..), time(), time()),
        (1u32..1 << 30, 1u32..1 << 30, step, any::<u32>(), 1u8..),
        (any::<[bool; 4]>(), 0u8..=100),
    )
        .prop_map(|(a, b, (flags, percent))| {
            let variant = [Variant::Linux, Variant::Linux2020, Variant::Rfc9332][a.0];
            let linux = variant == Variant::Linux;
            let has_step = variant != Variant::Rfc9332;
            let usual = dualpi2::DualPi2Config::of(variant);
            dualpi2::DualPi2Config {
                variant,
                limit: a.1,
                memlimit: a.2.filter(|_| linux),
                target: a.3,
                tupdate: a.4,
                alpha: f64::from(b.0) / 256.0,
                beta: f64::from(b.1) / 256.0,
                step: if has_step { b.2 } else { usual.step },
                min_qlen_step: if linux { b.3 } else { usual.min_qlen_step },
                coupling_factor: b.4,
                drop_overload: flags[0] || !has_step,
                drop_early: flags[1] && has_step,
                classic_protection: Percent(percent),
                any_ect: flags[2],
                split_gso: flags[3] || !linux,
            }
        })
}

fn any_cnq() -> impl Strategy<Value = cnq::CnqConfig> {
    (1u32.., time(), time(), maybe(time())).prop_map(|(limit, interval, target, mtu_time)| {
        cnq::CnqConfig {
            limit,
            interval,
            target,
            mtu_time,
        }
    })
}

fn any_cobalt() -> impl Strategy<Value = cobalt::CobaltConfig> {
    (1u32.., time(), time(), any::<bool>()).prop_map(|(limit, target, interval, ecn)| {
        cobalt::CobaltConfig {
            limit,
            target,
            interval,
            ecn,
        }
    })
}

fn any_cake() -> impl Strategy<Value = cake::CakeConfig> {
    use cake::{AckFilter, Cells, Diffserv, FlowMode, Framing};
    let framing = (
        (-64i16..=256, any::<bool>(), 0u16..=256),
        prop_oneof![Just(Cells::None), Just(Cells::Atm), Just(Cells::Ptm)],
    );
    let framing = framing.prop_map(|((overhead, from_ip, mpu), cells)| Framing {
        overhead,
        from_ip,
        mpu,
        cells,
    });
    let modes = (
        proptest::sample::select(vec![
            Diffserv::BestEffort,
            Diffserv::Precedence,
            Diffserv::Three,
            Diffserv::Four,
            Diffserv::Eight,
        ]),
        proptest::sample::select(vec![
            FlowMode::Blind,
            FlowMode::SourceHost,
            FlowMode::DestinationHost,
            FlowMode::Hosts,
            FlowMode::Flows,
            FlowMode::DualSource,
            FlowMode::DualDestination,
            FlowMode::Triple,
        ]),
        proptest::sample::select(vec![AckFilter::Off, AckFilter::On, AckFilter::Aggressive]),
    );
    let numbers = (maybe(8u64..1 << 40), time(), maybe(1u64..4096 << 20));
    (framing, modes, numbers, any::<[bool; 4]>()).prop_map(
        |(framing, (diffserv, flows, ack_filter), (rate, rtt, limit), flags)| {
            let mut config = cake::CakeConfig::default();
            config.bandwidth = rate.map(Rate::from_bits);
            (config.diffserv, config.flows, config.ack_filter) = (diffserv, flows, ack_filter);
            (config.framing, config.rtt) = (framing, rtt);
            config.memlimit = limit.map(Bytes::new);
            [config.nat, config.wash, config.ingress, config.split_gso] = flags;
            config
        },
    )
}

fn any_spec() -> impl Strategy<Value = QueueSpec> {
    prop_oneof![
        1 => any_fifo().prop_map(QueueSpec::Pfifo),
        1 => any_fifo().prop_map(QueueSpec::Bfifo),
        1 => any_codel().prop_map(QueueSpec::Codel),
        1 => any_fq_codel().prop_map(QueueSpec::FqCodel),
        1 => any_pie().prop_map(QueueSpec::Pie),
        1 => any_red()
            .prop_filter("tc refuses it", |c| {
                QueueSpec::parse(&QueueSpec::Red(c.clone()).to_string()).is_ok()
            })
            .prop_map(QueueSpec::Red),
        1 => any_dualpi2().prop_map(QueueSpec::DualPi2),
        1 => any_cnq().prop_map(QueueSpec::CnqCodelAf),
        1 => any_cobalt().prop_map(QueueSpec::Cobalt),
        1 => any_cake().prop_map(QueueSpec::Cake),
        8 => any_of_grammars(),
    ]
}

/// Words that occur in the lines of queues, and some that do not.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => proptest::sample::select(vec![
            "pfifo", "bfifo", "codel", "fq_codel", "pie", "red", "dualpi2", "cnq_codel_af",
            "prio", "sfq", "tbf", "drr", "htb", "fq", "bands", "priomap", "band", "queue", "(pfifo)",
            "(codel", "limit)", "perturb", "divisor", "depth", "headdrop", "rate", "latency",
            "peakrate", "bearers", "bearer", "qci", "class", "dscp", "ceil", "cburst", "parent", "prio", "default", "maxrate",
            "fq_pie", "pi2", "dualq", "aqm", "cred", "shift", "wrr", "1:2", "ecn_prob", "conext-2016", "limit", "flows", "target", "interval", "quantum", "ecn", "noecn", "ce_threshold",
            "ce_threshold_selector", "memory_limit", "drop_batch", "tupdate", "alpha", "beta",
            "bytemode", "dq_rate_estimator", "min", "max", "avpkt", "burst", "adaptive",
            "probability", "bandwidth", "harddrop", "nodrop", "variant", "linux", "linux-2020",
            "rfc9332", "memlimit", "coupling_factor", "step_thresh", "min_qlen_step",
            "drop_on_overload", "overflow", "drop_enqueue", "classic_protection", "max_rtt",
            "typical_rtt", "any_ect", "split_gso", "rtt", "mtu_time", "0x01/0x03", "cake", "cobalt",
            "unlimited", "lan", "interplanetary", "besteffort", "diffserv4", "diffserv8",
            "flowblind", "dual-srchost", "nat", "wash", "ack-filter", "ingress", "no-split-gso",
            "overhead", "mpu", "atm", "ptm", "raw", "conservative", "docsis", "ether-vlan",
            "pppoe-llcsnap", "bridged-ptm", "via-ethernet", "autorate-ingress", "fwmark",
        ]).prop_map(String::from),
        4 => proptest::sample::select(vec![
            "0", "1", "5", "1000", "4294967295", "4294967296", "18446744073709551615", "1ms",
            "0s", "1ns", "4s", "100s", "584y", "10mb", "4gb", "1kb", "0.5", "1e300", "-1",
            "nan", "inf", "100%", "101%", "5p", "0p", "10Mbit", "1bit", "0bit",
            "-64", "-65", "256", "257",
        ]).prop_map(String::from),
        1 => "\\PC{0,12}",
    ]
}

proptest! {
    #[test]
    fn parsing_what_was_printed_gives_the_same_queue(spec in any_spec()) {
        let words = spec.to_string();
        prop_assert_eq!(QueueSpec::parse(&words), Ok(spec), "{}", words);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn random_words_are_read_or_refused_within_the_line(
        kind in proptest::sample::select(vec![
            "", "pfifo", "bfifo", "codel", "fq_codel", "pie", "red limit 400000 avpkt 1000",
            "dualpi2", "dualpi2 variant linux-2020", "dualpi2 variant rfc9332", "cnq_codel_af",
            "cake", "cake bandwidth 20mbit", "cobalt",
            "fq_pie", "pi2", "dualq", "dualq aqm red", "prio", "sfq",
            "tbf rate 1Mbit burst 2000 limit 3000", "drr class a", "htb class a rate 1Mbit", "fq",
            "bearers bearer a",
        ]),
        words in proptest::collection::vec(word(), 0..8),
    ) {
        let line = format!("{kind} {}", words.join(" "));
        match QueueSpec::parse(&line) {
            Ok(spec) => {
                prop_assert_eq!(QueueSpec::parse(&spec.to_string()), Ok(spec.clone()));
                // What parses can be built.
                if !matches!(spec, QueueSpec::CnqCodelAf(_)) {
                    let _ = spec.build(EntityId(0), ETHERNET, Rng::for_name(1, "q"));
                }
            }
            Err(e) => {
                prop_assert!(e.span.start <= e.span.end && e.span.end <= line.len());
                prop_assert!(line.get(e.span.clone()).is_some());
                prop_assert!(!e.allowed.is_empty() && !e.found.is_empty());
            }
        }
    }
}

fn refused(line: &str) -> (String, String, String) {
    let e = QueueSpec::parse(line).unwrap_err();
    (line[e.span].to_string(), e.found, e.allowed)
}

#[test]
fn a_refusal_says_where_what_was_found_and_what_is_allowed() {
    let (at, found, allowed) = refused("fq_codel flows 0 target 1ms");
    assert_eq!((at.as_str(), found.as_str()), ("0", "`0`"));
    assert_eq!(allowed, "1 to 65536 flows");
    let (at, _, allowed) = refused("pie limit 100 target fast");
    assert_eq!(at, "fast");
    assert!(allowed.contains("time"));
    let (at, _, allowed) = refused("codel flows 3");
    assert_eq!(at, "flows");
    assert!(allowed.contains("ce_threshold TIME"));
    let (at, found, _) = refused("dualpi2 coupling_factor");
    assert_eq!((at.as_str(), found.as_str()), ("", "the end of the line"));
    let (at, _, allowed) = refused("sfb");
    assert_eq!(at, "sfb");
    assert!(allowed.contains("cnq_codel_af"));
    let (at, ..) = refused("dualpi2 variant linux-2020 memlimit 5");
    assert_eq!(at, "memlimit");
}

#[test]
fn the_words_of_the_published_experiments_are_read() {
    for words in [
        "pfifo limit 200",
        "pfifo limit 1000",
        "fq_codel",
        "fq_codel flows 1",
        "fq_codel flows 1 target 1ms interval 20ms",
        "pie ecn",
        "pie limit 100 target 5ms tupdate 32ms ecn",
        "red limit 400000 avpkt 1000 adaptive bandwidth 50Mbit ecn",
        "red limit 150000 avpkt 1000 adaptive bandwidth 50Mbit ecn",
        "dualpi2",
        "dualpi2 variant linux-2020",
        "dualpi2 step_thresh 5ms",
        "cnq_codel_af",
        "codel",
    ] {
        assert_eq!(QueueSpec::parse(words).unwrap().to_string(), words);
    }
    // Defaults that are spelt out are not printed.
    let spec = QueueSpec::parse("pie limit 100 target 5ms tupdate 32ms alpha 2 beta 20 ecn");
    assert_eq!(
        spec.unwrap().to_string(),
        "pie limit 100 target 5ms tupdate 32ms ecn"
    );
}

#[test]
fn a_changed_spec_keeps_what_is_not_named() {
    let spec = QueueSpec::parse("fq_codel flows 16 target 1ms").unwrap();
    let changed = spec.changed("fq_codel interval 20ms").unwrap();
    assert_eq!(
        changed.to_string(),
        "fq_codel flows 16 target 1ms interval 20ms"
    );
    assert_eq!(spec.changed("interval 20ms").unwrap(), changed);
    assert_eq!(spec.changed("").unwrap(), spec);
    let e = spec.changed("pie target 1ms").unwrap_err();
    assert_eq!(e.span, 0..3);
    assert!(spec.changed("flows 8").is_err());
}

/// What has to stand before a parameter of this queue, for its line to be whole.
pub(crate) fn before(kind: &str) -> &'static str {
    match kind {
        "red" => "limit 400000 avpkt 1000",
        "tbf" => "rate 1Mbit burst 2000 limit 3000",
        "drr" => "class a",
        "bearers" => "bearer a",
        "htb" => "class a rate 1Mbit",
        _ => "",
    }
}

#[test]
fn what_a_parameter_declares_is_what_its_refusal_says() {
    for Declared {
        name: kind,
        about,
        parameters,
    } in QUEUE_KINDS
    {
        assert!(about.ends_with('.'), "{kind}: {about}");
        let (.., allowed) = refused(&format!("{kind} @"));
        let usages: Vec<_> = parameters.iter().map(|p| p.usage).collect();
        assert_eq!(allowed, usages.join(", "));
        for p in *parameters {
            assert!(
                !p.about.is_empty() && !p.about.ends_with('.'),
                "{kind} {}",
                p.usage
            );
            for name in p.names() {
                let line = format!("{kind} {} {name}", before(kind));
                if p.kind == ParameterKind::Flag {
                    // `nodrop` of red needs `ecn` beside it, `uncoupled` of dualq `pie`.
                    let with = ["", " ecn", " aqm pie"]
                        .map(|more| QueueSpec::parse(&(line.clone() + more)));
                    assert!(with.iter().any(Result::is_ok), "{line}");
                    assert!(p.allowed.is_empty(), "{line}");
                    continue;
                }
                let (at, _, allowed) = refused(&format!("{line} @"));
                assert_eq!(at, "@");
                assert_eq!(allowed, p.allowed, "{line}");
            }
        }
    }
}

#[test]
fn declared_defaults_are_those_that_hold() {
    for Declared {
        name: kind,
        parameters,
        ..
    } in QUEUE_KINDS
    {
        let spec = QueueSpec::parse(&format!("{kind} {}", before(kind))).unwrap();
        // Flags and values by their declared defaults change nothing.
        for p in parameters.iter().filter(|p| !p.default.contains(' ')) {
            let line = match p.kind {
                _ if ["", "none"].contains(&p.default) => continue,
                ParameterKind::Flag => format!("{kind} {} {}", before(kind), p.default),
                _ => {
                    let name = p.names().next().expect("a name");
                    format!("{kind} {} {name} {}", before(kind), p.default)
                }
            };
            assert_eq!(QueueSpec::parse(&line).as_ref(), Ok(&spec), "{line}");
        }
    }
}
