//! Metrics for Prometheus: a page of text that is answered over HTTP while the program works.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How old the page may be while there is news.
const PERIOD: Duration = Duration::from_millis(250);
/// How long a client may take to send its request, and to read the response.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest request that is read.
const LONGEST: usize = 8 << 10;

/// Clients that are answered at a time: beyond it the one that came first is cut off, so that
/// half requests keep nobody out (our choice).
const AT_ONCE: usize = 64;

/// The page, and who answers with it until the program ends.
pub struct Exposed {
    address: SocketAddr,
    page: Arc<Mutex<Arc<str>>>,
    made: Option<Instant>,
}

impl Exposed {
    /// Listens at `address`; with the port 0 at a free one.
    ///
    /// # Errors
    /// When it cannot be listened at.
    pub fn listen(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let page = Arc::new(Mutex::new(Arc::from("")));
        let shown = Arc::clone(&page);
        let open = Arc::<Mutex<VecDeque<(u64, TcpStream)>>>::default();
        thread::spawn(move || {
            #[cfg(target_os = "linux")]
            narrows_linux::system_calls::give_way();
            for (id, stream) in (0u64..).zip(listener.incoming().flatten()) {
                let Ok(copy) = stream.try_clone() else {
                    continue;
                };
                let mut all = open.lock().unwrap_or_else(PoisonError::into_inner);
                all.push_back((id, copy));
                if all.len() > AT_ONCE {
                    if let Some((_, first)) = all.pop_front() {
                        // One that has gone is no longer there.
                        let _ = first.shutdown(Shutdown::Both);
                    }
                }
                drop(all);
                let (shown, open_then) = (Arc::clone(&shown), Arc::clone(&open));
                let work = move || {
                    // Who has gone misses nothing.
                    let _ = answer(stream, &shown);
                    let mut all = open_then.lock().unwrap_or_else(PoisonError::into_inner);
                    all.retain(|(other, _)| *other != id);
                };
                let thread = thread::Builder::new().name("metrics".to_owned());
                if thread.spawn(work).is_err() {
                    let mut all = open.lock().unwrap_or_else(PoisonError::into_inner);
                    all.retain(|(other, _)| *other != id);
                }
            }
        });
        Ok(Self {
            address,
            page,
            made: None,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it is time for a new page.
    pub fn is_due(&self) -> bool {
        self.made.is_none_or(|at| at.elapsed() >= PERIOD)
    }

    /// Answers with this from now on.
    pub fn show(&mut self, page: String) {
        self.made = Some(Instant::now());
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = page.into();
    }
}

/// Reads one request of HTTP and answers it (RFC 9112), then closes.
fn answer(mut stream: TcpStream, page: &Mutex<Arc<str>>) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    while !request.windows(4).any(|w| w == b"\r\n\r\n") && request.len() < LONGEST {
        let left = end.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut some = [0; 1024];
        match stream.read(&mut some)? {
            0 => break,
            n => request.extend_from_slice(&some[..n]),
        }
    }
    // Held no longer than that: whoever makes the next page waits for it.
    let page = Arc::clone(&*page.lock().unwrap_or_else(PoisonError::into_inner));
    stream.write_all(response(&request, &page).as_bytes())
}

/// The answer to a request.
fn response(request: &[u8], page: &str) -> String {
    let first = request.split(|b| *b == b'\r').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    let mut words = first.split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let path = target.split('?').next().unwrap_or("");
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => ("200 OK", "text/plain; version=0.0.4", page),
        ("GET" | "HEAD", _) => ("404 Not Found", "text/plain", "metrics are at /metrics\n"),
        ("", _) => ("400 Bad Request", "text/plain", "no request\n"),
        _ => ("405 Method Not Allowed", "text/plain", "only GET\n"),
    };
    let length = body.len();
    let body = if method == "HEAD" { "" } else { body };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_requests_keep_nobody_from_an_answer() {
        let mut exposed = Exposed::listen(([127, 0, 0, 1], 0).into()).expect("a port");
        exposed.show("page".to_owned());
        let open = || TcpStream::connect(exposed.address()).expect("it listens");
        let half = || {
            let mut stream = open();
            stream.write_all(b"GET /metrics HT").expect("sent");
            stream
        };
        let halves: Vec<_> = (0..3 * AT_ONCE).map(|_| half()).collect();
        let begun = Instant::now();
        let mut stream = open();
        stream
            .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
            .expect("sent");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("an answer");
        assert!(said.ends_with("\r\n\r\npage"), "{said}");
        // In their stead the first were cut off, before their time.
        let mut first = &halves[0];
        first.set_read_timeout(Some(10 * PATIENCE)).expect("set");
        let _ = first.read(&mut [0]);
        assert!(begun.elapsed() < PATIENCE * halves.len() as u32);
    }

    #[test]
    fn requests_are_answered_by_their_method_and_path() {
        for (request, status, body) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK", "page"),
            ("GET /metrics?a=b HTTP/1.1\r\n\r\n", "200 OK", "page"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "200 OK", ""),
            ("GET / HTTP/1.1\r\n\r\n", "404", "metrics are at /metrics\n"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405", "only GET\n"),
            ("", "400", "no request\n"),
        ] {
            let answer = response(request.as_bytes(), "page");
            let (head, said) = answer.split_once("\r\n\r\n").expect("a head");
            assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
            assert_eq!(said, body, "{request}");
        }
        let head = response(b"HEAD /metrics HTTP/1.1\r\n\r\n", "page");
        assert!(head.contains("Content-Length: 4\r\n"), "{head}");
    }
}
