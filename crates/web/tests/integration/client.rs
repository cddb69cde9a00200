//! A server in a folder of its own, and requests written byte by byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use narrows_web::{Options, Server};
use serde_json::Value;
use tempfile::TempDir;

/// No answer takes longer, on however slow a machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that ends with its test.
pub struct Lab {
    pub folder: TempDir,
    pub address: SocketAddr,
    pub token: String,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {text}"))
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(own, _)| own.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value)
    }
}

impl Lab {
    /// In an empty folder.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// In a folder that `fill` fills.
    pub fn with(fill: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fill(folder.path());
        let server = Server::bind(Options {
            store: Some(folder.path().join(".cells")),
            ..Options::of_folder(folder.path())
        });
        let server = server.expect("it listens");
        let (address, token) = (server.address(), server.token().to_owned());
        let end = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&end);
        let thread = std::thread::spawn(move || server.serve(&ends).expect("it serves"));
        Self {
            folder,
            address,
            token,
            end,
            thread: Some(thread),
        }
    }

    /// Has it end, and waits until it has.
    pub fn end(&mut self) {
        self.end.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it ends without a panic");
        }
    }

    /// A connection.
    pub fn connect(&self) -> TcpStream {
        let connection = TcpStream::connect(self.address).expect("it listens");
        connection
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket");
        connection
            .set_write_timeout(Some(PATIENCE))
            .expect("a socket");
        connection
    }

    /// Sends these bytes, and reads one answer.
    pub fn raw(&self, request: &[u8]) -> Answer {
        let mut connection = self.connect();
        // A server that refuses early reads no more.
        let _ = connection.write_all(request);
        read_answer(&mut connection)
    }

    /// A request with these lines of its head, and with this body.
    pub fn send(&self, line: &str, head: &[(&str, &str)], body: &str) -> Answer {
        let mut request = format!("{line} HTTP/1.1\r\n");
        for (name, value) in head {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!(
            "Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ));
        self.raw(request.as_bytes())
    }

    /// A request of who has the token.
    pub fn ask(&self, line: &str, body: Option<&Value>) -> Answer {
        let (host, bearer) = (self.address.to_string(), format!("Bearer {}", self.token));
        let head = [
            ("Host", host.as_str()),
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
        ];
        self.send(line, &head, &body.map(Value::to_string).unwrap_or_default())
    }

    /// The JSON at a path.
    pub fn get(&self, path: &str) -> Value {
        let answer = self.ask(&format!("GET {path}"), None);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// What a path answers to this body.
    pub fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.ask(&format!("POST {path}"), Some(body));
        let shown = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, 200, "{path}: {shown}");
        answer.json()
    }

    /// Begins a job.
    pub fn begin(&self, start: &Value) -> String {
        let begun = self.post("/api/v1/jobs", start);
        begun["job"].as_str().expect("a job").to_owned()
    }

    /// The job once `is` says so.
    pub fn job_once(&self, id: &str, is: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let job = self.get(&format!("/api/v1/jobs/{id}"));
            if is(&job) {
                return job;
            }
            assert!(Instant::now() < until, "{job}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The job once it has ended.
    pub fn ended(&self, id: &str) -> Value {
        self.job_once(id, |job| {
            !["running", "paused"].contains(&job["state"].as_str().expect("a state"))
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.end.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let joined = thread.join();
            assert!(
                std::thread::panicking() || joined.is_ok(),
                "it ends without a panic"
            );
        }
    }
}

/// Reads one answer.
pub fn read_answer(connection: &mut TcpStream) -> Answer {
    let mut reader = BufReader::new(connection);
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or(0);
    let mut answer = Answer {
        status,
        head,
        body: Vec::new(),
    };
    let length = answer
        .header("content-length")
        .and_then(|text| text.trim().parse().ok());
    match length {
        Some(length) => {
            answer.body.resize(length, 0);
            reader.read_exact(&mut answer.body).expect("the whole body");
        }
        None if status != 0 => {
            let _ = reader.read_to_end(&mut answer.body);
        }
        None => {}
    }
    answer
}

/// A run of so long, in virtual time: two flows through a queue.
pub fn scenario(duration: &str) -> String {
    format!(
        "version = 1\nname = \"two\"   # flows\nduration = \"{duration}\"\n\n\
         [[link]]\nname = \"access\"\nends = [\"client\", \"server\"]\n\
         up = [\"netem delay 5ms\", \"bottleneck: rate 10Mbit queue dualpi2\"]\n\
         down = [\"netem delay 5ms\"]\n\n\
         [[flow]]\nname = \"first\"\nfrom = \"client\"\nto = \"server\"\ncc = \"prague\"\n\n\
         [[flow]]\nname = \"second\"\nfrom = \"client\"\nto = \"server\"\ncc = \"cubic\"\n"
    )
}
