//! A comparison.

use std::fmt::Write;

use narrows_results::comparison::{
    CellComparison, Comparison, Figure, Live, Row, differences, is_trusted,
};
use narrows_results::text::{Align, TextTable, number};

/// The tables: cell by cell what the file asks for, or all where it asks for
/// nothing, then the checks and what is to be doubted.
pub fn table(comparison: &Comparison) -> String {
    let mut text = format!("{}: {}\n", comparison.name, made_of(comparison));
    for line in side_lines(comparison).iter().chain(&comparison.hosts) {
        writeln!(text, "{line}").ok();
    }
    for cell in &comparison.cells {
        if comparison.planned > 1 {
            writeln!(text, "\n{}", cell.name).ok();
        } else {
            text.push('\n');
        }
        if let Some(why) = &cell.error {
            writeln!(text, "could not be run: {why}").ok();
            continue;
        }
        text.push_str(&rows(cell, &comparison.sides).render());
    }
    text.push('\n');
    for cell in &comparison.cells {
        for live in cell.live.iter().filter(|l| !l.trusted()) {
            let what = if live.used {
                "counts all the same"
            } else {
                "made again"
            };
            writeln!(text, "{}: {} ({what})", live.folder, live.trust).ok();
        }
    }
    if comparison.cells.len() > 1 {
        let apart = far_apart(comparison);
        if !apart.is_empty() {
            writeln!(text, "{}", apart.render()).ok();
        }
    }
    for (why, cells) in comparison.left_out_by_reason() {
        writeln!(text, "left out: {}: {why}", cells.join(", ")).ok();
    }
    for check in &comparison.checks {
        writeln!(text, "{}", check.line).ok();
        if !check.outside.is_empty() {
            writeln!(text, "  outside: {}", check.outside.join(", ")).ok();
        }
    }
    if !comparison.complete {
        let (done, of) = (comparison.cells.len(), comparison.planned);
        writeln!(text, "incomplete: {done} of {of} cells were compared").ok();
    }
    let all = comparison.cells.iter().flat_map(|c| &c.rows);
    let (same, judged) = all
        .filter_map(|row| row.same)
        .fold((0, 0), |(same, n), s| (same + usize::from(s), n + 1));
    if judged > 0 {
        writeln!(
            text,
            "{same} of {judged} figures are the same within the spread"
        )
        .ok();
    }
    text
}

/// How far the sides lie apart over all cells.
fn far_apart(comparison: &Comparison) -> TextTable {
    let mut table = TextTable::new(&[
        ("difference of", Align::Left),
        ("cells", Align::Right),
        ("signed, median", Align::Right),
        ("median", Align::Right),
        ("95 %", Align::Right),
        ("largest", Align::Right),
        ("in", Align::Left),
    ]);
    for of in differences(comparison) {
        table.row(vec![
            of.metric,
            of.cells.to_string(),
            number(Some(of.bias)),
            number(Some(of.median)),
            number(Some(of.p95)),
            number(Some(of.max)),
            of.furthest,
        ]);
    }
    table
}

/// What each side was made with, and how many of its runs are trusted.
pub(crate) fn side_lines(comparison: &Comparison) -> [String; 2] {
    [0, 1].map(|side| {
        let called = &comparison.sides[side];
        let simulated = side == 0 && !comparison.is_paired();
        let trusted: Vec<bool> = comparison
            .cells
            .iter()
            .flat_map(|cell| -> Vec<bool> {
                if simulated {
                    return cell.sim_trust.iter().map(|t| is_trusted(t)).collect();
                }
                let used = cell.used_on(&comparison.sides, side);
                let live = cell
                    .live
                    .iter()
                    .filter(|l| used.contains(&l.folder.as_str()));
                live.map(Live::trusted).collect()
            })
            .collect();
        let on_linux = || format!("live on Linux {}", comparison.kernel);
        let engine = match called.as_str() {
            "sim" if simulated => "simulator".to_owned(),
            "sim" | "live" if !comparison.is_paired() => on_linux(),
            _ => match &comparison.virtual_kernel {
                Some(kernel) => format!("the kernel {} in virtual time", kernel.line()),
                // One of before that was kept.
                None if called == "kernel" => "a kernel in virtual time".to_owned(),
                None => on_linux(),
            },
        };
        let yes = trusted.iter().filter(|t| **t).count();
        format!(
            "{called}: {engine}, narrows {}, {yes} of {} runs trusted",
            comparison.version,
            trusted.len()
        )
    })
}

/// How many runs there are, and of what.
pub(crate) fn made_of(comparison: &Comparison) -> String {
    let n = comparison.repetitions;
    match &comparison.sides {
        [known, judged] if !comparison.is_paired() => {
            format!("{}, {}", repetitions(n, known), repetitions(n, judged))
        }
        [known, judged] => {
            format!("{judged} against {known}, {n} live repetitions of each in turns")
        }
    }
}

/// So many runs of an engine, in words.
fn repetitions(n: u64, engine: &str) -> String {
    let (one, clock) = match engine {
        "sim" => ("seed", "in the simulator"),
        "kernel" => ("seed", "in virtual time"),
        _ => ("repetition", "live"),
    };
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {one}{plural} {clock}")
}

fn rows(cell: &CellComparison, [first, second]: &[String; 2]) -> TextTable {
    let mut table = TextTable::new(&[
        ("metric", Align::Left),
        (first.as_str(), Align::Right),
        ("min..max", Align::Left),
        (second.as_str(), Align::Right),
        ("min..max", Align::Left),
        ("difference", Align::Right),
        ("tolerance", Align::Left),
        ("verdict", Align::Left),
    ]);
    let shown = match cell.asked {
        0 => cell.rows.len(),
        asked => asked,
    };
    for row in &cell.rows[..shown.min(cell.rows.len())] {
        table.row(vec![
            row.metric.clone(),
            number(row.first.median),
            range(&row.first),
            number(row.second.median),
            range(&row.second),
            row.difference.map_or("-".to_owned(), |d| {
                let sign = if d > 0.0 { "+" } else { "" };
                format!("{sign}{}", number(Some(d)))
            }),
            tolerance(row),
            row.verdict().to_owned(),
        ]);
    }
    table
}

fn range(figure: &Figure) -> String {
    match (figure.min, figure.max) {
        (Some(_), Some(_)) => format!("{}..{}", number(figure.min), number(figure.max)),
        _ => "-".to_owned(),
    }
}

fn tolerance(row: &Row) -> String {
    let words = row.tolerance.clone().unwrap_or_default();
    match row.within {
        None => words,
        Some(true) => format!("{words}: inside"),
        Some(false) => format!("{words}: OUTSIDE"),
    }
}
