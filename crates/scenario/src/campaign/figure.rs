//! The figures that a campaign is about: metrics drawn against its axes.

use crate::document::{At, More, Places};
use crate::glob::Glob;
use crate::refusal::{Refusal, one_of};

use super::formula::Metric;
use super::{Axis, Cell, document};

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
    /// Reads a `[[figure]]`.
    ///
    /// # Errors
    /// If it names what the campaign does not have, or leaves an axis out whose
    /// values would fall on each other.
    pub(super) fn read(
        table: &At<document::Figure>,
        places: &Places,
        axes: &[Axis],
        metrics: &[Metric],
        cells: &[Cell],
    ) -> Result<Self, Refusal> {
        let of_axes: Vec<&str> = axes.iter().map(|a| a.name.as_str()).collect();
        let of_metrics: Vec<&str> = metrics.iter().map(|m| m.name.as_str()).collect();
        let among = |names: &More<String>, known: &[&str]| {
            let place = |name: &At<String>| {
                let known = || known.iter().copied();
                let refusal = || {
                    places
                        .refuse(name, one_of(known()))
                        .did_you_mean(name, known())
                };
                known().position(|k| k == **name).ok_or_else(refusal)
            };
            names.iter().map(place).collect::<Result<Vec<_>, Refusal>>()
        };
        let drawn = among(&table.metrics, &of_metrics)?;
        if drawn.is_empty() {
            let allowed = "at least one metric, such as [\"share1_pct\"]";
            return Err(places.missing(table, "metrics", allowed));
        }
        let allowed = one_of(of_axes.iter().copied());
        let across = places.required(table, "x", &table.x, &allowed)?;
        let [x] = among(across, &of_axes)?[..] else {
            return Err(places.refuse(across, allowed));
        };
        let figure = Self {
            title: table.title.as_deref().cloned(),
            metrics: drawn,
            x,
            by: match &table.by {
                Some(by) => among(by, &of_axes)?,
                None => Vec::new(),
            },
            panels: among(&table.panels, &of_axes)?,
            cells: table.cells.as_deref().cloned(),
        };
        let glob = match &table.cells {
            Some(at) => {
                Some(Glob::parse(at).map_err(|e| places.refuse(at, e.allowed().to_owned()))?)
            }
            None => None,
        };
        let shown = || {
            cells
                .iter()
                .filter(|c| glob.as_ref().is_none_or(|g| g.matches(&c.name)))
        };
        let Some(first) = shown().next() else {
            let allowed = "a pattern that fits a cell";
            return Err(match &table.cells {
                Some(at) => places.refuse(at, allowed),
                None => places.missing(table, "cells", allowed),
            });
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
                    return Err(places.missing(table, "by", allowed));
                }
                0 | 1 => {}
                _ => {
                    let allowed = format!("`{name}` only once");
                    return Err(match &table.by {
                        Some(by) => places.refuse(by, allowed),
                        None => places.missing(table, "by", allowed),
                    });
                }
            }
        }
        Ok(figure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::{Campaign, Shelf};

    struct NoFiles;

    impl Shelf for NoFiles {
        fn open(&self, _: &str) -> Result<Vec<u8>, String> {
            Err("no files".to_owned())
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
            let refusal = refused(figure);
            assert!(refusal.contains(allowed), "{figure}: {refusal}");
        }
    }
}
