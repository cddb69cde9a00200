//! What queues answer of themselves, for every kind of them.

use narrows_core::PacketPool;
use narrows_units::{Duration, Instant, Rate, Rng};

use crate::testing::packet;
use crate::words::before;
use crate::{FlowHash, QUEUES, QueueSpec};

/// The queue of `kind` with the parameters that it has to have.
fn least(kind: &str) -> QueueSpec {
    QueueSpec::parse(&format!("{kind} {}", before(kind))).unwrap()
}

fn parsed(words: &str) -> QueueSpec {
    QueueSpec::parse(words).unwrap_or_else(|e| panic!("{words}: {e}"))
}

#[test]
fn waiting_alone_marks_only_behind_a_threshold_in_time() {
    for kind in QUEUES {
        // The step of DualPI2 is 1 ms (RFC 9332 §2.5.1.1; Linux).
        let step = (*kind == "dualpi2").then_some(Duration::from_millis(1));
        assert_eq!(least(kind).marking_step(), step, "{kind}");
    }
    let three = Some(Duration::from_millis(3));
    for (words, step) in [
        ("codel ce_threshold 3ms", three),
        ("fq_codel ce_threshold 3ms", three),
        ("fq ce_threshold 3ms", three),
        ("dualpi2 step_thresh 3ms", three),
        // Packets are no time, a least length spares single ones, and a ramp is no step.
        ("dualpi2 step_thresh 3p", None),
        ("dualpi2 step_thresh 3ms min_qlen_step 1", None),
        ("dualpi2 variant linux-2020 step_thresh 3ms", None),
        ("dualpi2 variant rfc9332", None),
    ] {
        assert_eq!(parsed(words).marking_step(), step, "{words}");
    }
}

#[test]
fn shapers_alone_have_a_rate_of_their_own() {
    for kind in QUEUES {
        // The rate that both have to have.
        let rate = ["tbf", "htb"].contains(kind).then(|| Rate::from_mbit(1));
        assert_eq!(least(kind).shaped_to(), rate, "{kind}");
    }
    let roots = "htb class a rate 1Mbit dscp 46 class b rate 2Mbit";
    let tree = "htb class top rate 3Mbit class a parent top rate 1Mbit";
    for (words, rate) in [
        ("cake bandwidth 7Mbit", Some(7)),
        ("cake unlimited", None),
        ("tbf rate 2Mbit burst 2000 limit 3000", Some(2)),
        ("htb class a rate 1Mbit ceil 4Mbit", Some(4)),
        (tree, Some(3)),
        // Two roots have no rate in common.
        (roots, None),
    ] {
        let rate = rate.map(Rate::from_mbit);
        assert_eq!(parsed(words).shaped_to(), rate, "{words}");
    }
}

#[test]
fn values_are_taken_up_to_their_bounds_and_refused_beyond_them() {
    let sizes = ("1b 4095Mb", "0 4096Mb");
    let rates = ("8bit", "0bit 7bit");
    let times = ("1us 4s", "999ns 4000001us");
    let gains = ("0.00390625 8388607", "0.0039 8388608");
    let factors = ("1 255", "0 256");
    let some = ("1", "0");
    let rows = [
        ("cake bandwidth {}", rates),
        ("cake memlimit {}", sizes),
        ("drr class a quantum {}", sizes),
        ("dualpi2 target {}", times),
        ("dualpi2 tupdate {}", times),
        ("dualpi2 step_thresh {}", times),
        ("dualpi2 step_thresh {}", ("1p", "0p")),
        ("dualpi2 alpha {}", gains),
        ("dualpi2 beta {}", gains),
        ("dualpi2 memlimit {}", some),
        ("dualpi2 coupling_factor {}", factors),
        ("dualpi2 classic_protection {}", ("0% 100%", "101%")),
        ("dualq target {}", times),
        ("dualq tupdate {}", times),
        ("dualq step_thresh {}", times),
        ("dualq shift {}", times),
        ("dualq aqm pie uncoupled l_target {}", times),
        ("dualq alpha {}", gains),
        ("dualq beta {}", gains),
        ("dualq coupling_factor {}", factors),
        ("dualq aqm red max {}", ("1000000", "1000001")),
        ("dualq aqm red l_max {}", ("1000000", "1000001")),
        ("dualq dscp {}", ("0 63", "64")),
        ("fq quantum {}", ("1 1048576", "0 1048577")),
        ("fq initial_quantum {}", ("0 2147483647", "2147483648")),
        ("fq buckets {}", ("2 262144", "1 262145")),
        ("fq maxrate {}", rates),
        ("fq low_rate_threshold {}", rates),
        ("fq weights 16384 16384 {}", ("16384", "16383")),
        ("fq_pie flows {}", ("1 65536", "0 65537")),
        ("fq_pie quantum {}", ("1 1048576", "0 1048577")),
        ("fq_pie memory_limit {}", sizes),
        ("fq_pie ecn_prob {}", ("1 99", "0 100")),
        ("htb class a rate {}", rates),
        ("htb class a rate 1Mbit ceil {}", rates),
        ("htb class a rate 1Mbit burst {}", sizes),
        ("htb class a rate 1Mbit cburst {}", sizes),
        ("htb class a rate 1Mbit quantum {}", sizes),
        ("htb class a rate 1Mbit r2q {}", some),
        ("pi2 target {}", times),
        ("pi2 tupdate {}", times),
        ("pi2 alpha {}", gains),
        ("pi2 beta {}", gains),
        ("pi2 coupling_factor {}", factors),
        ("prio bands {}", ("3 16", "1 17")),
        ("prio bands 16 band {} queue (codel)", ("15", "16")),
        (
            "red limit 400000 avpkt 1000 probability {}",
            ("0.001 0.999", "0 1"),
        ),
        (
            "red limit 400000 avpkt 1000 bandwidth {}",
            ("8kbit", "0bit 7bit"),
        ),
        ("sfq limit {}", ("2", "1")),
        ("sfq perturb {}", ("0 2147483", "2147484")),
        ("sfq quantum {}", ("1b 2047Mb", "0 2048Mb")),
        ("sfq divisor {}", ("2 65536", "3 131072")),
        ("sfq flows {}", some),
        ("sfq depth {}", some),
        ("tbf burst 9 limit 9 rate {}", rates),
        ("tbf rate 1Mbit limit 9 burst {}", sizes),
        ("tbf rate 1Mbit burst 9 limit {}", sizes),
    ];
    for (line, (taken, refused)) in rows {
        for value in taken.split(' ') {
            parsed(&line.replace("{}", value));
        }
        for value in refused.split(' ') {
            let line = line.replace("{}", value);
            let error = QueueSpec::parse(&line).unwrap_err();
            assert_eq!(&line[error.span], value, "{line}");
        }
    }
}

#[test]
fn a_flow_is_the_bucket_that_its_hash_chooses() {
    let (mut pool, rng) = (PacketPool::new(), || Rng::for_name(1, "queue"));
    let hash = FlowHash::new(&mut rng());
    let apart = ["fq_codel", "fq_pie", "cake", "sfq", "fq", "cnq_codel_af"];
    for flow in 0..50 {
        let packet = packet(
            &mut pool,
            Instant::ZERO,
            flow,
            narrows_wire::Ecn::NotEct,
            200,
        );
        let bucket = |words: &str| parsed(words).bucket_of(rng(), &packet);
        for kind in QUEUES.iter().filter(|kind| !apart.contains(kind)) {
            assert_eq!(least(kind).bucket_of(rng(), &packet), None, "{kind}");
        }
        let own = hash.of(&packet);
        // Scaled to the number of flows (`reciprocal_scale`).
        let scaled = |flows: u64| Some((u64::from(own) * flows / (1 << 32)) as usize);
        let rest = |of: u32| Some((own % of) as usize);
        let [source, destination] = hash.ends(&packet);
        for (words, want) in [
            ("fq_codel", scaled(1_024)),
            ("fq_codel flows 2", scaled(2)),
            ("fq_codel flows 1", None),
            ("fq_pie", scaled(1_024)),
            ("fq_pie flows 2", scaled(2)),
            ("fq_pie flows 1", None),
            ("sfq", rest(1_024)),
            ("sfq divisor 16", rest(16)),
            // Which flow a packet is of changes with the hash.
            ("sfq perturb 10", None),
            ("fq", rest(1_024)),
            ("fq orphan_mask 7", rest(8)),
            ("cnq_codel_af", rest(65_536)),
            ("cake", Some(own as usize)),
            ("cake srchost", Some(source as usize)),
            ("cake dsthost", Some(destination as usize)),
            ("cake flowblind", None),
        ] {
            assert_eq!(bucket(words), want, "{words}");
        }
    }
}

#[test]
fn a_discipline_of_linux_that_is_not_here_is_refused_with_the_nearest_one() {
    for (kind, near) in [
        ("sfb", "`red`"),
        ("choke", "`red`"),
        ("gred", "`red`"),
        ("netem", "`netem delay 10ms`"),
        ("pfifo_fast", "`prio`"),
        ("mq", "`pfifo`"),
        ("noqueue", "`pfifo`"),
    ] {
        let help = QueueSpec::parse(kind).unwrap_err().help.unwrap_or_default();
        assert!(help.contains(near), "{kind}: {help}");
    }
    assert_eq!(QueueSpec::parse("fifo").unwrap_err().help, None);
}
