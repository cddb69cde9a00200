//! `narrows testbed`: seeds, refusals, and the webhook of a machine. No machine is started.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

fn narrows() -> Command {
    Command::new(env!("CARGO_BIN_EXE_narrows"))
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The testbed of the guide's page on descriptors.
fn intents() -> String {
    let page = include_str!("../../../../docs/descriptors.md");
    let from = page
        .find("CREATE NodeModel end VNFD")
        .expect("the guide's testbed");
    let text = &page[from..];
    text[..text.find("```").expect("its end")].to_owned()
}

/// A folder with the intents, tokens, and something that looks like a program.
fn folder(intents: &str) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    fs::write(at.join("testbed.nemo"), intents).expect("a file");
    fs::write(at.join("program"), b"\x7fELF and no more").expect("a file");
    fs::write(at.join("tokens"), format!("{TOKEN}\n{TOKEN}x\n")).expect("a file");
    folder
}

fn seed(at: &Path, out: &str) -> std::process::Output {
    let mut command = narrows();
    command.args(["testbed", "seed", "testbed.nemo", "--program", "program"]);
    command
        .args(["--tokens", "tokens", "--out", out])
        .current_dir(at);
    command.output().expect("narrows runs")
}

fn seeds(intents: &str) -> (TempDir, PathBuf) {
    let folder = folder(intents);
    let output = seed(folder.path(), "seeds");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let out = folder.path().join("seeds");
    (folder, out)
}

const ROLES: [&str; 4] = ["source", "box", "observer", "sink"];

#[test]
fn a_scenario_gives_the_same_seeds_twice_and_each_role_has_its_own() {
    let (folder, first) = seeds(&intents());
    assert!(seed(folder.path(), "again").status.success());
    let mut seen = Vec::new();
    for role in ROLES {
        let name = format!("{role}.img");
        let bytes = fs::read(first.join(&name)).expect("a volume");
        let again = fs::read(folder.path().join("again").join(&name)).expect("a volume");
        assert!(bytes == again, "{name} is the same twice");
        // FAT32 has the volume label at byte 71 of the boot sector.
        assert_eq!(&bytes[71..77], b"CIDATA");
        let user = fs::read_to_string(first.join(role).join("user-data")).expect("user data");
        assert!(!user.contains("{{"), "{user}");
        assert!(!seen.contains(&user), "{role}");
        seen.push(user);
        let sums = fs::read_to_string(first.join(role).join("SHA256SUMS")).expect("sums");
        assert!(sums.ends_with("  narrows\n"), "{sums}");
    }
    // They hold tokens.
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&first).expect("it").permissions());
    assert_eq!(mode & 0o077, 0);
}

/// What is between quotes after `key` in each line of `text`, decoded.
fn file_of(user_data: &str, path: &str) -> String {
    let mut lines = user_data.lines().skip_while(|line| !line.contains(path));
    let content = lines.find_map(|line| line.trim().strip_prefix("content: "));
    let text = content.expect("a content").trim_matches('"');
    let mut decoder = Command::new("base64");
    let decoder = decoder
        .arg("-d")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = decoder.spawn().expect("base64 runs");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(text.as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8(output.stdout).expect("a text")
}

#[test]
fn the_box_has_its_links_with_their_elements_and_a_scenario_that_is_checked() {
    let (folder, out) = seeds(&intents());
    let user = fs::read_to_string(out.join("box/user-data")).expect("user data");
    let scenario = file_of(&user, "box.toml");
    for part in [
        "rate 20Mbit queue fq_codel",
        "netem delay 10ms",
        "netem delay 5ms",
    ] {
        assert!(scenario.contains(part), "{part} in {scenario}");
    }
    assert!(!scenario.contains("[[flow]]"), "{scenario}");
    let file = folder.path().join("box.toml");
    fs::write(&file, &scenario).expect("a file");
    let mut export = narrows();
    let exported = export
        .args(["export", "--format", "shell"])
        .arg(&file)
        .output();
    let exported = exported.expect("narrows runs");
    assert!(
        exported.status.success(),
        "{}",
        String::from_utf8_lossy(&exported.stderr)
    );
    let routes = file_of(&user, "far.batch");
    assert!(routes.contains("via 169.254.77.102"), "{routes}");
}

#[test]
fn the_sink_asks_the_source_for_the_flows_of_the_scenario() {
    let (folder, out) = seeds(&intents());
    let user = fs::read_to_string(out.join("sink/user-data")).expect("user data");
    let flow = file_of(&user, "flows/000.yaml");
    let file = folder.path().join("flow.yaml");
    fs::write(&file, &flow).expect("a file");
    let mut show = narrows();
    let shown = show
        .args(["traffic", "show", "--format", "json"])
        .arg(&file)
        .output();
    let shown = shown.expect("narrows runs");
    let value: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert!(value.to_string().contains("bulk"), "{value}");
    let orders: Value = serde_json::from_str(&file_of(&user, "orders.json")).expect("orders");
    assert_eq!(orders["role"], "sink");
    assert_eq!(orders["during"][1], "traffic");
}

#[test]
fn cloud_init_finds_nothing_wrong_in_the_templates() {
    let there = Command::new("cloud-init").arg("--version").output();
    if !there.is_ok_and(|output| output.status.success()) {
        println!(
            "skipped: cloud_init_finds_nothing_wrong_in_the_templates: there is no cloud-init"
        );
        return;
    }
    let (_folder, out) = seeds(&intents());
    for role in ROLES {
        for file in ["user-data", "vendor-data"] {
            let path = out.join(role).join(file);
            let mut schema = Command::new("cloud-init");
            let checked = schema.args(["schema", "--config-file"]).arg(&path).output();
            let checked = checked.expect("cloud-init runs");
            let said = String::from_utf8_lossy(&checked.stderr).into_owned()
                + &String::from_utf8_lossy(&checked.stdout);
            assert!(checked.status.success(), "{role}/{file}: {said}");
        }
    }
}

#[test]
fn a_scenario_that_is_no_testbed_is_refused_with_what_one_is() {
    let testbed = intents();
    for (from, to, found) in [
        ("Node source Type end", "Node begin Type end", "begin"),
        // A machine that only observes has no elements.
        (
            "Connection right Type p2p Endnodes path.far, sink.data;",
            "Connection right Type p2p Endnodes path.far, sink.data Property narrows-up: \"netem delay 1ms\";",
            "on a link without the box",
        ),
        ("cc = \"cubic\"", "cc = \"prague\"", "prague"),
        (
            "to = \"sink\"",
            "to = \"path.box\"",
            "does not go from source to sink",
        ),
    ] {
        let changed = testbed.replace(from, to).replace(
            "from = \"source\"\nto = \"sink\"",
            match to.contains("begin") {
                true => "from = \"begin\"\nto = \"sink\"",
                false => "from = \"source\"\nto = \"sink\"",
            },
        );
        assert_ne!(changed, testbed);
        let folder = folder(&changed);
        let output = seed(folder.path(), "seeds");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(found), "{found} in {errors}");
        assert!(!folder.path().join("seeds").exists());
    }
}

#[test]
fn a_file_that_is_no_program_is_refused() {
    let folder = folder(&intents());
    fs::write(folder.path().join("program"), "#!/bin/sh\n").expect("a file");
    let output = seed(folder.path(), "seeds");
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("--program"), "{errors}");
}

/// `narrows testbed serve` with orders, and where it is asked.
struct Machine {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn machine(orders: &Value) -> Machine {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    fs::write(at.join("orders.json"), orders.to_string()).expect("a file");
    fs::write(at.join("token"), TOKEN).expect("a file");
    let mut command = narrows();
    command.args(["testbed", "serve", "orders.json", "--token", "token"]);
    command
        .args(["--listen", "127.0.0.1:0"])
        .current_dir(at)
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("narrows runs");
    let errors = child.stderr.take().expect("its standard error");
    let mut line = String::new();
    BufReader::new(errors).read_line(&mut line).expect("a line");
    let address = line.split_whitespace().find_map(|word| word.parse().ok());
    let address = address.unwrap_or_else(|| panic!("an address in {line}"));
    Machine {
        child,
        address,
        _folder: folder,
    }
}

/// The status and the body of an answer.
fn ask(machine: &Machine, method: &str, path: &str, token: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(machine.address).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a time");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: machine\r\nAuthorization: {token}\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|s| s.parse().ok());
    let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
    (
        status.expect("a status"),
        serde_json::from_str(body).unwrap_or(Value::Null),
    )
}

fn orders(during: &[&str], after: &[&str]) -> Value {
    json!({"role": "sink", "during": during, "after": after, "longest_s": 60})
}

fn bearer() -> String {
    format!("Bearer {TOKEN}")
}

/// Asks until the run `id` is over; a bound of tries, each a moment apart.
fn over(machine: &Machine, id: u64) -> Value {
    for _ in 0..3_000 {
        let (status, run) = ask(machine, "GET", &format!("/api/v1/runs/{id}"), &bearer());
        assert_eq!(status, 200);
        if run["state"] != "running" {
            return run;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the run is not over");
}

#[test]
fn a_webhook_starts_what_the_orders_say_and_keeps_what_it_writes() {
    let machine = machine(&orders(&["echo", "a; $(b)"], &["echo", "end"]));
    let (status, state) = ask(&machine, "GET", "/api/v1/state", &bearer());
    assert_eq!((status, &state["role"]), (200, &json!("sink")));
    let (status, begun) = ask(&machine, "POST", "/api/v1/runs", &bearer());
    assert_eq!((status, &begun["id"]), (201, &json!(1)));
    let run = over(&machine, 1);
    assert_eq!(run["state"], "done");
    assert_eq!(run["programs"][0]["output"], "a; $(b)\n");
    assert_eq!(run["programs"][1]["output"], "end\n");
}

#[test]
fn a_webhook_starts_one_run_at_a_time_and_stops_it_when_asked() {
    let machine = machine(&orders(&["sleep", "600"], &["echo", "end"]));
    assert_eq!(ask(&machine, "POST", "/api/v1/runs", &bearer()).0, 201);
    assert_eq!(ask(&machine, "POST", "/api/v1/runs", &bearer()).0, 409);
    assert_eq!(
        ask(&machine, "POST", "/api/v1/runs/1/stop", &bearer()).0,
        202
    );
    let run = over(&machine, 1);
    // A signal ended it.
    assert_eq!(run["state"], "failed");
    assert_eq!(run["programs"][0]["status"], Value::Null);
    assert_eq!(run["programs"][1]["output"], "end\n");
    assert_eq!(ask(&machine, "POST", "/api/v1/runs", &bearer()).0, 201);
}

#[test]
fn a_webhook_answers_nobody_without_the_token() {
    let machine = machine(&orders(&["true"], &["true"]));
    for token in [
        "",
        "Bearer",
        TOKEN,
        "Bearer 0123456789abcdef0123456789abcdeg",
        "Basic x",
    ] {
        for (method, path) in [
            ("GET", "/api/v1/state"),
            ("POST", "/api/v1/runs"),
            ("GET", "/nothing"),
        ] {
            let (status, body) = ask(&machine, method, path, token);
            assert_eq!(status, 401, "{method} {path} with {token:?}");
            assert!(!body.to_string().contains("sink"), "{body}");
        }
    }
    for (method, path, expected) in [
        ("GET", "/nothing", 404),
        ("GET", "/api/v1/runs/1", 404),
        ("GET", "/api/v1/runs/../state", 404),
        ("POST", "/api/v1/runs/1/stop", 404),
        ("DELETE", "/api/v1/runs", 405),
        ("GET", "/api/v1/runs", 405),
    ] {
        assert_eq!(
            ask(&machine, method, path, &bearer()).0,
            expected,
            "{method} {path}"
        );
    }
}

#[test]
fn orders_with_an_unknown_word_are_refused() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    fs::write(
        at.join("orders.json"),
        "{\"role\": \"sink\", \"shell\": \"x\"}",
    )
    .expect("a file");
    fs::write(at.join("token"), TOKEN).expect("a file");
    let mut command = narrows();
    command
        .args(["testbed", "serve", "orders.json", "--token", "token"])
        .current_dir(at);
    let output = command.output().expect("narrows runs");
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("shell"), "{errors}");
}
