//! Documents: read, changed, and left as they are.

use std::fs;
use std::path::Path;

use narrows::scenario::catalog;
use serde_json::{Value, json};

use crate::client::{Lab, scenario};

/// Copies all files below a folder.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let there = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            fs::create_dir(&there).expect("a folder");
            copy(&path, &there);
        } else {
            fs::copy(&path, &there).expect("a file");
        }
    }
}

#[test]
fn every_file_of_the_catalogue_is_left_as_it_is_when_a_node_is_moved_and_it_is_saved() {
    let lab = Lab::with(|folder| {
        let catalogue = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog");
        copy(&catalogue, folder);
    });
    let snapshot = || {
        let mut all = Vec::new();
        let mut folders = vec![lab.folder.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => all.push((path.clone(), fs::read(path).expect("a file"))),
                }
            }
        }
        all.sort();
        all
    };
    let before = snapshot();
    let listed = lab.get("/api/v1/documents");
    let listed = listed["documents"].as_array().expect("a list");
    let mut moved = Vec::new();
    for entry in catalog::entries() {
        let id = format!("file/{}", entry.file());
        assert!(
            listed.iter().any(|document| document["id"] == id.as_str()),
            "{id}"
        );
        let document = lab.get(&format!("/api/v1/documents/{id}"));
        assert_eq!(document["text"], entry.text, "{id}");
        let check = json!({ "text": document["text"], "document": id });
        let checked = lab.post("/api/v1/check", &check);
        let errors: Vec<_> = checked["findings"]
            .as_array()
            .expect("a list")
            .iter()
            .collect();
        assert!(
            errors.iter().all(|finding| finding["severity"] == "note"),
            "{id}: {errors:?}"
        );
        let nodes = checked["graph"]["nodes"].as_array().expect("nodes");
        let places = nodes.iter().enumerate().map(|(at, node)| {
            let name = node["name"].as_str().expect("a name").to_owned();
            (name, json!({ "x": at as f64 * 1.5, "y": -2 }))
        });
        let layout = json!({ "nodes": places.collect::<serde_json::Map<_, _>>() });
        let put = lab.ask(&format!("PUT /api/v1/layouts/{id}"), Some(&layout));
        assert_eq!(put.status, 200, "{id}: {put:?}");
        let save = json!({ "text": document["text"], "revision": document["revision"] });
        let saved = lab.ask(&format!("PUT /api/v1/documents/{id}"), Some(&save));
        assert_eq!(saved.status, 200, "{id}: {saved:?}");
        assert_eq!(saved.json()["revision"], document["revision"], "{id}");
        moved.push(
            lab.folder
                .path()
                .join(format!("{}.layout.json", entry.file())),
        );
        if let Some(node) = nodes.first() {
            let again = lab.get(&format!("/api/v1/documents/{id}"));
            let name = node["name"].as_str().expect("a name");
            assert_eq!(again["layout"]["nodes"][name]["y"], -2.0, "{id}");
        }
    }
    moved.sort();
    let (layouts, rest): (Vec<_>, Vec<_>) = snapshot()
        .into_iter()
        .partition(|(path, _)| moved.contains(path));
    assert!(rest == before, "nothing but layouts differs");
    assert_eq!(layouts.len(), moved.len());
}

#[test]
fn an_edit_leaves_comments_and_is_checked() {
    let lab = Lab::new();
    let edits = json!([
        { "op": "rename", "table": "host", "name": "client", "to": "home" },
        { "op": "element", "link": "access", "direction": "up", "index": 1, "action": "replace",
          "text": "bottleneck: rate 5Mbit queue nonsense" },
    ]);
    let edited = lab.post(
        "/api/v1/edit",
        &json!({ "text": scenario("1s"), "edits": edits }),
    );
    let text = edited["text"].as_str().expect("a text");
    assert!(
        text.contains("# flows") && text.contains("ends = [\"home\", \"server\"]"),
        "{text}"
    );
    let finding = &edited["findings"][0];
    assert_eq!(
        (&finding["severity"], &finding["line"]),
        (&json!("error"), &json!(8)),
        "{finding}"
    );
    assert_eq!(finding["entity"], "link/access");
    // The graph is there all the same.
    assert_eq!(edited["graph"]["nodes"][0]["name"], "home");
    assert_eq!(edited["graph"]["flows"][1]["control"], "cubic");
    let refused = json!({ "text": scenario("1s"), "edits": [{ "op": "remove", "table": "flow", "name": "x" }] });
    assert_eq!(lab.ask("POST /api/v1/edit", Some(&refused)).status, 422);
}

#[test]
fn a_file_that_others_changed_is_not_overwritten() {
    let lab = Lab::new();
    let put = |text: &str, revision: &Value| {
        let body = json!({ "text": text, "revision": revision });
        lab.ask("PUT /api/v1/documents/file/a.toml", Some(&body))
    };
    let first = put("a = 1\n", &Value::Null);
    assert_eq!(first.status, 200);
    let revision = first.json()["revision"].clone();
    assert_eq!(
        put("a = 2\n", &Value::Null).status,
        409,
        "it is there already"
    );
    fs::write(lab.folder.path().join("a.toml"), "a = 3\n").expect("a file");
    let conflict = put("a = 2\n", &revision);
    assert_eq!(conflict.status, 409);
    let current = conflict.json()["current"].clone();
    assert_eq!(current["text"], "a = 3\n");
    assert_eq!(put("a = 2\n", &current["revision"]).status, 200);
    assert_eq!(
        fs::read_to_string(lab.folder.path().join("a.toml")).expect("a file"),
        "a = 2\n"
    );
    fs::remove_file(lab.folder.path().join("a.toml")).expect("a file");
    assert_eq!(put("a = 4\n", &revision).status, 409, "it is gone");
    for (name, status) in [("x.txt", 422), ("missing/x.toml", 422), (".x.toml", 422)] {
        let body = json!({ "text": "", "revision": null });
        let answer = lab.ask(&format!("PUT /api/v1/documents/file/{name}"), Some(&body));
        assert_eq!(answer.status, status, "{name}");
    }
    for name in ["x.txt".to_owned(), "x".repeat(250) + ".toml"] {
        let body = json!({ "text": "", "revision": null });
        let answer = lab.ask(&format!("PUT /api/v1/documents/file/{name}"), Some(&body));
        let message = answer.json()["error"]["message"].to_string();
        assert!(
            message.contains("ends in `.toml`") && message.contains("238"),
            "{message}"
        );
    }
    let body = json!({ "text": "", "revision": null });
    assert_eq!(
        lab.ask("PUT /api/v1/documents/catalog/bufferbloat", Some(&body))
            .status,
        403
    );
}

#[test]
fn words_and_completions_are_those_of_the_declarations() {
    let lab = Lab::new();
    let words = lab.get("/api/v1/vocabulary");
    for list in [
        "elements", "queues", "controls", "boxes", "apps", "tests", "tables",
    ] {
        assert!(
            !words[list].as_array().expect("a list").is_empty(),
            "{list}"
        );
    }
    let text = "[[link]]\nup = [\"rate 5Mbit queue fq_co\"]";
    let place = json!({ "text": text, "line": 2, "column": 30 });
    let found = lab.post("/api/v1/complete", &place);
    assert_eq!(found["items"][0]["insert"], "fq_codel");
    assert_eq!(found["typed"], 5);
}
