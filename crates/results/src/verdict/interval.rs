//! Series that are coarser than the scenario asks.

use narrows_scenario::Plan;
use narrows_units::Duration;

use super::{Finding, Verdict, Weight};

/// Notes in `verdict` that series have one value in each `interval`, where that is longer than
/// the sampling interval of `plan`.
pub fn note_interval(plan: &Plan, interval: Duration, verdict: &mut Verdict) {
    if interval <= plan.sample_interval {
        return;
    }
    verdict.findings.push(Finding {
        weight: Weight::Note,
        check: "coarse-series".to_owned(),
        entity: "run".to_owned(),
        line: format!(
            "series have a value every {interval} in place of every {}, so that those of a run this \
             long, or of this many flows, have a bound; tables and distributions are not concerned",
            plan.sample_interval
        ),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series;
    use narrows_scenario::Draft;

    #[test]
    fn a_sampling_interval_that_was_lengthened_is_said() {
        let verdict = |duration: &str| {
            let link = ["netem delay 5ms".to_owned(), "rate 1bit".to_owned()];
            let mut draft = Draft::from_words(&link, &["cubic".to_owned()]).unwrap();
            draft.set(&format!("duration={duration}")).unwrap();
            let plan = draft.check().unwrap();
            let mut verdict = Verdict::default();
            note_interval(&plan, series::interval(&plan), &mut verdict);
            verdict
        };
        assert_eq!(verdict("60s"), Verdict::default());
        let long = verdict("720h");
        assert!(long.trusted());
        let line = &long.findings[0].line;
        assert!(line.contains("in place of every 50ms"), "{line}");
    }
}
