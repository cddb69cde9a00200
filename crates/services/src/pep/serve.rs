//! The daemon with its log and its page of metrics.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use narrows_scenario::Refusal;
use tracing::level_filters::LevelFilter;

use super::log::{Line, LogLines};
use super::{Config, Daemon, PepError, RunError, Status, metrics};
use crate::expose::Exposed;
use narrows_linux::foreground::Hindrance;

/// What is logged to standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// Lines for people, with each tunnel or without.
    Text {
        /// Whether each tunnel is logged.
        details: bool,
    },
    /// A JSON object in each line.
    Json {
        /// Whether each tunnel is logged.
        details: bool,
    },
}

/// Why no proxy is served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The machine refused a step.
    #[error(transparent)]
    Pep(#[from] PepError),
    /// Metrics cannot be answered there.
    #[error("metrics: {address} cannot be listened at: {reason}")]
    Metrics {
        /// Where.
        address: SocketAddr,
        /// What the kernel said.
        reason: io::Error,
    },
}

impl ServeError {
    /// Whether what is missing is a right of this user's.
    pub fn is_of_rights(&self) -> bool {
        match self {
            Self::Pep(error) => error.is_of_rights(),
            Self::Metrics { reason, .. } => reason.kind() == io::ErrorKind::PermissionDenied,
        }
    }
}

/// Serves until SIGTERM or SIGINT, and until what is there then has ended or its time is
/// over; what was done. SIGHUP reads the configuration again. To be called while the
/// process has one thread.
///
/// # Errors
/// If the machine refuses a step of the set-up.
pub fn serve(config: Config, log: Log) -> Result<Status, ServeError> {
    let lines = LogLines::new();
    write_log(log, &lines);
    let page_at = config.metrics;
    // Opened first: with it come the user's rights, which a thread is to have as well, and
    // the signals that it is not to get.
    let daemon = Daemon::open(config);
    let _written = lines.write_from_a_thread();
    let daemon = daemon?;
    let exposed = page_at.map(|address| {
        let refused = |reason| ServeError::Metrics { address, reason };
        Exposed::listen(address).map_err(refused)
    });
    let mut exposed = exposed.transpose()?;
    Ok(daemon.run(&mut |status| {
        if let Some(exposed) = &mut exposed {
            exposed.show(metrics(status));
        }
    })?)
}

/// Checks what of a configuration hangs on the machine: that its user is there, and that legs can
/// have their congestion controls of the kernel.
///
/// # Errors
/// The first that is missing.
pub fn check(config: &Config) -> Result<(), Refusal> {
    config.check()
}

/// What kept a command from running.
pub fn hindrance(error: &RunError) -> Hindrance {
    match error {
        error if error.is_of_rights() => Hindrance::NoPermission,
        RunError::Command(error) => Hindrance::of_command(error),
        _ => Hindrance::NotMade,
    }
}

fn write_log(log: Log, lines: &Arc<LogLines>) {
    let (Log::Text { details } | Log::Json { details }) = log;
    let level = if details {
        LevelFilter::DEBUG
    } else {
        LevelFilter::INFO
    };
    let writer = Arc::clone(lines);
    let lines = tracing_subscriber::fmt()
        .with_writer(move || Line(Arc::clone(&writer)))
        .with_ansi(false)
        .with_target(false)
        .with_max_level(level);
    // Who has set up a log of its own gets these lines there.
    let _ = match log {
        Log::Text { .. } => lines.try_init(),
        Log::Json { .. } => lines.json().try_init(),
    };
}
