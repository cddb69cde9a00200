//! A [`Chart`] as plotly.js reads it.
//!
//! Colours are names (`series-0`, `ink`) that the page's script replaces by
//! those of the light or the dark theme. Keys are those of the reference of plotly.js
//! (<https://plotly.com/javascript/reference/>).

use serde_json::{Value, json};

use crate::plot::chart::{Axis, Body, Chart, Curve, Shape};
use crate::plot::thin::{digits, thin};
use crate::plot::ticks;

/// Significant digits of values: finer than a screen shows.
const DIGITS: i32 = 4;

/// The chart as the JSON that plotly.js draws, safe inside a `<script>`, each
/// curve thinned to so many columns.
pub fn json(chart: &Chart, columns: usize) -> String {
    let mut traces = Vec::new();
    match &chart.body {
        Body::Curves {
            shape: shape @ (Shape::Sweep | Shape::Dots),
            curves,
        } => {
            for (place, curve) in curves.iter().enumerate() {
                traces.push(sweep(*shape, curve, curve.colour.unwrap_or(place)));
            }
            if chart.has_published() {
                // Nothing but its entry in the legend.
                traces.push(json!({
                    "type": "scatter", "name": "published", "x": [null], "y": [null],
                    "mode": "markers", "marker": hollow("ink"),
                }));
            }
        }
        Body::Curves { shape, curves } => {
            for (place, curve) in curves.iter().enumerate() {
                traces.push(trace(*shape, curve, place, columns));
            }
        }
        Body::Bars { categories, bars } => {
            for series in bars {
                traces.push(json!({
                    "type": "bar", "name": escaped(&series.name),
                    "x": categories, "y": series.values,
                    "marker": { "color": colour(series.colour) },
                }));
            }
        }
        // Heat-maps are tables on a page: each field is a link.
        Body::Heat(_) => {}
    }
    let plot = json!({ "data": traces, "layout": layout(chart), "config": {} });
    // Inside a script element only "<" can end it.
    plot.to_string().replace('<', "\\u003c")
}

/// Names are text; plotly.js reads some of HTML in them.
fn escaped(name: &str) -> String {
    maud::html! { (name) }.into_string()
}

fn colour(place: usize) -> String {
    format!("series-{}", place % crate::plot::palette::ON_LIGHT.len())
}

fn trace(shape: Shape, curve: &Curve, place: usize, columns: usize) -> Value {
    let points = match shape {
        Shape::Points => curve.points.clone(),
        _ => curve
            .points
            .split_inclusive(|p| p[1].is_nan())
            .flat_map(|part| thin(part, columns))
            .collect(),
    };
    let x: Vec<f64> = points.iter().map(|p| digits(p[0], DIGITS + 2)).collect();
    let y: Vec<f64> = points.iter().map(|p| digits(p[1], DIGITS)).collect();
    let place = curve.colour.unwrap_or(place);
    let mut trace = json!({ "type": "scatter", "name": escaped(&curve.name), "x": x, "y": y });
    match shape {
        Shape::Points => {
            trace["mode"] = "markers".into();
            trace["marker"] = json!({ "color": colour(place), "size": 8, "opacity": 0.8 });
            trace["hovertext"] = labels(curve);
            trace["hoverinfo"] = "all".into();
        }
        Shape::Line | Shape::Sweep | Shape::Dots | Shape::Step | Shape::Cdf => {
            trace["mode"] = "lines".into();
            trace["line"] = line(place);
        }
    }
    if matches!(shape, Shape::Step | Shape::Cdf) {
        trace["line"]["shape"] = "hv".into();
    }
    trace
}

/// What is shown of each point under the pointer.
fn labels(curve: &Curve) -> Value {
    curve.labels.iter().map(|label| escaped(label)).collect()
}

/// A line with marks and the spread of each; published figures as hollow marks with
/// the ends of their tolerance.
fn sweep(shape: Shape, curve: &Curve, place: usize) -> Value {
    let of = |axis: usize| -> Vec<f64> {
        let points = curve.points.iter();
        points.map(|p| digits(p[axis], DIGITS + 2)).collect()
    };
    let far = |end: fn(&(f64, f64), f64) -> f64| -> Vec<f64> {
        let points = curve.points.iter().zip(&curve.spans);
        points
            .map(|(p, span)| digits(end(span, p[1]).max(0.0), DIGITS))
            .collect()
    };
    let colour = colour(place);
    let (thickness, width) = if curve.published { (1, 4) } else { (3, 0) };
    let mut trace = json!({
        "type": "scatter",
        "name": escaped(&curve.name),
        "legendgroup": escaped(&curve.name),
        "x": of(0),
        "y": of(1),
        "hovertext": labels(curve),
        "hoverinfo": "all",
        "error_y": {
            "type": "data",
            "symmetric": false,
            "array": far(|span, at| span.1 - at),
            "arrayminus": far(|span, at| at - span.0),
            "color": colour,
            "thickness": thickness,
            "width": width,
        },
    });
    if curve.published {
        trace["mode"] = "markers".into();
        trace["showlegend"] = false.into();
        trace["marker"] = hollow(&colour);
    } else {
        trace["mode"] = match shape {
            Shape::Dots => "markers".into(),
            _ => "lines+markers".into(),
        };
        trace["line"] = line(place);
        trace["marker"] = json!({ "color": colour, "size": 7 });
    }
    trace
}

/// A line with the colour and the dashes of its place.
fn line(place: usize) -> Value {
    let dash = match crate::plot::palette::dashes(place) {
        None => None,
        Some([stroke, _]) if *stroke < 2.0 => Some("dot"),
        Some([stroke, _]) if *stroke > 6.0 => Some("longdash"),
        Some([_, _]) => Some("dash"),
        Some([stroke, ..]) if *stroke > 6.0 => Some("longdashdot"),
        Some(_) => Some("dashdot"),
    };
    let mut line = json!({ "color": colour(place), "width": 1.4 });
    if let Some(dash) = dash {
        line["dash"] = dash.into();
    }
    line
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

fn hollow(colour: &str) -> Value {
    json!({ "color": colour, "size": 9, "symbol": "diamond-open" })
}

fn layout(chart: &Chart) -> Value {
    let points = matches!(
        chart.body,
        Body::Curves {
            shape: Shape::Points | Shape::Sweep | Shape::Dots,
            ..
        }
    );
    let named = matches!(chart.body, Body::Bars { .. });
    let mut layout = json!({
        "xaxis": axis(&chart.x, chart.x_range(), named),
        "yaxis": axis(&chart.y, chart.y_range(), false),
        "showlegend": chart.legend().len() > 1 || chart.has_published(),
        "legend": {
            "orientation": "h", "x": 0.0, "xanchor": "left", "y": 1.02, "yanchor": "bottom",
        },
        "margin": { "l": 56, "r": 12, "t": 32, "b": 44 },
        "hovermode": if points { "closest" } else { "x unified" },
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "shapes": shapes(chart),
    });
    if named {
        layout["barmode"] = "group".into();
    }
    layout
}

fn axis(axis: &Axis, (from, to): (f64, f64), named: bool) -> Value {
    let mut drawn = json!({
        "title": { "text": in_lines(&axis.label()) },
        "gridcolor": "grid",
        "linecolor": "axis",
        "zeroline": false,
        "automargin": true,
    });
    if named {
        return drawn;
    }
    drawn["range"] = json!([from, to]);
    match axis.range {
        // plotly.js wants the exponents of a logarithmic range.
        range if range.is_log() => {
            let ticks = match axis.ticks.is_empty() {
                true => ticks::logarithmic(from, to),
                false => axis.ticks.clone(),
            };
            drawn["type"] = "log".into();
            drawn["range"] = json!([libm::log10(from), libm::log10(to)]);
            drawn["ticktext"] = ticks.iter().map(f64::to_string).collect();
            drawn["tickvals"] = ticks.into();
        }
        _ if !axis.places.is_empty() => {
            let places = (0..axis.places.len()).map(|place| place as f64);
            drawn["tickvals"] = places.collect();
            drawn["ticktext"] = axis.places.iter().map(|name| escaped(name)).collect();
        }
        _ if !axis.ticks.is_empty() => drawn["tickvals"] = axis.ticks.clone().into(),
        _ => {}
    }
    drawn
}

/// The steady window behind the data, reference lines, the diagonal.
fn shapes(chart: &Chart) -> Vec<Value> {
    let mut shapes = Vec::new();
    if let Some((from, to)) = chart.window {
        shapes.push(json!({
            "type": "rect", "layer": "below", "yref": "paper",
            "x0": from, "x1": to, "y0": 0, "y1": 1,
            "fillcolor": "window", "line": { "width": 0.0 },
        }));
    }
    for at in &chart.changes {
        shapes.push(json!({
            "type": "line", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1,
            "line": { "color": "ink", "width": 1.0, "dash": "dot" },
        }));
    }
    let line = |dash| json!({ "color": "axis", "width": 1.0, "dash": dash });
    for rule in &chart.rules {
        shapes.push(json!({
            "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": rule.y, "y1": rule.y,
            "line": line("dash"),
        }));
    }
    if chart.diagonal {
        let ((x0, x1), (y0, y1)) = (chart.x_range(), chart.y_range());
        let (from, to) = (x0.max(y0), x1.min(y1));
        shapes.push(json!({
            "type": "line", "layer": "below", "x0": from, "y0": from, "x1": to, "y1": to,
            "line": line("solid"),
        }));
    }
    shapes
}
