//! The lines with `curl` in the guide do what they say.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::client::Lab;

/// Exit status of curl when its time is over, as a stream has no end.
const TIME_IS_OVER: i32 = 28;

#[test]
fn every_curl_line_of_the_guide_is_answered() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: every_curl_line_of_the_guide_is_answered: there is no curl");
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/web.md");
    let page = fs::read_to_string(page).expect("the guide");
    let blocks = page.split("```").skip(1).step_by(2);
    let joined: String = blocks.map(|block| block.replace("\\\n", " ")).collect();
    let lines: Vec<_> = joined
        .lines()
        .filter(|line| line.starts_with("curl "))
        .collect();
    assert!(lines.len() > 10, "{lines:?}");
    let lab = Lab::new();
    for line in lines {
        let stream = line.contains("-N");
        let patience = if stream { "1" } else { "60" };
        // What is asked for packets has to have happened.
        if line.contains("/packets") {
            lab.job_once("1", |job| job["progress"]["virtual_s"].as_f64() > Some(1.1));
        }
        let command = line.replacen("curl ", &format!("curl -sS -f --max-time {patience} "), 1);
        let output = Command::new("sh")
            .args(["-c", &command])
            .env("AUTH", format!("Authorization: Bearer {}", lab.token))
            .env("JSON", "Content-Type: application/json")
            .env("API", format!("http://{}/api/v1", lab.address))
            .output()
            .expect("a shell");
        let expected = if stream { TIME_IS_OVER } else { 0 };
        let shown = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(expected), "{line}: {shown}");
        assert!(!output.stdout.is_empty(), "{line}");
    }
}
