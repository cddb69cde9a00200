//! Listening, and the limits of connections: how many, and for how long.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::documents::Documents;
use crate::guard::{self, Gate};
use crate::jobs::Jobs;
use crate::state::{Laboratory, Shared, Turns};
use crate::stream::Stream;
use crate::{api, page, results, topologies};

/// Connections at the same time; further ones are closed at once. Below the 1024 files that a
/// process usually may open.
const MOST_CONNECTIONS: usize = 256;

/// How long the head of a request may take to come, also on a connection that waits for one.
const HEADERS: Duration = Duration::from_secs(10);

/// Bytes of a request's head, and of what is read ahead.
const HEAD_BYTES: usize = 64 << 10;

/// How often it is looked whether the server is to end.
const LOOK: Duration = Duration::from_millis(20);

/// How long jobs have to end, so that the server ends within a second.
const GRACE: Duration = Duration::from_millis(800);

/// How long what changed the machine has to put it back.
const GRACE_OF_MACHINE: Duration = Duration::from_secs(30);

/// How often it is looked whether files of the folder have changed, while somebody wants to know.
const WATCH: Duration = Duration::from_secs(2);

/// What is served, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of documents; results go to `results` in it.
    pub folder: PathBuf,
    /// The store of cells, of which the newest are listed; it need not be there.
    pub store: Option<PathBuf>,
    /// The document that the page opens first, by its path below the folder.
    pub document: Option<String>,
    /// Where to listen; a free port for 0.
    pub listen: SocketAddr,
    /// Further names of the server, `HOST` or `HOST:PORT`, by which requests may ask for it.
    pub hosts: Vec<String>,
}

impl Options {
    /// A folder at a free port of the loopback address.
    pub fn of_folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            store: None,
            document: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            hosts: Vec::new(),
        }
    }
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    document: Option<String>,
    state: Shared,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// When the folder is none, or the address cannot be had.
    pub fn bind(options: Options) -> io::Result<Self> {
        let documents = Documents::of(&options.folder)?;
        let listener = TcpListener::bind(options.listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stream = Arc::new(Stream::new());
        let gate = Gate::new(address, &options.hosts)?;
        let jobs = Jobs::new(Arc::clone(&stream), &results::address(&gate.results));
        let state = Laboratory {
            jobs: Arc::new(jobs),
            gate,
            documents,
            store: options.store,
            stream,
            turns: Turns::new(),
        };
        Ok(Self {
            listener,
            address,
            document: options.document,
            state: Arc::new(state),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address that lets a browser in.
    pub fn url(&self) -> String {
        self.entrance(self.token())
    }

    /// The same, but for the first use only: as an argument of a program it can be seen by other
    /// users of the machine.
    pub fn url_for_once(&self) -> String {
        self.entrance(self.state.gate.once())
    }

    fn entrance(&self, token: &str) -> String {
        let open = self
            .document
            .as_ref()
            .map(|name| format!("&open={}", guard::escaped(name)));
        let host = self.state.gate.host();
        format!("http://{host}/?token={token}{}", open.unwrap_or_default())
    }

    /// Whether the page was built into the program.
    pub fn has_page(&self) -> bool {
        page::is_there()
    }

    /// What lets other programs in: `Authorization: Bearer TOKEN`.
    pub fn token(&self) -> &str {
        self.state.gate.token()
    }

    /// Answers until `end` is set; then ends all jobs. Their folders say that they are incomplete.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn serve(self, end: &AtomicBool) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(Turns::THREADS)
            .enable_io()
            .enable_time()
            .build()?;
        let router = api::router()
            .layer(from_fn_with_state(Arc::clone(&self.state), guard::pass))
            .with_state(Arc::clone(&self.state));
        let served = runtime.block_on(self.accept(router, end));
        if !self.state.jobs.end(GRACE) && self.state.jobs.hold_machine() {
            self.state.jobs.end(GRACE_OF_MACHINE);
        }
        runtime.shutdown_background();
        served
    }

    async fn accept(&self, router: Router, end: &AtomicBool) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.listener.try_clone()?)?;
        let permits = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let watcher = tokio::spawn(watch(Arc::clone(&self.state)));
        while !end.load(Ordering::Relaxed) {
            match timeout(LOOK, listener.accept()).await {
                Ok(Ok((connection, _))) => {
                    // Beyond the limit, a connection is closed at once.
                    if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
                        let router = router.clone();
                        tokio::spawn(async move {
                            answer(connection, router).await;
                            drop(permit);
                        });
                    }
                }
                // Too many open files, or a client that has gone: others are accepted.
                Ok(Err(_)) => tokio::time::sleep(LOOK).await,
                Err(_) => {}
            }
        }
        watcher.abort();
        Ok(())
    }
}

/// Answers the requests of a connection.
async fn answer(connection: TcpStream, router: Router) {
    // Events shall not wait for more of them.
    let _ = connection.set_nodelay(true);
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(connection), TowerToHyperService::new(router));
    // A client that breaks off needs no answer.
    let _ = served.await;
}

/// Sends an event when files have changed, and when topologies were brought up or taken down.
async fn watch(state: Shared) {
    let mut before = None;
    loop {
        tokio::time::sleep(WATCH).await;
        if !state.stream.is_read() {
            before = None;
            continue;
        }
        let of_folder = Arc::clone(&state);
        let looked = tokio::task::spawn_blocking(move || {
            let documents = &of_folder.documents;
            (documents.fingerprint(), topologies::up(documents))
        });
        let Ok((files, up)) = looked.await else {
            return;
        };
        let nothing = serde_json::json!({});
        // At the first look, too: a reader may have asked before something came that this look has found.
        let (files_before, up_before) = before.replace((files.clone(), up.clone())).unzip();
        if files_before != Some(files) {
            state.stream.send("files", &nothing);
        }
        if up_before != Some(up) {
            state.stream.send("topologies", &nothing);
        }
    }
}
