//! Collections: campaigns that run together, and the page of what they found.

use std::fs;
use std::path::Path;

use crate::program::{campaign, narrows};

/// A campaign of one short cell, which finds that its flow has `least` Mbit/s and more.
fn write_campaign(at: &Path, name: &str, least: f64) {
    let rest = format!(
        r#"[axis.queue]
fq = {{ words = "fq_codel" }}
[set]
"link/access/up/bottleneck" = "rate 5Mbit queue {{words}}"
[metric]
goodput = "goodput_mbit of flow/bulk"
[[key_finding]]
title = "{name} carries data"
severity = "It is {{goodput[*]}} Mbit/s."
when = "A flow runs."
checks = ["enough"]
[[check]]
id = "enough"
text = "the flow has its rate"
holds = "goodput[fq] >= {least}"
"#
    );
    let text = campaign(name, "{queue}", "4s", &rest);
    fs::write(at.join(format!("{name}.toml")), text).expect("written");
}

#[test]
fn a_collection_runs_its_campaigns_and_its_page_has_what_each_found() {
    let at = tempfile::tempdir().expect("a folder");
    write_campaign(at.path(), "one", 4.0);
    write_campaign(at.path(), "two", 6.0);
    let both = "version = 1\nkind = \"collection\"\nname = \"both\"\ncampaigns = [\"one.toml\", \"two.toml\"]\n";
    fs::write(at.path().join("both.toml"), both).expect("written");
    let args = ["campaign", "both.toml", "--check", "--out", "out"];
    let ran = narrows(at.path(), &args);
    // The second one's check fails.
    assert_eq!(ran.status.code(), Some(4), "{ran:?}");
    let page = fs::read_to_string(at.path().join("out/report.html")).expect("a page");
    for part in [
        "one carries data",
        "two carries data",
        "It is 4.",
        "A flow runs.",
        "1 of 2 checks pass, 1 fails",
        "href=\"one/report.html\"",
        "narrows campaign both.toml --check",
    ] {
        assert!(page.contains(part), "{part} is not in the page");
    }
    let own = fs::read_to_string(at.path().join("out/two/report.html")).expect("a page");
    assert!(own.contains("two carries data") && own.contains("narrows campaign two.toml --check"));

    // The page can be written again, and nothing of it is lost.
    fs::remove_file(at.path().join("out/report.html")).expect("removed");
    let again = narrows(at.path(), &["report", "out"]);
    assert_eq!(again.status.code(), Some(0), "{again:?}");
    let rewritten = fs::read_to_string(at.path().join("out/report.html")).expect("a page");
    assert_eq!(rewritten, page);
}

#[test]
fn of_a_collection_only_campaigns_with_a_cell_that_fits_are_run() {
    let at = tempfile::tempdir().expect("a folder");
    write_campaign(at.path(), "one", 4.0);
    write_campaign(at.path(), "two", 4.0);
    let other = fs::read_to_string(at.path().join("two.toml")).expect("a file");
    fs::write(
        at.path().join("two.toml"),
        other.replace("fq =", "other =").replace("[fq]", "[other]"),
    )
    .expect("written");
    let both = "version = 1\nkind = \"collection\"\nname = \"both\"\ncampaigns = [\"one.toml\", \"two.toml\"]\n";
    fs::write(at.path().join("both.toml"), both).expect("written");
    let ran = narrows(
        at.path(),
        &["campaign", "both.toml", "--only", "f*", "--out", "out"],
    );
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert!(at.path().join("out/one").exists() && !at.path().join("out/two").exists());
    let ran = narrows(
        at.path(),
        &["campaign", "both.toml", "--only", "f*", "--only", "x*"],
    );
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    let stderr = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(stderr.contains("`x*`, which fits none"), "{stderr}");
}

#[test]
fn campaigns_that_would_share_a_folder_are_refused_before_anything_runs() {
    let at = tempfile::tempdir().expect("a folder");
    for (file, name) in [("one", "same"), ("two", "same"), ("three", "report.html")] {
        write_campaign(at.path(), name, 4.0);
        fs::rename(
            at.path().join(format!("{name}.toml")),
            at.path().join(format!("{file}.toml")),
        )
        .expect("renamed");
    }
    for pair in ["\"one.toml\", \"two.toml\"", "\"one.toml\", \"three.toml\""] {
        let both =
            format!("version = 1\nkind = \"collection\"\nname = \"both\"\ncampaigns = [{pair}]\n");
        fs::write(at.path().join("both.toml"), both).expect("written");
        let ran = narrows(at.path(), &["campaign", "both.toml", "--out", "out"]);
        assert_eq!(ran.status.code(), Some(2), "{ran:?}");
        let stderr = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(stderr.contains("folders of their own"), "{stderr}");
        assert!(!at.path().join("out").exists());
    }
}

#[test]
fn a_collection_is_no_scenario_and_its_campaigns_must_be_there() {
    let at = tempfile::tempdir().expect("a folder");
    let text = "version = 1\nkind = \"collection\"\nname = \"all\"\ncampaigns = [\"nowhere\"]\n";
    fs::write(at.path().join("all.toml"), text).expect("written");
    for (args, says) in [
        (["run", "all.toml"], "narrows campaign all.toml"),
        (["campaign", "all.toml"], "`nowhere`"),
    ] {
        let ran = narrows(at.path(), &args);
        assert_eq!(ran.status.code(), Some(2), "{ran:?}");
        let stderr = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(stderr.contains(says), "{stderr}");
    }
    assert!(!at.path().join("results").exists());
}
