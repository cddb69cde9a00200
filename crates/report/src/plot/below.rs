//! What stands below the x axis: numbers of ticks, names of places.

use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::palette;
use super::svg::{Frame, UNITS, at, face, px, rgb, text_width};
use super::thin::digits;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Ticks with their numbers below the x axis; a number that would touch the one before it
/// is left out.
pub(super) fn ticks_below<X, Y>(
    context: &ChartContext<SVGBackend, Cartesian2d<X, Y>>,
    root: &Area,
    frame: &Frame,
    ticks: &[f64],
    ground: f64,
) -> Drawn
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let mut free = i32::MIN;
    for tick in ticks {
        let (x, y) = context.backend_coord(&(*tick, ground));
        let line = rgb(palette::AXIS).stroke_width(px(frame.text * 0.06).max(1) as u32);
        root.draw(&PathElement::new(
            [(x, y), (x, y + px(frame.text * 0.3))],
            line,
        ))?;
        let text = digits(*tick, 6).to_string();
        let half = px(text_width(&text, frame.text) / 2.0);
        if x - half < free {
            continue;
        }
        free = x + half + px(frame.text * 0.5);
        let style = at(face(frame.text, palette::AXIS), HPos::Center, VPos::Top);
        root.draw_text(&text, &style, (x, y + px(frame.text * 0.35)))?;
    }
    Ok(())
}

/// How far apart rows of names are, in sizes of text.
pub(super) const ROW: f64 = 0.95;

/// Rows in which names that are `apart` from each other do not touch.
pub(super) fn rows_below(names: &[String], apart: f64, frame: &Frame) -> usize {
    if names.is_empty() {
        return 1;
    }
    let widths = names.iter().map(|name| text_width(name, frame.text));
    let widest = widths.fold(0.0, f64::max) + frame.text;
    ((widest / apart).ceil() as usize).clamp(1, 4)
}

/// Names below the x axis, one apart from each other, the first at `from`; in
/// several rows where they would touch.
pub(super) fn names_below<X, Y>(
    context: &ChartContext<SVGBackend, Cartesian2d<X, Y>>,
    root: &Area,
    frame: &Frame,
    names: &[String],
    from: f64,
    ground: f64,
) -> Drawn
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let place = |index: usize| context.backend_coord(&(index as f64 + from, ground));
    let apart = f64::from(place(1).0 - place(0).0) / UNITS;
    let rows = rows_below(names, apart, frame);
    for (index, name) in names.iter().enumerate() {
        let (x, y) = place(index);
        let style = at(face(frame.text, palette::AXIS), HPos::Center, VPos::Top);
        let down = px(frame.text * (0.35 + ROW * (index % rows) as f64));
        root.draw_text(name, &style, (x, y + down))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_touch_stand_in_rows_in_which_they_do_not() {
        let frame = Frame::SCREEN;
        let names = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let rows = |words: &[&str], apart: f64| rows_below(&names(words), apart, &frame);
        assert_eq!(rows(&[], 10.0), 1);
        assert_eq!(rows(&["a", "b", "c"], 100.0), 1);
        let long = ["delay-thesis-sender", "spin-naive", "default"];
        let width = text_width(long[0], frame.text) + frame.text;
        assert_eq!(rows(&long, width + 0.1), 1);
        assert_eq!(rows(&long, width / 2.0 + 0.1), 2);
        // Names of the same row do not touch.
        for apart in [width / 3.5, width / 2.5, width / 1.5] {
            assert!(rows(&long, apart) as f64 * apart >= width, "{apart}");
        }
    }
}
