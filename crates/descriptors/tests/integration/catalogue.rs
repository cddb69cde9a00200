//! The catalogue through every format.

use narrows_descriptors::{Target, Written, export};
use narrows_scenario::{FileKind, Loaded, Plan, catalog};

use crate::round_trip::back;
use crate::{WITH_LOSSES, written};

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

/// What a scenario says beside its nodes and links that is not among what was lost: by the names
/// of tables, or by the keys of its root.
pub fn unnamed(plan: &Plan, written: &Written) -> Vec<String> {
    let lost: Vec<_> = written.lost.iter().map(|lost| lost.what.as_str()).collect();
    let file: toml::Table = plan.to_toml().parse().expect("TOML");
    let mut unnamed = Vec::new();
    for (key, value) in &file {
        let says_itself = ["version", "name", "host", "router", "link"];
        if says_itself.contains(&key.as_str()) || lost.contains(&key.as_str()) {
            continue;
        }
        let tables = value.as_array().into_iter().flatten();
        let of_tables = tables.filter_map(|table| match key.as_str() {
            "change" => Some(format!("change of {}", table.get("target")?.as_str()?)),
            key => Some(format!("{key}/{}", table.get("name")?.as_str()?)),
        });
        let named: Vec<_> = of_tables.collect();
        match named.is_empty() {
            true => unnamed.push(key.clone()),
            false => unnamed.extend(named.into_iter().filter(|n| !lost.contains(&n.as_str()))),
        }
    }
    unnamed
}

#[test]
fn whatever_a_target_has_no_place_for_is_named_in_the_file_too() {
    for plan in plans() {
        for target in WITH_LOSSES {
            let written = export(&plan, target);
            for lost in &written.lost {
                let comment = written
                    .text
                    .lines()
                    .any(|line| line.trim_start().starts_with('#') && line.contains(&lost.what));
                assert!(comment, "{}: {target:?}: {}", plan.name, lost.what);
            }
            let unnamed = unnamed(&plan, &written);
            assert_eq!(unnamed, Vec::<String>::new(), "{}: {target:?}", plan.name);
        }
    }
}
