//! Whether this installation gives the results that it should: short runs of the simulator,
//! held against digests that are compiled in.
//!
//! Results are the same on every machine, so that a difference means a program that was compiled
//! wrongly, a processor that computes wrongly, or files that were damaged.

mod runs;

use std::collections::BTreeMap;
use std::time::Instant;

use narrows_results::folder::digest_of_bytes;
use narrows_results::{Error, RunOptions, RunResult, Series, Watch, run_scenario};
use narrows_scenario::Draft;
use narrows_sim::SimEngine;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use runs::{RUNS, Run};

/// The digests that runs should have. `narrows selftest --digests` prints the file anew.
const EXPECTED: &str = include_str!("selftest/expected.json");

/// Hexadecimal digits of a digest that are kept: what is no fault in one of the parts passes for
/// one once in 2⁶⁴.
const DIGITS: usize = 16;

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digests {
    /// Events of the simulator.
    pub events: u64,
    /// A digest of the metrics and the series of each flow, queue and whatever else reports, by
    /// its name.
    pub parts: BTreeMap<String, String>,
}

/// How one of the runs went.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Its name.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// What came of it.
    pub digests: Digests,
    /// What differs from what should have come of it; nothing, if all is well.
    pub differences: Vec<String>,
    /// Seconds that it took.
    pub wall_s: f64,
}

/// Does all the runs, one after the other, and calls `each` with how each of them went.
///
/// # Errors
/// When one of them cannot be run at all.
pub fn run(each: &mut dyn FnMut(&Outcome)) -> Result<Vec<Outcome>, Error> {
    let expected = serde_json::from_str(EXPECTED).unwrap_or_default();
    RUNS.iter()
        .map(|run| {
            let outcome = of(run, &expected)?;
            each(&outcome);
            Ok(outcome)
        })
        .collect()
}

/// The digests of `outcomes`, as the file of those that are expected has them.
pub fn digests(outcomes: &[Outcome]) -> Value {
    let entry = |o: &Outcome| (o.name.to_owned(), serde_json::json!(o.digests));
    Value::Object(outcomes.iter().map(entry).collect())
}

fn of(run: &Run, expected: &BTreeMap<String, Digests>) -> Result<Outcome, Error> {
    let began = Instant::now();
    let digests = digests_of(&result(run)?);
    Ok(Outcome {
        name: run.name,
        about: run.about,
        differences: differences(expected.get(run.name), &digests),
        digests,
        wall_s: began.elapsed().as_secs_f64(),
    })
}

fn result(run: &Run) -> Result<RunResult, Error> {
    let refused = |e: narrows_scenario::Refusal| Error::Refused(format!("{}: {e}", run.name));
    let words = |all: &[&str]| -> Vec<String> { all.iter().map(|w| (*w).to_owned()).collect() };
    let (links, flows, apps) = (words(run.links), words(run.flows), words(run.apps));
    let mut draft = Draft::with_mixes(&links, &flows, &apps, None, &[]).map_err(refused)?;
    draft
        .set(&format!("duration={}", run.duration))
        .map_err(refused)?;
    let plan = draft.check().map_err(refused)?;
    run_scenario(&SimEngine, &plan, &RunOptions::default(), &Watch::default())
}

/// What is kept of a result.
fn digests_of(result: &RunResult) -> Digests {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let summary = serde_json::to_value(&result.summary).unwrap_or_default();
    for (key, value) in summary.as_object().into_iter().flatten() {
        let entries = value.as_array().into_iter().flatten();
        let mut named = false;
        for entry in entries {
            if let Some(name) = entry.get("name").and_then(Value::as_str) {
                named = true;
                *texts.entry(name.to_owned()).or_default() += &format!("{key} {entry}\n");
            }
        }
        if !named {
            *texts.entry("run".to_owned()).or_default() += &format!("{key} {value}\n");
        }
    }
    add_series(&mut texts, &result.series);
    let digest = |(name, text): (String, String)| {
        let mut digest = digest_of_bytes(text.as_bytes());
        digest.truncate(DIGITS);
        (name, digest)
    };
    Digests {
        events: result.record.events,
        parts: texts.into_iter().map(digest).collect(),
    }
}

fn add_series(texts: &mut BTreeMap<String, String>, series: &Series) {
    for track in &series.tracks {
        let text = texts.entry(track.entity.clone()).or_default();
        text.push_str(&track.metric);
        for (t_s, value) in track.t_s.iter().zip(&track.value) {
            // The bits: no rounding hides a difference.
            text.push_str(&format!(" {:x}:{:x}", t_s.to_bits(), value.to_bits()));
        }
        text.push('\n');
    }
}

/// What differs, in words.
fn differences(expected: Option<&Digests>, found: &Digests) -> Vec<String> {
    let Some(expected) = expected else {
        return vec!["nothing is known of it".to_owned()];
    };
    let mut all = Vec::new();
    if expected.events != found.events {
        let (is, should) = (found.events, expected.events);
        all.push(format!("{is} events instead of {should}"));
    }
    for (name, should) in &expected.parts {
        match found.parts.get(name) {
            Some(is) if is == should => {}
            Some(_) => all.push(format!("figures of {name}")),
            None => all.push(format!("no {name}")),
        }
    }
    let new = found
        .parts
        .keys()
        .filter(|name| !expected.parts.contains_key(*name));
    all.extend(new.map(|name| format!("{name}, which should not be there")));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_runs_are_as_expected() {
        let outcomes = run(&mut |_| ()).expect("all can be run");
        let wrong: Vec<_> = outcomes
            .iter()
            .filter(|o| !o.differences.is_empty())
            .collect();
        let renew = "if results were changed on purpose: narrows selftest --digests > d && \
                     mv d crates/narrows/src/selftest/expected.json";
        let said: Vec<_> = wrong.iter().map(|o| (o.name, &o.differences)).collect();
        assert!(said.is_empty(), "{said:?}; {renew}");
        let expected: BTreeMap<String, Digests> = serde_json::from_str(EXPECTED).expect("JSON");
        let (known, done): (Vec<_>, Vec<_>) = (
            expected.keys().cloned().collect(),
            digests(&outcomes)
                .as_object()
                .expect("a table")
                .keys()
                .cloned()
                .collect(),
        );
        let mut done: Vec<String> = done;
        done.sort();
        assert_eq!(known, done, "a run was taken out: {renew}");
    }

    #[test]
    fn what_differs_is_named() {
        let run = &RUNS[0];
        let result = result(run).expect("it can be run");
        let expected = digests_of(&result);
        assert!(
            expected.parts.keys().any(|name| name.starts_with("flow/")),
            "{expected:?}"
        );
        assert!(
            expected
                .parts
                .keys()
                .any(|name| name.ends_with("/bottleneck")),
            "{expected:?}"
        );
        assert_eq!(
            differences(Some(&expected), &expected),
            Vec::<String>::new()
        );
        // One bit of one value of one series.
        let mut other = result;
        let at = other
            .series
            .tracks
            .iter()
            .position(|t| t.entity.starts_with("flow/"));
        let track = &mut other.series.tracks[at.expect("a flow")];
        track.value[0] = f64::from_bits(track.value[0].to_bits() ^ 1);
        let name = track.entity.clone();
        let found = digests_of(&other);
        assert_eq!(
            differences(Some(&expected), &found),
            [format!("figures of {name}")]
        );
        other.record.events += 1;
        let said = differences(Some(&expected), &digests_of(&other)).join(", ");
        assert!(
            said.contains(&format!("instead of {}", expected.events)),
            "{said}"
        );
        assert_eq!(differences(None, &expected).len(), 1);
    }
}
