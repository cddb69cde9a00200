//! Figures of a results folder as files.

use std::path::{Path, PathBuf};

use narrows_files::write_whole;
use narrows_results::Error;
use narrows_results::folder::Results;

use super::chart::Chart;
use super::svg::{self, Frame};
use super::{comparison, export, figures, sweep};
use crate::plot::choice::asked;

/// What a figure's file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Vector graphics, text as text in the viewer's sans-serif face.
    Svg,
    /// A bitmap of [`PNG_DPI`] on white.
    Png,
    /// A page of the figure's size, with its face.
    Pdf,
}

/// Resolution of bitmaps: what journals ask of line art in colour.
pub const PNG_DPI: f64 = 300.0;

impl Format {
    /// All of them by name, which is also the file's ending.
    pub const ALL: [(&'static str, Format); 3] = [
        ("svg", Format::Svg),
        ("png", Format::Png),
        ("pdf", Format::Pdf),
    ];

    /// The file's ending.
    pub fn ending(self) -> &'static str {
        match self {
            Format::Svg => "svg",
            Format::Png => "png",
            Format::Pdf => "pdf",
        }
    }
}

impl std::str::FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Format::ALL
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, format)| *format)
            .ok_or_else(|| {
                Error::Refused(format!(
                    "cannot draw figures as {text:?}; allowed are svg, png, pdf"
                ))
            })
    }
}

/// All figures that the data of a folder allow.
pub fn figures(results: &Results) -> Vec<Chart> {
    match results {
        Results::Run(run) => figures::of_run(run),
        Results::Campaign(folder) => comparison::of_campaign(&folder.result),
        // Its runs have their figures, and its page holds them side by side; each campaign of a
        // collection has its own.
        Results::Comparison(_) | Results::Collection(_) => Vec::new(),
    }
}

/// Which figures are drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The one of this name (`rtt`, `sojourn-cdf`); all of them without one.
    pub figure: Option<String>,
    /// These metrics of a campaign, in place of what it is about.
    pub metrics: Vec<String>,
    /// The axis of the campaign that they are drawn against; the one with most
    /// values without one.
    pub against: Option<String>,
    /// The axes whose values are lines.
    pub by: Vec<String>,
}

/// The figures that are meant by `choice`.
fn chosen(results: &Results, choice: &Choice) -> Result<Vec<Chart>, Error> {
    let mut all = match (results, choice.metrics.as_slice()) {
        (_, []) if choice.against.is_some() || !choice.by.is_empty() => {
            let why = "name a metric, too, to draw against an axis";
            return Err(Error::Refused(why.to_owned()));
        }
        (_, []) => figures(results),
        (Results::Campaign(folder), metrics) => {
            let against = choice.against.as_deref();
            let figure = asked(&folder.result, metrics, against, &choice.by)?;
            sweep::charts(&folder.result, &figure)
        }
        _ => {
            let why = "only a campaign has metrics to draw against its axes";
            return Err(Error::Refused(why.to_owned()));
        }
    };
    if all.is_empty() {
        return Err(Error::Refused("there are no data to draw".into()));
    }
    if let Some(what) = &choice.figure {
        let names: Vec<&str> = all.iter().map(|chart| chart.id.as_str()).collect();
        if !names.contains(&what.as_str()) {
            return Err(Error::Refused(format!(
                "there is no figure {what:?}; there are {}",
                names.join(", ")
            )));
        }
        all.retain(|chart| chart.id == *what);
    }
    Ok(all)
}

/// Writes figures into `dir` and returns their files.
///
/// # Errors
/// When there is no such figure, metric or axis, and when a file cannot be written.
pub fn write(
    results: &Results,
    dir: &Path,
    format: Format,
    frame: &Frame,
    choice: &Choice,
) -> Result<Vec<PathBuf>, Error> {
    let chosen = chosen(results, choice)?;
    narrows_files::create_dir_all(dir).map_err(Error::io("create", dir))?;
    let mut files = Vec::new();
    for chart in &chosen {
        let path = dir.join(format!("{}.{}", chart.id, format.ending()));
        let bytes = render(chart, format, frame)?;
        write_whole(&path, &bytes)?;
        files.push(path);
    }
    Ok(files)
}

/// One figure in one format.
pub fn render(chart: &Chart, format: Format, frame: &Frame) -> Result<Vec<u8>, Error> {
    let failed = |why: String| Error::Output {
        what: format!("figure {}", chart.id),
        why,
    };
    let svg = svg::draw(chart, frame).map_err(|error| failed(error.reason))?;
    match format {
        Format::Svg => Ok(svg.into_bytes()),
        Format::Png => export::png(&svg, PNG_DPI).map_err(|error| failed(error.to_string())),
        Format::Pdf => export::pdf(&svg).map_err(|error| failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::samples;

    fn named(figure: &str) -> Choice {
        Choice {
            figure: Some(figure.to_owned()),
            ..Choice::default()
        }
    }

    fn all() -> Vec<Chart> {
        let mut charts = figures(&Results::Run(Box::new(samples::run())));
        let campaign = Results::Campaign(Box::new(samples::campaign()));
        charts.extend(figures(&campaign));
        charts
    }

    #[test]
    fn every_chart_has_a_title_a_description_and_units() {
        let charts = all();
        assert!(charts.len() >= 12, "{}", charts.len());
        for chart in charts {
            assert!(
                !chart.title.is_empty() && !chart.describes.is_empty(),
                "{}",
                chart.id
            );
            for axis in [&chart.x, &chart.y] {
                assert!(!axis.quantity.is_empty(), "{}", chart.id);
                let named = matches!(chart.body, super::super::chart::Body::Heat(_))
                    || axis.quantity == "cause"
                    || !axis.places.is_empty();
                assert_ne!(
                    axis.unit.is_empty(),
                    !named,
                    "{} {}",
                    chart.id,
                    axis.quantity
                );
            }
        }
    }

    #[test]
    fn figures_have_names_of_their_own() {
        let mut names: Vec<String> = all().into_iter().map(|chart| chart.id).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn the_same_data_give_the_same_bytes_in_every_format() {
        for chart in all() {
            // Converting is the same code for every chart: two kinds do.
            let formats = match chart.id.as_str() {
                "sojourn-cdf" | "share1_pct-measured" => &Format::ALL[..],
                _ => &Format::ALL[..1],
            };
            for (name, format) in formats.iter().copied() {
                let once = render(&chart, format, &Frame::COLUMN).unwrap();
                let again = render(&chart, format, &Frame::COLUMN).unwrap();
                assert!(once == again, "{} as {name}", chart.id);
            }
        }
    }

    #[test]
    fn text_becomes_shapes_without_any_font_of_the_machine() {
        // Only the built-in face is ever loaded, so a machine without fonts
        // draws what this one does: a figure with text has more ink.
        let charts = all();
        let rtt = charts.iter().find(|c| c.id == "rtt").unwrap();
        let svg = svg::draw(rtt, &Frame::COLUMN).unwrap();
        let mut silent = String::new();
        let mut rest = svg.as_str();
        while let Some((before, after)) = rest.split_once("<text") {
            silent += before;
            rest = after.split_once("</text>").unwrap().1;
        }
        silent += rest;
        let ink = |svg: &str| export::png(svg, 100.0).unwrap().len();
        assert!(ink(&svg) > ink(&silent) + 1000);
        let pdf = export::pdf(&svg).unwrap();
        assert!(pdf.starts_with(b"%PDF-"));
        let holds = |what: &[u8]| pdf.windows(what.len()).any(|w| w == what);
        assert!(holds(b"/FontFile"), "the face is inside the PDF");
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        let run = Results::Run(Box::new(samples::run()));
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("figures");
        let error = write(&run, &at, Format::Svg, &Frame::COLUMN, &named("rttt")).unwrap_err();
        assert!(error.is_refusal());
        assert!(error.to_string().contains("sojourn-cdf"), "{error}");
        assert!(!at.exists());
        assert!(
            "gif"
                .parse::<Format>()
                .unwrap_err()
                .to_string()
                .contains("png")
        );
        let files = write(&run, &at, Format::Svg, &Frame::COLUMN, &named("rtt")).unwrap();
        assert_eq!(files, [at.join("rtt.svg")]);
    }

    #[test]
    fn a_column_is_three_and_a_half_inches_wide() {
        let run = Results::Run(Box::new(samples::run()));
        for chart in figures(&run) {
            let svg = svg::draw(&chart, &Frame::COLUMN).unwrap();
            assert!(svg.contains("width=\"252pt\""));
            assert!(svg.contains("<title") && svg.contains("<desc"));
        }
    }
}
