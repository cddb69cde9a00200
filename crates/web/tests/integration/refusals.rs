//! Requests that cannot be done: refused with a status from 400 on, in JSON, and in words that
//! name nothing above the folder.

use std::fs;

use serde_json::json;

use crate::client::{Answer, Lab, scenario};

/// The message of a refusal with this status.
fn refused(answer: &Answer, status: u16) -> String {
    assert_eq!(answer.status, status, "{answer:?}");
    let answer = answer.json();
    let message = answer["error"]["message"].as_str();
    message.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn brackets_within_brackets_are_refused_at_once() {
    let lab = Lab::new();
    for depth in [12, 40] {
        let nested = format!(
            "{}netem delay 1ms{}",
            "by dscp 8 (".repeat(depth),
            ")".repeat(depth)
        );
        let text = scenario("1s").replace("netem delay 5ms", &nested);
        let check = lab.post("/api/v1/check", &json!({ "text": text }));
        let shown = check["findings"].to_string();
        assert!(shown.contains("at most 8 brackets"), "{depth}");
    }
}

#[test]
fn addresses_that_cannot_be_read_are_refused_in_json() {
    let lab = Lab::new();
    let id = lab.begin(&json!({ "kind": "run", "text": scenario("1s"), "paused": true }));
    for path in [
        "/api/v1/documents/file/%ff.toml".to_owned(),
        "/results/%ff".to_owned(),
        "/%ff".to_owned(),
        "/api/v1/jobs/%ff".to_owned(),
        format!("/api/v1/jobs/{id}/packets?at_s=x"),
        format!("/api/v1/jobs/{id}/packets/x"),
    ] {
        refused(&lab.ask(&format!("GET {path}"), None), 400);
    }
}

#[test]
fn keys_that_a_kind_of_job_has_not_are_refused() {
    let lab = Lab::new();
    let start = json!({ "kind": "run", "text": scenario("1s"), "only": ["x"] });
    let message = refused(&lab.ask("POST /api/v1/jobs", Some(&start)), 422);
    assert!(message.starts_with("only:"), "{message}");
}

#[test]
fn names_that_no_file_can_have_are_refused_without_paths_above_the_folder() {
    let lab = Lab::with(|folder| fs::write(folder.join("a.toml"), "").expect("a file"));
    let put = json!({ "text": "version = 1", "revision": null });
    for name in [
        "a.toml/b.toml".to_owned(),
        format!("{}.toml", "x".repeat(250)),
        format!("{}.toml", "x".repeat(300)),
    ] {
        let line = format!("PUT /api/v1/documents/file/{name}");
        let answer = lab.ask(&line, Some(&put));
        assert!([404, 422].contains(&answer.status), "{name}: {answer:?}");
        let message = refused(&answer, answer.status);
        let root = lab.folder.path().display().to_string();
        assert!(!message.contains(&root), "{message}");
    }
}

#[test]
fn the_scheme_of_authorization_may_be_written_in_any_case() {
    let lab = Lab::new();
    let host = lab.address.to_string();
    for scheme in ["bearer", "BEARER", "Bearer"] {
        let given = format!("{scheme} {}", lab.token);
        let head = [("Host", host.as_str()), ("Authorization", given.as_str())];
        let answer = lab.send("GET /api/v1/about", &head, "");
        assert_eq!(answer.status, 200, "{scheme}");
    }
}

#[test]
fn a_change_may_have_the_elements_name_before_its_words() {
    let lab = Lab::new();
    let id = lab.begin(&json!({ "kind": "run", "text": scenario("2s"), "paused": true }));
    let change = json!({ "set": {
        "link/access/up/bottleneck": "bottleneck: rate 5Mbit queue dualpi2",
    } });
    let changed = lab.post(&format!("/api/v1/jobs/{id}/change"), &change);
    let text = changed["text"].as_str().expect("a text");
    assert!(text.contains("\"rate 5Mbit queue dualpi2\""), "{text}");
}

#[cfg(unix)]
#[test]
fn results_are_not_written_where_a_link_leads_out_of_the_folder() {
    let outside = tempfile::tempdir().expect("a folder");
    let lab = Lab::with(|folder| {
        let link = folder.join("results");
        std::os::unix::fs::symlink(outside.path(), link).expect("a link");
    });
    let start = json!({ "kind": "run", "text": scenario("1s") });
    let message = refused(&lab.ask("POST /api/v1/jobs", Some(&start)), 422);
    assert!(message.contains("leads out of the folder"), "{message}");
    let mut written = fs::read_dir(outside.path()).expect("a folder");
    assert!(written.next().is_none());
}

#[cfg(unix)]
#[test]
fn a_pipe_that_a_text_names_is_refused_and_holds_up_nothing() {
    let lab = Lab::with(|folder| {
        let pipe = std::process::Command::new("mkfifo")
            .arg(folder.join("pipe"))
            .status();
        assert!(pipe.expect("mkfifo is there").success());
        std::os::unix::fs::symlink("/dev/zero", folder.join("device")).expect("a link");
        fs::create_dir(folder.join("folder")).expect("a folder");
        fs::write(folder.join("base.toml"), scenario("1s")).expect("a file");
    });
    let campaign = |base: &str, more: &str| {
        format!(
            "version = 1\nkind = \"campaign\"\nname = \"c\"\nbase = \"{base}\"\ncell = \"{{cc}}\"\n\
             [axis]\ncc = [\"cubic\"]\n[set]\n\"flow/first/cc\" = \"{{cc}}\"\n{more}"
        )
    };
    let published = |file: &str| {
        let table = format!(
            "[metric]\nm = \"goodput_mbit of flow/first\"\n[published]\nfile = \"{file}\"\n\
             [published.row]\ncc = \"{{cc}}\"\n[published.metric]\nm = \"m\"\n"
        );
        campaign("base.toml", &table)
    };
    for odd in ["pipe", "folder", "device"] {
        let named = [
            campaign(odd, ""),
            published(odd),
            scenario("1s").replace("rate 10Mbit", &format!("rate trace {odd}")),
            scenario("1s")
                + &format!(
                    "\n[[mix]]\nname = \"m\"\nfrom = \"client\"\nto = \"server\"\n\
                               file = \"{odd}\"\n"
                ),
        ];
        // Twice, because two are checked at a time.
        for text in named.iter().chain(&named) {
            let checked = lab.post("/api/v1/check", &json!({ "text": text }));
            let found = checked["findings"][0].to_string();
            let why = match odd {
                "device" => "no such file in the folder",
                _ => "it is no regular file",
            };
            assert!(found.contains(why), "{odd}: {found}\n{text}");
        }
        for (kind, text) in [("campaign", &named[0]), ("run", &named[2])] {
            let start = json!({ "kind": kind, "text": text });
            refused(&lab.ask("POST /api/v1/jobs", Some(&start)), 422);
        }
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_neither_written_nor_listed() {
    use std::os::unix::fs::FileTypeExt;
    let lab = Lab::with(|folder| {
        let made = std::process::Command::new("mkfifo")
            .arg(folder.join("pipe.toml"))
            .status();
        assert!(made.expect("mkfifo is there").success());
        fs::write(folder.join("odd\nname.toml"), "version = 1").expect("a file");
        fs::write(folder.join("good.toml"), "version = 1").expect("a file");
    });
    let put = json!({ "text": "version = 1", "revision": null });
    let answer = lab.ask("PUT /api/v1/documents/file/pipe.toml", Some(&put));
    refused(&answer, 422);
    let pipe = fs::metadata(lab.folder.path().join("pipe.toml")).expect("it is there");
    assert!(pipe.file_type().is_fifo());
    let list = lab.get("/api/v1/documents");
    let list = list["documents"].as_array().expect("documents");
    let names = list.iter().filter(|entry| entry["source"] == "folder");
    let names: Vec<_> = names.map(|entry| &entry["name"]).collect();
    assert_eq!(names, ["good.toml"]);
}
