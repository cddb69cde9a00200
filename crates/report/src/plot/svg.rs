//! Static figures: a [`Chart`] drawn as SVG by `plotters`.
//!
//! The same chart and frame give the same bytes on every machine: no font is
//! measured and nothing is read from outside. Text is `<text>` in the viewer's
//! sans-serif face; `plot::export` turns it into shapes for PNG and PDF.

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::below::{ROW, names_below, rows_below, ticks_below};
use super::beside;
use super::chart::{Axis, Bars, Body, Chart, Curve, Range, Shape};
use super::dashes;
use super::heat;
use super::palette::{self, Rgb};
use super::thin::{digits, thin};
use super::ticks;

/// Drawing units per point of paper: plotters draws on whole units, so that a
/// finer grid keeps curves smooth at any size.
pub(super) const UNITS: f64 = 10.0;

/// Widths at which figures are printed, and what is drawn around the data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Width in points (1/72 inch).
    pub width: f64,
    /// Height in points; heat-maps take what their rows need instead.
    pub height: f64,
    /// Size of text in points.
    pub text: f64,
    /// Whether the title is drawn; a paper has a caption instead.
    pub title: bool,
    /// Whether the ground is white rather than transparent.
    pub ground: bool,
}

impl Frame {
    /// One column of a two-column paper: 3.5 inches (IEEE, ACM).
    pub const COLUMN: Frame = Frame {
        width: 252.0,
        height: 150.0,
        text: 7.5,
        title: false,
        ground: false,
    };
    /// The full width of a two-column paper: 7.16 inches (IEEE).
    pub const PAGE: Frame = Frame {
        width: 516.0,
        height: 220.0,
        text: 8.5,
        title: false,
        ground: false,
    };
    /// Inside a page on a screen.
    pub const SCREEN: Frame = Frame {
        width: 720.0,
        height: 260.0,
        text: 12.0,
        title: false,
        ground: false,
    };
}

/// Why a figure could not be drawn: plotters' own words.
#[derive(Debug, thiserror::Error)]
#[error("figure {id}: {reason}")]
pub struct DrawError {
    /// Which figure.
    pub id: String,
    /// What went wrong.
    pub reason: String,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// The chart as one SVG document.
pub fn draw(chart: &Chart, frame: &Frame) -> Result<String, DrawError> {
    let frame = &match &chart.body {
        Body::Heat(map) => heat::fitted(map, frame),
        // Like against like deserves a square, with room for the legend.
        _ if chart.diagonal => Frame {
            height: frame.width * 0.9,
            ..*frame
        },
        _ => *frame,
    };
    let size = (px(frame.width), px(frame.height));
    let mut text = String::new();
    let done = {
        let root = SVGBackend::with_string(&mut text, (size.0 as u32, size.1 as u32));
        let root = root.into_drawing_area();
        paint(chart, frame, &root).and_then(|()| Ok(root.present()?))
    };
    done.map_err(|reason| DrawError {
        id: chart.id.clone(),
        reason: reason.to_string(),
    })?;
    Ok(with_head(
        &dashes::dashed(text, chart, frame),
        chart,
        frame,
        size,
    ))
}

/// Replaces plotters' root tag by one with a size in points, names for
/// readers who cannot see it, and round joins, so that noise has no spikes.
fn with_head(text: &str, chart: &Chart, frame: &Frame, size: (i32, i32)) -> String {
    let body = text.split_once('>').map_or("", |(_, body)| body);
    let escape = |s: &str| maud::html! { (s) }.into_string();
    let id = escape(&chart.id);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}pt\" height=\"{}pt\" \
         viewBox=\"0 0 {} {}\" stroke-linejoin=\"round\" role=\"img\" \
         aria-labelledby=\"{id}-title {id}-desc\">\n<title id=\"{id}-title\">{}</title>\n\
         <desc id=\"{id}-desc\">{}</desc>{body}",
        frame.width,
        frame.height,
        size.0,
        size.1,
        escape(&chart.title),
        escape(&chart.describes),
    )
}

/// Points to whole drawing units.
pub(super) fn px(points: f64) -> i32 {
    (points * UNITS).round() as i32
}

pub(super) fn rgb(colour: Rgb) -> RGBColor {
    RGBColor(colour.0, colour.1, colour.2)
}

/// Text of `points` size; plotters divides by 1.24 on the way to the file.
pub(super) fn face(points: f64, colour: Rgb) -> TextStyle<'static> {
    ("sans-serif", points * UNITS * 1.24)
        .into_font()
        .color(&rgb(colour))
}

pub(super) fn at(style: TextStyle<'static>, h: HPos, v: VPos) -> TextStyle<'static> {
    style.pos(Pos::new(h, v))
}

/// Width of `text` in points; faces are not read, so an average is taken.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    // Mean advance of Latin letters and digits in common sans-serif faces.
    text.chars().count() as f64 * size * 0.54
}

fn paint(chart: &Chart, frame: &Frame, root: &Area) -> Drawn {
    if frame.ground {
        root.fill(&WHITE)?;
    }
    let mut top = frame.text * 0.4;
    if frame.title {
        let style = at(face(frame.text * 1.15, palette::INK), HPos::Left, VPos::Top);
        root.draw_text(&chart.title, &style, (px(frame.text * 0.5), px(top)))?;
        top += frame.text * 1.8;
    }
    if let Body::Heat(map) = &chart.body {
        return heat::paint(chart, map, frame, root, top);
    }
    top += legend(chart, frame, root, top)?;
    let (x_log, y_log) = (chart.x.range.is_log(), chart.y.range.is_log());
    let ((x0, x1), (y0, y1)) = (chart.x_range(), chart.y_range());
    let log = |from: f64, to: f64| {
        let range = (from..to).log_scale();
        range.with_key_points(ticks::logarithmic(from, to))
    };
    match (x_log, y_log) {
        (false, false) => axes(chart, frame, root, top, x0..x1, y0..y1),
        (true, false) => axes(chart, frame, root, top, log(x0, x1), y0..y1),
        (false, true) => axes(chart, frame, root, top, x0..x1, log(y0, y1)),
        (true, true) => axes(chart, frame, root, top, log(x0, x1), log(y0, y1)),
    }
}

/// Draws the legend above the data, over as many lines as it needs, and returns
/// the height that it took. One curve needs no legend.
fn legend(
    chart: &Chart,
    frame: &Frame,
    root: &Area,
    top: f64,
) -> Result<f64, Box<dyn std::error::Error>> {
    let mut names = chart.legend();
    let shape = match &chart.body {
        Body::Curves { shape, .. } => Some(*shape),
        _ => None,
    };
    if chart.has_published() {
        names.push((PUBLISHED, palette::of_probe(0)));
    } else if names.len() < 2 {
        return Ok(0.0);
    }
    let (stroke, gap, line) = (frame.text * 1.6, frame.text * 0.5, frame.text * 1.45);
    let left = frame.text * 4.2;
    let (mut x, mut y) = (left, top + line / 2.0);
    for (name, place) in names {
        let width = stroke + gap + text_width(name, frame.text) + 2.0 * gap;
        if x > left && x + width > frame.width {
            x = left;
            y += line;
        }
        let colour = rgb(palette::on_light(place));
        let middle = (px(x + stroke / 2.0), px(y));
        let dot = Circle::new(middle, px(frame.text * 0.3), colour.filled());
        let dash = |width: f64| {
            PathElement::new(
                [(px(x), px(y)), (px(x + stroke), px(y))],
                colour.stroke_width(px(frame.text * width) as u32),
            )
        };
        match shape {
            Some(Shape::Points) => root.draw(&dot)?,
            Some(Shape::Sweep | Shape::Dots) if name == PUBLISHED => {
                root.draw(&diamond(middle, frame, colour))?;
            }
            Some(Shape::Dots) => root.draw(&dot)?,
            Some(Shape::Sweep) => {
                root.draw(&dash(SWEEP))?;
                root.draw(&dot)?;
            }
            _ => root.draw(&dash(ENTRY))?,
        }
        let style = at(face(frame.text, palette::INK), HPos::Left, VPos::Center);
        root.draw_text(name, &style, (px(x + stroke + gap), px(y)))?;
        x += width;
    }
    Ok(y + line * 0.7 - top)
}

/// Widths of a curve's stroke, of one with marks, and of its entry in the legend, in sizes
/// of text.
pub(super) const STROKE: f64 = 0.11;
pub(super) const SWEEP: f64 = 0.14;
pub(super) const ENTRY: f64 = 0.2;

/// The legend's entry for published figures of all series.
const PUBLISHED: &str = "published";

/// A hollow mark around `middle`.
fn diamond(middle: (i32, i32), frame: &Frame, colour: RGBColor) -> PathElement<(i32, i32)> {
    let (x, y, r) = (middle.0, middle.1, px(frame.text * 0.42));
    let corners = [(x, y - r), (x + r, y), (x, y + r), (x - r, y), (x, y - r)];
    PathElement::new(
        corners,
        colour.stroke_width(px(frame.text * 0.11).max(1) as u32),
    )
}

/// Axes with grid and labels, then the data.
fn axes<X, Y>(chart: &Chart, frame: &Frame, root: &Area, top: f64, x: X, y: Y) -> Drawn
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let hair = px(frame.text * 0.06).max(1) as u32;
    let ((x0, x1), (y0, y1)) = (chart.x_range(), chart.y_range());
    let bars = matches!(chart.body, Body::Bars { .. });
    let printed = |axis: &Axis, value: f64, span: f64| match axis.range.is_log() {
        true => digits(value, 2).to_string(),
        false => ticks::text(value, span),
    };
    let y_text = |v: &f64| printed(&chart.y, *v, y1 - y0);
    let named = bars || !chart.x.places.is_empty();
    let named = named || !chart.x.ticks.is_empty();
    let x_text = |v: &f64| match named {
        // Names are below their places, where plotters may put no label.
        true => String::new(),
        false => printed(&chart.x, *v, x1 - x0),
    };
    let names = match &chart.body {
        Body::Bars { categories, .. } => categories,
        _ => &chart.x.places,
    };
    // The plot has what margins and the labels of y leave; `more` is what that of the axis takes
    // beside its first line.
    let below = |more: f64| {
        let apart = (frame.width - frame.text * (5.8 + more)) / (x1 - x0);
        2.8 + ROW * (rows_below(names, apart, frame) - 1) as f64
    };
    let room = frame.height - top - frame.text * (below(0.0) + 0.2);
    let label = beside::lines(&chart.y, room, frame.text);
    let more = beside::LINE * label.len().saturating_sub(1) as f64;
    let mut context = ChartBuilder::on(root)
        .margin_top(px(top))
        .margin_right(px(frame.text * 1.2))
        .margin_left(px(frame.text * 0.2))
        .margin_bottom(px(frame.text * 0.2))
        .x_label_area_size(px(frame.text * below(more)))
        .y_label_area_size(px(frame.text * (4.4 + more)))
        .build_cartesian_2d(x, y)?;
    if let Some((from, to)) = chart.window {
        let band = Rectangle::new(
            [(from.max(x0), y0), (to.min(x1), y1)],
            rgb(palette::WINDOW).filled(),
        );
        context.draw_series([band])?;
    }
    let mut mesh = context.configure_mesh();
    mesh.set_all_tick_mark_size(px(frame.text * 0.3));
    if named {
        mesh.disable_x_mesh()
            .set_tick_mark_size(LabelAreaPosition::Bottom, 0);
    }
    mesh.x_labels((frame.width / (frame.text * 6.0)) as usize)
        .y_labels((frame.height / (frame.text * 3.4)).clamp(3.0, 8.0) as usize)
        .max_light_lines(0)
        .bold_line_style(rgb(palette::GRID).stroke_width(hair))
        .axis_style(rgb(palette::AXIS).stroke_width(hair))
        .label_style(face(frame.text, palette::AXIS))
        .axis_desc_style(face(frame.text, palette::INK))
        .x_label_formatter(&x_text)
        .y_label_formatter(&y_text)
        .x_desc(chart.x.label())
        .draw()?;
    beside::draw(&context, root, frame, &label)?;
    for at in chart.changes.iter().filter(|at| (x0..=x1).contains(at)) {
        let (style, dot) = (
            rgb(palette::INK).stroke_width(hair),
            px(frame.text * 0.2) as u32,
        );
        context.draw_series(DashedLineSeries::new(
            [(*at, y0), (*at, y1)],
            dot,
            dot * 2,
            style,
        ))?;
    }
    for rule in &chart.rules {
        let style = rgb(palette::AXIS).stroke_width(hair * 2);
        let dash = frame.text * 0.5 * UNITS;
        context.draw_series(DashedLineSeries::new(
            [(x0, rule.y), (x1, rule.y)],
            dash as u32,
            dash as u32,
            style,
        ))?;
        let style = at(
            face(frame.text * 0.9, palette::AXIS),
            HPos::Right,
            VPos::Bottom,
        );
        context.draw_series([Text::new(rule.name.clone(), (x1, rule.y), style)])?;
    }
    if chart.diagonal {
        let (from, to) = (x0.max(y0), x1.min(y1));
        let style = rgb(palette::AXIS).stroke_width(hair);
        context.draw_series([PathElement::new([(from, from), (to, to)], style)])?;
    }
    match &chart.body {
        Body::Curves { shape, curves } => {
            names_below(&context, root, frame, &chart.x.places, 0.0, y0)?;
            ticks_below(&context, root, frame, &chart.x.ticks, y0)?;
            for (place, curve) in curves.iter().enumerate() {
                draw_curve(&mut context, chart, frame, *shape, curve, place)?;
            }
        }
        Body::Bars { categories, bars } => {
            draw_bars(&mut context, root, frame, categories, bars, y0)?;
        }
        Body::Heat(_) => {}
    }
    Ok(())
}

fn draw_curve<X, Y>(
    context: &mut ChartContext<SVGBackend, Cartesian2d<X, Y>>,
    chart: &Chart,
    frame: &Frame,
    shape: Shape,
    curve: &Curve,
    place: usize,
) -> Drawn
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let colour = rgb(palette::on_light(curve.colour.unwrap_or(place)));
    let style = colour.stroke_width(px(frame.text * STROKE).max(1) as u32);
    // A logarithmic axis may begin above the least value.
    let least = |range: Range, from: f64| match range.is_log() {
        true => from,
        false => f64::NEG_INFINITY,
    };
    let (x_least, y_least) = (
        least(chart.x.range, chart.x_range().0),
        least(chart.y.range, chart.y_range().0),
    );
    let drawable = |p: &[f64; 2]| p[1].is_finite() && p[0] >= x_least && p[1] >= y_least;
    if shape == Shape::Points {
        let radius = px(frame.text * 0.28);
        let marks = curve.points.iter().filter(|p| drawable(p));
        context.draw_series(marks.map(|p| Circle::new((p[0], p[1]), radius, colour.filled())))?;
        return Ok(());
    }
    if matches!(shape, Shape::Sweep | Shape::Dots) {
        return draw_sweep(context, frame, shape, curve, colour);
    }
    // Columns finer than the stroke would not be seen.
    let columns = (frame.width * UNITS / f64::from(style.stroke_width) / 1.5) as usize;
    for part in curve.points.split(|p| !drawable(p)) {
        let points = match shape {
            Shape::Step | Shape::Cdf => steps(&thin(part, columns)),
            _ => thin(part, columns),
        };
        if points.len() > 1 {
            let path = points.into_iter().map(|p| (p[0], p[1]));
            context.draw_series([PathElement::new(path.collect::<Vec<_>>(), style)])?;
        }
    }
    Ok(())
}

/// A line with a mark per point and a bar over its span; published figures as
/// hollow marks, with the ends of their tolerance.
fn draw_sweep<X, Y>(
    context: &mut ChartContext<SVGBackend, Cartesian2d<X, Y>>,
    frame: &Frame,
    shape: Shape,
    curve: &Curve,
    colour: RGBColor,
) -> Drawn
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let root = context.plotting_area().strip_coord_spec();
    let (left, top) = context.plotting_area().get_base_pixel();
    let at = |x: f64, y: f64| {
        let (x, y) = context.backend_coord(&(x, y));
        (x - left, y - top)
    };
    let thin = colour.stroke_width(px(frame.text * 0.08).max(1) as u32);
    let cap = px(frame.text * 0.3);
    for (point, (low, high)) in curve.points.iter().zip(&curve.spans) {
        if low >= high {
            continue;
        }
        let ((x, bottom), (_, top)) = (at(point[0], *low), at(point[0], *high));
        match curve.published {
            true => {
                root.draw(&PathElement::new([(x, bottom), (x, top)], thin))?;
                for y in [bottom, top] {
                    root.draw(&PathElement::new([(x - cap, y), (x + cap, y)], thin))?;
                }
            }
            false => {
                let wide = colour.mix(0.45).stroke_width(px(frame.text * 0.3) as u32);
                root.draw(&PathElement::new([(x, bottom), (x, top)], wide))?;
            }
        }
    }
    let marks = curve.points.iter().filter(|p| p[1].is_finite());
    let marks: Vec<(i32, i32)> = marks.map(|p| at(p[0], p[1])).collect();
    if curve.published {
        for mark in marks {
            root.draw(&diamond(mark, frame, colour))?;
        }
        return Ok(());
    }
    let joined = match shape {
        Shape::Sweep => &curve.points[..],
        _ => &[],
    };
    for part in joined.split(|p| !p[1].is_finite()) {
        let part: Vec<(i32, i32)> = part.iter().map(|p| at(p[0], p[1])).collect();
        if part.len() > 1 {
            let line = colour.stroke_width(px(frame.text * SWEEP) as u32);
            root.draw(&PathElement::new(part, line))?;
        }
    }
    for mark in marks {
        root.draw(&Circle::new(mark, px(frame.text * 0.28), colour.filled()))?;
    }
    Ok(())
}

/// The corners of a curve whose value holds until the next point.
fn steps(points: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let mut corners: Vec<[f64; 2]> = Vec::with_capacity(points.len() * 2);
    for point in points {
        if let Some(&[_, y]) = corners.last() {
            corners.push([point[0], y]);
        }
        corners.push(*point);
    }
    corners
}

/// Bars side by side in each category, the category's name below.
fn draw_bars<X, Y>(
    context: &mut ChartContext<SVGBackend, Cartesian2d<X, Y>>,
    root: &Area,
    frame: &Frame,
    categories: &[String],
    bars: &[Bars],
    ground: f64,
) -> Drawn
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    // Bars fill four fifths of a category.
    let width = 0.8 / bars.len().max(1) as f64;
    for (place, series) in bars.iter().enumerate() {
        let colour = rgb(palette::on_light(series.colour));
        let left = |index: usize| index as f64 + 0.1 + width * place as f64;
        context.draw_series(series.values.iter().enumerate().map(|(index, value)| {
            Rectangle::new(
                [(left(index), ground), (left(index) + width * 0.94, *value)],
                colour.filled(),
            )
        }))?;
    }
    names_below(context, root, frame, categories, 0.5, ground)
}
