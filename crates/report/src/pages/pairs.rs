//! One metric over all cells, both sides of each beside each other: a mark for
//! the median and a line for the range.

use maud::{Markup, html};
use narrows_results::campaign::MetricTitle;
use narrows_results::comparison::{Figure, Row};

use crate::plot::ticks;

/// Width of the drawing and of the room at its right, in units of its own.
const WIDTH: f64 = 640.0;
const RIGHT: f64 = 16.0;
/// Width of a letter of a name in bold, and of all names at least and at most.
const LETTER: f64 = 6.7;
const NAMES: (f64, f64) = (60.0, 300.0);
/// Height of a cell's strip, and of the axis below all.
const STRIP: f64 = 30.0;
const AXIS: f64 = 24.0;
/// The distance of each side from the middle of its strip.
const APART: f64 = 5.5;
/// Ticks at most.
const TICKS: f64 = 6.0;

/// The drawing of the `rows` of one metric, each with its cell's name; nothing
/// where none of them has a figure.
pub(super) fn draw(title: &MetricTitle, rows: &[(&str, &Row)]) -> Option<Markup> {
    let title = title.with_unit();
    let ends = rows
        .iter()
        .flat_map(|(_, row)| [row.first, row.second])
        .flat_map(|figure| [figure.min, figure.max])
        .flatten();
    let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
        (l.min(v), h.max(v))
    });
    if low > high {
        return None;
    }
    // From zero, unless that would hide how far things are apart.
    let low = if low > 0.0 && low < 0.7 * high {
        0.0
    } else {
        low
    };
    let room = if high > low {
        (high - low) * 0.04
    } else {
        high.abs().max(1.0) * 0.05
    };
    let (from, to) = (if low == 0.0 { 0.0 } else { low - room }, high + room);
    let letters = rows.iter().map(|(cell, _)| cell.chars().count() + 3);
    let names = (letters.max().unwrap_or(0) as f64 * LETTER).clamp(NAMES.0, NAMES.1);
    let x = |value: f64| names + (value - from) / (to - from) * (WIDTH - names - RIGHT);
    let foot = STRIP * rows.len() as f64;
    let height = foot + AXIS;
    let said: Vec<String> = rows.iter().map(|(cell, row)| sentence(cell, row)).collect();
    Some(html! {
        figure {
            figcaption { h3 { (title) } }
            svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(format!("{}. {}", title, said.join(" "))) {
                @for tick in steps(from, to) {
                    line class="rule" x1=(px(x(tick))) x2=(px(x(tick))) y1="0" y2=(px(foot)) {}
                    text class="tick" x=(px(x(tick))) y=(px(foot + 14.0)) text-anchor="middle" { (ticks::text(tick, to - from)) }
                }
                @for (place, (cell, row)) in rows.iter().enumerate() {
                    @let middle = STRIP * (place as f64 + 0.5);
                    g {
                        title { (sentence(cell, row)) }
                        text.apart[row.same == Some(false)] x=(px(names - 8.0)) y=(px(middle + 4.0)) text-anchor="end" {
                            (cell) @if row.same == Some(false) { " ✗" }
                        }
                        (side(&row.first, &x, middle - APART, "known"))
                        (side(&row.second, &x, middle + APART, "judged"))
                    }
                }
            }
        }
    })
}

/// The range and the median of one side.
fn side(figure: &Figure, x: &dyn Fn(f64) -> f64, y: f64, class: &str) -> Markup {
    html! {
        @if let (Some(min), Some(median), Some(max)) = (figure.min, figure.median, figure.max) {
            line class=(class) x1=(px(x(min))) x2=(px(x(max))) y1=(px(y)) y2=(px(y)) stroke-width="2" {}
            circle class=(class) cx=(px(x(median))) cy=(px(y)) r="3.5" {}
        }
    }
}

fn sentence(cell: &str, row: &Row) -> String {
    let of = |figure: &Figure| match (figure.min, figure.median, figure.max) {
        (Some(min), Some(median), Some(max)) => format!("{median:.3} ({min:.3} to {max:.3})"),
        _ => "nothing".to_owned(),
    };
    format!(
        "{cell}: {} against {}, {}.",
        of(&row.first),
        of(&row.second),
        row.verdict()
    )
}

/// Round values between two ends: 1, 2 or 5 times a power of ten apart.
fn steps(from: f64, to: f64) -> Vec<f64> {
    let rough = (to - from) / TICKS;
    let decade = libm::pow(10.0, libm::floor(libm::log10(rough)));
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * decade)
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    let first = libm::ceil(from / step) as i64;
    let last = libm::floor(to / step) as i64;
    (first..=last).map(|n| n as f64 * step).collect()
}

/// A tenth of a unit is finer than a screen shows.
fn px(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_lie_between_the_ends() {
        assert_eq!(steps(0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(steps(-1.0, 2.0), [-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0]);
        assert_eq!(steps(97.0, 103.0).len(), 7);
    }

    #[test]
    fn what_has_no_figure_is_not_drawn() {
        let row = Row::default();
        assert!(draw(&MetricTitle::default(), &[("a", &row)]).is_none());
    }
}
