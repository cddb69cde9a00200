//! What a machine of a testbed is asked by: a few requests of HTTP, with a token.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /api/v1/state` | the machine's role and version; it answers once the machine is ready |
//! | `POST /api/v1/runs` | 201 and the number of a run that has begun; 409 while one goes on |
//! | `GET /api/v1/runs/N` | whether it goes on, and what its programs have written |
//! | `POST /api/v1/runs/N/stop` | 202; its program is asked to end |

use std::convert::Infallible;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use narrows_results::Error;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::orders::Orders;
use super::state::Run;
use crate::secret::Secret;

/// Connections at a time (our choice); further ones are closed at once.
const MOST_CONNECTIONS: usize = 32;

/// How long the head of a request may take to come.
const HEAD: Duration = Duration::from_secs(10);

/// How long a connection may last.
const CONNECTION: Duration = Duration::from_secs(60);

/// Bytes of a request's head.
const HEAD_BYTES: usize = 16 << 10;

/// How often it is looked whether the server is to end.
const LOOK: Duration = Duration::from_millis(50);

/// Runs that are kept; of older ones nothing is known any more.
const KEPT: usize = 16;

/// What a machine of a testbed is asked by.
pub struct Webhook {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    orders: Orders,
    token: Secret,
    runs: Mutex<(u64, Vec<Arc<Run>>)>,
}

impl Webhook {
    /// The orders in the file `path`.
    ///
    /// # Errors
    /// When it cannot be read, or holds something else.
    pub fn orders(path: &Path) -> Result<Orders, Error> {
        let text = fs::read_to_string(path).map_err(Error::input(path))?;
        serde_json::from_str(&text).map_err(|error| {
            let why = format!(
                "{}: found {error}, but orders of a testbed are expected",
                path.display()
            );
            Error::Refused(why)
        })
    }

    /// Listens at `listen`, for requests with `token`.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn bind(orders: Orders, token: Secret, listen: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let shared = Shared {
            orders,
            token,
            runs: Mutex::new((0, Vec::new())),
        };
        Ok(Self {
            listener,
            shared: Arc::new(shared),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Makes the machine what its orders say, then answers until `end` is set. What it has started
    /// is ended then.
    ///
    /// # Errors
    /// When a step of the orders fails, or the program that serves ends.
    pub fn serve(self, end: &AtomicBool) -> Result<(), Error> {
        let engine =
            |what: &str, error: &dyn std::fmt::Display| Error::Engine(format!("{what}: {error}"));
        prepare(&self.shared.orders)?;
        let mut served = match &self.shared.orders.serve {
            Some(command) => Some(Served::start(command)?),
            None => None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|e| engine("starting the webhook", &e))?;
        let answered = runtime.block_on(self.accept(end, || match &mut served {
            Some(served) => served.has_ended(),
            None => Ok(()),
        }));
        for run in &self
            .shared
            .runs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1
        {
            run.stop();
        }
        answered
    }

    async fn accept(
        &self,
        end: &AtomicBool,
        mut look: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let failed = |e: io::Error| Error::Engine(format!("the webhook: {e}"));
        let listener = self.listener.try_clone().map_err(failed)?;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
        let permits = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        while !end.load(Ordering::SeqCst) {
            look()?;
            match timeout(LOOK, listener.accept()).await {
                Ok(Ok((connection, _))) => {
                    let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
                        continue;
                    };
                    let shared = Arc::clone(&self.shared);
                    tokio::spawn(async move {
                        let answer = service_fn(move |request| {
                            let answer = answer(&shared, &request);
                            async move { Ok::<_, Infallible>(answer) }
                        });
                        let served = http1::Builder::new()
                            .timer(TokioTimer::new())
                            .header_read_timeout(HEAD)
                            .max_buf_size(HEAD_BYTES)
                            .keep_alive(false)
                            .serve_connection(TokioIo::new(connection), answer);
                        // A client that breaks off needs no answer.
                        let _ = timeout(CONNECTION, served).await;
                        drop(permit);
                    });
                }
                // Too many open files, or a client that has gone.
                Ok(Err(_)) => tokio::time::sleep(LOOK).await,
                Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Runs programs, one after the other, and sets switches.
fn prepare(orders: &Orders) -> Result<(), Error> {
    for command in &orders.prepare {
        let words = command.join(" ");
        let (program, arguments) = command.split_first().ok_or_else(|| {
            Error::Refused("found orders with no program where one is expected".to_owned())
        })?;
        let mut child = Command::new(program);
        let status = child.args(arguments).stdin(Stdio::null()).status();
        let failed = |why: String| Error::Engine(format!("`{words}`: {why}"));
        let status = status.map_err(|e| failed(e.to_string()))?;
        if !status.success() {
            return Err(failed(status.to_string()));
        }
    }
    for (switch, value) in &orders.switches {
        let path = Path::new("/proc/sys").join(switch);
        fs::write(&path, value).map_err(|source| Error::Io {
            verb: "write",
            path,
            source,
        })?;
    }
    Ok(())
}

/// The program that runs as long as the machine does; it ends with this.
struct Served {
    child: Child,
    words: String,
}

impl Served {
    fn start(command: &[String]) -> Result<Self, Error> {
        let words = command.join(" ");
        let failed = |why: String| Error::Engine(format!("`{words}`: {why}"));
        let (program, arguments) = command
            .split_first()
            .ok_or_else(|| failed("no program is named".to_owned()))?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .spawn();
        let child = child.map_err(|e| failed(e.to_string()))?;
        Ok(Self { child, words })
    }

    fn has_ended(&mut self) -> Result<(), Error> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(Error::Engine(format!("`{}` ended: {status}", self.words))),
            Err(error) => Err(Error::Engine(format!("`{}`: {error}", self.words))),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with(status: StatusCode, value: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(value.to_string())));
    *response.status_mut() = status;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn refused(status: StatusCode, why: &str) -> Response<Full<Bytes>> {
    with(status, &json!({ "error": { "message": why } }))
}

/// The answer to a request; bodies are not read.
fn answer(shared: &Shared, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let mut given = request.headers().get_all(header::AUTHORIZATION).iter();
    let one = given.next().filter(|_| given.next().is_none());
    let one = one.and_then(|value| value.to_str().ok());
    if !one.is_some_and(|value| shared.token.is_bearer(value)) {
        return refused(
            StatusCode::UNAUTHORIZED,
            "`Authorization: Bearer TOKEN` is missing or wrong",
        );
    }
    let mut runs = shared.runs.lock().unwrap_or_else(PoisonError::into_inner);
    let parts: Vec<&str> = request.uri().path().split('/').skip(1).collect();
    let found = |id: &str| {
        let id: u64 = id.parse().ok()?;
        runs.1.iter().find(|run| run.id() == id)
    };
    let absent = || refused(StatusCode::NOT_FOUND, "there is no such address or run");
    match (request.method(), &parts[..]) {
        (&Method::GET, ["api", "v1", "state"]) => with(
            StatusCode::OK,
            &json!({
                "role": shared.orders.role,
                "version": env!("CARGO_PKG_VERSION"),
                "runs": runs.0,
            }),
        ),
        (&Method::POST, ["api", "v1", "runs"]) => {
            if runs.1.iter().any(|run| run.is_running()) {
                return refused(StatusCode::CONFLICT, "a run goes on; stop it first");
            }
            let id = runs.0 + 1;
            match Run::begin(id, &shared.orders) {
                Ok(run) => {
                    runs.0 = id;
                    runs.1.push(run);
                    let surplus = runs.1.len().saturating_sub(KEPT);
                    runs.1.drain(..surplus);
                    with(StatusCode::CREATED, &json!({ "id": id }))
                }
                Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
            }
        }
        (&Method::GET, ["api", "v1", "runs", id]) => {
            found(id).map_or_else(absent, |run| with(StatusCode::OK, &json!(run.shown())))
        }
        (&Method::POST, ["api", "v1", "runs", id, "stop"]) => match found(id) {
            Some(run) => {
                run.stop();
                with(StatusCode::ACCEPTED, &json!({ "id": run.id() }))
            }
            None => absent(),
        },
        (
            _,
            ["api", "v1", "state" | "runs"]
            | ["api", "v1", "runs", _]
            | ["api", "v1", "runs", _, "stop"],
        ) => refused(
            StatusCode::METHOD_NOT_ALLOWED,
            "GET or POST; see `narrows testbed serve --help`",
        ),
        _ => absent(),
    }
}
