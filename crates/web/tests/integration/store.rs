//! Cells of the store: listed and drawn, and left as they are.

use std::fs;
use std::sync::atomic::AtomicBool;

use narrows::results::store::{Others, Store};
use narrows::results::{RunOptions, Watch, run_scenario, series};
use narrows::scenario::load;
use narrows::{EngineName, Output};

use crate::client::{Lab, scenario};

/// Runs `text` into the store of `lab`.
fn keep(lab: &Lab, text: &str) {
    let store = lab.folder.path().join(".cells");
    let store = Store::open(store, "1".to_owned()).expect("a store");
    let file = lab.folder.path().join(".kept.toml");
    fs::write(&file, text).expect("a file");
    let plan = load(&file.to_string_lossy()).and_then(|file| file.draft()?.check());
    let plan = plan.unwrap_or_else(|refusal| panic!("{}", refusal.to_line()));
    let engine = EngineName::Sim.engine(None).expect("the simulator");
    let key = store.key(&*engine, &plan, plan.seed, series::interval(&plan));
    let key = key.expect("a key");
    let begun = store.begin(&key, Others::First).expect("a folder");
    let begun = begun.expect("nobody else runs it");
    let options = RunOptions {
        output: Output::Nowhere,
        ..RunOptions::default()
    };
    let run = run_scenario(&*engine, &plan, &options, &Watch::default());
    let mut run = run.expect("it runs");
    begun
        .write(&mut run, false, &AtomicBool::new(false))
        .expect("it is written");
    store.keep(begun, &key, &run).expect("it is kept");
}

#[test]
fn the_cells_of_the_store_are_listed_and_have_pages() {
    let lab = Lab::new();
    let nothing = lab.get("/api/v1/store");
    assert_eq!((&nothing["all"], nothing.get("folder")), (&0.into(), None));
    keep(&lab, &scenario("1s"));
    let cells = lab.get("/api/v1/store");
    assert_eq!(cells["all"], 1, "{cells}");
    let cell = &cells["cells"][0];
    assert_eq!(
        (&cell["of"], &cell["engine"]),
        (&"two".into(), &"sim".into())
    );
    assert_eq!(cell["series"], true);
    let report = cell["report"].as_str().expect("an address");
    let page = lab.ask(&format!("GET {report}"), None);
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("sandbox"), "{policy}");
    let text = String::from_utf8_lossy(&page.body);
    assert!(text.contains("two") && text.contains("</html>"));
    // Another user's browser has no part in it.
    let bare = [("Host", &*lab.address.to_string())];
    assert_eq!(lab.send(&format!("GET {report}"), &bare, "").status, 401);
}

#[test]
fn names_that_are_no_cells_and_cells_that_are_damaged_have_no_page() {
    let lab = Lab::new();
    keep(&lab, &scenario("1s"));
    let cell = lab.get("/api/v1/store")["cells"][0].clone();
    let name = cell["name"].as_str().expect("a name");
    let place = lab
        .folder
        .path()
        .join(".cells/v1")
        .join(&name[..2])
        .join(name);
    fs::write(place.join("summary.json"), "{}").expect("a file");
    for name in [name, "..%2f..%2frun.json", "%00", &"0".repeat(64)] {
        let answer = lab.ask(&format!("GET /api/v1/store/{name}"), None);
        assert_eq!(answer.status, 404, "{name}: {answer:?}");
    }
}
