//! What a figure shows, said once for every way of drawing it.
//!
//! A [`Chart`] knows its title, its axes with their units and its data, and
//! nothing of pixels or scripts. `plot::svg` draws it for paper,
//! `report::interactive` for a browser.

/// A figure: title, axes, data, and the text for a reader who cannot see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Short name, unique within a page or folder: file name and anchor.
    pub id: String,
    /// What is shown, without units.
    pub title: String,
    /// One sentence that replaces the picture for a reader who cannot see it.
    pub describes: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The data.
    pub body: Body,
    /// Stretch of the x axis that figures were taken from (the steady window).
    pub window: Option<(f64, f64)>,
    /// Horizontal reference lines (capacity of the link, target of an AQM).
    pub rules: Vec<Rule>,
    /// Whether the line y = x is drawn, for comparing like with like.
    pub diagonal: bool,
    /// Places on the x axis at which something changed.
    pub changes: Vec<f64>,
}

/// An axis: what is counted and in which unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The quantity.
    pub quantity: String,
    /// Its unit as printed in parentheses; empty only for names of things.
    pub unit: String,
    /// Which part is shown.
    pub range: Range,
    /// Names of the places 0, 1, 2 … along it, where it has no numbers.
    pub places: Vec<String>,
    /// Where its ticks are, if not at round numbers.
    pub ticks: Vec<f64>,
}

/// Which part of an axis is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// From the least to the greatest value.
    Data,
    /// From zero to the greatest value.
    FromZero,
    /// As given.
    Fixed(f64, f64),
    /// From the least to the greatest value above zero, logarithmic, over at
    /// most three decades.
    Log,
    /// As given, above zero, logarithmic.
    LogFixed(f64, f64),
}

/// The data of a chart.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// One curve per series over two numeric axes.
    Curves {
        /// How points are joined.
        shape: Shape,
        /// The series, in the order of the legend.
        curves: Vec<Curve>,
    },
    /// Bars of several series, side by side, per category of the x axis.
    Bars {
        /// Categories along the x axis.
        categories: Vec<String>,
        /// The series, in the order of the legend.
        bars: Vec<Bars>,
    },
    /// A table of coloured fields.
    Heat(Heat),
}

/// How the points of a curve are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Straight lines.
    Line,
    /// A value holds until the next one.
    Step,
    /// A cumulative distribution: rising steps between 0 and 1.
    Cdf,
    /// Not at all: a mark per point.
    Points,
    /// Straight lines with a mark per point, and a bar over each point's span;
    /// what is published as marks alone.
    Sweep,
    /// The same without lines: places that are names have nothing between them.
    Dots,
}

/// One series of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Name in the legend.
    pub name: String,
    /// Points in order of x; a y of NaN interrupts the curve.
    pub points: Vec<[f64; 2]>,
    /// A name for each point, if points have names.
    pub labels: Vec<String>,
    /// The least and the greatest value behind each point: of a measured
    /// one the spread, of a published one its tolerance. Empty, or one per point.
    pub spans: Vec<(f64, f64)>,
    /// Whether these are published figures, beside measured ones.
    pub published: bool,
    /// Place in the palette; `None` gives the place in the legend.
    pub colour: Option<usize>,
}

/// One series of bars, a value for each category.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// Name in the legend.
    pub name: String,
    /// One value per category.
    pub values: Vec<f64>,
    /// Place in the palette.
    pub colour: usize,
}

/// A table of coloured fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// Names of the columns, left to right.
    pub columns: Vec<String>,
    /// Names of the rows, top to bottom.
    pub rows: Vec<String>,
    /// `values[row][column]`; `None` leaves the field empty.
    pub values: Vec<Vec<Option<f64>>>,
    /// What the colour means, with its unit.
    pub quantity: String,
    /// How values become colours.
    pub scale: Scale,
    /// Digits after the decimal point of the printed values.
    pub digits: usize,
}

/// A scale of colours around a neutral value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Value at one end; smaller ones get its colour.
    pub from: f64,
    /// Value without colour; may be one of the ends.
    pub neutral: f64,
    /// Value at the other end; greater ones get its colour.
    pub to: f64,
    /// Whether equal factors, not equal differences, are equal steps.
    pub log: bool,
}

impl Scale {
    /// The place of `value` on a diverging palette: 0.5 is neutral, 0 and 1
    /// are the ends. Not clamped.
    pub fn place(&self, value: f64) -> f64 {
        let at = |v: f64| match self.log {
            true => libm::log(v.max(f64::MIN_POSITIVE)),
            false => v,
        };
        let (value, neutral) = (at(value), at(self.neutral));
        let end = if value < neutral { self.from } else { self.to };
        let reach = (at(end) - neutral).abs();
        if reach > 0.0 {
            0.5 + 0.5 * (value - neutral) / reach
        } else {
            0.5
        }
    }

    /// The value at a `share` of the way from one end to the other.
    pub fn value(&self, share: f64) -> f64 {
        match self.log {
            true => self.from * libm::pow(self.to / self.from, share),
            false => self.from + (self.to - self.from) * share,
        }
    }
}

/// A horizontal line with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its meaning.
    pub name: String,
    /// Where it is, in units of the y axis.
    pub y: f64,
}

impl Range {
    /// Whether equal factors are equal lengths.
    pub fn is_log(self) -> bool {
        matches!(self, Range::Log | Range::LogFixed(..))
    }
}

impl Axis {
    /// An axis of a quantity in a unit, over the range of the data.
    ///
    /// A quantity without dimension says what it is counted in (`packets`,
    /// `share`).
    pub fn of(quantity: &str, unit: &str) -> Axis {
        Axis {
            quantity: quantity.into(),
            unit: unit.into(),
            range: Range::Data,
            places: Vec::new(),
            ticks: Vec::new(),
        }
    }

    /// An axis along which things are named rather than measured.
    pub fn names(what: &str) -> Axis {
        Axis::of(what, "")
    }

    /// An axis along which the places 0, 1, 2 … have names.
    pub fn of_places(what: &str, places: Vec<String>) -> Axis {
        let last = places.len() as f64 - 0.5;
        Axis {
            places,
            ..Axis::names(what).over(Range::Fixed(-0.5, last))
        }
    }

    /// The same axis over another range.
    pub fn over(mut self, range: Range) -> Axis {
        self.range = range;
        self
    }

    /// Text beside the axis: the quantity and, in parentheses, its unit.
    pub fn label(&self) -> String {
        if self.unit.is_empty() {
            self.quantity.clone()
        } else {
            format!("{} ({})", self.quantity, self.unit)
        }
    }
}

impl Chart {
    /// A chart of curves.
    pub fn curves(
        id: &str,
        title: &str,
        x: Axis,
        y: Axis,
        shape: Shape,
        curves: Vec<Curve>,
    ) -> Chart {
        Chart::new(id, title, x, y, Body::Curves { shape, curves })
    }

    /// A chart of grouped bars.
    pub fn bars(
        id: &str,
        title: &str,
        x: Axis,
        y: Axis,
        categories: Vec<String>,
        bars: Vec<Bars>,
    ) -> Chart {
        Chart::new(id, title, x, y, Body::Bars { categories, bars })
    }

    /// A heat-map.
    pub fn heat(id: &str, title: &str, x: Axis, y: Axis, heat: Heat) -> Chart {
        Chart::new(id, title, x, y, Body::Heat(heat))
    }

    fn new(id: &str, title: &str, x: Axis, y: Axis, body: Body) -> Chart {
        Chart {
            id: id.into(),
            title: title.into(),
            describes: String::new(),
            x,
            y,
            body,
            window: None,
            rules: Vec::new(),
            diagonal: false,
            changes: Vec::new(),
        }
    }

    /// With the sentence that replaces the picture.
    pub fn describe(mut self, sentence: impl Into<String>) -> Chart {
        self.describes = sentence.into();
        self
    }

    /// With a stretch of the x axis set apart.
    pub fn window(mut self, window: Option<(f64, f64)>) -> Chart {
        self.window = window;
        self
    }

    /// With a horizontal reference line.
    pub fn rule(mut self, name: &str, y: f64) -> Chart {
        self.rules.push(Rule {
            name: name.into(),
            y,
        });
        self
    }

    /// With the line y = x.
    pub fn diagonal(mut self) -> Chart {
        self.diagonal = true;
        self
    }

    /// Names in the legend with their places in the palette. Published figures
    /// have the colours of the measured ones, and no names of their own.
    pub fn legend(&self) -> Vec<(&str, usize)> {
        match &self.body {
            Body::Curves { curves, .. } => curves
                .iter()
                .enumerate()
                .filter(|(_, curve)| !curve.published)
                .map(|(place, curve)| (curve.name.as_str(), curve.colour.unwrap_or(place)))
                .collect(),
            Body::Bars { bars, .. } => bars
                .iter()
                .map(|bars| (bars.name.as_str(), bars.colour))
                .collect(),
            Body::Heat(_) => Vec::new(),
        }
    }

    /// Whether published figures are drawn beside measured ones.
    pub fn has_published(&self) -> bool {
        match &self.body {
            Body::Curves { curves, .. } => curves.iter().any(|c| c.published),
            _ => false,
        }
    }

    /// Whether a published figure has a tolerance.
    pub fn has_tolerance(&self) -> bool {
        let Body::Curves { curves, .. } = &self.body else {
            return false;
        };
        let mut published = curves.iter().filter(|c| c.published);
        published.any(|c| c.spans.iter().any(|(low, high)| low < high))
    }

    /// Points of all curves.
    pub fn points(&self) -> usize {
        match &self.body {
            Body::Curves { curves, .. } => curves.iter().map(|c| c.points.len()).sum(),
            _ => 0,
        }
    }

    /// Whether there is anything to draw.
    pub fn is_empty(&self) -> bool {
        match &self.body {
            Body::Curves { curves, .. } => curves
                .iter()
                .all(|curve| curve.points.iter().all(|p| p[1].is_nan())),
            Body::Bars { categories, bars } => categories.is_empty() || bars.is_empty(),
            Body::Heat(heat) => heat.values.iter().flatten().all(Option::is_none),
        }
    }

    /// The stretch of the y axis that is drawn; least first, never empty.
    pub fn y_range(&self) -> (f64, f64) {
        let mut values: Vec<f64> = match &self.body {
            Body::Curves { curves, .. } => curves
                .iter()
                .flat_map(|curve| {
                    let spans = curve.spans.iter().flat_map(|span| [span.0, span.1]);
                    curve.points.iter().map(|p| p[1]).chain(spans)
                })
                .collect(),
            Body::Bars { bars, .. } => bars.iter().flat_map(|b| b.values.clone()).collect(),
            Body::Heat(heat) => vec![0.0, heat.rows.len() as f64],
        };
        values.extend(self.rules.iter().map(|rule| rule.y));
        span(&values, self.y.range, 0.05)
    }

    /// The stretch of the x axis that is drawn; least first, never empty.
    pub fn x_range(&self) -> (f64, f64) {
        let values: Vec<f64> = match &self.body {
            Body::Curves { curves, .. } => curves
                .iter()
                .flat_map(|curve| curve.points.iter().map(|p| p[0]))
                .collect(),
            Body::Bars { categories, .. } => vec![0.0, categories.len() as f64],
            Body::Heat(heat) => vec![0.0, heat.columns.len() as f64],
        };
        span(&values, self.x.range, 0.0)
    }
}

impl Curve {
    /// A series of points.
    pub fn new(name: impl Into<String>, points: Vec<[f64; 2]>) -> Curve {
        Curve {
            name: name.into(),
            points,
            labels: Vec::new(),
            spans: Vec::new(),
            published: false,
            colour: None,
        }
    }

    /// The cumulative distribution of `values`: the share of them that is not
    /// greater than x. Values that are not finite are left out.
    pub fn cdf(name: impl Into<String>, values: &[f64]) -> Curve {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len() as f64;
        let mut points: Vec<[f64; 2]> = Vec::with_capacity(sorted.len() + 1);
        if let Some(least) = sorted.first() {
            points.push([*least, 0.0]);
        }
        for (index, value) in sorted.iter().enumerate() {
            let share = (index + 1) as f64 / count;
            match points.last_mut() {
                Some(last) if last[0] == *value && last[1] > 0.0 => last[1] = share,
                _ => points.push([*value, share]),
            }
        }
        Curve::new(name, points)
    }
}

/// Factor that a logarithmic axis spans at most.
const LOG_REACH: f64 = 1e3;

/// Least and greatest of `values` under `range`, with `head` of room above.
fn span(values: &[f64], range: Range, head: f64) -> (f64, f64) {
    if let Range::Fixed(from, to) | Range::LogFixed(from, to) = range {
        return (from, to);
    }
    let seen = values
        .iter()
        .filter(|v| v.is_finite() && (range != Range::Log || **v > 0.0));
    let (mut low, mut high) = seen.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
        (l.min(*v), h.max(*v))
    });
    if low > high {
        (low, high) = if range == Range::Log {
            (1.0, 10.0)
        } else {
            (0.0, 1.0)
        };
    }
    match range {
        Range::Log => {
            // Stray values near zero would stretch the axis over decades.
            let low = low.max(high / LOG_REACH);
            if low == high {
                (low / 2.0, high * 2.0)
            } else {
                (low, high)
            }
        }
        _ => {
            if range == Range::FromZero {
                low = low.min(0.0);
                high = high.max(0.0);
            }
            if low == high {
                high = low + 1.0;
            }
            (low, high + (high - low) * head)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_carries_the_unit_and_a_name_axis_none() {
        assert_eq!(Axis::of("TCP RTT", "ms").label(), "TCP RTT (ms)");
        assert_eq!(Axis::names("cause").label(), "cause");
    }

    #[test]
    fn a_cdf_rises_from_zero_to_one_with_one_point_per_value() {
        let curve = Curve::cdf("q", &[3.0, 1.0, f64::NAN, 1.0, 2.0]);
        assert_eq!(
            curve.points,
            vec![[1.0, 0.0], [1.0, 0.5], [2.0, 0.75], [3.0, 1.0]]
        );
        assert!(Curve::cdf("none", &[]).points.is_empty());
    }

    #[test]
    fn a_scale_is_neutral_where_it_says_and_full_at_its_ends() {
        let share = Scale {
            from: 0.0,
            neutral: 50.0,
            to: 100.0,
            log: false,
        };
        assert_eq!(
            [0.0, 50.0, 75.0, 100.0].map(|v| share.place(v)),
            [0.0, 0.5, 0.75, 1.0]
        );
        let ratio = Scale {
            from: 1.0,
            neutral: 1.0,
            to: 64.0,
            log: true,
        };
        assert!((ratio.place(8.0) - 0.75).abs() < 1e-12);
        assert!((ratio.value(0.5) - 8.0).abs() < 1e-12);
        assert_eq!(ratio.place(1.0), 0.5);
    }

    #[test]
    fn a_logarithmic_axis_leaves_out_what_is_far_below() {
        let curve = Curve::new("a", vec![[0.0, 1e-9], [1.0, 0.2], [2.0, 20.0]]);
        let y = Axis::of("sojourn", "ms").over(Range::Log);
        let x = Axis::of("time", "s");
        let chart = Chart::curves("c", "t", x, y, Shape::Line, vec![curve]);
        assert_eq!(chart.y_range(), (0.02, 20.0));
    }

    #[test]
    fn a_range_is_never_empty() {
        let axis = || Axis::of("x", "s");
        for points in [vec![], vec![[1.0, 5.0]], vec![[0.0, f64::NAN]]] {
            for range in [Range::Data, Range::FromZero, Range::Log] {
                let chart = Chart::curves(
                    "c",
                    "t",
                    axis().over(range),
                    axis().over(range),
                    Shape::Line,
                    vec![Curve::new("a", points.clone())],
                );
                let ((a, b), (c, d)) = (chart.x_range(), chart.y_range());
                assert!(a < b && c < d, "{range:?} {points:?}: {a}..{b} {c}..{d}");
            }
        }
    }
}
