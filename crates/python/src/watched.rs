//! Work that takes its time: in a thread of its own, while the one that asked follows it, calls
//! what is to know how far it is, and looks whether Ctrl-C was pressed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use narrows::{Progress, Watch};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::error::Failure;

/// How often it is looked at.
const TICK: Duration = Duration::from_millis(20);

/// How long work that leaves the machine alone has to end by itself after Ctrl-C. What ends
/// later does so in its own thread, and its results are dropped.
const GRACE: Duration = Duration::from_millis(120);

/// How far it is: done, planned, and in what.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reached {
    done: f64,
    of: f64,
    unit: &'static str,
}

/// What the working thread and the one that follows it share.
#[derive(Default)]
struct Shared {
    reached: Mutex<Option<Reached>>,
    notes: Mutex<Vec<String>>,
    /// Runs under way that have changed the machine, or have processes of their own.
    held: AtomicU32,
}

impl Shared {
    fn see(&self, progress: Progress<'_>) {
        let reached = match progress {
            Progress::Run { reached, of } => Reached {
                done: reached.as_secs_f64(),
                of: of.as_secs_f64(),
                unit: "s",
            },
            Progress::Cells { done, of, .. } => Reached {
                done: done as f64,
                of: of as f64,
                unit: "cells",
            },
            Progress::Compared { runs, of } => Reached {
                done: runs as f64,
                of: of as f64,
                unit: "runs",
            },
            Progress::Note(line) => {
                let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
                return notes.push(line.to_owned());
            }
            Progress::MachineTaken => {
                self.held.fetch_add(1, Ordering::SeqCst);
                return;
            }
            Progress::MachineLeft => {
                self.held.fetch_sub(1, Ordering::SeqCst);
                return;
            }
            _ => return,
        };
        *self.reached.lock().unwrap_or_else(PoisonError::into_inner) = Some(reached);
    }

    /// Calls `progress(done, of, unit, note)` with what is new.
    fn tell(&self, progress: &Bound<'_, PyAny>, last: &mut Option<Reached>) -> PyResult<()> {
        let notes = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        let reached = *self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        let new = reached.filter(|_| reached != *last);
        for note in notes {
            let at = reached.map_or((0.0, 0.0, ""), |r| (r.done, r.of, r.unit));
            progress.call1((at.0, at.1, at.2, note))?;
        }
        if let Some(new) = new {
            progress.call1((new.done, new.of, new.unit, None::<String>))?;
            *last = reached;
        }
        Ok(())
    }
}

/// Does `work` with a watch that Ctrl-C, an exception of `progress` and `cancel` end.
pub fn watched<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    cancel: &Arc<AtomicBool>,
    work: impl FnOnce(&Watch<'_>) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let shared = Arc::new(Shared::default());
    let (to, mut from) = mpsc::channel();
    let (seen, stop) = (shared.clone(), cancel.clone());
    let thread = std::thread::Builder::new().name("narrows".to_owned());
    let started = thread.spawn(move || {
        let progress = |progress: Progress<'_>| seen.see(progress);
        let watch = Watch {
            cancel: &stop,
            progress: &progress,
        };
        let done = catch_unwind(AssertUnwindSafe(|| work(&watch)));
        // Nobody may be there any more.
        to.send(done.unwrap_or_else(|panic| Err(Failure::Defect(words(&*panic)))))
            .ok();
    });
    started.map_err(|why| PyRuntimeError::new_err(format!("no thread could be started: {why}")))?;
    let mut last = None;
    let mut wait = |py: Python<'_>, time: Duration| {
        let (back, got) = {
            let taken = std::mem::replace(&mut from, mpsc::channel().1);
            py.detach(move || {
                let got = taken.recv_timeout(time);
                (taken, got)
            })
        };
        from = back;
        got
    };
    loop {
        let got = wait(py, TICK);
        let said = match progress {
            Some(progress) => shared.tell(progress, &mut last),
            None => Ok(()),
        };
        match got {
            Ok(done) => {
                said?;
                return done.map_err(|failure| failure.raised(py));
            }
            Err(RecvTimeoutError::Disconnected) => {
                let why = "the run ended without saying how".to_owned();
                return Err(Failure::Defect(why).raised(py));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(ended) = said.and_then(|()| py.check_signals()) {
            cancel.store(true, Ordering::SeqCst);
            let until = Instant::now() + GRACE;
            // What has changed the machine puts it back first.
            while Instant::now() < until || shared.held.load(Ordering::SeqCst) > 0 {
                if !matches!(wait(py, TICK), Err(RecvTimeoutError::Timeout)) {
                    break;
                }
            }
            return Err(ended);
        }
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let words = words.or_else(|| panic.downcast_ref::<String>().cloned());
    let words = words.unwrap_or_else(|| "it did not say why".to_owned());
    format!(
        "this is a mistake in narrows itself: {words}; please report it at {}/issues",
        env!("CARGO_PKG_REPOSITORY")
    )
}
