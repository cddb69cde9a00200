//! What a topology is called.

use narrows_scenario::Refusal;

/// Most characters of a name.
const LONGEST: usize = 40;

/// The name that was asked for, or what the scenario's becomes: letters, digits, `.`, `_` and
/// `-` as they are, all else a `-`.
pub(super) fn of(asked: Option<&str>, scenario: &str) -> Result<String, Refusal> {
    match asked {
        Some(name) if is_one(name) => Ok(name.to_owned()),
        Some(name) => {
            let allowed = format!(
                "up to {LONGEST} letters, digits, `.`, `_` and `-`, of which the first is a \
                 letter or a digit"
            );
            Err(Refusal::new("--name", format!("`{name}`"), allowed))
        }
        None => {
            let name = plain(scenario);
            let name: String = name.chars().take(LONGEST).collect();
            is_one(&name).then_some(name).ok_or_else(|| {
                let found = format!("`{scenario}`, which has no letter or digit");
                Refusal::new("name", found, "a name that files can have")
                    .with_help("`--name NAME` gives the topology another one.")
            })
        }
    }
}

/// Whether only the beginning of a scenario's name is that of its topology.
pub(super) fn is_cut(scenario: &str) -> bool {
    plain(scenario).len() > LONGEST
}

/// `text` as a part of a file's name.
pub(super) fn plain(text: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let all: String = (text.chars())
        .map(|c| if keep(c) { c } else { '-' })
        .collect();
    all.trim_matches(|c: char| !c.is_ascii_alphanumeric())
        .to_owned()
}

fn is_one(name: &str) -> bool {
    name.len() <= LONGEST
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && (name.chars()).all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_names_its_topology_in_what_files_can_be_called() {
        assert_eq!(
            of(None, "prague beside cubic").unwrap(),
            "prague-beside-cubic"
        );
        assert_eq!(of(None, "../../etc").unwrap(), "etc");
        assert_eq!(of(None, &"x".repeat(99)).unwrap(), "x".repeat(LONGEST));
        assert!(of(None, "…").is_err());
        assert_eq!(of(Some("lab.1"), "x").unwrap(), "lab.1");
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        for name in ["", "..", ".hidden", "a/b", "/etc", "a b", "a\n", "-x", "é"] {
            let error = of(Some(name), "x").expect_err(name).to_line();
            assert!(error.contains("--name"), "{error}");
        }
        assert!(of(Some(&"x".repeat(LONGEST + 1)), "x").is_err());
    }
}
