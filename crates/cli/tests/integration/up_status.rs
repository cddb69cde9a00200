//! The output of `narrows status`: the counters of each element, and a topology whose folder was removed.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::machine_rig::text;
use crate::up::{FOLDER, Lab, PAIR, connected, printed, run};

/// What of `lab`'s only link went up, and what its elements did there, once a connection was
/// tried; by its address, for in a chroot hosts have no names.
fn way_up(lab: &Lab) -> Value {
    let hosts = lab.status()["topology"]["hosts"].clone();
    let mut hosts = hosts.as_array().expect("hosts").iter();
    let server = hosts.find(|h| h["name"] == "server").expect("it is one");
    let to = format!("{}:9", server["ipv4"].as_str().expect("an address"));
    let (how, _) = connected(&lab.host("client"), &to);
    assert_eq!(how, "Some(ConnectionRefused)");
    lab.status()["figures"]["links"][0]["up"].clone()
}

#[test]
fn every_element_says_what_passed_it_and_only_queues_how_long_packets_waited() {
    let test = "every_element_says_what_passed_it_and_only_queues_how_long_packets_waited";
    let elements = "\"netem delay 1ms\", \"clamp: mmb mss-clamp\", \"tap mid\", \
                    \"bottleneck: rate 1Mbit queue pfifo\"";
    let whole = PAIR.replace(
        "\"netem delay 30ms\", \"bottleneck: rate 20Mbit queue fq_codel\"",
        elements,
    );
    let Some(lab) = Lab::of(test, "elements", &whole) else {
        return;
    };
    let output = lab.up();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let up = way_up(&lab);
    let all = up["elements"].as_array().expect("elements");
    assert_eq!(all.len(), 4, "{up}");
    for element in all {
        assert!(element["packets"].as_u64() >= Some(1), "{up}");
        assert!(element["bytes"].as_u64() >= Some(40), "{up}");
        assert_eq!(element["drops"], 0, "{up}");
        // A key that would say nothing is not there.
        let has_queue = element["name"] == "link/access/up/bottleneck";
        let said = element.get("sojourn_max_ms").is_some();
        assert!(has_queue || !said, "{up}");
    }
    let said = printed(&["status", &lab.name]);
    for words in ["netem delay 1ms  [", "clamp: mmb mss-clamp  ["] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn the_kernel_s_disciplines_say_what_passed_them() {
    let test = "the_kernel_s_disciplines_say_what_passed_them";
    let whole = PAIR
        .replace(
            "\"netem delay 30ms\", \"bottleneck: rate 20Mbit queue fq_codel\"",
            "\"rate 20Mbit queue pfifo\"",
        )
        .replace("\"netem delay 30ms\"", "")
        .replace(
            "name = \"access\"",
            "name = \"access\"\ndatapath = \"kernel\"",
        );
    let Some(lab) = Lab::of(test, "kernels", &whole) else {
        return;
    };
    let output = lab.up();
    if text(&output.stderr).contains("no queueing discipline") {
        eprintln!("skipped: {test}: {}", text(&output.stderr).trim_end());
        return;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    let element = way_up(&lab)["elements"][0].clone();
    assert!(element["packets"].as_u64() >= Some(1), "{element}");
    assert!(element["bytes"].as_u64() >= Some(40), "{element}");
    // That of pfifo counts no marks.
    assert!(element.get("marks").is_none(), "{element}");
}

#[test]
fn a_topology_whose_folder_was_removed_is_found_and_taken_down() {
    let test = "a_topology_whose_folder_was_removed_is_found_and_taken_down";
    let Some(lab) = Lab::of(test, "bare", PAIR) else {
        return;
    };
    let run_file = |lab: &Lab| {
        let run = lab.status()["topology"]["run"].clone();
        Path::new(FOLDER).join(run.as_str().expect("an id"))
    };
    // Its folder alone, and with it the file of its run.
    for with_file in [false, true] {
        for command in [&["down", &lab.name][..], &["doctor", "--clean"]] {
            let output = lab.up();
            assert!(output.status.success(), "{}", text(&output.stderr));
            let holder = lab.holder();
            let file = run_file(&lab);
            fs::remove_dir_all(lab.folder()).expect("it is there");
            if with_file {
                fs::remove_file(file).expect("it is there");
            }
            let status = lab.status();
            assert_eq!(status["condition"], "lost", "{status}");
            assert_eq!(status["holder"]["pid"], holder.as_raw());
            let said = printed(&["status", &lab.name]);
            assert!(said.contains("its folder was removed"), "{said}");
            // Its name is not free as long as it is up.
            let again = lab.up();
            assert_eq!(again.status.code(), Some(2), "{}", text(&again.stderr));
            let said = printed(command);
            assert!(said.contains(&lab.name), "{said}");
            assert_eq!(run(&["status", &lab.name]).status.code(), Some(2));
            assert_eq!(lab.left(), Vec::<String>::new(), "{command:?} {with_file}");
        }
    }
}
