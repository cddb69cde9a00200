//! The templates of seeds, filled in.
//!
//! A value is put in as a JSON string, which YAML reads as it stands (YAML 1.2, section 1.3), and
//! contents of files in base64. So nothing in a scenario can be anything but a value.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::line::Role;

/// The program, the same in each machine.
pub(super) const DAY_0: &str = include_str!("templates/day-0.yaml");
/// What `DAY_0` runs on the seed.
pub(super) const INSTALL: &str = include_str!("templates/install");
/// Names that cloud-init knows a machine by.
pub(super) const META_DATA: &str = include_str!("templates/meta-data");
/// The unit of what a machine is asked by.
pub(super) const UNIT: &str = include_str!("templates/narrows-testbed.service");

/// What a role does.
pub(super) fn day_1(role: Role) -> &'static str {
    match role {
        Role::Source => include_str!("templates/source.yaml"),
        Role::Box => include_str!("templates/box.yaml"),
        Role::Observer => include_str!("templates/observer.yaml"),
        Role::Sink => include_str!("templates/sink.yaml"),
    }
}

/// A text as a YAML value.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The contents of a file as a YAML value.
pub(super) fn encoded(text: &str) -> String {
    quoted(&STANDARD.encode(text))
}

/// `template` with each `{{name}}` of `values` replaced by its value, which is not looked at again.
pub(super) fn filled(template: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once("{{") {
        out.push_str(before);
        let (name, behind) = behind.split_once("}}").unwrap_or((behind, ""));
        let value = values.iter().find(|(known, _)| *known == name);
        debug_assert!(value.is_some(), "the template asks for {name}");
        out.push_str(value.map_or("", |(_, value)| value));
        rest = behind;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_value_holds_is_not_filled_in_again() {
        let values = [("a", "{{b}}"), ("b", "never")];
        assert_eq!(filled("x {{a}} y", &values), "x {{b}} y");
    }

    #[test]
    fn no_text_ends_its_own_value() {
        let text = "a\"\nruncmd:\n  - [halt]\n# \\";
        let line = quoted(text);
        assert_eq!(line.lines().count(), 1);
        assert_eq!(
            serde_json::from_str::<String>(&line).expect("a string"),
            text
        );
    }
}
