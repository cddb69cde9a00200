//! From the words of schedulers and shapers to disciplines.
//!
//! Numbers of attributes and structures are those of linux/pkt_sched.h (Linux v6.17).

use narrows_aqm::{fq, prio, sfq, tbf};
use narrows_units::Rate;

use super::options::Options;
use super::translate::{Discipline, us};

/// struct tc_ratespec: cell_log, linklayer (1 is Ethernet: no table of times), overhead,
/// cell_align, mpu, rate.
pub(super) fn rate_spec(bytes_per_second: u64, overhead: u16) -> Vec<u8> {
    let rate = u32::try_from(bytes_per_second).unwrap_or(u32::MAX);
    let mut bytes = vec![0, 1];
    bytes.extend(overhead.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(rate.to_ne_bytes());
    bytes
}

/// TCA_FQ_PLIMIT 1, FLOW_PLIMIT 2, QUANTUM 3, INITIAL_QUANTUM 4, RATE_ENABLE 5, FLOW_MAX_RATE 7
/// (bytes a second), BUCKETS_LOG 8, FLOW_REFILL_DELAY 9, ORPHAN_MASK 10, LOW_RATE_THRESHOLD 11,
/// CE_THRESHOLD 12, PRIOMAP 16 (struct tc_prio_qopt), WEIGHTS 17; times in µs.
pub(super) fn fq(config: &fq::FqConfig) -> Discipline {
    let usual = fq::FqConfig::default();
    let rate = |rate: Rate| u32::try_from(rate.as_bytes()).unwrap_or(u32::MAX);
    let mut options = Options::default()
        .with_u32(1, config.limit)
        .with_u32(2, config.flow_limit)
        .with_some(3, config.quantum)
        .with_some(4, config.initial_quantum)
        .with_u32(5, config.pacing.into())
        .with_some(7, config.maxrate.map(rate))
        .with_u32(8, config.buckets.ilog2())
        .with_u32(9, us(config.refill_delay))
        .with_u32(10, config.orphan_mask)
        .with_u32(11, rate(config.low_rate_threshold))
        .with_some(12, config.ce_threshold.map(us));
    // Kernels before v6.8 have no bands.
    if config.priomap != usual.priomap {
        options = options.with(16, &priorities(3, &config.priomap));
    }
    if config.weights != usual.weights {
        options = options.with(17, &Options::words(&config.weights).into_bytes());
    }
    Discipline::attributes("fq", options)
}

/// struct tc_sfq_qopt_v1: quantum, perturb_period in s, limit, divisor, flows, depth, headdrop,
/// then RED's parameters and counters, all zero. Zero is the kernel's default.
pub(super) fn sfq(config: &sfq::SfqConfig) -> Discipline {
    let words = [
        config.quantum.unwrap_or(0),
        config.perturb,
        config.limit.unwrap_or(0),
        config.divisor,
        config.flows.unwrap_or(0),
        config.depth,
        config.headdrop.into(),
    ];
    let mut options = Options::words(&words).into_bytes();
    options.resize(SFQ_OPTIONS, 0);
    Discipline::structure("sfq", Options::raw(options))
}

/// Bytes of struct tc_sfq_qopt_v1.
const SFQ_OPTIONS: usize = 72;

/// struct tc_prio_qopt.
fn priorities(bands: u8, map: &[u8; 16]) -> Vec<u8> {
    let mut bytes = Options::words(&[bands.into()]).into_bytes();
    bytes.extend(map);
    bytes
}

pub(super) fn prio(config: &prio::PrioConfig) -> Discipline {
    let options = priorities(config.bands, &config.priomap);
    Discipline::structure("prio", Options::raw(options))
}

/// `tbf` with a bfifo of `limit` bytes: TCA_TBF_PRATE64 5, TCA_TBF_PBURST 7 beside.
pub(super) fn tbf(config: &tbf::TbfConfig) -> Discipline {
    let rate = config.rate.as_bytes();
    let peak = config.peakrate.map(Rate::as_bytes);
    let limit = u32::try_from(config.limit_bytes()).unwrap_or(u32::MAX);
    // rate, peakrate, limit, buffer, mtu; what the buckets hold is said in bytes.
    let parameters = [
        rate_spec(rate, 0),
        peak.map_or_else(|| vec![0; 12], |peak| rate_spec(peak, 0)),
        Options::words(&[limit, 0, 0]).into_bytes(),
    ];
    let mut options = Options::default()
        .with(1, &parameters.concat())
        .with_u64(4, rate)
        .with_u32(6, config.burst);
    if let Some(peak) = peak {
        options = options.with_u64(5, peak);
    }
    Discipline::attributes("tbf", options.with_some(7, config.mtu))
}
