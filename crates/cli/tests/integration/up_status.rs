//! The output of `narrows status`: the counters of each element, and a topology whose folder was removed.

use std::fs;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use crate::machine_rig::{cleaning, soon, text};
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

/// The file of the run that `lab` is.
fn run_file(lab: &Lab) -> PathBuf {
    let run = lab.status()["topology"]["run"].clone();
    Path::new(FOLDER).join(run.as_str().expect("an id"))
}

#[test]
fn a_topology_whose_run_has_lost_its_file_is_up_and_is_taken_down() {
    let test = "a_topology_whose_run_has_lost_its_file_is_up_and_is_taken_down";
    let _cleaning = cleaning();
    let Some(lab) = Lab::of(test, "unlisted", PAIR) else {
        return;
    };
    for killed in [false, true] {
        for command in [&["down", &lab.name][..], &["doctor", "--clean"]] {
            let output = lab.up();
            assert!(output.status.success(), "{}", text(&output.stderr));
            let (holder, file) = (lab.holder(), run_file(&lab));
            fs::remove_file(file).expect("it is there");
            assert_eq!(lab.status()["condition"], "up");
            fs::remove_file(run_file(&lab)).expect("it is there again");
            if killed {
                kill(holder, Signal::SIGKILL).expect("it is ours");
            } else if command[0] == "doctor" {
                // What is up is not swept.
                printed(command);
                assert_eq!(lab.status()["condition"], "up");
                continue;
            }
            let said = printed(command);
            assert!(killed || said.ends_with("is down\n"), "{said}");
            assert_eq!(run(&["status", &lab.name]).status.code(), Some(2));
            assert_eq!(lab.left(), Vec::<String>::new(), "{command:?} {killed}");
        }
        run(&["down", &lab.name]);
    }
}

#[test]
fn a_folder_without_anything_in_it_is_its_holders_as_long_as_that_lives() {
    let test = "a_folder_without_anything_in_it_is_its_holders_as_long_as_that_lives";
    let _cleaning = cleaning();
    let Some(lab) = Lab::of(test, "emptied", PAIR) else {
        return;
    };
    let output = lab.up();
    assert!(output.status.success(), "{}", text(&output.stderr));
    fs::remove_file(run_file(&lab)).expect("it is there");
    fs::remove_dir_all(lab.folder()).expect("it is there");
    fs::create_dir(lab.folder()).expect("root may");
    assert_eq!(lab.status()["condition"], "lost");
    let again = lab.up();
    assert_eq!(again.status.code(), Some(2), "{}", text(&again.stderr));
    printed(&["down", &lab.name]);
    assert_eq!(lab.left(), Vec::<String>::new());
}

#[test]
fn a_folder_that_nobody_has_is_removed_by_down_and_by_a_cleaning() {
    let test = "a_folder_that_nobody_has_is_removed_by_down_and_by_a_cleaning";
    // The directory stays as long as there is another.
    let _cleaning = cleaning();
    let Some(other) = Lab::of(test, "beside", PAIR) else {
        return;
    };
    let output = other.up();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let Some(lab) = Lab::of(test, "lone", PAIR) else {
        return;
    };
    for command in [&["down", &lab.name][..], &["doctor", "--clean"]] {
        fs::create_dir(lab.folder()).expect("root may");
        let said = printed(&["status", &lab.name]);
        assert!(said.contains("no process holds it"), "{said}");
        let said = run(command);
        assert!(said.status.success(), "{}", text(&said.stderr));
        let said = text(&said.stdout) + &text(&said.stderr);
        let removed = format!("removed {}", lab.folder().display());
        assert!(said.contains(&removed), "{said}");
        assert_eq!(lab.left(), Vec::<String>::new(), "{command:?}");
    }
    // One that cannot be removed is no topology that is down.
    fs::create_dir_all(lab.folder().join("in it")).expect("root may");
    let said = run(&["down", &lab.name]);
    assert_eq!(said.status.code(), Some(1), "{}", text(&said.stdout));
    fs::remove_dir(lab.folder().join("in it")).expect("it is there");
}

#[test]
fn the_directory_of_what_is_up_is_locked_against_removers_of_old_files() {
    let test = "the_directory_of_what_is_up_is_locked_against_removers_of_old_files";
    let Some(lab) = Lab::of(test, "kept", PAIR) else {
        return;
    };
    let output = lab.up();
    assert!(output.status.success(), "{}", text(&output.stderr));
    // As systemd-tmpfiles asks before it looks into a directory.
    let directory = fs::File::open(FOLDER).expect("it is there");
    let locked = Flock::lock(directory, FlockArg::LockExclusiveNonblock);
    assert!(locked.is_err());
}

#[test]
fn a_topology_whose_folder_was_removed_is_found_and_taken_down() {
    let test = "a_topology_whose_folder_was_removed_is_found_and_taken_down";
    let _cleaning = cleaning();
    let Some(lab) = Lab::of(test, "bare", PAIR) else {
        return;
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

#[test]
fn a_host_whose_name_is_taken_has_none_and_the_others_have_theirs() {
    let test = "a_host_whose_name_is_taken_has_none_and_the_others_have_theirs";
    let Some(lab) = Lab::of(test, "taken", PAIR) else {
        return;
    };
    let (names, client) = (Path::new("/run/netns"), lab.host("client"));
    fs::create_dir_all(names).expect("root may");
    fs::write(names.join(&client), "").expect("root may");
    let output = lab.up();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let hosts = lab.status()["topology"]["hosts"].clone();
    let named: Vec<_> = (0..2).map(|i| hosts[i]["named"].clone()).collect();
    printed(&["down", &lab.name]);
    assert_eq!(lab.left(), std::slice::from_ref(&client), "it is another's");
    fs::remove_file(names.join(&client)).expect("it is there");
    // It stays where others have names.
    let _ = fs::remove_dir(names);
    let note = format!("`ip netns` does not show {client}: another namespace has the name\n");
    assert!(said.contains(&note), "{said}");
    if said.contains(&lab.host("server")) {
        eprintln!("skipped: {test}: {said}");
        return;
    }
    assert_eq!(named, [false, true]);
}

#[test]
fn an_element_that_was_changed_is_shown_as_it_is_now() {
    let test = "an_element_that_was_changed_is_shown_as_it_is_now";
    let change = "\n[[change]]\nat = \"1ms\"\ntarget = \"link/access/up/netem\"\nto = \"delay 60ms\"\n\
                  \n[[change]]\nat = \"2ms\"\ntarget = \"link/access/up/netem\"\nto = \"delay 90ms\"\n";
    let Some(lab) = Lab::of(test, "changed", &format!("{PAIR}{change}")) else {
        return;
    };
    let output = lab.up();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(soon(|| {
        let changes = lab.status()["figures"]["changes"].clone();
        let all = changes.as_array().map_or(0, Vec::len);
        all == 1 && changes[0]["words"] == "delay 90ms"
    }));
    let said = printed(&["status", &lab.name]);
    assert!(
        said.contains("netem delay 30ms, since 0.0 s delay 90ms"),
        "{said}"
    );
}

#[test]
fn names_that_no_file_can_have_are_refused_and_long_ones_are_said() {
    let test = "names_that_no_file_can_have_are_refused_and_long_ones_are_said";
    let Some(lab) = Lab::of(test, "letters", &PAIR.replace("client", "é")) else {
        return;
    };
    let output = lab.up();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("host/é") && said.contains("ASCII"), "{said}");
    let at = tempfile::tempdir().expect("a folder");
    let name = format!("t{}{}", std::process::id(), "x".repeat(60));
    let short = &name[..40];
    let scenario = PAIR.replace("\"pair\"", &format!("\"{name}\""));
    let file = at.path().join("long.toml");
    fs::write(&file, scenario).expect("a file");
    let output = run(&["up", file.to_str().expect("UTF-8")]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    printed(&["down", short]);
    assert!(
        said.contains(&format!("which is called {short}\n")),
        "{said}"
    );
}
