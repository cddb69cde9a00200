//! The figures that a campaign is about: metrics drawn against its axes.

use crate::fields::Fields;
use crate::glob::Glob;
use crate::refusal::{Refusal, one_of};

use super::formula::Metric;
use super::{Axis, Cell};

/// What a `[[figure]]` may have.
pub(crate) const FIGURE: &[&str] = &["title", "metrics", "x", "by", "panels", "cells"];

/// One of them. Metrics and axes are by their index in the campaign.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it shows, in a line; the metrics' own titles if it has none.
    pub title: Option<String>,
    /// What is drawn upwards; of several, each is a line.
    pub metrics: Vec<usize>,
    /// The axis that is drawn across.
    pub x: usize,
    /// The axes whose values are lines.
    pub by: Vec<usize>,
    /// The axes whose values have drawings of their own.
    pub panels: Vec<usize>,
    /// The pattern of the cells that are drawn; all of them without one.
    pub cells: Option<String>,
}

impl Figure {
    /// Reads all `[[figure]]`.
    ///
    /// # Errors
    /// If one names what the campaign does not have, or leaves an axis out whose
    /// values would fall on each other.
    pub(super) fn read_all(
        top: &Fields<'_>,
        axes: &[Axis],
        metrics: &[Metric],
        cells: &[Cell],
    ) -> Result<Vec<Self>, Refusal> {
        let tables = top.tables("figure")?.iter().enumerate();
        tables
            .map(|(number, node)| {
                let fields = Fields::of(node, &format!("figure {}", number + 1), FIGURE)?;
                Self::read(&fields, axes, metrics, cells)
            })
            .collect()
    }

    fn read(
        fields: &Fields<'_>,
        axes: &[Axis],
        metrics: &[Metric],
        cells: &[Cell],
    ) -> Result<Self, Refusal> {
        let of_axes: Vec<&str> = axes.iter().map(|a| a.name.as_str()).collect();
        let of_metrics: Vec<&str> = metrics.iter().map(|m| m.name.as_str()).collect();
        let drawn = places(fields, "metrics", &of_metrics)?;
        if drawn.is_empty() {
            return Err(fields.missing("metrics", "at least one metric, such as [\"share1_pct\"]"));
        }
        let across = places(fields, "x", &of_axes)?;
        let [x] = across[..] else {
            return Err(fields.refuse("x", one_of(of_axes.iter().copied())));
        };
        let figure = Self {
            title: fields.text("title")?.map(str::to_owned),
            metrics: drawn,
            x,
            by: places(fields, "by", &of_axes)?,
            panels: places(fields, "panels", &of_axes)?,
            cells: fields.text("cells")?.map(str::to_owned),
        };
        let glob = match &figure.cells {
            Some(pattern) => Some(
                Glob::parse(pattern).map_err(|e| fields.refuse("cells", e.allowed().to_owned()))?,
            ),
            None => None,
        };
        let shown = || {
            cells
                .iter()
                .filter(|c| glob.as_ref().is_none_or(|g| g.matches(&c.name)))
        };
        let Some(first) = shown().next() else {
            return Err(fields.refuse("cells", "a pattern that fits a cell"));
        };
        for (axis, Axis { name, .. }) in axes.iter().enumerate() {
            let named = [&[x], &figure.by[..], &figure.panels[..]];
            match named
                .iter()
                .map(|n| n.iter().filter(|a| **a == axis).count())
                .sum()
            {
                0_usize if shown().any(|c| c.at[axis] != first.at[axis]) => {
                    let allowed = format!(
                        "`{name}` in `by` or in `panels`, or `cells` with one value of it: \
                         it has several in these cells"
                    );
                    return Err(fields.missing("by", allowed));
                }
                0 | 1 => {}
                _ => return Err(fields.refuse("by", format!("`{name}` only once"))),
            }
        }
        Ok(figure)
    }
}

/// The places in `known` of the names at `key`, one or a list.
fn places(fields: &Fields<'_>, key: &str, known: &[&str]) -> Result<Vec<usize>, Refusal> {
    let place = |node: &crate::tree::Node| {
        let allowed = || one_of(known.iter().copied());
        let refuse = || Refusal::at(&node.spot, fields.name_of(key), node.describe(), allowed());
        let name = node.as_text().ok_or_else(refuse)?;
        let place = known.iter().position(|k| *k == name);
        place.ok_or_else(|| refuse().did_you_mean(name, known.iter().copied()))
    };
    fields.list(key).iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::{Campaign, Shelf};

    struct NoFiles;

    impl Shelf for NoFiles {
        fn open(&self, _: &str) -> Option<Vec<u8>> {
            None
        }
    }

    fn read(more: &str) -> Result<Campaign, Refusal> {
        let text = format!(
            r#"
version = 1
kind    = "campaign"
name    = "x"
cell    = "{{rtt}}/{{queue}}/{{cc}}"
{more}
[scenario]
duration = "2s"
[[scenario.link]]
name = "l"
ends = ["a", "b"]
up   = ["rate 10Mbit"]
[[scenario.flow]]
name = "f"
from = "a"
to   = "b"
cc   = "cubic"
[axis]
rtt   = ["10ms", "20ms"]
queue = ["pfifo", "codel"]
cc    = ["cubic", "reno"]
[metric]
rate = "goodput_mbit of flow/f"
wait = {{ of = "rtt_ms.p50 of flow/f", title = "round trip", unit = "ms" }}
"#
        );
        Campaign::read("x.toml", text.as_bytes(), &NoFiles, &[])
    }

    fn refused(figure: &str) -> String {
        let lines = format!("figure = [{{ {figure} }}]");
        read(&lines).expect_err(figure).to_string()
    }

    #[test]
    fn a_figure_draws_metrics_against_axes_by_name() {
        let lines = r#"figure = [{ metrics = ["wait", "rate"], x = "rtt", by = "cc", panels = ["queue"] }]"#;
        let campaign = read(lines).expect("a campaign");
        let figure = &campaign.figures[0];
        assert_eq!((&figure.metrics[..], figure.x), (&[1, 0][..], 0));
        assert_eq!((&figure.by[..], &figure.panels[..]), (&[2][..], &[1][..]));
        assert_eq!(campaign.metrics[1].title.as_deref(), Some("round trip"));
        assert_eq!(campaign.metrics[1].unit.as_deref(), Some("ms"));
        assert_eq!(campaign.metrics[0].title, None);
        assert!(read("").expect("a campaign").figures.is_empty());
    }

    #[test]
    fn what_would_fall_on_each_other_is_refused() {
        let whole = refused(r#"metrics = "rate", x = "rtt", by = "cc""#);
        assert!(whole.contains("`queue` in `by` or in `panels`"), "{whole}");
        let part = r#"figure = [{ metrics = "rate", x = "rtt", by = "cc", cells = "*/codel/*" }]"#;
        assert!(read(part).is_ok());
        let twice = refused(r#"metrics = "rate", x = "rtt", by = ["cc", "rtt"], panels = "queue""#);
        assert!(twice.contains("`rtt` only once"), "{twice}");
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        for (figure, allowed) in [
            (r#"metrics = "rates", x = "rtt""#, "`rate`"),
            (r#"metrics = "rate", x = "rrt""#, "`rtt`"),
            (r#"metrics = "rate", x = ["rtt", "cc"]"#, "`rtt`"),
            (r#"x = "rtt""#, "at least one metric"),
            (
                r#"metrics = "rate", x = "rtt", cells = "5*""#,
                "a pattern that fits a cell",
            ),
            (r#"metrics = "rate", y = "rtt""#, "`panels`"),
        ] {
            let said = refused(figure);
            assert!(said.contains(allowed), "{figure}: {said}");
        }
    }
}
