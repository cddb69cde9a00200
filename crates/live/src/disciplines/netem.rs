//! `netem` in the structures of linux/pkt_sched.h (Linux v6.17).

use narrows_path::netem::{Distribution, LossSpec};
use narrows_path::{NetemSpec, Percent};

use super::options::Options;
use super::translate::{Discipline, NO_LIMIT};

/// struct tc_netem_qopt (latency and jitter in ticks, which LATENCY64 and
/// JITTER64 replace by ns; limit; loss; gap; duplicate), TCA_NETEM_CORR 1,
/// REORDER 3, CORRUPT 4, LOSS 5 (NETEM_LOSS_GE 2), ECN 7, LATENCY64 10, JITTER64 11.
pub(super) fn netem(spec: &NetemSpec) -> Result<Discipline, String> {
    let refused = [
        (spec.slot.is_some(), "slot"),
        (spec.ordered, "ordered"),
        (
            !spec.jitter.is_zero() && spec.distribution != Distribution::Uniform,
            "distribution",
        ),
        (
            matches!(spec.loss, LossSpec::FourState { .. }),
            "loss state",
        ),
    ];
    if let Some((_, word)) = refused.iter().find(|(there, _)| *there) {
        return Err(format!("`netem … {word}` is not handed to the kernel"));
    }
    let (loss, loss_correlation) = match spec.loss {
        LossSpec::Random {
            chance,
            correlation,
        } => (word(chance), word(correlation)),
        _ => (0, 0),
    };
    let mut options = Options::words(&[
        0,
        spec.limit.unwrap_or(NO_LIMIT),
        loss,
        spec.gap,
        word(spec.duplicate),
        0,
    ])
    .with(
        1,
        &Options::words(&[
            word(spec.delay_correlation),
            loss_correlation,
            word(spec.duplicate_correlation),
        ])
        .into_bytes(),
    )
    .with_u64(10, spec.delay.as_nanos())
    .with_u64(11, spec.jitter.as_nanos());
    if !spec.reorder.is_zero() {
        let reorder = Options::words(&[word(spec.reorder), word(spec.reorder_correlation)]);
        options = options.with(3, &reorder.into_bytes());
    }
    if !spec.corrupt.is_zero() {
        let corrupt = Options::words(&[word(spec.corrupt), word(spec.corrupt_correlation)]);
        options = options.with(4, &corrupt.into_bytes());
    }
    if let LossSpec::GilbertElliott {
        p,
        r,
        bad_loss,
        good_loss,
    } = spec.loss
    {
        // struct tc_netem_gemodel: p, r, h (what passes in the bad state), k1.
        let model = [
            word(p),
            word(r),
            word(bad_loss.complement()),
            word(good_loss),
        ];
        let model = Options::words(&model).into_bytes();
        options = options.with(5, &Options::default().with(2, &model).into_bytes());
    }
    if spec.ecn {
        options = options.with_u32(7, 1);
    }
    Ok(Discipline::structure("netem", options))
}

/// A probability as a part of 2³².
fn word(percent: Percent) -> u32 {
    u32::try_from(percent.threshold()).unwrap_or(u32::MAX)
}
