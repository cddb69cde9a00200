//! Runs: the same with watchers and without, held back, changed, ended.

use std::fs;

use narrows::scenario::load;
use narrows::{EngineName, Output, RunOptions, Watch, run_scenario};
use serde_json::{Value, json};

use crate::client::{Lab, scenario};
use crate::streams::Watcher;

/// The digest of `text`, run from a file as `narrows run` does.
fn digest_of(text: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.toml");
    fs::write(&file, text).expect("a file");
    let plan = load(&file.to_string_lossy()).and_then(|file| file.draft()?.check());
    let plan = plan.unwrap_or_else(|refusal| panic!("{}", refusal.to_line()));
    let engine = EngineName::Sim.engine(None).expect("the simulator");
    let options = RunOptions {
        output: Output::Folder(folder.path().join("out")),
        ..RunOptions::default()
    };
    let result = run_scenario(&*engine, &plan, &options, &Watch::default()).expect("it runs");
    result.record.digest
}

fn digest(job: &Value) -> &str {
    assert_eq!(job["state"], "done", "{job}");
    job["result"]["digest"].as_str().expect("a digest")
}

#[test]
fn a_run_that_is_watched_and_held_back_has_the_digest_of_one_that_is_not() {
    let lab = Lab::new();
    let text = scenario("4s");
    let expected = digest_of(&text);
    let alone = lab.ended(&lab.begin(&json!({ "kind": "run", "text": text })));
    assert_eq!(digest(&alone), expected);
    let mut watchers: Vec<_> = (0..3).map(|_| Watcher::of(&lab)).collect();
    let id = lab.begin(&json!({ "kind": "run", "text": text, "speed": 4, "paused": true }));
    let control = |control: &Value| lab.post(&format!("/api/v1/jobs/{id}/control"), control);
    control(&json!({ "action": "step", "by_s": 0.5 }));
    lab.job_once(&id, |job| {
        job["progress"]["virtual_s"].as_f64() >= Some(0.5)
    });
    let held = lab.get(&format!("/api/v1/jobs/{id}"));
    assert_eq!(held["state"], "paused");
    assert!(held["progress"]["virtual_s"].as_f64() < Some(1.0), "{held}");
    control(&json!({ "action": "resume" }));
    lab.job_once(&id, |job| job["progress"]["virtual_s"].as_f64() > Some(1.0));
    control(&json!({ "action": "pause" }));
    control(&json!({ "action": "speed", "speed": null }));
    control(&json!({ "action": "resume" }));
    let watched = lab.ended(&id);
    assert_eq!(digest(&watched), expected);
    let samples = watchers[0].samples_until_done(&id);
    assert!(samples.len() >= 5, "{}", samples.len());
    let times: Vec<_> = samples
        .iter()
        .map(|sample| sample["t_s"].as_f64())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    let seen = |entity: &str, metric: &str| {
        let of = samples
            .iter()
            .filter_map(|s| s["values"][entity][metric].as_f64());
        of.fold(0.0, f64::max)
    };
    assert!(seen("flow/first", "goodput_mbit") > 0.1);
    assert!(seen("link/access/up/bottleneck", "sojourn_ms") > 0.0);
    let load = seen("link/access/up/bottleneck", "load");
    assert!((0.9..1.1).contains(&load), "{load}");
}

#[test]
fn a_run_that_was_changed_under_way_is_that_of_its_saved_text() {
    let lab = Lab::new();
    let text = scenario("4s");
    let id = lab.begin(&json!({ "kind": "run", "text": text, "speed": 50, "paused": true }));
    let job = format!("/api/v1/jobs/{id}");
    let mut changed = Value::Null;
    for (step, to) in [(1.0, "rate 3Mbit"), (1.5, "rate 20Mbit")] {
        let before = lab.get(&job)["progress"]["virtual_s"]
            .as_f64()
            .expect("a time");
        lab.post(
            &format!("{job}/control"),
            &json!({ "action": "step", "by_s": step }),
        );
        lab.job_once(&id, |job| {
            job["progress"]["virtual_s"].as_f64() >= Some(before + step)
        });
        let set = json!({ "set": { "link/access/up/bottleneck": to } });
        changed = lab.post(&format!("{job}/change"), &set);
        let at = changed["at_s"].as_f64().expect("a time");
        assert!(at >= before + step, "{changed}");
    }
    lab.post(
        &format!("{job}/control"),
        &json!({ "action": "speed", "speed": null }),
    );
    lab.post(&format!("{job}/control"), &json!({ "action": "resume" }));
    let ended = lab.ended(&id);
    let saved = changed["text"].as_str().expect("a text");
    assert_eq!(saved.matches("[[change]]").count(), 2);
    assert_eq!(lab.get(&format!("{job}/text"))["text"], saved);
    assert_eq!(digest(&ended), digest_of(saved));
    assert_ne!(
        digest(&ended),
        digest_of(&text),
        "the change does something"
    );
    assert_eq!(ended["changes"].as_array().map(Vec::len), Some(2));
    // What the runs before the changes wrote is gone.
    let results = lab.get("/api/v1/results");
    let results = results["results"].as_array().expect("a list");
    assert_eq!(
        results
            .iter()
            .filter(|result| result["complete"] == true)
            .count(),
        1
    );
    let refused = json!({ "set": { "link/access/up/nothing": "rate 1Mbit" } });
    assert_eq!(
        lab.ask(&format!("POST {job}/change"), Some(&refused))
            .status,
        409,
        "it has ended"
    );
}

#[test]
fn a_change_that_fits_nothing_is_refused_and_the_run_goes_on() {
    let lab = Lab::new();
    let text = scenario("3s");
    let id = lab.begin(&json!({ "kind": "run", "text": text, "speed": 100, "paused": true }));
    for set in [
        json!({}),
        json!({ "link/access/up/nothing": "rate 1Mbit" }),
        json!({ "link/access/up/bottleneck": "rate nonsense" }),
        json!({ "x\"]]\n[[command]]": "rate 1Mbit" }),
    ] {
        let answer = lab.ask(
            &format!("POST /api/v1/jobs/{id}/change"),
            Some(&json!({ "set": set })),
        );
        assert_eq!(answer.status, 422, "{set}");
    }
    lab.post(
        &format!("/api/v1/jobs/{id}/control"),
        &json!({ "action": "resume" }),
    );
    assert_eq!(digest(&lab.ended(&id)), digest_of(&text));
}

#[test]
fn a_running_job_goes_on_after_a_change_that_is_refused() {
    let lab = Lab::new();
    let text = scenario("3s");
    let id = lab.begin(&json!({ "kind": "run", "text": text, "speed": 4 }));
    lab.job_once(&id, |job| job["progress"]["virtual_s"].as_f64() > Some(0.1));
    let nonsense = json!({ "set": { "link/access/up/bottleneck": "rate nonsense" } });
    let change = format!("POST /api/v1/jobs/{id}/change");
    assert_eq!(lab.ask(&change, Some(&nonsense)).status, 422);
    assert_eq!(digest(&lab.ended(&id)), digest_of(&text));
}

#[test]
fn a_change_that_a_proxy_would_have_to_know_beforehand_is_refused() {
    let lab = Lab::new();
    let text = r#"version = 1
name = "base station"
duration = "60s"
[[link]]
name = "wire"
ends = ["server", "tower"]
up = ["netem delay 5ms"]
down = ["netem delay 5ms"]
[[link]]
name = "air"
ends = ["tower", "phone"]
up = ["cell: rate 20Mbit"]
down = ["cell: rate 20Mbit", "netem delay 5ms"]
[[proxy]]
name = "pep"
host = "tower"
near_cc = "cubic"
far_cc = "quickstart"
far_hint = "link/air/up/cell"
[[flow]]
name = "bulk"
from = "server"
to = "phone"
via = "pep"
cc = "cubic"
"#;
    let id = lab.begin(&json!({ "kind": "run", "text": text, "paused": true }));
    let change = |element: &str| {
        let set = json!({ "set": { format!("link/air/{element}/cell"): "rate 5Mbit" } });
        lab.ask(&format!("POST /api/v1/jobs/{id}/change"), Some(&set))
    };
    let refused = change("up");
    assert_eq!(refused.status, 422);
    let said = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(said.contains("proxy/pep"), "{said}");
    assert_eq!(change("down").status, 200);
}

#[test]
fn a_job_that_is_held_stays_held_when_it_is_changed() {
    let lab = Lab::new();
    let id = lab.begin(&json!({ "kind": "run", "text": scenario("60s"), "paused": true }));
    let job = format!("/api/v1/jobs/{id}");
    let step = json!({ "action": "step", "by_s": 0.5 });
    lab.post(&format!("{job}/control"), &step);
    let at_least = |at: f64| move |job: &Value| job["progress"]["virtual_s"].as_f64() >= Some(at);
    lab.job_once(&id, at_least(0.5));
    let set = json!({ "set": { "link/access/up/bottleneck": "rate 3Mbit" } });
    let changed = lab.post(&format!("{job}/change"), &set);
    assert!(changed["at_s"].as_f64() < Some(0.6), "{changed}");
    // As fast as it goes, it would end meanwhile or be far beyond.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let held = lab.get(&job);
    assert_eq!(held["state"], "paused", "{held}");
    assert!(held["progress"]["virtual_s"].as_f64() < Some(0.6), "{held}");
    lab.post(&format!("{job}/control"), &step);
    lab.job_once(&id, at_least(1.0));
}

#[test]
fn a_fifth_job_at_the_same_time_is_refused_until_one_has_ended() {
    let lab = Lab::new();
    let start = json!({ "kind": "run", "text": scenario("60s"), "paused": true });
    let ids: Vec<_> = (0..4).map(|_| lab.begin(&start)).collect();
    assert_eq!(lab.ask("POST /api/v1/jobs", Some(&start)).status, 429);
    let stop = json!({ "action": "stop" });
    lab.post(&format!("/api/v1/jobs/{}/control", ids[0]), &stop);
    lab.ended(&ids[0]);
    lab.begin(&start);
}

#[test]
fn a_refused_text_starts_nothing_and_says_where() {
    let lab = Lab::new();
    let text = scenario("1s").replace("cubic", "cubik");
    let answer = lab.ask(
        "POST /api/v1/jobs",
        Some(&json!({ "kind": "run", "text": text })),
    );
    assert_eq!(answer.status, 422);
    let refused = answer.json();
    assert!(
        refused["error"]["hint"]
            .as_str()
            .expect("advice")
            .contains("`cubic`"),
        "{refused}"
    );
    assert_eq!(refused["findings"][0]["line"], refused["error"]["line"]);
    for start in [
        json!({ "kind": "run" }),
        json!({ "kind": "run", "text": scenario("1s"), "set": { "no/such": 1 } }),
        json!({ "kind": "run", "text": scenario("1s"), "speed": 0 }),
        json!({ "kind": "campaign", "text": scenario("1s") }),
        json!({ "kind": "campaign", "document": "catalog/incast", "paused": true }),
    ] {
        assert_eq!(
            lab.ask("POST /api/v1/jobs", Some(&start)).status,
            422,
            "{start}"
        );
    }
    let start = json!({ "kind": "run", "document": "catalog/no-such" });
    assert_eq!(lab.ask("POST /api/v1/jobs", Some(&start)).status, 404);
}

#[test]
fn values_that_are_set_are_run_and_a_stopped_run_leaves_an_incomplete_folder() {
    let lab = Lab::new();
    let set = json!({ "flow/second/cc": "reno" });
    let start = json!({ "kind": "run", "document": "catalog/prague-beside-cubic", "seed": 7, "set": { "duration": "2s" } });
    let job = lab.ended(&lab.begin(&start));
    assert_eq!(job["progress"]["duration_s"], 2.0, "{job}");
    let text = lab.get(&format!(
        "/api/v1/jobs/{}/text",
        job["id"].as_str().expect("an id")
    ));
    let seeded = |line: &str| line.starts_with("seed ") && line.ends_with("= 7");
    let of = text["text"].as_str().expect("a text");
    assert!(of.lines().any(seeded), "{text}");
    let start = json!({ "kind": "run", "text": scenario("60s"), "speed": 1, "set": set });
    let id = lab.begin(&start);
    lab.job_once(&id, |job| job["progress"]["virtual_s"].as_f64() > Some(0.2));
    lab.post(
        &format!("/api/v1/jobs/{id}/control"),
        &json!({ "action": "stop" }),
    );
    let stopped = lab.ended(&id);
    assert_eq!(stopped["state"], "cancelled", "{stopped}");
    let folder = stopped["result"]["folder"].as_str().expect("a folder");
    let results = lab.get("/api/v1/results");
    let of = results["results"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|r| r["name"] == folder);
    assert_eq!(of.expect("it is listed")["complete"], false);
    assert_eq!(
        lab.ask(&format!("DELETE /api/v1/jobs/{id}"), None).status,
        200
    );
    assert_eq!(lab.ask(&format!("GET /api/v1/jobs/{id}"), None).status, 404);
}

#[test]
fn a_server_that_ends_cancels_its_jobs_and_their_folders_say_so() {
    let mut lab = Lab::new();
    let running = lab.begin(&json!({ "kind": "run", "text": scenario("600s"), "speed": 1 }));
    lab.begin(&json!({ "kind": "run", "text": scenario("600s"), "paused": true }));
    lab.job_once(&running, |job| {
        job["progress"]["virtual_s"].as_f64() > Some(0.05)
    });
    lab.end();
    let folders: Vec<_> = fs::read_dir(lab.folder.path().join("results"))
        .expect("results")
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .collect();
    assert_eq!(folders.len(), 2);
    for folder in folders {
        let record = fs::read(folder.path().join("run.json")).expect("a record");
        let record: Value = serde_json::from_slice(&record).expect("JSON");
        assert_eq!(record["complete"], false);
    }
}

#[test]
fn a_campaign_runs_and_its_page_is_served_apart_from_all_else() {
    let lab = Lab::new();
    let text = "version = 1\nkind = \"campaign\"\nname = \"c\"\ncell = \"{rate}\"\n\
        [axis]\nrate = [\"5Mbit\", \"10Mbit\"]\n[set]\n\"link/access/up/bottleneck\" = \"rate {rate}\"\n\
        [metric]\nrate_mbit = \"goodput_mbit of flow/f\"\n\
        [scenario]\nduration = \"2s\"\n[[scenario.link]]\nname = \"access\"\nends = [\"a\", \"b\"]\n\
        up = [\"bottleneck: rate 1Mbit\"]\n[[scenario.flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ncc = \"cubic\"\n";
    let checked = lab.post("/api/v1/check", &json!({ "text": text }));
    assert_eq!(
        (&checked["findings"], &checked["cells"]),
        (&json!([]), &json!(2)),
        "{checked}"
    );
    let job = lab.ended(&lab.begin(&json!({ "kind": "campaign", "text": text })));
    assert_eq!(job["state"], "done", "{job}");
    assert_eq!(job["progress"]["total"], 2);
    assert_eq!(job["result"]["table"].as_array().map(Vec::len), Some(2));
    let report = job["result"]["report"].as_str().expect("a page").to_owned();
    // No cookie and no token: pages of results are of no origin. The address lets them in.
    let host = lab.address.to_string();
    let page = lab.send(&format!("GET {report}"), &[("Host", &host)], "");
    assert_eq!(page.status, 200);
    assert!(page.body.starts_with(b"<!DOCTYPE html>") || page.body.starts_with(b"<!doctype html>"));
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(
        policy.contains("sandbox allow-scripts") && policy.contains("default-src 'none'"),
        "{policy}"
    );
    assert!(!policy.contains("allow-same-origin"), "{policy}");
    let asset = report.replace("report.html", "assets/plotly.js");
    let shared = String::from_utf8_lossy(&page.body).contains("assets/");
    assert!(
        !shared
            || lab
                .send(&format!("GET {asset}"), &[("Host", &host)], "")
                .status
                != 401
    );
    // It lets nobody do anything else.
    let key = report
        .trim_start_matches("/results/")
        .split('/')
        .next()
        .expect("a key");
    for path in [
        format!("/api/v1/about?token={key}"),
        format!("/?token={key}"),
    ] {
        let status = lab
            .send(&format!("GET {path}"), &[("Host", &host)], "")
            .status;
        assert!([401, 403].contains(&status), "{path}: {status}");
    }
    let post = lab.send(&format!("POST {report}"), &[("Host", &host)], "");
    assert_eq!(post.status, 401);
    let traversed = format!("/results/{key}/../api/v1/about");
    assert_ne!(
        lab.send(&format!("GET {traversed}"), &[("Host", &host)], "")
            .status,
        200
    );
}

#[test]
fn packets_of_a_run_are_found_again_and_each_has_its_way() {
    let lab = Lab::new();
    let job = lab.ended(&lab.begin(&json!({ "kind": "run", "text": scenario("2s") })));
    let id = job["id"].as_str().expect("an id");
    let ask = |query: &str| lab.get(&format!("/api/v1/jobs/{id}/packets?{query}"));
    let found = ask("at_s=1&within_s=0.02&place=link/access/up/bottleneck");
    let packets = found["packets"].as_array().expect("a list");
    // 10 Mbit/s carry 16 packets of 1514 bytes in 20 ms.
    assert!((10..=40).contains(&packets.len()), "{}", packets.len());
    for packet in packets {
        assert_eq!(packet["place"], "link/access/up/bottleneck");
        let t = packet["t_s"].as_f64().expect("a time");
        assert!((1.0..=1.02).contains(&t), "{packet}");
    }
    assert_eq!(
        ask("at_s=1&within_s=0.02&place=link/access/up/bottleneck"),
        found,
        "it repeats"
    );
    let packet = packets[0]["id"].as_u64().expect("a number");
    let way = lab.get(&format!("/api/v1/jobs/{id}/packets/{packet}"));
    let whats: Vec<_> = way["steps"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|s| s["what"].clone())
        .collect();
    assert_eq!(
        (&whats[0], whats.last()),
        (&json!("sent"), Some(&json!("received"))),
        "{way}"
    );
    assert!(whats.contains(&json!("dequeued")));
    assert_eq!(
        lab.ask(&format!("GET /api/v1/jobs/{id}/packets/99999999"), None)
            .status,
        404
    );
    assert_eq!(
        lab.ask(&format!("GET /api/v1/jobs/{id}/packets?at_s=nan"), None)
            .status,
        422
    );
}
