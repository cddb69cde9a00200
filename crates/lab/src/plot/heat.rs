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
    for (column, name) in heat.columns.iter().enumerate() {
        let x = left + field * (column as f64 + 0.5);
        let size = text * (field * 0.96 / text_width(name, text)).min(1.0);
        let style = at(face(size, palette::INK), HPos::Center, VPos::Center);
        root.draw_text(name, &style, (px(x), px(top + text)))?;
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
