//! Metrics of a campaign against its axes: published figures as points with
//! their tolerance, measured ones as medians with the spread over the seeds.

use narrows_results::campaign::{CampaignResult, CellResult, FigureResult, MetricResult, numbers};
use narrows_scenario::Glob;

use super::chart::{Axis, Chart, Curve, Range, Shape};
use super::choice::values_of;
use super::palette;

/// The distance of a published mark and a measured one from the place of both, in
/// places.
const BESIDE: f64 = 0.025;

/// From this factor between its ends on an axis of numbers is logarithmic.
const LOG_FROM: f64 = 20.0;

/// The drawings of a figure, one for each combination of its panels' values that
/// has cells; all have the same stretch of the y axis.
pub fn charts(campaign: &CampaignResult, figure: &FigureResult) -> Vec<Chart> {
    let place = |name: &str| campaign.axes.iter().position(|a| a.name == name);
    let places = |names: &[String]| names.iter().filter_map(|n| place(n)).collect::<Vec<_>>();
    let Some(x) = place(&figure.x) else {
        return Vec::new();
    };
    let (by, panels) = (places(&figure.by), places(&figure.panels));
    let glob = figure.cells.as_deref().and_then(|p| Glob::parse(p).ok());
    let fits = |cell: &&CellResult| glob.as_ref().is_none_or(|g| g.matches(&cell.name));
    let cells: Vec<&CellResult> = campaign.cells.iter().filter(fits).collect();
    let at = |cell: &CellResult, places: &[usize]| -> Vec<String> {
        places
            .iter()
            .filter_map(|p| cell.at.get(*p).cloned())
            .collect()
    };
    let mut kinds: Vec<Vec<String>> = Vec::new();
    let mut lines: Vec<Vec<String>> = Vec::new();
    for cell in &cells {
        for (seen, places) in [(&mut kinds, &panels), (&mut lines, &by)] {
            let values = at(cell, places);
            if !seen.contains(&values) {
                seen.push(values);
            }
        }
    }
    let sweep = Sweep {
        campaign,
        figure,
        x,
        values: values_of(campaign, x, &cells),
    };
    let mut charts: Vec<Chart> = kinds
        .iter()
        .filter_map(|kind| {
            let mut curves = Vec::new();
            for (m, metric) in figure.metrics.iter().enumerate() {
                for (l, line) in lines.iter().enumerate() {
                    let mine = cells.iter().filter(|c| at(c, &panels) == *kind);
                    let mine: Vec<_> = mine.filter(|c| at(c, &by) == *line).copied().collect();
                    let of = (m * lines.len() + l, figure.metrics.len() * lines.len());
                    curves.extend(sweep.curves(metric, line, &mine, of));
                }
            }
            // Measured lines lie over published marks.
            curves.sort_by_key(|c: &Curve| !c.published);
            let chart = sweep.chart(kind, curves);
            (!chart.is_empty()).then_some(chart)
        })
        .collect();
    same_height(&mut charts);
    charts
}

/// A figure under way.
struct Sweep<'a> {
    campaign: &'a CampaignResult,
    figure: &'a FigureResult,
    /// The axis across.
    x: usize,
    /// Its values that occur.
    values: Vec<String>,
}

impl Sweep<'_> {
    /// The place of a value of the axis across, as line `of.0` of `of.1`: beside
    /// each other where values are names.
    fn place(&self, value: &str, of: (usize, usize)) -> Option<f64> {
        /// Part of the room of a name over which its lines spread.
        const SPREAD: f64 = 0.5;
        let place = self.values.iter().position(|v| v == value)?;
        Some(match numbers(&self.values) {
            Some((numbers, _)) => numbers[place],
            None => {
                let middle = (of.1 as f64 - 1.0) / 2.0;
                place as f64 + (of.0 as f64 - middle) * SPREAD / of.1 as f64
            }
        })
    }

    /// One metric of the cells of one line, published and measured.
    fn curves(
        &self,
        metric: &str,
        line: &[String],
        cells: &[&CellResult],
        of: (usize, usize),
    ) -> Vec<Curve> {
        let mut found: Vec<(f64, &CellResult, &MetricResult)> = cells
            .iter()
            .filter_map(|cell| {
                let at = self.place(cell.at.get(self.x)?, of)?;
                Some((at, *cell, cell.metric(metric)?))
            })
            .collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut words = line.to_vec();
        if self.figure.metrics.len() > 1 || line.is_empty() {
            words.insert(0, self.campaign.title_of(metric).title);
        }
        let curve = |published: bool| {
            let name = words.join(", ");
            let mut curve = Curve::new(name, Vec::new());
            (curve.published, curve.colour) = (published, Some(of.0 % palette::FLOWS));
            curve
        };
        // Where places are names, there is room for one beside the other.
        let beside = match numbers(&self.values) {
            Some(_) => 0.0,
            None => BESIDE,
        };
        let (mut known, mut measured) = (curve(true), curve(false));
        for (at, cell, m) in found {
            if let Some(value) = m.published {
                known.points.push([at - beside, value]);
                known.spans.push(m.band.unwrap_or((value, value)));
                known.labels.push(cell.name.clone());
            }
            let value = m.measured.unwrap_or(f64::NAN);
            measured.points.push([at + beside, value]);
            measured.spans.push(m.range().unwrap_or((value, value)));
            measured.labels.push(cell.name.clone());
        }
        let drawn = |c: &Curve| c.points.iter().any(|p| p[1].is_finite());
        [known, measured].into_iter().filter(drawn).collect()
    }

    fn chart(&self, kind: &[String], curves: Vec<Curve>) -> Chart {
        let titles = self.figure.metrics.iter();
        let titles: Vec<_> = titles.map(|m| self.campaign.title_of(m)).collect();
        let first = titles.first().cloned().unwrap_or_default();
        let titles: Vec<&str> = titles.iter().map(|t| t.title.as_str()).collect();
        let about = self.figure.title.clone();
        let about = about.unwrap_or_else(|| titles.join(", "));
        let name = &self.figure.x;
        let (x, shape) = match numbers(&self.values) {
            Some((values, unit)) => {
                let mut axis = Axis::of(name, unit).over(across(&values));
                axis.ticks = values;
                axis.ticks.sort_by(f64::total_cmp);
                (axis, Shape::Sweep)
            }
            None => (Axis::of_places(name, self.values.clone()), Shape::Dots),
        };
        let y = match self.figure.metrics.len() {
            1 => Axis::of(&first.title, &first.unit),
            // Their names are in the legend.
            _ => Axis::of(&common(&titles), &first.unit),
        };
        let mut id = format!("{}-over-{name}", self.figure.metrics.join("+"));
        let mut title = about.clone();
        if !kind.is_empty() {
            id = format!("{id}-{}", kind.join("-"));
            title = format!("{about}: {}", kind.join(", "));
        }
        let has_published = curves.iter().any(|c| c.published);
        let sentence = format!(
            "{title}, against {name}: {} for each of {} series{}.",
            if shape == Shape::Dots {
                "marks"
            } else {
                "a line"
            },
            curves.iter().filter(|c| !c.published).count(),
            match has_published {
                true => ", published figures as marks with their tolerance",
                false => "",
            }
        );
        Chart::curves(
            &narrows_results::folder::file_name(&id),
            &title,
            x,
            y,
            shape,
            curves,
        )
        .describe(sentence)
    }
}

/// What several metrics have in common: the words with which all titles begin, or end where
/// those are more (`CQI 15: share`, `CQI 4: share`).
fn common(titles: &[&str]) -> String {
    let words: Vec<Vec<&str>> = titles.iter().map(|t| t.split(' ').collect()).collect();
    let first = words.first().map_or(&[][..], Vec::as_slice);
    let begin = |n: &usize| words.iter().all(|w| w.get(*n) == first.get(*n));
    let end = |n: &usize| {
        words
            .iter()
            .all(|w| w.iter().rev().nth(*n) == first.iter().rev().nth(*n))
    };
    let begins = (0..first.len()).take_while(begin).count();
    let ends = (0..first.len()).take_while(end).count();
    let shared = match ends > begins {
        true => &first[first.len() - ends..],
        false => &first[..begins],
    };
    match shared.is_empty() {
        true => "value".to_owned(),
        false => shared.join(" ").trim_end_matches([',', ':']).to_owned(),
    }
}

/// The stretch of an axis of numbers, with room at both ends.
fn across(values: &[f64]) -> Range {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if low > 0.0 && high / low >= LOG_FROM {
        let room = libm::pow(high / low, 0.04);
        return Range::LogFixed(low / room, high * room);
    }
    let room = match high > low {
        true => (high - low) * 0.04,
        false => 1.0,
    };
    Range::Fixed(low - room, high + room)
}

/// Gives all charts one stretch of the y axis: from zero, unless the values lie far
/// from it and their differences are worth being seen.
fn same_height(charts: &mut [Chart]) {
    /// Part of the largest value below which differences are not enlarged.
    const SMALL: f64 = 0.1;
    /// Room above the largest value, for its mark.
    const HEAD: f64 = 0.06;
    for chart in charts.iter_mut() {
        chart.y.range = Range::Data;
    }
    let ranges = charts.iter().map(Chart::y_range);
    let (low, high) = ranges.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), (a, b)| {
        (l.min(a), h.max(b))
    });
    let apart = high - low;
    let range = match low > 0.5 * high && apart > SMALL * high {
        true => Range::Fixed(low - 0.1 * apart, high + HEAD * apart),
        false => {
            let (low, high) = (low.min(0.0), high.max(0.0));
            Range::Fixed(low, high + HEAD * (high - low))
        }
    };
    for chart in charts {
        chart.y.range = range;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::samples;
    use crate::plot::chart::Body;
    use crate::plot::choice::{asked, figures};

    fn curves(chart: &Chart) -> &[Curve] {
        match &chart.body {
            Body::Curves { curves, .. } => curves,
            _ => panic!("it has curves"),
        }
    }

    #[test]
    fn an_axis_of_several_metrics_says_what_their_titles_share() {
        for (titles, shared) in [
            (["delay, mean", "delay, 99th percentile"], "delay"),
            (["CQI 15: part of all", "CQI 4: part of all"], "part of all"),
            (["rate of a", "rate of b"], "rate of"),
            (["rate, first flow", "rate, second flow"], "rate"),
            (["speech", "film"], "value"),
            (["one", "one"], "one"),
        ] {
            assert_eq!(common(&titles), shared);
        }
    }

    #[test]
    fn published_and_measured_stand_at_one_place_with_tolerance_and_spread() {
        let campaign = samples::campaign().result;
        let figure = &figures(&campaign)[0];
        let charts = charts(&campaign, figure);
        let chart = charts
            .iter()
            .find(|c| c.id.ends_with("50Mbit-dualpi2"))
            .unwrap();
        let [known, measured] = ["published", "measured"].map(|which| {
            let mut curves = curves(chart).iter();
            let wanted = |c: &&Curve| c.published == (which == "published");
            curves
                .find(|c| wanted(c) && c.name == "prague-cubic")
                .unwrap()
        });
        assert_eq!(known.colour, measured.colour);
        assert_eq!(known.points.len(), 6);
        for place in 0..6 {
            let apart = measured.points[place][0] - known.points[place][0];
            assert!((apart - 2.0 * BESIDE).abs() < 1e-9);
            let cell = campaign.cell(&known.labels[place]).unwrap();
            let m = cell.metric("share1_pct").unwrap();
            assert_eq!(Some(known.points[place][1]), m.published);
            assert_eq!(Some(known.spans[place]), m.band);
            let (low, high) = measured.spans[place];
            assert!((high - low - m.spread).abs() < 1e-9);
        }
        assert_eq!(chart.x.places.len(), 6);
        let heights: Vec<_> = charts.iter().map(Chart::y_range).collect();
        assert!(heights.iter().all(|h| *h == heights[0]));
    }

    #[test]
    fn axes_of_numbers_are_drawn_to_scale() {
        let of = |values: &[&str]| {
            let values: Vec<String> = values.iter().map(|v| (*v).to_owned()).collect();
            numbers(&values)
        };
        assert_eq!(
            of(&["10Mbit", "1Gbit"]),
            Some((vec![10.0, 1000.0], "Mbit/s"))
        );
        assert_eq!(of(&["500us", "10ms"]), Some((vec![0.5, 10.0], "ms")));
        assert_eq!(of(&["0", "0.5"]), Some((vec![0.0, 0.5], "")));
        assert_eq!(of(&["0.1%", "1%"]), Some((vec![0.1, 1.0], "%")));
        assert_eq!(of(&["10-10", "20-10"]), None);
        // Two names of one number would fall on each other.
        assert_eq!(of(&["1s", "1000ms"]), None);
        assert!(matches!(across(&[1.0, 100.0]), Range::LogFixed(..)));
        assert!(matches!(across(&[0.0, 100.0]), Range::Fixed(..)));
    }

    #[test]
    fn a_figure_that_is_asked_for_is_drawn_or_refused_with_what_there_is() {
        let campaign = samples::campaign().result;
        let ask = |metric: &str, x: Option<&str>, by: &[&str]| {
            let by: Vec<String> = by.iter().map(|b| (*b).to_owned()).collect();
            asked(&campaign, &[metric.to_owned()], x, &by)
        };
        let figure = ask("jain", Some("qdisc"), &["rtt"]).unwrap();
        assert_eq!(
            (figure.x.as_str(), figure.by.as_slice()),
            ("qdisc", &["rtt".to_owned()][..])
        );
        assert_eq!(figure.panels, ["rate", "cc"]);
        let drawn = charts(&campaign, &figure);
        assert_eq!(drawn.len(), 8);
        assert_eq!(curves(&drawn[0]).iter().filter(|c| !c.published).count(), 6);
        let refused =
            |of: Result<FigureResult, narrows_results::Error>| of.unwrap_err().to_string();
        assert!(refused(ask("jian", None, &[])).contains("rate1_mbit, share1_pct, jain"));
        assert!(refused(ask("jain", Some("x"), &[])).contains("rate, rtt, qdisc, cc"));
        assert!(refused(ask("jain", Some("cc"), &["cc"])).contains("not both"));
    }

    #[test]
    fn a_small_difference_is_not_drawn_large() {
        let mut campaign = samples::campaign().result;
        for (place, cell) in campaign.cells.iter_mut().enumerate() {
            let m = &mut cell.metrics[0];
            (m.published, m.band) = (None, None);
            m.measured = Some(60.38 + 0.0003 * place as f64);
            m.by_seed = vec![m.measured];
        }
        let figure = asked(&campaign, &["rate1_mbit".to_owned()], None, &[]).unwrap();
        for chart in charts(&campaign, &figure) {
            assert_eq!(chart.y_range().0, 0.0);
        }
    }
}
