//! Dashes of curves, by which they are known without colour.

use super::chart::{Body, Chart, Shape};
use super::palette;
use super::svg::{ENTRY, Frame, STROKE, SWEEP, px};

/// Gives each curve's stroke the dashes of its place, by which it is known without colour.
pub(super) fn dashed(mut svg: String, chart: &Chart, frame: &Frame) -> String {
    let Body::Curves { shape, .. } = &chart.body else {
        return svg;
    };
    let widths: &[f64] = match shape {
        Shape::Sweep => &[SWEEP],
        Shape::Points | Shape::Dots => &[],
        _ => &[STROKE, ENTRY],
    };
    for (_, place) in chart.legend() {
        let Some(dashes) = palette::dashes(place) else {
            continue;
        };
        // plotters writes capital digits.
        let colour = palette::hex(palette::on_light(place)).to_uppercase();
        let lengths: Vec<String> = dashes
            .iter()
            .map(|d| px(d * frame.text * 0.3).to_string())
            .collect();
        for width in widths {
            let stroke = format!(
                "stroke=\"{colour}\" stroke-width=\"{}\"",
                px(frame.text * width).max(1)
            );
            let with = format!("{stroke} stroke-dasharray=\"{}\"", lengths.join(" "));
            svg = svg.replace(&stroke, &with);
        }
    }
    svg
}
