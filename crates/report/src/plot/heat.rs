//! The heat-map of a static figure: one coloured, numbered field per pair.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::chart::{Chart, Heat};
use super::palette;
use super::svg::{Frame, at, face, px, rgb, text_width};
use super::thin::digits;

type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Lines of text that a row of fields is high.
const ROW: f64 = 1.7;

/// The frame with the height that the rows need.
pub(super) fn fitted(heat: &Heat, frame: &Frame) -> Frame {
    let title = if frame.title { 2.2 } else { 0.4 };
    Frame {
        height: frame.text * (title + 2.0 + ROW * heat.rows.len() as f64 + 4.4),
        ..*frame
    }
}

/// Draws column names, rows of fields with their values, and the scale.
pub(super) fn paint(
    chart: &Chart,
    heat: &Heat,
    frame: &Frame,
    root: &DrawingArea<SVGBackend, Shift>,
    top: f64,
) -> Drawn {
    let text = frame.text;
    let names = heat.rows.iter().chain([&chart.y.quantity]);
    let left = names.map(|n| text_width(n, text)).fold(0.0, f64::max) + text;
    let field = (frame.width - left - text * 0.5) / heat.columns.len().max(1) as f64;
    let ink = |h, v| at(face(text, palette::INK), h, v);
    root.draw_text(
        &chart.y.quantity,
        &at(face(text, palette::AXIS), HPos::Right, VPos::Center),
        (px(left - text * 0.5), px(top + text)),
    )?;
    // Names of columns over two lines if need be, all of one size.
    let names: Vec<(&str, &str)> = heat.columns.iter().map(|n| halves(n)).collect();
    let fits = |name: &str| text_width(name, text) <= field * 0.96;
    let whole = heat.columns.iter().all(|name| fits(name));
    let widest = names.iter().flat_map(|(a, b)| [a, b]);
    let widest = widest.map(|n| text_width(n, text)).fold(1e-9, f64::max);
    let size = text
        * if whole {
            1.0
        } else {
            (field * 0.96 / widest).min(1.0)
        };
    for (column, (name, (above, below))) in heat.columns.iter().zip(names).enumerate() {
        let x = px(left + field * (column as f64 + 0.5));
        let style = || at(face(size, palette::INK), HPos::Center, VPos::Center);
        if whole {
            root.draw_text(name, &style(), (x, px(top + text)))?;
        } else {
            root.draw_text(above, &style(), (x, px(top + text * 0.5)))?;
            root.draw_text(below, &style(), (x, px(top + text * 1.45)))?;
        }
    }
    for (row, name) in heat.rows.iter().enumerate() {
        let y = top + text * (2.0 + ROW * row as f64);
        let middle = px(y + text * ROW / 2.0);
        let style = ink(HPos::Right, VPos::Center);
        root.draw_text(name, &style, (px(left - text * 0.5), middle))?;
        let values = heat.values.get(row).map_or(&[][..], Vec::as_slice);
        for (column, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            let x = left + field * column as f64;
            let ground = palette::diverging(heat.scale.place(*value));
            let gap = text * 0.06;
            root.draw(&Rectangle::new(
                [
                    (px(x + gap), px(y + gap)),
                    (px(x + field - gap), px(y + text * ROW - gap)),
                ],
                rgb(ground).filled(),
            ))?;
            let style = at(
                face(text, palette::ink_on(ground)),
                HPos::Center,
                VPos::Center,
            );
            let printed = format!("{value:.*}", heat.digits);
            root.draw_text(&printed, &style, (px(x + field / 2.0), middle))?;
        }
    }
    scale(heat, frame, root, left)
}

/// A name in two parts, cut before or after the sign nearest to its middle.
fn halves(name: &str) -> (&str, &str) {
    let cut = name
        .char_indices()
        .filter_map(|(at, c)| match c {
            '(' | '[' => Some(at),
            ' ' | ',' | '/' | '-' | '_' => Some(at + 1),
            _ => None,
        })
        .min_by_key(|at| at.abs_diff(name.len() / 2));
    name.split_at(cut.unwrap_or(name.len()))
}

/// The scale below the fields: what the colours mean.
fn scale(heat: &Heat, frame: &Frame, root: &DrawingArea<SVGBackend, Shift>, left: f64) -> Drawn {
    const PARTS: usize = 48;
    let text = frame.text;
    let width = (frame.width - left - text * 0.5).min(text * 20.0);
    let y = frame.height - text * 3.2;
    for part in 0..PARTS {
        let x = |p: usize| px(left + width * p as f64 / PARTS as f64);
        let value = heat.scale.value((part as f64 + 0.5) / PARTS as f64);
        root.draw(&Rectangle::new(
            [(x(part), px(y)), (x(part + 1), px(y + text * 0.7))],
            rgb(palette::diverging(heat.scale.place(value))).filled(),
        ))?;
    }
    for (share, h) in [(0.0, HPos::Left), (0.5, HPos::Center), (1.0, HPos::Right)] {
        let style = at(face(text * 0.9, palette::AXIS), h, VPos::Top);
        let printed = digits(heat.scale.value(share), 3).to_string();
        root.draw_text(
            &printed,
            &style,
            (px(left + width * share), px(y + text * 0.9)),
        )?;
    }
    let style = at(face(text * 0.9, palette::AXIS), HPos::Left, VPos::Top);
    let below = (px(left), px(y + text * 2.0));
    root.draw_text(&heat.quantity, &style, below)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::halves;

    #[test]
    fn long_names_are_cut_where_they_have_a_joint() {
        assert_eq!(halves("pie(100p/5ms)"), ("pie", "(100p/5ms)"));
        assert_eq!(halves("red(150000b)"), ("red", "(150000b)"));
        assert_eq!(halves("pie"), ("pie", ""));
    }
}
