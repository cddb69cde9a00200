//! The catalogue through every format.

use narrows_descriptors::{Target, export};
use narrows_scenario::{FileKind, Loaded, Plan, catalog};

use crate::round_trip::back;
use crate::written;

/// The scenarios of the catalogue, and the first cell of each campaign, that name no files: those
/// lie beside the catalogue.
fn plans() -> Vec<Plan> {
    let mut plans = Vec::new();
    for entry in catalog::entries() {
        let loaded = Loaded::from(entry);
        let plan = match loaded.kind() {
            Ok(FileKind::Scenario) => loaded.draft().and_then(|draft| draft.check()),
            Ok(FileKind::Campaign) => loaded.campaign(&[]).map(|mut all| all.cells.remove(0).plan),
            _ => continue,
        };
        let plan = plan.unwrap_or_else(|e| panic!("{}: {}", entry.name, e.to_line()));
        if *plan.files == narrows_scenario::NamedFiles::default() {
            plans.push(written(&plan));
        }
    }
    plans
}

#[test]
fn what_is_in_the_catalogue_comes_back_as_it_was() {
    let plans = plans();
    assert!(plans.len() > 30, "{}", plans.len());
    for plan in &plans {
        for target in [Target::Containerlab, Target::Nemo] {
            assert_eq!(back(plan, target), *plan, "{}: {target:?}", plan.name);
        }
    }
}

#[test]
fn whatever_a_target_has_no_place_for_is_named_in_the_file_too() {
    for plan in plans() {
        for target in [
            Target::Containerlab,
            Target::Shell,
            Target::Compose,
            Target::Mininet,
            Target::Sol006,
            Target::Osm,
        ] {
            let written = export(&plan, target);
            for lost in &written.lost {
                let comment = written
                    .text
                    .lines()
                    .any(|line| line.trim_start().starts_with('#') && line.contains(&lost.what));
                assert!(comment, "{}: {target:?}: {}", plan.name, lost.what);
            }
            // Every flow, application and probe is in a label, or named.
            if target != Target::Containerlab {
                let lost = written
                    .lost
                    .iter()
                    .map(|lost| lost.what.as_str())
                    .collect::<Vec<_>>();
                let flows = plan.flows.iter().map(|flow| format!("flow/{}", flow.name));
                let missing =
                    flows.filter(|flow| !lost.contains(&flow.as_str()) && !lost.contains(&"flow"));
                assert_eq!(
                    missing.collect::<Vec<_>>(),
                    Vec::<String>::new(),
                    "{target:?}"
                );
            }
        }
    }
}
