//! From an element's words to disciplines.
//!
//! Numbers of attributes and structures are those of linux/pkt_sched.h (Linux
//! v6.17); they do not change once a kernel has them.

use narrows_aqm::dualpi2::{StepThreshold, Variant};
use narrows_aqm::{QueueSpec, codel, dualpi2, fq_codel, fq_pie, pie, red};
use narrows_linux::{Qdisc, TcPlace, is_virtual_time};
use narrows_path::{DEFAULT_OVERHEAD, RateSpec};
use narrows_scenario::ElementSpec;
use narrows_units::Duration;

use super::cake;
use super::netem::netem;
use super::options::Options;
use super::schedulers::{self, rate_spec};
use super::tree::{self, Tree};

/// Bytes of the Ethernet header, which the kernel counts on a veth device.
const ETHERNET: u32 = DEFAULT_OVERHEAD;

/// How late the timer of a token bucket is at times: what the bucket has to hold beside a
/// packet to lose no capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timers {
    /// 20 to 35 µs in the middle and a millisecond at times, on a virtual machine.
    OfAMachine,
    /// In virtual time well below 10 µs, as reads of the clock cost time.
    Exact,
}

impl Timers {
    /// Those of the kernel that this is.
    pub fn here() -> Self {
        match is_virtual_time() {
            true => Self::Exact,
            false => Self::OfAMachine,
        }
    }

    /// Bytes of a bucket at this rate for frames of this size: on a machine a millisecond's
    /// worth and at least two frames. Exact timers need a frame and 10 µs' worth, so that
    /// packets leave one by one, as they do from an element.
    fn bucket(self, bytes_per_second: u64, frame: u64) -> u64 {
        match self {
            Self::OfAMachine => (bytes_per_second / 1_000).max(2 * frame),
            Self::Exact => frame + bytes_per_second / 100_000,
        }
    }
}

/// Packets that netem holds where the words set no limit: as many as come.
pub(super) const NO_LIMIT: u32 = 1_000_000;

/// A queueing discipline to put on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Discipline {
    /// As tc calls it.
    pub kind: &'static str,
    /// The value of `TCA_OPTIONS`.
    pub options: Vec<u8>,
    /// Whether that holds attributes alone.
    pub nested: bool,
    /// Where it is put: the device's own if nothing else was said.
    pub place: TcPlace,
}

impl Discipline {
    /// As the kernel is asked for it.
    pub(crate) fn as_qdisc(&self) -> Qdisc<'_> {
        Qdisc {
            kind: self.kind,
            options: &self.options,
            nested: self.nested,
        }
    }

    pub(super) fn attributes(kind: &'static str, options: Options) -> Self {
        Self {
            kind,
            options: options.into_bytes(),
            nested: true,
            place: TcPlace::ROOT,
        }
    }

    /// One that lets each packet go at the time that its sender has given it, in one line, and
    /// loses none: fq with TCA_FQ_PLIMIT 1, FLOW_PLIMIT 2, ORPHAN_MASK 10 (packets of no
    /// connection are of one flow), TIMER_SLACK 13 (in ns; 10 µs otherwise).
    pub(crate) fn releases_at_times() -> Self {
        let options = Options::default()
            .with_u32(1, NO_LIMIT)
            .with_u32(2, NO_LIMIT)
            .with_u32(10, 0)
            .with_u32(13, 0);
        Self::attributes("fq", options)
    }

    pub(super) fn structure(kind: &'static str, options: Options) -> Self {
        Self {
            kind,
            options: options.into_bytes(),
            nested: false,
            place: TcPlace::ROOT,
        }
    }
}

/// The disciplines of an element on a link with `mtu` bytes of IP, with their classes and
/// filters, in the order in which they are put on a device.
///
/// # Errors
/// What of the element the kernel has no discipline for, as the end of a
/// sentence.
pub(crate) fn translate(
    spec: &ElementSpec,
    mtu: u32,
    timers: Timers,
) -> Result<Vec<Discipline>, String> {
    match spec {
        ElementSpec::Rate(rate) => {
            let mut tree = Tree::of(bucket(rate, mtu, timers)?, mtu);
            tree.queue(&rate.queue, (1, 1))?;
            Ok(tree.into_parts())
        }
        ElementSpec::Netem(spec) => Ok(vec![netem(spec)?]),
        other @ (ElementSpec::Trace(_)
        | ElementSpec::Wifi(_)
        | ElementSpec::AccessPoint(_)
        | ElementSpec::DelayTrace(_)
        | ElementSpec::Remark(_)
        | ElementSpec::By(_)
        | ElementSpec::Police(_)
        | ElementSpec::Mtu(_)
        | ElementSpec::Mmb(_)
        | ElementSpec::Nat(_)
        | ElementSpec::Tunnel(_)
        | ElementSpec::Switch(_)
        | ElementSpec::Cell(_)
        | ElementSpec::Tap(_)) => Err(format!(
            "`{}` is no queueing discipline; `rate …` and `netem …` are",
            other.kind()
        )),
    }
}

/// `tbf` without a queue of its own: struct tc_tbf_qopt, TCA_TBF_PARMS 1,
/// TCA_TBF_RATE64 4, TCA_TBF_BURST 6.
fn bucket(spec: &RateSpec, mtu: u32, timers: Timers) -> Result<Discipline, String> {
    let extra = spec.overhead.checked_sub(ETHERNET).ok_or_else(|| {
        format!(
            "`overhead {}` is less than the {ETHERNET} bytes of Ethernet, which the kernel counts \
             in any case",
            spec.overhead
        )
    })?;
    let bytes_per_second = spec.rate.as_bits() / 8;
    if bytes_per_second == 0 {
        return Err(format!("`rate {}` is less than a byte a second", spec.rate));
    }
    let burst = timers.bucket(bytes_per_second, u64::from(mtu + spec.overhead));
    let rate = rate_spec(bytes_per_second, extra as u16);
    // rate, peakrate, limit (none: a queue is put in), buffer, mtu.
    let parameters = [&rate[..], &[0; 12], &[0; 12]].concat();
    let options = Options::default()
        .with(1, &parameters)
        .with_u64(4, bytes_per_second)
        .with_u32(6, u32::try_from(burst).unwrap_or(u32::MAX));
    Ok(Discipline::attributes("tbf", options))
}

/// A queue's own discipline, without what is in it.
pub(super) fn queue(spec: &QueueSpec, mtu: u32) -> Result<Discipline, String> {
    Ok(match spec {
        QueueSpec::Pfifo(fifo) => {
            let limit = fifo.limit.map_or(1_000, |l| l.get() as u32);
            Discipline::structure("pfifo", Options::words(&[limit]))
        }
        QueueSpec::Bfifo(fifo) => {
            let full = 1_000 * (mtu + ETHERNET);
            let limit = fifo.limit.map_or(full, |l| l.get() as u32);
            Discipline::structure("bfifo", Options::words(&[limit]))
        }
        QueueSpec::Codel(config) => codel(config),
        QueueSpec::FqCodel(config) => fq_codel(config)?,
        QueueSpec::Pie(config) => pie(config),
        QueueSpec::Red(config) => red(config)?,
        QueueSpec::DualPi2(config) => dualpi2(config)?,
        QueueSpec::Cake(config) => Discipline::attributes("cake", cake::options(config)),
        QueueSpec::FqPie(config) => fq_pie(config),
        QueueSpec::Fq(config) => schedulers::fq(config),
        QueueSpec::Sfq(config) => schedulers::sfq(config),
        QueueSpec::Prio(config) => schedulers::prio(config),
        QueueSpec::Tbf(config) => schedulers::tbf(config),
        QueueSpec::Drr(_) => Discipline::attributes("drr", Options::default()),
        QueueSpec::Htb(config) => tree::htb(config),
        other @ (QueueSpec::Bearers(_)
        | QueueSpec::CnqCodelAf(_)
        | QueueSpec::Cobalt(_)
        | QueueSpec::Pi2(_)
        | QueueSpec::DualQ(_)) => {
            let kind = other.kind();
            return Err(format!("`queue {kind}` is no queueing discipline of Linux"));
        }
    })
}

/// TCA_CODEL_TARGET 1, LIMIT 2, INTERVAL 3, ECN 4, CE_THRESHOLD 5; times in µs.
fn codel(config: &codel::CodelConfig) -> Discipline {
    let options = Options::default()
        .with_u32(1, us(config.target))
        .with_u32(2, config.limit)
        .with_u32(3, us(config.interval))
        .with_u32(4, config.ecn.into())
        .with_some(5, config.ce_threshold.map(us));
    Discipline::attributes("codel", options)
}

/// TCA_FQ_CODEL_TARGET 1, LIMIT 2, INTERVAL 3, ECN 4, FLOWS 5, QUANTUM 6,
/// CE_THRESHOLD 7, DROP_BATCH_SIZE 8, MEMORY_LIMIT 9; times in µs.
fn fq_codel(config: &fq_codel::FqCodelConfig) -> Result<Discipline, String> {
    if config.ce_threshold_selector.is_some() {
        return Err("`ce_threshold_selector` is not handed to the kernel".to_owned());
    }
    let memory = u32::try_from(config.memory_limit.get()).unwrap_or(u32::MAX);
    let options = Options::default()
        .with_u32(1, us(config.target))
        .with_u32(2, config.limit)
        .with_u32(3, us(config.interval))
        .with_u32(4, config.ecn.into())
        .with_u32(5, config.flows)
        .with_some(6, config.quantum)
        .with_some(7, config.ce_threshold.map(us))
        .with_u32(8, config.drop_batch)
        .with_u32(9, memory);
    Ok(Discipline::attributes("fq_codel", options))
}

/// TCA_PIE_TARGET 1, LIMIT 2, TUPDATE 3, ALPHA 4, BETA 5, ECN 6, BYTEMODE 7,
/// DQ_RATE_ESTIMATOR 8; times in µs.
fn pie(config: &pie::PieConfig) -> Discipline {
    let options = Options::default()
        .with_u32(1, us(config.target))
        .with_u32(2, config.limit)
        .with_u32(3, us(config.tupdate))
        .with_u32(4, config.alpha)
        .with_u32(5, config.beta)
        .with_u32(6, config.ecn.into())
        .with_u32(7, config.bytemode.into())
        .with_u32(8, config.dq_rate_estimator.into());
    Discipline::attributes("pie", options)
}

/// TCA_FQ_PIE_LIMIT 1, FLOWS 2, TARGET 3, TUPDATE 4, ALPHA 5, BETA 6, QUANTUM 7, MEMORY_LIMIT 8,
/// ECN_PROB 9, ECN 10, BYTEMODE 11, DQ_RATE_ESTIMATOR 12; times in µs.
fn fq_pie(config: &fq_pie::FqPieConfig) -> Discipline {
    let law = &config.pie;
    let memory = u32::try_from(config.memory_limit.get()).unwrap_or(u32::MAX);
    let options = Options::default()
        .with_u32(1, law.limit)
        .with_u32(2, config.flows)
        .with_u32(3, us(law.target))
        .with_u32(4, us(law.tupdate))
        .with_u32(5, law.alpha)
        .with_u32(6, law.beta)
        .with_some(7, config.quantum)
        .with_u32(8, memory)
        .with_u32(9, config.ecn_prob)
        .with_u32(10, law.ecn.into())
        .with_u32(11, law.bytemode.into())
        .with_u32(12, law.dq_rate_estimator.into());
    Discipline::attributes("fq_pie", options)
}

/// struct tc_red_qopt (limit, qth_min and qth_max in bytes, Wlog, Plog, Scell_log, flags:
/// TC_RED_ECN 1, HARDDROP 2, ADAPTATIVE 4, NODROP 8) in TCA_RED_PARMS 1, TCA_RED_STAB 2,
/// TCA_RED_MAX_P 3.
fn red(config: &red::RedConfig) -> Result<Discipline, String> {
    let derived = config
        .kernel_parameters()
        .ok_or("`queue red` has parameters that tc refuses")?;
    let flags = [
        (config.ecn, 1),
        (config.harddrop, 2),
        (config.adaptive, 4),
        (config.nodrop, 8),
    ];
    let flags = flags.iter().filter(|(on, _)| *on).map(|(_, bit)| bit).sum();
    let mut parameters = Options::words(&[config.limit, derived.min, derived.max]).into_bytes();
    parameters.extend([derived.w_log, derived.p_log, derived.cell_log, flags]);
    let options = Options::default()
        .with(1, &parameters)
        .with(2, &derived.damping)
        .with_u32(3, derived.max_p);
    Ok(Discipline::attributes("red", options))
}

/// TCA_DUALPI2_LIMIT 1, MEMORY_LIMIT 2, TARGET 3, TUPDATE 4, ALPHA 5, BETA 6
/// (Hz times 256), STEP_THRESH_PKTS 7, STEP_THRESH_US 8, MIN_QLEN_STEP 9,
/// COUPLING 10, DROP_OVERLOAD 11, DROP_EARLY 12, C_PROTECTION 13, ECN_MASK 14
/// (1 L4S, 3 any ECT), SPLIT_GSO 15; times in µs.
fn dualpi2(config: &dualpi2::DualPi2Config) -> Result<Discipline, String> {
    if config.variant != Variant::Linux {
        return Err("the kernel's dualpi2 is `variant linux`, and no other".to_owned());
    }
    let gain = |hz: f64| (hz * 256.0 + 0.5) as u32;
    let options = Options::default()
        .with_some(1, config.limit)
        .with_some(2, config.memlimit)
        .with_u32(3, us(config.target))
        .with_u32(4, us(config.tupdate))
        .with_u32(5, gain(config.alpha))
        .with_u32(6, gain(config.beta));
    let options = match config.step {
        StepThreshold::Packets(packets) => options.with_u32(7, packets),
        StepThreshold::Time(time) => options.with_u32(8, us(time)),
    };
    let options = options
        .with_u32(9, config.min_qlen_step)
        .with_u8(10, config.coupling_factor)
        .with_u8(11, config.drop_overload.into())
        .with_u8(12, config.drop_early.into())
        .with_u8(13, config.classic_protection.0)
        .with_u8(14, if config.any_ect { 3 } else { 1 })
        .with_u8(15, config.split_gso.into());
    Ok(Discipline::attributes("dualpi2", options))
}

pub(super) fn us(time: Duration) -> u32 {
    u32::try_from(time.as_nanos() / 1_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use narrows_linux::TcKind;

    use super::*;

    fn of(words: &str) -> Result<Vec<Discipline>, String> {
        translate(
            &ElementSpec::parse(words).unwrap(),
            1500,
            Timers::OfAMachine,
        )
    }

    /// The attribute `kind` among `options`.
    fn attribute(mut options: &[u8], kind: u16) -> Option<Vec<u8>> {
        while let [a, b, c, d, rest @ ..] = options {
            let length = usize::from(u16::from_ne_bytes([*a, *b])) - 4;
            if u16::from_ne_bytes([*c, *d]) == kind {
                return Some(rest[..length].to_vec());
            }
            options = &rest[length.next_multiple_of(4).min(rest.len())..];
        }
        None
    }

    fn number(discipline: &Discipline, kind: u16) -> u32 {
        let value = attribute(&discipline.options, kind).unwrap();
        u32::from_ne_bytes(value[..4].try_into().unwrap())
    }

    #[test]
    fn a_rate_is_a_bucket_of_a_millisecond_around_its_queue() {
        let all = of("rate 80Mbit queue pfifo limit 77").unwrap();
        let kinds: Vec<_> = all.iter().map(|d| d.kind).collect();
        assert_eq!(kinds, ["tbf", "pfifo"]);
        // 80 Mbit/s are 10,000 bytes in a millisecond; two frames are 3028.
        assert_eq!(number(&all[0], 6), 10_000);
        let slow = of("rate 1Mbit").unwrap();
        assert_eq!(number(&slow[0], 6), 3_028);
        let parameters = attribute(&all[0].options, 1).unwrap();
        assert_eq!(parameters.len(), 36);
        assert_eq!(parameters[8..12], 10_000_000u32.to_ne_bytes());
        assert_eq!(all[1].options, 77u32.to_ne_bytes());
        // 24 bytes of overhead are ten more than Ethernet's.
        let parameters = attribute(&of("rate 1Mbit overhead 24").unwrap()[0].options, 1).unwrap();
        assert_eq!(parameters[2..4], 10u16.to_ne_bytes());
    }

    #[test]
    fn exact_timers_let_packets_go_one_by_one() {
        let rate = ElementSpec::parse("rate 80Mbit").unwrap();
        let all = translate(&rate, 1500, Timers::Exact).unwrap();
        // A frame, and 100 bytes in 10 µs.
        assert_eq!(number(&all[0], 6), 1_614);
    }

    #[test]
    fn red_has_what_tc_derives() {
        let words = "rate 50Mbit queue red limit 400000 avpkt 1000 adaptive bandwidth 50Mbit ecn";
        let all = of(words).unwrap();
        assert_eq!(all[1].kind, "red");
        let parameters = attribute(&all[1].options, 1).unwrap();
        // max is a quarter of the limit, min a third of that, the burst 55 packets:
        // W = 2^-5; 0.02/66667 times 2^22 exceeds 1; ECN and adaptive are 1 and 4.
        let words = |at: usize| u32::from_ne_bytes(parameters[at..at + 4].try_into().unwrap());
        assert_eq!([0, 4, 8].map(words), [400_000, 33_333, 100_000]);
        assert_eq!(parameters[12..14], [5, 22]);
        assert_eq!(parameters[15], 5);
        assert_eq!(attribute(&all[1].options, 2).unwrap().len(), 256);
        // 2 % of 2^32.
        assert_eq!(number(&all[1], 3), 85_899_345);
    }

    #[test]
    fn an_aqms_parameters_are_in_the_kernels_units() {
        let all = of("rate 50Mbit queue fq_codel target 1ms interval 20ms flows 16").unwrap();
        assert_eq!(all[1].kind, "fq_codel");
        assert_eq!([1, 3, 5].map(|k| number(&all[1], k)), [1_000, 20_000, 16]);
        let all = of("rate 50Mbit queue dualpi2").unwrap();
        // Linux's own defaults: 15 ms, 16 ms, 41 and 819 of 256 Hz, 1 ms.
        assert_eq!(
            [3, 4, 5, 6, 8].map(|k| number(&all[1], k)),
            [15_000, 16_000, 41, 819, 1_000]
        );
        let all = of("rate 50Mbit queue pie limit 100 target 5ms ecn").unwrap();
        assert_eq!([1, 2, 6].map(|k| number(&all[1], k)), [5_000, 100, 1]);
    }

    #[test]
    fn cake_has_its_modes_and_its_framing() {
        let all = of(
            "rate 50Mbit queue cake bandwidth 20mbit diffserv4 dual-srchost lan ingress \
                      ack-filter pppoe-ptm overhead -4 mpu 64 memlimit 1mb",
        )
        .unwrap();
        assert_eq!(all[1].kind, "cake");
        let rate = attribute(&all[1].options, 2).unwrap();
        assert_eq!(rate, 2_500_000u64.to_ne_bytes());
        // diffserv4, PTM, dual-srchost, RTT and target in µs, memory, ingress, filter.
        let kinds = [3, 4, 5, 7, 8, 10, 11, 13, 14, 15, 16, 17];
        let want = [1, 2, 5, 1_000, 50, 1 << 20, 0, 0, 64, 1, 1, 1];
        assert_eq!(kinds.map(|k| number(&all[1], k)), want);
        assert_eq!(number(&all[1], 6), (-4i32) as u32);
        assert_eq!(attribute(&all[1].options, 12), None);
        // Without overhead the kernel counts what it has; with `raw` that and more.
        let plain = of("rate 50Mbit queue cake").unwrap();
        assert_eq!(attribute(&plain[1].options, 6), None);
        let raw = of("rate 50Mbit queue cake raw ether-vlan").unwrap();
        assert_eq!([6, 12].map(|k| number(&raw[1], k)), [4, 0]);
    }

    #[test]
    fn a_queue_that_has_pie_inside_hands_over_its_law() {
        let all = of("rate 50Mbit queue fq_pie limit 77 target 5ms ecn_prob 20 ecn").unwrap();
        assert_eq!(all[1].kind, "fq_pie");
        assert_eq!(
            [1, 3, 9, 10].map(|k| number(&all[1], k)),
            [77, 5_000, 20, 1]
        );
        assert_eq!(attribute(&all[1].options, 7), None);
    }

    #[test]
    fn schedulers_have_their_structures() {
        let queue = |words: &str| of(&format!("rate 50Mbit queue {words}")).unwrap().remove(1);
        let sfq = queue("sfq perturb 10 limit 50 headdrop");
        assert_eq!(
            (sfq.kind, sfq.options.len(), sfq.nested),
            ("sfq", 72, false)
        );
        let word = |at: usize| u32::from_ne_bytes(sfq.options[at..at + 4].try_into().unwrap());
        assert_eq!(
            [0, 4, 8, 12, 16, 20, 24].map(word),
            [0, 10, 50, 1_024, 0, 127, 1]
        );
        let prio = queue("prio bands 2 priomap 0 1 1 1 1 1");
        assert_eq!(prio.options[..4], 2u32.to_ne_bytes());
        assert_eq!(
            prio.options[4..],
            [0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]
        );
        let fq = queue("fq maxrate 8Mbit buckets 2000 weights 16384 16384 20000");
        assert_eq!(
            [1, 7, 8, 11].map(|k| number(&fq, k)),
            [10_000, 1_000_000, 10, 68_750]
        );
        assert_eq!(attribute(&fq.options, 17).unwrap().len(), 12);
        assert_eq!(attribute(&fq.options, 16), None);
        let tbf = queue("tbf rate 8Mbit burst 3000 latency 1ms peakrate 9Mbit mtu 1514");
        assert_eq!([6, 7].map(|k| number(&tbf, k)), [3_000, 1_514]);
        // 1125 bytes in a millisecond at the peak rate and 1514.
        let parameters = attribute(&tbf.options, 1).unwrap();
        assert_eq!(parameters[24..28], 2_639u32.to_ne_bytes());
    }

    #[test]
    fn what_is_in_a_queue_is_put_behind_it_with_its_classes_and_filters() {
        let places = |words: &str| {
            let all = of(&format!("rate 50Mbit queue {words}")).unwrap();
            let each = all.iter().skip(1).map(|part| {
                let TcPlace { kind, parent, id } = part.place;
                let kind = match kind {
                    TcKind::Queue => "qdisc".to_owned(),
                    TcKind::Class => "class".to_owned(),
                    TcKind::Filter { priority, protocol } => format!("{priority} {protocol:#06x}"),
                };
                format!("{} {kind} {parent:?} {id:?}", part.kind)
            });
            each.collect::<Vec<_>>()
        };
        assert_eq!(
            places("prio band 1 queue (tbf rate 1Mbit burst 2000 limit 9000 queue (codel))"),
            [
                "prio qdisc (1, 1) (2, 0)",
                "tbf qdisc (2, 2) (3, 0)",
                "codel qdisc (3, 1) (4, 0)"
            ]
        );
        assert_eq!(
            places("drr class ll dscp 46 quantum 3000 class rest"),
            [
                "drr qdisc (1, 1) (2, 0)",
                "drr class (2, 0) (2, 1)",
                "pfifo qdisc (2, 1) (3, 0)",
                "u32 1 0x0800 (2, 0) (0, 0)",
                "u32 2 0x86dd (2, 0) (0, 0)",
                "drr class (2, 0) (2, 2)",
                "pfifo qdisc (2, 2) (4, 0)",
                "matchall 3 0x0003 (2, 0) (0, 0)"
            ]
        );
        let tree = "htb class web parent all rate 1Mbit ceil 2Mbit class all rate 2Mbit";
        assert_eq!(
            places(tree),
            [
                "htb qdisc (1, 1) (2, 0)",
                "htb class (2, 0) (2, 2)",
                "htb class (2, 2) (2, 1)",
                "pfifo qdisc (2, 1) (3, 0)"
            ]
        );
    }

    #[test]
    fn a_class_has_its_rates_and_a_filter_its_code_point() {
        let all = of(
            "rate 50Mbit queue htb class voice rate 8Mbit burst 4000 prio 2 dscp 46 \
                      class rest rate 8Mbit",
        )
        .unwrap();
        // tc_htb_glob: what no filter takes goes to the second class.
        let global = attribute(&all[1].options, 2).unwrap();
        assert_eq!(global[8..12], 2u32.to_ne_bytes());
        let class = attribute(&all[2].options, 1).unwrap();
        let word = |at: usize| u32::from_ne_bytes(class[at..at + 4].try_into().unwrap());
        // 4000 bytes at a megabyte a second, in ticks of 64 ns; the same rate as ceil.
        assert_eq!([8, 20, 24, 40].map(word), [1_000_000, 1_000_000, 62_500, 2]);
        let filter = all.iter().find(|part| part.kind == "u32").unwrap();
        assert_eq!(number(filter, 1), 2 << 16 | 1);
        let key = attribute(&filter.options, 5).unwrap();
        assert_eq!(key[16..24], [0, 0xfc, 0, 0, 0, 46 << 2, 0, 0]);
    }

    #[test]
    fn netem_has_its_delay_in_nanoseconds_and_its_loss_as_a_part_of_all_words() {
        let all = of("netem delay 10ms loss 50%").unwrap();
        assert_eq!(all[0].kind, "netem");
        let (fixed, rest) = all[0].options.split_at(24);
        assert_eq!(fixed[8..12], (1u32 << 31).to_ne_bytes());
        assert_eq!(attribute(rest, 10).unwrap(), 10_000_000u64.to_ne_bytes());
    }

    #[test]
    fn what_the_kernel_has_not_is_named() {
        for (words, named) in [
            ("tap mid", "`tap`"),
            ("remark dscp 0", "`remark`"),
            ("rate 1Mbit overhead 0", "overhead 0"),
            ("rate 1Mbit queue dualpi2 variant rfc9332", "variant linux"),
            ("rate 1Mbit queue cnq_codel_af", "cnq_codel_af"),
            ("rate 1Mbit queue cobalt", "cobalt"),
            ("rate 1Mbit queue drr class a queue (cobalt)", "cobalt"),
            ("rate 1Mbit queue prio band 0 queue (pi2)", "pi2"),
            ("rate 1Mbit queue pi2", "pi2"),
            ("rate 1Mbit queue dualq", "dualq"),
            ("netem delay 10ms 1ms distribution normal", "distribution"),
        ] {
            let why = of(words).unwrap_err();
            assert!(why.contains(named), "{words}: {why}");
        }
    }
}
