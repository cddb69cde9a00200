//! What rules of boxes hit while a run goes on.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::client::{Lab, scenario};
use crate::streams::Watcher;

/// Two flows through a box whose second rule drops one packet in a hundred.
fn with_box() -> String {
    let link = scenario("2s");
    let rules = "fw: mmb add udp-dport 9 drop; add ip-proto tcp drop 1; add all accept";
    let (up, down) = ("\"bottleneck: ", "down = [\"");
    assert!(link.contains(up) && link.contains(down), "{link}");
    link.replace(up, &format!("\"{rules}\", {up}"))
        .replace(down, &format!("down = [\"{rules}\", \""))
}

#[test]
fn samples_have_what_each_rule_hit_and_a_check_says_which_rules_they_are() {
    let lab = Lab::new();
    let text = with_box();
    let checked = lab.post("/api/v1/check", &json!({ "text": text }));
    let fw = &checked["boxes"][0];
    assert_eq!(fw["name"], "link/access/fw", "{checked}");
    assert_eq!(fw["times"][0]["rules"][1], "add ip-proto tcp drop 1");
    let mut watcher = Watcher::of(&lab);
    let id = lab.begin(&json!({ "kind": "run", "text": text }));
    let mut last = BTreeMap::<String, u64>::new();
    for sample in watcher.samples_until_done(&id) {
        let values = sample["values"]["link/access/fw"].as_object();
        for (metric, value) in values.into_iter().flatten() {
            let value = value.as_f64().expect("a number") as u64;
            let before = last.insert(metric.clone(), value).unwrap_or(0);
            assert!(before <= value, "{metric} counts from the start");
        }
    }
    let count = |metric: &str| last.get(metric).copied();
    assert_eq!(count("rule_1_packets"), None, "no datagram came");
    let (packets, dropped) = (count("rule_2_packets"), count("rule_2_dropped"));
    let (packets, dropped) = (packets.expect("TCP came"), dropped.expect("some of it"));
    assert!(
        dropped > 0 && dropped < packets / 10,
        "{dropped} of {packets}"
    );
    assert_eq!(count("rule_3_packets"), Some(packets));
    assert_eq!(count("rule_3_dropped"), Some(0));
}

#[test]
fn rules_that_a_run_is_given_are_those_of_the_box_from_then_on() {
    let lab = Lab::new();
    let text = with_box().replace("2s", "30s");
    let start = json!({ "kind": "run", "text": text, "speed": 1 });
    let id = lab.begin(&start);
    lab.job_once(&id, |job| job["progress"]["virtual_s"].as_f64() > Some(0.1));
    let change = json!({ "set": { "link/access/fw": "del 2; insert 1 add all mod ip-ttl 9" } });
    let changed = lab.post(&format!("/api/v1/jobs/{id}/change"), &change);
    let checked = lab.post("/api/v1/check", &json!({ "text": changed["text"] }));
    let times = checked["boxes"][0]["times"].as_array().expect("times");
    let rules = |at: usize| -> Vec<&Value> {
        let rules = times[at]["rules"].as_array().expect("rules");
        rules.iter().collect()
    };
    assert_eq!(times.len(), 2, "{checked}");
    assert_eq!(times[1]["from_s"], changed["at_s"]);
    assert_eq!(rules(1)[0], "add all mod ip-ttl 9");
    assert_eq!(rules(1)[1..], [rules(0)[0], rules(0)[2]]);
    let ended = lab.ask(&format!("DELETE /api/v1/jobs/{id}"), Some(&json!({})));
    assert_eq!(ended.status, 200);
}
