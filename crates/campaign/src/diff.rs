//! Two results side by side.

use std::collections::BTreeMap;

use narrows_results::folder::{Results, RunRecord};
use narrows_results::metric::metrics;
use narrows_results::text::{Align, TextTable, number};
use narrows_results::{Error, VirtualKernel};
use serde::{Deserialize, Serialize};

/// Where two results differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Diff {
    /// What the first is called.
    pub a: String,
    /// What the second is called.
    pub b: String,
    /// What each of them was made with, the first one first.
    #[serde(default)]
    pub made: [Made; 2],
    /// Whether all data files are the same, byte for byte.
    pub identical: bool,
    /// One per number that either has, in the first one's order.
    pub rows: Vec<DiffRow>,
}

/// One number of two results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiffRow {
    /// `goodput_mbit of flow/prague`; of a campaign with the cell before it.
    pub metric: String,
    /// In the first.
    pub a: Option<f64>,
    /// In the second.
    pub b: Option<f64>,
    /// Second less first.
    pub difference: Option<f64>,
    /// The difference in percent of the first.
    pub percent: Option<f64>,
    /// How far runs of one side are apart among themselves, the larger of the two;
    /// `None` where that is not known.
    #[serde(default)]
    pub spread: Option<f64>,
    /// Whether the two are further apart than that; `None` where it is not known,
    /// or only one side has the number.
    #[serde(default)]
    pub differs: Option<bool>,
}

/// What made a result, and whether it can be trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// `sim` or `live`.
    pub engine: String,
    /// Narrows' version with its commit.
    pub version: String,
    /// Kernel release of the machine, or of the kernel in virtual time that ran.
    pub kernel: String,
    /// The kernel in virtual time, where one ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_kernel: Option<VirtualKernel>,
    /// How many runs a number is the median of.
    pub runs: usize,
    /// `trust: yes`, or why not.
    pub trust: String,
}

impl Made {
    fn of(record: &RunRecord) -> Self {
        Self {
            engine: record.engine.clone(),
            version: record.version(),
            kernel: record.kernel.clone(),
            virtual_kernel: record.virtual_kernel.clone(),
            runs: record.seeds.len(),
            trust: record.verdict.line(),
        }
    }

    /// Whether another run of the same would give other numbers, and how far they
    /// would be apart is not known.
    fn varies_unknown(&self) -> bool {
        self.engine != "sim" && self.runs < 2
    }

    fn line(&self) -> String {
        let kernel = match (self.engine.as_str(), &self.virtual_kernel) {
            ("sim", _) => String::new(),
            (_, Some(kernel)) => format!(" on {}", kernel.line()),
            (_, None) => format!(" on Linux {}", self.kernel),
        };
        let runs = match self.runs {
            0 | 1 => String::new(),
            n => format!(", medians of {n}"),
        };
        format!(
            "{}{kernel}, narrows {}{runs}, {}",
            self.engine, self.version, self.trust
        )
    }
}

/// Compares two runs, or two campaigns.
///
/// # Errors
/// When they are not of a kind, or comparisons, which hold two sides each.
pub fn diff(a: &Results, b: &Results) -> Result<Diff, Error> {
    let (record_a, record_b) = (a.record(), b.record());
    let (left, right) = match (a, b) {
        (Results::Run(a), Results::Run(b)) => (numbers_of_run(a), numbers_of_run(b)),
        (Results::Campaign(a), Results::Campaign(b)) => {
            (numbers_of_campaign(a), numbers_of_campaign(b))
        }
        _ => {
            return Err(Error::Refused(
                "only two runs or two campaigns can be compared; name two of a kind".to_owned(),
            ));
        }
    };
    let by_name = |numbers: &[Number]| -> BTreeMap<String, Number> {
        let named = numbers.iter().map(|n| (n.name.clone(), n.clone()));
        named.collect()
    };
    let (in_a, in_b) = (by_name(&left), by_name(&right));
    let made = [Made::of(record_a), Made::of(record_b)];
    let unknown = made.iter().any(Made::varies_unknown);
    let only_b = right.iter().filter(|n| !in_a.contains_key(&n.name));
    let rows = left
        .iter()
        .chain(only_b)
        .map(|n| row(&n.name, in_a.get(&n.name), in_b.get(&n.name), unknown))
        .collect();
    Ok(Diff {
        a: record_a.title(),
        b: record_b.title(),
        made,
        identical: !record_a.digest.is_empty() && record_a.digest == record_b.digest,
        rows,
    })
}

/// A number of one side.
#[derive(Clone)]
struct Number {
    name: String,
    value: f64,
    /// How far its runs are apart.
    spread: f64,
}

fn row(metric: &str, a: Option<&Number>, b: Option<&Number>, unknown: bool) -> DiffRow {
    let both = a.zip(b);
    let difference = both.map(|(a, b)| b.value - a.value);
    let spread = both
        .filter(|_| !unknown)
        .map(|(a, b)| a.spread.max(b.spread));
    DiffRow {
        metric: metric.to_owned(),
        a: a.map(|a| a.value),
        b: b.map(|b| b.value),
        difference,
        percent: both
            .filter(|(a, _)| a.value != 0.0)
            .map(|(a, b)| 100.0 * (b.value - a.value) / a.value.abs()),
        spread,
        differs: difference.zip(spread).map(|(d, spread)| d.abs() > spread),
    }
}

fn numbers_of_run(run: &narrows_results::RunResult) -> Vec<Number> {
    metrics(&run.summary)
        .into_iter()
        .map(|m| Number {
            name: m.key(),
            value: m.value,
            spread: 0.0,
        })
        .collect()
}

fn numbers_of_campaign(campaign: &narrows_results::folder::CampaignFolder) -> Vec<Number> {
    let mut numbers = Vec::new();
    for cell in &campaign.result.cells {
        for m in &cell.metrics {
            if let Some(value) = m.measured {
                numbers.push(Number {
                    name: format!("{}: {}", cell.name, m.metric),
                    value,
                    spread: m.spread,
                });
            }
        }
    }
    numbers
}

impl Diff {
    /// The rows whose numbers are not the same.
    pub fn changed(&self) -> impl Iterator<Item = &DiffRow> {
        self.rows.iter().filter(|r| r.a != r.b)
    }

    /// The table of what differs, below what is compared with what.
    pub fn table(&self) -> String {
        let side =
            |name: &str, title: &str, made: &Made| format!("{name}: {title}\n   {}\n", made.line());
        let [made_a, made_b] = &self.made;
        let mut head = side("A", &self.a, made_a) + &side("B", &self.b, made_b);
        if let (Some(a), Some(b)) = (&made_a.virtual_kernel, &made_b.virtual_kernel) {
            let apart = a.differs_in(b);
            if !apart.is_empty() {
                head += &format!("the kernels differ in: {}\n", apart.join(", "));
            }
        }
        head += "\n";
        if self.identical {
            return head + "identical, byte for byte\n";
        }
        let spreads = self.rows.iter().any(|r| r.spread.is_some_and(|s| s > 0.0));
        let mut columns = vec![
            ("metric", Align::Left),
            ("A", Align::Right),
            ("B", Align::Right),
            ("difference", Align::Right),
            ("percent", Align::Right),
        ];
        if spreads {
            columns.extend([("spread", Align::Right), ("verdict", Align::Left)]);
        }
        let mut table = TextTable::new(&columns);
        for r in self.changed() {
            let mut row = vec![
                r.metric.clone(),
                number(r.a),
                number(r.b),
                number(r.difference),
                r.percent.map_or("-".to_owned(), |p| format!("{p:+.1}")),
            ];
            if spreads {
                let verdict = match r.differs {
                    Some(true) => "differs",
                    Some(false) => "within the spread",
                    None => "",
                };
                row.extend([number(r.spread), verdict.to_owned()]);
            }
            table.row(row);
        }
        let same = self.rows.len() - self.changed().count();
        if table.is_empty() {
            return format!("{head}all {same} numbers are the same\n");
        }
        let mut text = format!("{head}{}\n", table.render());
        if self
            .rows
            .iter()
            .any(|r| r.differs.is_none() && r.difference.is_some())
        {
            text.push_str(
                "Two live runs of one scenario are never the same, and from one run of it nobody knows \
                 how far they are apart: none of this is called a difference. `narrows compare`, or \
                 `narrows campaign --seeds 5`, measures the spread.\n",
            );
        }
        text + &format!("{same} more numbers are the same\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_results::campaign::{CampaignResult, CellResult, MetricResult};
    use narrows_results::folder::{CampaignFolder, RunResult};
    use narrows_results::summary::FlowSummary;
    use narrows_results::verdict::{Finding, Weight};

    fn on(engine: &str, goodput: f64) -> Results {
        let mut run = RunResult::default();
        run.record.narrows = "0.1.0".to_owned();
        run.record.verdict.findings.push(Finding {
            weight: Weight::Note,
            check: "ecn".to_owned(),
            entity: "flow/cubic".to_owned(),
            line: "flow/cubic did not negotiate what it asked for".to_owned(),
        });
        run.summary.flows.push(FlowSummary {
            name: "flow/prague".to_owned(),
            ..FlowSummary::default()
        });
        run.record.engine = engine.to_owned();
        run.record.kernel = "6.18.44".to_owned();
        run.record.commit = Some("0123456789ab".to_owned());
        run.record.digest = format!("{goodput}");
        run.summary.flows[0].goodput_mbit = Some(goodput);
        Results::Run(Box::new(run))
    }

    fn goodput(diff: &Diff) -> &DiffRow {
        let mut rows = diff.rows.iter();
        rows.find(|r| r.metric == "goodput_mbit of flow/prague")
            .unwrap()
    }

    #[test]
    fn what_is_compared_stands_first_with_engine_version_and_verdict() {
        let mut doubted = on("live", 30.0);
        if let Results::Run(run) = &mut doubted {
            run.record.verdict.findings[0].weight = Weight::Distrust;
        }
        let text = diff(&on("sim", 31.0), &doubted).unwrap().table();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "   sim, narrows 0.1.0 (0123456789ab), trust: yes");
        assert!(
            lines[3].starts_with(
                "   live on Linux 6.18.44, narrows 0.1.0 (0123456789ab), trust: no, because flow/cubic"
            ),
            "{}",
            lines[3]
        );
        let same = diff(&on("sim", 31.0), &on("sim", 31.0)).unwrap().table();
        assert!(same.contains("   sim, narrows") && same.contains("identical"));
    }

    #[test]
    fn kernels_of_one_release_are_told_apart_by_what_they_were_made_from() {
        let of = |id: &str, source: &str| {
            let mut result = on("kernel", 31.0);
            if let Results::Run(run) = &mut result {
                run.record.virtual_kernel = Some(VirtualKernel {
                    id: id.to_owned(),
                    release: "7.3.4".to_owned(),
                    source: source.to_owned(),
                    compiler: "gcc 12".to_owned(),
                    ..VirtualKernel::default()
                });
            }
            result
        };
        let debian = of("7.3.4-aaaa", "linux-source-7.3 7.3.4-1");
        let edited = of("7.3.4-bbbb", "/src/net-next");
        let text = diff(&debian, &edited).unwrap().table();
        assert!(
            text.contains("kernel on 7.3.4-aaaa (linux-source-7.3 7.3.4-1), "),
            "{text}"
        );
        assert!(
            text.contains("kernel on 7.3.4-bbbb (/src/net-next), "),
            "{text}"
        );
        assert!(text.contains("the kernels differ in: source\n"), "{text}");
        assert!(
            !diff(&debian, &debian)
                .unwrap()
                .table()
                .contains("the kernels differ")
        );
    }

    #[test]
    fn one_live_run_has_no_spread_and_differs_from_nothing() {
        for other in ["sim", "live"] {
            let found = diff(&on(other, 31.0), &on("live", 30.0)).unwrap();
            assert_eq!(goodput(&found).differs, None);
            assert!(
                found
                    .table()
                    .contains("none of this is called a difference")
            );
        }
        let found = diff(&on("sim", 31.0), &on("sim", 30.0)).unwrap();
        assert_eq!(goodput(&found).differs, Some(true));
        assert!(!found.table().contains("none of this"));
    }

    #[test]
    fn campaigns_differ_where_medians_are_further_apart_than_runs_of_a_side() {
        let of = |measured: f64, spread: f64, engine: &str| {
            let mut folder = CampaignFolder::default();
            folder.record.engine = engine.to_owned();
            folder.record.seeds = vec![1, 2, 3];
            folder.result = CampaignResult {
                cells: vec![CellResult {
                    metrics: vec![MetricResult {
                        metric: "x".to_owned(),
                        measured: Some(measured),
                        spread,
                        ..MetricResult::default()
                    }],
                    ..CellResult::default()
                }],
                ..CampaignResult::default()
            };
            Results::Campaign(Box::new(folder))
        };
        let differs = |a: &Results, b: &Results| diff(a, b).unwrap().rows[0].differs;
        let sim = of(10.0, 0.1, "sim");
        assert_eq!(differs(&sim, &of(11.0, 2.0, "live")), Some(false));
        assert_eq!(differs(&sim, &of(13.0, 2.0, "live")), Some(true));
        let text = diff(&sim, &of(11.0, 2.0, "live")).unwrap().table();
        assert!(text.contains("within the spread") && text.contains("medians of 3"));
    }
}
