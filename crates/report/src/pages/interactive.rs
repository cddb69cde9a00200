//! A [`Chart`] as plotly.js reads it.
//!
//! Colours are names (`series-0`, `ink`) that the page's script replaces by
//! those of the light or the dark theme.

use plotly::common::{
    Anchor, DashType, ErrorData, ErrorType, HoverInfo, Line, LineShape, Marker, MarkerSymbol, Mode,
    Orientation,
};
use plotly::layout::{
    Axis as PlotlyAxis, AxisType, BarMode, HoverMode, Legend, Margin, Shape as Drawing, ShapeLayer,
    ShapeLine, ShapeType,
};
use plotly::{Bar, Layout, Plot, Scatter};

use crate::plot::chart::{Axis, Body, Chart, Curve, Shape};
use crate::plot::thin::{digits, thin};
use crate::plot::ticks;

/// Significant digits of values: finer than a screen shows.
const DIGITS: i32 = 4;

/// The chart as the JSON that plotly.js draws, safe inside a `<script>`, each
/// curve thinned to so many columns.
pub fn json(chart: &Chart, columns: usize) -> String {
    let mut plot = Plot::new();
    match &chart.body {
        Body::Curves {
            shape: shape @ (Shape::Sweep | Shape::Dots),
            curves,
        } => {
            for (place, curve) in curves.iter().enumerate() {
                plot.add_trace(sweep(*shape, curve, curve.colour.unwrap_or(place)));
            }
            if chart.has_published() {
                // Nothing but its entry in the legend.
                let nowhere = Scatter::new(vec![f64::NAN], vec![f64::NAN]);
                let mark = hollow("ink".to_owned());
                plot.add_trace(nowhere.name("published").mode(Mode::Markers).marker(mark));
            }
        }
        Body::Curves { shape, curves } => {
            for (place, curve) in curves.iter().enumerate() {
                plot.add_trace(trace(*shape, curve, place, columns));
            }
        }
        Body::Bars { categories, bars } => {
            for series in bars {
                let bar = Bar::new(categories.clone(), series.values.clone())
                    .name(escaped(&series.name))
                    .marker(Marker::new().color(colour(series.colour)));
                plot.add_trace(bar);
            }
        }
        // Heat-maps are tables on a page: each field is a link.
        Body::Heat(_) => {}
    }
    plot.set_layout(layout(chart));
    // Inside a script element only "<" can end it.
    plot.to_json().replace('<', "\\u003c")
}

/// Names are text; plotly.js reads some of HTML in them.
fn escaped(name: &str) -> String {
    maud::html! { (name) }.into_string()
}

fn colour(place: usize) -> String {
    format!("series-{}", place % crate::plot::palette::ON_LIGHT.len())
}

fn trace(shape: Shape, curve: &Curve, place: usize, columns: usize) -> Box<Scatter<f64, f64>> {
    let points = match shape {
        Shape::Points => curve.points.clone(),
        _ => curve
            .points
            .split_inclusive(|p| p[1].is_nan())
            .flat_map(|part| thin(part, columns))
            .collect(),
    };
    let x = points.iter().map(|p| digits(p[0], DIGITS + 2)).collect();
    let y = points.iter().map(|p| digits(p[1], DIGITS)).collect();
    let place = curve.colour.unwrap_or(place);
    let colour = colour(place);
    let line = dashed(place).color(colour.clone()).width(1.4);
    let trace = Scatter::new(x, y).name(escaped(&curve.name));
    match shape {
        Shape::Points => trace
            .mode(Mode::Markers)
            .marker(Marker::new().color(colour).size(8).opacity(0.8))
            .hover_text_array(curve.labels.iter().map(|l| escaped(l)).collect())
            .hover_info(HoverInfo::All),
        Shape::Line | Shape::Sweep | Shape::Dots => trace.mode(Mode::Lines).line(line),
        Shape::Step | Shape::Cdf => trace.mode(Mode::Lines).line(line.shape(LineShape::Hv)),
    }
}

/// A line with marks and the spread of each; published figures as hollow marks with
/// the ends of their tolerance.
fn sweep(shape: Shape, curve: &Curve, place: usize) -> Box<Scatter<f64, f64>> {
    let colour = colour(place);
    let of = |axis: usize| {
        curve
            .points
            .iter()
            .map(|p| digits(p[axis], DIGITS + 2))
            .collect()
    };
    let far = |end: fn(&(f64, f64), f64) -> f64| -> Vec<f64> {
        let points = curve.points.iter().zip(&curve.spans);
        points
            .map(|(p, span)| digits(end(span, p[1]).max(0.0), DIGITS))
            .collect()
    };
    let bars = ErrorData::new(ErrorType::Data)
        .symmetric(false)
        .array(far(|span, at| span.1 - at))
        .array_minus(far(|span, at| at - span.0))
        .color(colour.clone());
    let labels = curve.labels.iter().map(|l| escaped(l)).collect();
    let trace = Scatter::new(of(0), of(1))
        .name(escaped(&curve.name))
        .legend_group(escaped(&curve.name))
        .hover_text_array(labels)
        .hover_info(HoverInfo::All);
    match curve.published {
        true => trace
            .mode(Mode::Markers)
            .show_legend(false)
            .marker(hollow(colour))
            .error_y(bars.thickness(1.0).width(4)),
        false => trace
            .mode(match shape {
                Shape::Dots => Mode::Markers,
                _ => Mode::LinesMarkers,
            })
            .line(dashed(place).color(colour.clone()).width(1.4))
            .marker(Marker::new().color(colour).size(7))
            .error_y(bars.thickness(3.0).width(0)),
    }
}

/// A line with the dashes of its place.
fn dashed(place: usize) -> Line {
    match crate::plot::palette::dashes(place) {
        None => Line::new(),
        Some([stroke, _]) if *stroke < 2.0 => Line::new().dash(DashType::Dot),
        Some([stroke, _]) if *stroke > 6.0 => Line::new().dash(DashType::LongDash),
        Some([_, _]) => Line::new().dash(DashType::Dash),
        Some([stroke, ..]) if *stroke > 6.0 => Line::new().dash(DashType::LongDashDot),
        Some(_) => Line::new().dash(DashType::DashDot),
    }
}

/// A label in lines of so many letters as have room beside a figure.
fn in_lines(label: &str) -> String {
    /// Letters beside a figure of the least height.
    const ROOM: usize = 28;
    let mut text = String::new();
    let mut at = 0;
    for word in label.split(' ') {
        let long = word.chars().count();
        match at {
            0 => {}
            _ if at + 1 + long > ROOM => {
                text.push_str("<br>");
                at = 0;
            }
            _ => {
                text.push(' ');
                at += 1;
            }
        }
        text.push_str(&escaped(word));
        at += long;
    }
    text
}

fn hollow(colour: String) -> Marker {
    Marker::new()
        .color(colour)
        .size(9)
        .symbol(MarkerSymbol::DiamondOpen)
}

fn layout(chart: &Chart) -> Layout {
    let points = matches!(
        chart.body,
        Body::Curves {
            shape: Shape::Points | Shape::Sweep | Shape::Dots,
            ..
        }
    );
    let named = matches!(chart.body, Body::Bars { .. });
    let legend = Legend::new()
        .orientation(Orientation::Horizontal)
        .x(0.0)
        .x_anchor(Anchor::Left)
        .y(1.02)
        .y_anchor(Anchor::Bottom);
    let mut layout = Layout::new()
        .x_axis(axis(&chart.x, chart.x_range(), named))
        .y_axis(axis(&chart.y, chart.y_range(), false))
        .show_legend(chart.legend().len() > 1 || chart.has_published())
        .legend(legend)
        .margin(Margin::new().left(56).right(12).top(32).bottom(44))
        .hover_mode(if points {
            HoverMode::Closest
        } else {
            HoverMode::XUnified
        })
        .paper_background_color("rgba(0,0,0,0)")
        .plot_background_color("rgba(0,0,0,0)");
    if named {
        layout = layout.bar_mode(BarMode::Group);
    }
    layout.shapes(drawings(chart))
}

fn axis(axis: &Axis, (from, to): (f64, f64), named: bool) -> PlotlyAxis {
    let drawn = PlotlyAxis::new()
        .title(in_lines(&axis.label()))
        .grid_color("grid")
        .line_color("axis")
        .zero_line(false)
        .auto_margin(true);
    match axis.range {
        _ if named => drawn,
        // plotly.js wants the exponents of a logarithmic range.
        range if range.is_log() => {
            let ticks = match axis.ticks.is_empty() {
                true => ticks::logarithmic(from, to),
                false => axis.ticks.clone(),
            };
            let texts = ticks.iter().map(f64::to_string).collect();
            drawn
                .type_(AxisType::Log)
                .range(vec![libm::log10(from), libm::log10(to)])
                .tick_values(ticks)
                .tick_text(texts)
        }
        _ if !axis.places.is_empty() => {
            let places = (0..axis.places.len()).map(|place| place as f64);
            drawn
                .range(vec![from, to])
                .tick_values(places.collect())
                .tick_text(axis.places.iter().map(|name| escaped(name)).collect())
        }
        _ if !axis.ticks.is_empty() => drawn.range(vec![from, to]).tick_values(axis.ticks.clone()),
        _ => drawn.range(vec![from, to]),
    }
}

/// The steady window behind the data, reference lines, the diagonal.
fn drawings(chart: &Chart) -> Vec<Drawing> {
    let mut drawings = Vec::new();
    if let Some((from, to)) = chart.window {
        drawings.push(
            Drawing::new()
                .shape_type(ShapeType::Rect)
                .layer(ShapeLayer::Below)
                .y_ref("paper")
                .x0(from)
                .x1(to)
                .y0(0)
                .y1(1)
                .fill_color("window")
                .line(ShapeLine::new().width(0.0)),
        );
    }
    for at in &chart.changes {
        drawings.push(
            Drawing::new()
                .shape_type(ShapeType::Line)
                .y_ref("paper")
                .x0(*at)
                .x1(*at)
                .y0(0)
                .y1(1)
                .line(ShapeLine::new().color("ink").width(1.0).dash(DashType::Dot)),
        );
    }
    let line = |dash| ShapeLine::new().color("axis").width(1.0).dash(dash);
    for rule in &chart.rules {
        drawings.push(
            Drawing::new()
                .shape_type(ShapeType::Line)
                .x_ref("paper")
                .x0(0)
                .x1(1)
                .y0(rule.y)
                .y1(rule.y)
                .line(line(DashType::Dash)),
        );
    }
    if chart.diagonal {
        let ((x0, x1), (y0, y1)) = (chart.x_range(), chart.y_range());
        let (from, to) = (x0.max(y0), x1.min(y1));
        drawings.push(
            Drawing::new()
                .shape_type(ShapeType::Line)
                .layer(ShapeLayer::Below)
                .x0(from)
                .y0(from)
                .x1(to)
                .y1(to)
                .line(line(DashType::Solid)),
        );
    }
    drawings
}
