//! What all pages have in common.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use narrows_results::verdict::{Verdict, Weight};

use super::{interactive, script};
use crate::plot::chart::{Body, Chart};
use crate::plot::palette;
use crate::plot::svg::{self, Frame};

/// Where a page finds plotly.js.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Library {
    /// The page holds it and is self-contained.
    Inside,
    /// A file that several pages share, relative to the page.
    Shared(String),
}

impl Library {
    /// Columns to which interactive curves are thinned: a page that stands
    /// alone has something to see on zooming in, one of hundreds is small.
    fn columns(&self) -> usize {
        match self {
            Library::Inside => 600,
            Library::Shared(_) => 300,
        }
    }
}

const STYLE: &str = include_str!("style.css");
const CHARTS: &str = include_str!("charts.js");
const TABLES: &str = include_str!("table.js");

/// A whole page. `library` is `None` where there is nothing to draw.
pub fn page(title: &str, library: Option<&Library>, body: Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content=(concat!("narrows ", env!("CARGO_PKG_VERSION")));
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(colours())) }
            }
            body {
                (body)
                footer {
                    "Made by Narrows " (env!("CARGO_PKG_VERSION")) "."
                    @if library.is_some() { " " (script::NOTICE) }
                }
                @match library {
                    Some(Library::Inside) =>
                        script type="text/plain" id="library" { (PreEscaped(script::PACKED)) },
                    Some(Library::Shared(path)) => script src=(path) {},
                    None => {},
                }
                @if library.is_some() { script { (PreEscaped(CHARTS)) } }
                script { (PreEscaped(TABLES)) }
            }
        }
    }
    .into_string()
}

/// The palette as variables, and static figures in terms of them, so that
/// they follow the theme.
fn colours() -> String {
    let mut text = String::from(":root{--axis:var(--faint);");
    for (place, colour) in palette::ON_LIGHT.into_iter().enumerate() {
        text += &format!("--series-{place}:{};", palette::hex(colour));
    }
    text += "}@media screen and (prefers-color-scheme:dark){:root{";
    for (place, colour) in palette::ON_DARK.into_iter().enumerate() {
        text += &format!("--series-{place}:{};", palette::hex(colour));
    }
    text += "}}";
    let fixed = [
        (palette::INK, "ink".to_owned()),
        (palette::AXIS, "axis".to_owned()),
        (palette::GRID, "grid".to_owned()),
        (palette::WINDOW, "window".to_owned()),
    ];
    let series = palette::ON_LIGHT
        .into_iter()
        .enumerate()
        .map(|(place, colour)| (colour, format!("series-{place}")));
    for (colour, name) in fixed.into_iter().chain(series) {
        // plotters writes capital digits.
        let hex = palette::hex(colour).to_uppercase();
        text += &format!(
            ".plot>svg [fill=\"{hex}\"]{{fill:var(--{name})}}\
             .plot>svg [stroke=\"{hex}\"]{{stroke:var(--{name})}}"
        );
    }
    text
}

/// A figure: caption, static picture, and the data for the interactive one.
pub fn figure(chart: &Chart, library: &Library) -> Markup {
    let points = matches!(
        &chart.body,
        Body::Curves {
            shape: crate::plot::chart::Shape::Points,
            ..
        }
    );
    let time = chart.x.quantity == "time";
    let class = match (time, points) {
        (true, _) => "chart full",
        (_, true) => "chart square",
        _ => "chart",
    };
    let frame = match (time, points) {
        (true, _) => Frame::SCREEN,
        (_, true) => Frame {
            width: 460.0,
            ..Frame::SCREEN
        },
        _ => Frame {
            width: 480.0,
            height: 250.0,
            ..Frame::SCREEN
        },
    };
    figure_as(chart, Some(&chart.title), library, class, &frame)
}

/// A figure as wide as the page, whose title is above it already.
pub fn wide(chart: &Chart, library: &Library) -> Markup {
    figure_as(chart, None, library, "chart full", &Frame::SCREEN)
}

/// A figure beside another one, half as wide as the page, with that title.
pub fn half(chart: &Chart, title: &str, library: &Library) -> Markup {
    let frame = Frame {
        width: 480.0,
        height: 230.0,
        ..Frame::SCREEN
    };
    figure_as(chart, Some(title), library, "chart", &frame)
}

fn figure_as(
    chart: &Chart,
    title: Option<&str>,
    library: &Library,
    class: &str,
    frame: &Frame,
) -> Markup {
    let time = chart.x.quantity == "time";
    let still = svg::draw(chart, frame).unwrap_or_default();
    html! {
        figure class=(class) id=(chart.id) data-axis=[time.then_some("time")] {
            @if let Some(title) = title { figcaption { h3 { (title) } } }
            div.plot role="img" aria-label=(format!("{}. {}", chart.title, chart.describes)) {
                (PreEscaped(inline(&still)))
            }
            script type="application/json" { (PreEscaped(interactive::json(chart, library.columns()))) }
        }
    }
}

/// An SVG document as part of a page: without namespace and own size, and
/// silent, since the element around it speaks.
fn inline(svg: &str) -> String {
    let Some((head, body)) = svg.split_once('>') else {
        return String::new();
    };
    let view = head
        .split_once("viewBox=\"")
        .and_then(|(_, rest)| rest.split_once('"'))
        .map_or("", |(view, _)| view);
    // The title and description that a standalone file needs.
    let body = body.split_once("</desc>").map_or(body, |(_, rest)| rest);
    format!("<svg viewBox=\"{view}\" stroke-linejoin=\"round\" aria-hidden=\"true\">{body}")
}

/// The verdict on a run.
pub fn verdict(verdict: &Verdict) -> Markup {
    let notes = verdict.grouped(Weight::Note);
    html! {
        section.verdict.yes[verdict.trusted()].no[!verdict.trusted()] aria-label="Verdict" {
            @if verdict.trusted() {
                strong { "✓ trust: yes" }
                @if notes.is_empty() { " – nothing was found that speaks against the run." }
            } @else {
                strong { "✗ trust: no, because" }
                ul { @for group in verdict.grouped(Weight::Distrust) {
                    li { (group.line) " " span.note { (group.check) } }
                } }
            }
            @if !notes.is_empty() {
                ul { @for group in notes { li { "Note: " (group.line) } } }
            }
        }
    }
}

/// A term with its value.
pub fn fact(term: &str, value: impl maud::Render) -> Markup {
    html! { div { dt { (term) } dd { (value) } } }
}

/// A number with so many decimals, or a dash.
pub fn number(value: Option<f64>, decimals: usize) -> Markup {
    html! {
        @match value {
            Some(value) if value.is_finite() => (fixed(value, decimals)),
            _ => span.faint { "–" },
        }
    }
}

/// A number with so many decimals, its sign as a minus, never "-0".
pub fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(zero) if zero.chars().all(|c| c == '0' || c == '.') => zero.to_owned(),
        Some(rest) => format!("−{rest}"),
        None => text,
    }
}

/// A count with thin spaces between thousands.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A name of several parts, which breaks into lines after a `/` only.
pub fn path(name: &str) -> Markup {
    html! { @for part in name.split_inclusive('/') {
        span.part { (part) } @if part.ends_with('/') { wbr; }
    } }
}

/// A relative path as a link: each segment percent-encoded (RFC 3986 §2.3).
pub fn link(path: &str) -> String {
    let mut text = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                text.push(char::from(byte));
            }
            _ => text += &format!("%{byte:02X}"),
        }
    }
    text
}

/// A command to type.
pub fn command(line: &str) -> Markup {
    html! { pre.command tabindex="0" { (line) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_numbers() {
        assert_eq!(fixed(-0.001, 2), "0.00");
        assert_eq!(fixed(-1.5, 1), "−1.5");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(count(12), "12");
    }

    #[test]
    fn a_link_survives_what_file_names_hold() {
        assert_eq!(link("cells/a b/50%#1?.x"), "cells/a%20b/50%25%231%3F.x");
    }
}
