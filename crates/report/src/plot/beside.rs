//! What stands beside the y axis: its label, upright.

use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::chart::Axis;
use super::palette;
use super::svg::{Frame, at, face, px, text_width};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// How far apart lines of the label are, in sizes of text.
pub(super) const LINE: f64 = 1.2;
/// Lines at most: more would take the room of the data.
const LINES: usize = 3;

/// The label of an upright axis in lines that are no longer than `room`, where its words allow
/// that; what needs more lines is shortened before its unit.
pub(super) fn lines(axis: &Axis, room: f64, size: f64) -> Vec<String> {
    let mut axis = axis.clone();
    loop {
        let lines = wrapped(&axis.label(), room, size);
        let fits = lines.iter().all(|line| text_width(line, size) <= room);
        if fits && lines.len() <= LINES || axis.quantity.chars().count() <= 2 {
            return lines;
        }
        let shorter = axis.quantity.trim_end_matches('…').trim_end();
        let kept = shorter.chars().count() - 1;
        axis.quantity = shorter.chars().take(kept).chain(['…']).collect();
    }
}

/// `text` in as few lines of whole words as `room` allows.
fn wrapped(text: &str, room: f64, size: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Draws the lines beside the axis, the first one outermost.
pub(super) fn draw<X, Y>(
    context: &ChartContext<SVGBackend, Cartesian2d<X, Y>>,
    root: &Area,
    frame: &Frame,
    lines: &[String],
) -> Drawn
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let (_, upright) = context.plotting_area().get_pixel_range();
    let middle = (upright.start + upright.end) / 2;
    let style = face(frame.text, palette::INK).transform(FontTransform::Rotate270);
    for (place, line) in lines.iter().enumerate() {
        let style = at(style.clone(), HPos::Center, VPos::Top);
        let left = frame.text * (0.2 + LINE * place as f64);
        root.draw_text(line, &style, (px(left), middle))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_that_is_longer_than_its_axis_has_lines_and_loses_no_word() {
        let axis = Axis::of("share of flow 1 in the total rate", "%");
        let of = |letters: f64| lines(&axis, text_width("x", 12.0) * letters, 12.0);
        assert_eq!(of(37.0), ["share of flow 1 in the total rate (%)"]);
        assert_eq!(of(36.0), ["share of flow 1 in the total rate", "(%)"]);
        assert_eq!(of(21.0), ["share of flow 1 in", "the total rate (%)"]);
        assert_eq!(of(15.0), ["share of flow 1", "in the total", "rate (%)"]);
    }

    #[test]
    fn what_needs_more_lines_is_shortened_before_its_unit() {
        let axis = Axis::of("share of flow 1 in the total rate", "%");
        let room = text_width("x", 12.0) * 9.0;
        let short = lines(&axis, room, 12.0);
        assert_eq!(short, ["share of", "flow 1 in", "the … (%)"]);
        let word = Axis::of("unbreakableword", "ms");
        assert_eq!(lines(&word, room, 12.0), ["unbreaka…", "(ms)"]);
    }
}
