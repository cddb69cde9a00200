//! Requests of those who should get nothing.

use std::fs;
use std::io::{Read, Write};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Lab, read_answer, scenario};

/// A request to begin a job, as a page of somebody else would send it.
fn start() -> String {
    json!({ "kind": "run", "text": scenario("1s") }).to_string()
}

#[test]
fn a_host_that_is_not_the_servers_gets_nothing() {
    let lab = Lab::new();
    let bearer = format!("Bearer {}", lab.token);
    let port = lab.address.port();
    let others = [
        "attacker.example".to_owned(),
        format!("attacker.example:{port}"),
        "127.0.0.1".to_owned(),
        "localhost:1".to_owned(),
        format!("127.0.0.1:{port}.attacker.example"),
        format!("127.0.0.1:{port}@attacker.example"),
        String::new(),
    ];
    for host in others {
        let head = [("Host", host.as_str()), ("Authorization", bearer.as_str())];
        let answer = lab.send("GET /api/v1/about", &head, "");
        assert!(
            [400, 403, 421].contains(&answer.status),
            "{host}: {answer:?}"
        );
    }
    let none = lab.send("GET /api/v1/about", &[("Authorization", &bearer)], "");
    assert!([400, 421].contains(&none.status), "{none:?}");
    let own = format!("localhost:{port}");
    let twice = [
        ("Host", own.as_str()),
        ("Host", "attacker.example"),
        ("Authorization", &bearer),
    ];
    assert_eq!(lab.send("GET /api/v1/about", &twice, "").status, 400);
    // The whole address in the first line counts, too.
    let head = [("Host", own.as_str()), ("Authorization", bearer.as_str())];
    let absolute = lab.send("GET http://attacker.example/api/v1/about", &head, "");
    assert_eq!(absolute.status, 403, "{absolute:?}");
    assert_eq!(lab.send("GET /api/v1/about", &head, "").status, 200);
}

#[test]
fn pages_of_others_get_nothing_even_with_the_cookie() {
    let lab = Lab::new();
    let host = lab.address.to_string();
    let entered = lab.send(
        &format!("GET /?token={}", lab.token),
        &[("Host", &host)],
        "",
    );
    let cookie = entered.header("set-cookie").expect("a cookie");
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    let cookie = cookie.split(';').next().expect("a pair").to_owned();
    let own = format!("http://{host}");
    let post = |origin: Option<&str>, kind: &str| {
        let mut head = vec![
            ("Host", host.as_str()),
            ("Cookie", &cookie),
            ("Content-Type", kind),
        ];
        head.extend(origin.map(|origin| ("Origin", origin)));
        lab.send("POST /api/v1/jobs", &head, &start()).status
    };
    let json = "application/json";
    let near = format!("http://{host}.attacker.example");
    for origin in [
        "http://attacker.example",
        "null",
        "https://127.0.0.1",
        near.as_str(),
        "",
    ] {
        assert_eq!(post(Some(origin), json), 403, "{origin}");
    }
    assert_eq!(post(None, json), 403, "a cookie without an origin");
    // What forms of other pages can send.
    for kind in [
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "text/plain",
        "",
    ] {
        assert_eq!(post(Some(&own), kind), 415, "{kind}");
    }
    assert_eq!(
        lab.get("/api/v1/jobs")["jobs"],
        json!([]),
        "nothing was begun"
    );
    assert_eq!(post(Some(&own), json), 200);
    // Reading, too.
    let head = [
        ("Host", host.as_str()),
        ("Cookie", &cookie),
        ("Origin", "http://attacker.example"),
    ];
    let read = lab.send("GET /api/v1/documents", &head, "");
    assert_eq!(read.status, 403);
    assert_eq!(read.header("access-control-allow-origin"), None);
}

#[test]
fn a_missing_or_another_servers_token_gets_nothing() {
    let lab = Lab::new();
    let other = Lab::new();
    let host = lab.address.to_string();
    let wrong = format!("Bearer {}", other.token);
    let close = format!("Bearer {}", &lab.token[..63]);
    for path in [
        "/",
        "/index.html",
        "/api/v1/about",
        "/api/v1/stream",
        "/results/x/run.json",
        "/api/v1/openapi.json",
    ] {
        for head in [
            None,
            Some(wrong.as_str()),
            Some(close.as_str()),
            Some("Bearer "),
            Some("Basic x"),
        ] {
            let mut all = vec![("Host", host.as_str())];
            all.extend(head.map(|value| ("Authorization", value)));
            all.push(("Cookie", "narrows=x; narrows-1=y"));
            let answer = lab.send(&format!("GET {path}"), &all, "");
            assert_eq!(answer.status, 401, "{path} {head:?}");
        }
    }
    for token in [other.token.as_str(), "", "x"] {
        let answer = lab.send(&format!("GET /?token={token}"), &[("Host", &host)], "");
        assert_eq!(
            (answer.status, answer.header("set-cookie")),
            (403, None),
            "{token}"
        );
    }
    let answer = lab.send(
        &format!("GET /?token={}", lab.token),
        &[("Host", "attacker.example")],
        "",
    );
    assert_eq!((answer.status, answer.header("set-cookie")), (421, None));
}

#[test]
fn no_path_leads_out_of_the_folder() {
    let lab = Lab::with(|folder| {
        fs::create_dir_all(folder.join("results/r")).expect("a folder");
        fs::write(folder.join("results/r/run.json"), "{}").expect("a file");
        fs::write(folder.join("secret.txt"), "secret").expect("a file");
        fs::write(folder.join(".hidden.toml"), "secret = 1").expect("a file");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("/etc", folder.join("results/r/etc")).expect("a link");
            std::os::unix::fs::symlink("/etc/passwd", folder.join("out.toml")).expect("a link");
            std::os::unix::fs::symlink("/etc", folder.join("etc")).expect("a link");
        }
    });
    let ways = [
        "..%2f..%2f..%2fetc%2fpasswd",
        "../../../etc/passwd",
        "%2e%2e/%2e%2e/etc/passwd",
        "..%252f..%252fetc/passwd",
        "%2fetc%2fpasswd",
        "/etc/passwd",
        "..%5c..%5cetc%5cpasswd",
        "etc/passwd",
        "r/etc/passwd",
        "r/../../secret.txt",
        "r%2f..%2f..%2fsecret.txt",
        "r/%00",
        ".hidden.toml",
        "out.toml",
        "etc/x.toml",
        "..%2fout.toml",
        "%c0%ae%c0%ae/x.toml",
    ];
    for way in ways {
        for path in [
            "/api/v1/documents/file/",
            "/api/v1/documents/catalog/",
            "/results/",
            "/",
        ] {
            let answer = lab.ask(&format!("GET {path}{way}"), None);
            assert!(
                [400, 404].contains(&answer.status),
                "{path}{way}: {answer:?}"
            );
            assert!(
                !String::from_utf8_lossy(&answer.body).contains("root:"),
                "{path}{way}"
            );
        }
        let put = json!({ "text": "x", "revision": null });
        let answer = lab.ask(&format!("PUT /api/v1/documents/file/{way}"), Some(&put));
        assert!(
            [400, 404, 409, 422].contains(&answer.status),
            "{way}: {answer:?}"
        );
        let layout = lab.ask(
            &format!("PUT /api/v1/layouts/file/{way}"),
            Some(&json!({ "nodes": {} })),
        );
        assert!(
            [400, 404, 422].contains(&layout.status),
            "{way}: {layout:?}"
        );
    }
    assert_eq!(lab.ask("GET /results/r/run.json", None).status, 200);
    // A text may name files, too.
    let text = scenario("1s").replace(
        "rate 10Mbit queue dualpi2",
        "rate trace ../../../etc/passwd",
    );
    let check = lab.post("/api/v1/check", &json!({ "text": text }));
    let shown = check["findings"].to_string();
    assert!(
        !shown.contains("root:") && shown.contains("error"),
        "{shown}"
    );
}

#[test]
fn huge_and_deep_bodies_are_refused() {
    let lab = Lab::new();
    let host = lab.address.to_string();
    let head = format!(
        "POST /api/v1/check HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\n",
        lab.token
    );
    let answer = lab.raw(format!("{head}Content-Length: 10000000000\r\n\r\n{{").as_bytes());
    assert!([0, 413].contains(&answer.status), "{answer:?}");
    let chunk = format!("100000\r\n{}\r\n", "x".repeat(1 << 20));
    let chunked = format!(
        "{head}Transfer-Encoding: chunked\r\n\r\n{}",
        chunk.repeat(8)
    );
    let answer = lab.raw(chunked.as_bytes());
    assert!([0, 413].contains(&answer.status), "{answer:?}");
    let long = format!(
        "GET /{} HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "a".repeat(1 << 20)
    );
    assert!([0, 400, 414, 431].contains(&lab.raw(long.as_bytes()).status));
    for text in [
        "x".repeat(2 << 20),
        format!("x = {}", "[".repeat(500_000)),
        "[a.".repeat(100_000),
    ] {
        let check = lab.ask("POST /api/v1/check", Some(&json!({ "text": text })));
        assert_eq!(check.status, 200, "{check:?}");
        let check = check.json();
        assert_eq!(check["findings"][0]["severity"], "error");
        let edit =
            json!({ "text": text, "edits": [{ "op": "remove", "table": "flow", "name": "x" }] });
        assert_eq!(lab.ask("POST /api/v1/edit", Some(&edit)).status, 422);
        let place = json!({ "text": text, "line": 1, "column": 5 });
        assert!([200, 422].contains(&lab.ask("POST /api/v1/complete", Some(&place)).status));
    }
    let deep = format!("{{\"text\":{}", "[".repeat(100_000));
    let bearer = format!("Bearer {}", lab.token);
    let head = [
        ("Host", host.as_str()),
        ("Authorization", &bearer),
        ("Content-Type", "application/json"),
    ];
    assert_eq!(lab.send("POST /api/v1/check", &head, &deep).status, 400);
}

#[test]
fn who_sends_slowly_loses_the_connection_and_a_run_goes_on_unharmed() {
    let lab = Lab::new();
    let alone = lab.ended(&lab.begin(&json!({ "kind": "run", "text": scenario("3s") })));
    let id = lab.begin(&json!({ "kind": "run", "text": scenario("3s"), "paused": true }));
    let mut slow: Vec<_> = (0..40).map(|_| lab.connect()).collect();
    for connection in &mut slow {
        connection
            .write_all(b"GET / HTTP/1.1\r\nHo")
            .expect("it listens");
    }
    let mut body = lab.connect();
    let head = format!(
        "POST /api/v1/check HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        lab.address, lab.token
    );
    body.write_all(head.as_bytes()).expect("it listens");
    lab.post(
        &format!("/api/v1/jobs/{id}/control"),
        &json!({ "action": "resume" }),
    );
    let job = lab.ended(&id);
    assert_eq!(job["result"]["digest"], alone["result"]["digest"]);
    assert_eq!(read_answer(&mut body).status, 408);
    for connection in &mut slow {
        let mut rest = Vec::new();
        // It ends, with an answer or without.
        connection
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a socket");
        let _ = connection.read_to_end(&mut rest);
        assert!(!rest.starts_with(b"HTTP/1.1 200"), "{rest:?}");
    }
    assert_eq!(lab.ask("GET /api/v1/about", None).status, 200);
}

#[test]
fn further_streams_than_a_user_has_pages_are_refused() {
    let lab = Lab::new();
    let request = format!(
        "GET /api/v1/stream HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        lab.address, lab.token
    );
    let id = lab.begin(&json!({ "kind": "run", "text": scenario("2s"), "paused": true }));
    // At the same time as many as a server has seats for, a thousand in all.
    let mut refused = 0;
    let mut open = Vec::new();
    for _ in 0..1000 {
        let mut connection = lab.connect();
        if connection.write_all(request.as_bytes()).is_err() {
            refused += 1;
            continue;
        }
        let mut start = [0; 12];
        match connection.read_exact(&mut start) {
            Ok(()) if &start == b"HTTP/1.1 200" => open.push(connection),
            _ => refused += 1,
        }
    }
    assert_eq!((open.len(), refused), (16, 984));
    lab.post(
        &format!("/api/v1/jobs/{id}/control"),
        &json!({ "action": "resume" }),
    );
    assert_eq!(lab.ended(&id)["state"], "done");
    drop(open);
}

#[test]
fn programs_are_started_only_for_who_names_exactly_these() {
    let lab = Lab::new();
    let program = |argument: &str| {
        let command = "[[command]]\nname = \"c\"\nhost = \"client\"\nrun = [\"touch\", ";
        format!("{}\n{command}\"{argument}\"]\n", scenario("1s"))
    };
    let text = program("/tmp/never");
    let checked = lab.post("/api/v1/check", &json!({ "text": text }));
    let digest = checked["programs_digest"]
        .as_str()
        .expect("a digest")
        .to_owned();
    assert_eq!(
        checked["programs"][0]["argv"],
        json!(["touch", "/tmp/never"])
    );
    let start = |text: &str, engine: &str, programs: Option<&str>| {
        let start = json!({ "kind": "run", "text": text, "engine": engine, "programs": programs });
        lab.ask("POST /api/v1/jobs", Some(&start))
    };
    let refused = start(&text, "sim", None);
    assert_eq!(
        refused.status, 422,
        "the simulator has none, whether they are agreed to or not: {refused:?}"
    );
    let about = lab.get("/api/v1/about");
    let engines = about["engines"].as_array().expect("engines");
    let live = |engine: &&Value| engine["name"] == "live" && engine["available"] == true;
    if !engines.iter().any(|engine| live(&engine)) {
        eprintln!("skipped: programs of live runs: this process cannot run any");
        return;
    }
    for (text, programs) in [
        (text.as_str(), None),
        (text.as_str(), Some("")),
        (program("/tmp/other").as_str(), Some(digest.as_str())),
    ] {
        let refused = start(text, "live", programs);
        assert_eq!(refused.status, 409, "{refused:?}");
        assert_eq!(refused.json()["programs"][0]["host"], "client");
    }
    assert_eq!(lab.get("/api/v1/jobs")["jobs"], json!([]));
}

#[test]
fn what_is_no_http_and_methods_that_are_none_are_refused() {
    let lab = Lab::new();
    for wild in [
        &b"\x16\x03\x01\x02\x00\x01"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
    ] {
        let mut connection = lab.connect();
        connection.write_all(wild).expect("it listens");
        connection
            .shutdown(std::net::Shutdown::Write)
            .expect("a socket");
        let status = read_answer(&mut connection).status;
        assert!([0, 400, 421, 505].contains(&status), "{wild:?}: {status}");
    }
    for method in ["TRACE", "CONNECT", "PATCH", "DELETE", "OPTIONS"] {
        let answer = lab.ask(&format!("{method} /api/v1/about"), None);
        assert!(
            [400, 403, 404, 405].contains(&answer.status),
            "{method}: {answer:?}"
        );
    }
}

#[test]
fn connections_beyond_the_limit_are_closed_and_others_are_answered_again_later() {
    let lab = Lab::new();
    let held: Vec<_> = (0..256).map(|_| lab.connect()).collect();
    // They are accepted one by one.
    let mut closed = false;
    for _ in 0..100 {
        let mut further = lab.connect();
        further
            .set_read_timeout(Some(Duration::from_millis(100)))
            .expect("a socket");
        let mut byte = [0];
        closed = matches!(further.read(&mut byte), Ok(0));
        if closed {
            break;
        }
    }
    assert!(closed, "one more than 256 connections is closed");
    drop(held);
    let answered = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        let mut connection = lab.connect();
        let request = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", lab.address);
        connection.write_all(request.as_bytes()).is_ok()
            && read_answer(&mut connection).status == 401
    });
    assert!(answered);
}
