//! The stream of events.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::client::{Lab, scenario};

/// A reader of the stream.
pub struct Watcher(BufReader<TcpStream>);

impl Watcher {
    pub fn of(lab: &Lab) -> Self {
        let mut connection = lab.connect();
        let request = format!(
            "GET /api/v1/stream HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
            lab.address, lab.token
        );
        connection
            .write_all(request.as_bytes())
            .expect("it listens");
        let mut reader = BufReader::new(connection);
        let mut line = String::new();
        reader.read_line(&mut line).expect("an answer");
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        // Once the first event is there, it is counted as a reader.
        while !line.starts_with("retry:") {
            line.clear();
            reader.read_line(&mut line).expect("a line");
        }
        Self(reader)
    }

    /// The next event: its name and data.
    pub fn next(&mut self) -> (String, Value) {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            let read = self.0.read_line(&mut line).expect("a line");
            assert_ne!(read, 0, "the stream ended");
            if let Some(word) = line.strip_prefix("event: ") {
                name = word.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return (name, serde_json::from_str(data).expect("JSON"));
            }
        }
    }

    /// The data of the next event of a name.
    pub fn next_of(&mut self, name: &str) -> Value {
        loop {
            let (found, data) = self.next();
            if found == name {
                return data;
            }
        }
    }

    /// The samples of a job up to its end.
    pub fn samples_until_done(&mut self, id: &str) -> Vec<Value> {
        let mut samples = Vec::new();
        loop {
            let (name, data) = self.next();
            match name.as_str() {
                "samples" if data["job"] == id => samples.push(data),
                "job" if data["id"] == id && data["state"] == "done" => return samples,
                _ => {}
            }
        }
    }
}

#[test]
fn changes_of_jobs_and_files_are_events() {
    let lab = Lab::new();
    let mut watcher = Watcher::of(&lab);
    let body = json!({ "text": scenario("1s"), "revision": null });
    assert_eq!(
        lab.ask("PUT /api/v1/documents/file/a.toml", Some(&body))
            .status,
        200
    );
    assert_eq!(watcher.next().0, "files");
    let id = lab.begin(&json!({ "kind": "run", "document": "file/a.toml" }));
    let job = watcher.next_of("job");
    assert_eq!(job["id"], json!(id));
    assert!(
        watcher
            .samples_until_done(&id)
            .iter()
            .all(|sample| sample["job"] == json!(id))
    );
    // A later reader receives the state at once.
    let (name, job) = Watcher::of(&lab).next();
    assert_eq!((name.as_str(), &job["state"]), ("job", &json!("done")));
}

#[test]
fn a_file_that_others_write_right_after_a_reader_came_is_an_event() {
    let lab = Lab::new();
    let mut watcher = Watcher::of(&lab);
    // Before the server looks at the folder for the first time since.
    std::fs::write(lab.folder.path().join("theirs.toml"), scenario("1s")).expect("a file");
    watcher.next_of("files");
}

#[test]
fn who_does_not_read_is_skipped_and_holds_nobody_up() {
    let lab = Lab::new();
    let stuck = Watcher::of(&lab);
    let mut reading = Watcher::of(&lab);
    // Long events fill the buffers of the connection that is not read.
    let text = scenario("1s");
    let flows: String = (0..150)
        .map(|n| format!("\n[[flow]]\nname = \"n{n}\"\nfrom = \"client\"\nto = \"server\"\ncc = \"reno\"\nbytes = 3000\n"))
        .collect();
    let start = json!({ "kind": "run", "text": format!("{text}{flows}") });
    let job = lab.ended(&lab.begin(&start));
    assert_eq!(job["state"], "done", "{job}");
    let id = job["id"].as_str().expect("an id");
    reading.samples_until_done(id);
    drop(stuck);
}
