//! The description holds what the server answers, and nothing else.

use serde_json::{Value, json};

use crate::client::Lab;

#[test]
fn every_described_request_is_answered_and_no_other() {
    let lab = Lab::new();
    let description = lab.get("/api/v1/openapi.json");
    assert_eq!(description, narrows_web::describe());
    let paths = description["paths"].as_object().expect("paths");
    assert!(paths.len() > 15, "{}", paths.len());
    let methods = ["get", "put", "post", "delete", "patch", "options"];
    for (path, operations) in paths {
        let concrete = path
            .replace(
                "{id}",
                if path.contains("jobs") {
                    "1"
                } else {
                    "catalog/incast"
                },
            )
            .replace("{packet}", "1")
            .replace("{file}", "none")
            .replace("{cell}", "none");
        for method in methods {
            // A stream does not end; its test is elsewhere.
            if path.ends_with("/stream") && method == "get" {
                continue;
            }
            let line = format!("{} {concrete}", method.to_uppercase());
            let answer = lab.ask(&line, Some(&json!({})));
            let described = operations.get(method).is_some();
            assert_eq!(answer.status != 405, described, "{line}: {answer:?}");
        }
    }
    for path in [
        "/api/v1/nothing",
        "/api/v1",
        "/api/v2/about",
        "/api/v1/jobs/1/2/3",
    ] {
        assert_eq!(lab.ask(&format!("GET {path}"), None).status, 404, "{path}");
    }
}

#[test]
fn every_reference_of_the_description_is_there() {
    fn references(value: &Value, all: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    match (key.as_str(), value) {
                        ("$ref", Value::String(to)) => all.push(to.clone()),
                        _ => references(value, all),
                    }
                }
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, all)),
            _ => {}
        }
    }
    let description = narrows_web::describe();
    let mut all = Vec::new();
    references(&description, &mut all);
    assert!(all.len() > 20, "{}", all.len());
    for reference in all {
        let pointer = reference.strip_prefix('#').expect("a place within");
        assert!(description.pointer(pointer).is_some(), "{reference}");
    }
}
