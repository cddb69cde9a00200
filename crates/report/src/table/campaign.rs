//! Published | measured | difference.

use narrows_results::campaign::{
    CampaignResult, CellResult, KeyFindingResult, MetricResult, Outcome,
};
use narrows_results::text::{Align, TextTable};

use crate::plot::choice::shown_metrics;

/// The table for a terminal of `width` columns, then what failed and the checks.
/// All metrics are set beside each other if there is room, or without a width;
/// otherwise those that the campaign is about, below each other as need be.
pub fn table(result: &CampaignResult, width: Option<usize>) -> String {
    let all: Vec<&str> = result.metrics.iter().map(String::as_str).collect();
    let mut text = render(result, &all, None);
    if let Some(width) = width.filter(|width| !fits(&text, *width)) {
        let shown = shown_metrics(result);
        text = blocks(result, &shown, width);
        let more = all.len() - shown.len();
        if more > 0 {
            text.push_str(&format!("\n{more} more metrics: --wide shows them all\n"));
        }
    }
    for lines in [troubles(result), check_lines(result), finding_lines(result)] {
        if !lines.is_empty() {
            text.push('\n');
        }
        for line in lines {
            text.push_str(&wrapped(&line, width.unwrap_or(usize::MAX)));
            text.push('\n');
        }
    }
    text
}

fn fits(text: &str, width: usize) -> bool {
    text.lines().all(|line| line.chars().count() <= width)
}

/// Tables of `metrics` below each other, as many beside each other in each as there
/// is room for.
fn blocks(result: &CampaignResult, metrics: &[String], width: usize) -> String {
    let mut blocks = Vec::new();
    let mut rest: Vec<&str> = metrics.iter().map(String::as_str).collect();
    while !rest.is_empty() {
        let beside = (1..=rest.len())
            .rev()
            .find(|n| fits(&render(result, &rest[..*n], None), width))
            .unwrap_or(1);
        let these: Vec<&str> = rest.drain(..beside).collect();
        blocks.push(render(result, &these, Some(width)));
    }
    blocks.join("\n")
}

/// `line` broken between words into lines of at most `width`, the later ones set
/// in.
fn wrapped(line: &str, width: usize) -> String {
    const IN: &str = "  ";
    let mut text = String::new();
    let mut at = 0;
    for word in line.split(' ') {
        let long = word.chars().count();
        if at > 0 && at + 1 + long > width {
            text.push('\n');
            text.push_str(IN);
            at = IN.len();
        } else if at > 0 {
            text.push(' ');
            at += 1;
        }
        text.push_str(word);
        at += long;
    }
    text
}

/// What failed or cannot be trusted, each kind of trouble once, with the cells
/// that have it.
fn troubles(result: &CampaignResult) -> Vec<String> {
    let mut kinds: Vec<(String, Vec<&str>)> = Vec::new();
    let mut add = |line: String, cell| match kinds.iter_mut().find(|k| k.0 == line) {
        Some(kind) => kind.1.push(cell),
        None => kinds.push((line, vec![cell])),
    };
    for cell in &result.cells {
        if let Some(why) = &cell.error {
            add(format!("failed, {why}"), cell.name.as_str());
        }
        for finding in cell.verdict.reasons() {
            add(format!("doubtful, because {}", finding.line), &cell.name);
        }
    }
    let say = |(line, cells): &(String, Vec<&str>)| match cells.as_slice() {
        [one] => format!("{one}: {line}"),
        [first, rest @ ..] => format!("{first} and {} more: {line}", rest.len()),
        [] => line.clone(),
    };
    kinds.iter().map(say).collect()
}

fn check_lines(result: &CampaignResult) -> Vec<String> {
    let mut lines: Vec<String> = result.checks.iter().map(|c| c.line.clone()).collect();
    if !result.complete {
        lines.push(format!(
            "incomplete: {} of {} cells were run",
            result.cells.len(),
            result.planned
        ));
    }
    lines.extend(result.checks_in_words());
    lines
}

/// What the campaign shows: each finding with what was measured.
fn finding_lines(result: &CampaignResult) -> Vec<String> {
    let all = result.key_findings.iter();
    let line = |finding: &KeyFindingResult| {
        let outcome = result
            .outcome_of(finding)
            .map_or("not judged", Outcome::word);
        let mut line = format!("{} ({outcome}): {}", finding.title, finding.severity);
        let more = [("When", &finding.when), ("Cure", &finding.cure)];
        for (word, text) in more.iter().filter_map(|(w, t)| Some((w, t.as_ref()?))) {
            line.push_str(&format!(" {word}: {text}"));
        }
        line
    };
    all.map(line).collect()
}

fn rows_of<'a>(
    result: &'a CampaignResult,
    metric: &'a str,
) -> impl Iterator<Item = &'a MetricResult> {
    result.cells.iter().filter_map(move |c| c.metric(metric))
}

/// How a metric is shown.
struct Shape<'a> {
    metric: &'a str,
    published: bool,
    spread: bool,
    difference: bool,
    judged: bool,
    decimals: usize,
}

impl<'a> Shape<'a> {
    fn of(result: &'a CampaignResult, metric: &'a str) -> Self {
        let rows = || rows_of(result, metric);
        let judged = rows().any(|r| r.tolerance.is_some());
        Self {
            metric,
            published: rows().any(|r| r.published.is_some()),
            spread: result.seeds.len() > 1,
            difference: judged,
            judged,
            decimals: result.decimals(metric),
        }
    }

    fn heads(&self) -> Vec<(&'static str, Align)> {
        let mut heads = Vec::new();
        if self.published {
            heads.push(("published", Align::Right));
        }
        heads.push(("measured", Align::Right));
        if self.spread {
            heads.push(("spread", Align::Right));
        }
        if self.difference {
            heads.push(("difference", Align::Right));
        }
        if self.judged {
            heads.push(("within", Align::Left));
        }
        heads
    }

    fn cells(&self, cell: &CellResult) -> Vec<String> {
        let decimals = self.decimals;
        let show = |v: Option<f64>| v.map_or("-".to_owned(), |v| format!("{v:.decimals$}"));
        let none = MetricResult::default();
        let m = cell.metric(self.metric).unwrap_or(&none);
        let mut cells = Vec::new();
        if self.published {
            cells.push(show(m.published));
        }
        cells.push(show(m.measured));
        if self.spread {
            cells.push(show(m.measured.map(|_| m.spread)));
        }
        if self.difference {
            let signed = |d: f64| format!("{d:+.decimals$}");
            cells.push(m.difference.map_or("-".to_owned(), signed));
        }
        if self.judged {
            let within = m.within.map_or("", |w| if w { "yes" } else { "NO" });
            cells.push(within.to_owned());
        }
        cells
    }
}

/// The table of `metrics`; where it is wider than `width`, without what can be
/// worked out from the rest.
fn render(result: &CampaignResult, metrics: &[&str], width: Option<usize>) -> String {
    let mut shapes: Vec<Shape<'_>> = metrics.iter().map(|m| Shape::of(result, m)).collect();
    let mut text = drawn(result, &shapes);
    let narrower: [fn(&mut Shape<'_>); 2] = [|s| s.difference = false, |s| s.spread = false];
    for narrow in narrower {
        if width.is_some_and(|width| !fits(&text, width)) {
            shapes.iter_mut().for_each(narrow);
            text = drawn(result, &shapes);
        }
    }
    text
}

fn drawn(result: &CampaignResult, shapes: &[Shape<'_>]) -> String {
    let mut heads = vec![("cell", Align::Left)];
    let mut groups = Vec::new();
    for shape in shapes {
        groups.push((heads.len(), shape.metric));
        heads.extend(shape.heads());
    }
    let mut table = TextTable::new(&heads);
    for (first, words) in groups {
        table.group(first, words);
    }
    for cell in &result.cells {
        let mut row = vec![cell.name.clone()];
        row.extend(shapes.iter().flat_map(|s| s.cells(cell)));
        table.row(row);
    }
    table.render()
}
