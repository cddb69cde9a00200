//! Progress on standard error, and Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use narrows::Progress;

use crate::output::{message, shown};

/// Set by the first Ctrl-C.
static CANCEL: AtomicBool = AtomicBool::new(false);

/// Whether the program may be ended wherever it is, but for what [`HELD`] counts.
static ENDS_ANYWHERE: AtomicBool = AtomicBool::new(false);

/// Runs under way that have changed the machine, or have processes of their own.
static HELD: Mutex<u32> = Mutex::new(0);

/// How long runs have to end by themselves, so that all is over within a second.
/// Results are written for half a second of it.
const GRACE: Duration = Duration::from_millis(850);

/// How often it is looked whether the machine is as it was.
const LOOK: Duration = Duration::from_millis(20);

/// The flag that ends runs early; from now on Ctrl-C sets it, and a second
/// one ends the program at once.
pub fn cancel_flag() -> &'static AtomicBool {
    // Fails only if there is a handler already, which then does the same.
    let _ = ctrlc::set_handler(|| {
        if CANCEL.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        message!("\nnarrows: interrupted; writing what there is (again to stop at once)");
        if ENDS_ANYWHERE.load(Ordering::SeqCst) {
            std::thread::spawn(end_soon);
        }
    });
    &CANCEL
}

/// The same for runs of scenarios, whose progress a [`Bar`] is given. What the simulator does,
/// and what follows from runs of any engine, is ended wherever it is: files are whole or not
/// there. An engine that has changed the machine puts it back first.
pub fn cancel_flag_of_runs() -> &'static AtomicBool {
    ENDS_ANYWHERE.store(true, Ordering::SeqCst);
    cancel_flag()
}

fn held() -> MutexGuard<'static, u32> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn end_soon() {
    std::thread::sleep(GRACE);
    once_left(|| {
        message!("narrows: ended before all was written; the results are not finished");
        std::process::exit(130);
    });
}

/// Calls `end` once no run has the machine; no further run begins before it returns.
fn once_left(end: impl FnOnce()) {
    loop {
        let held = held();
        if *held == 0 {
            return end();
        }
        drop(held);
        std::thread::sleep(LOOK);
    }
}

/// A bar with the time left; nothing where standard error is no terminal.
pub struct Bar {
    bar: ProgressBar,
}

impl Bar {
    pub fn new(what: &str) -> Self {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {percent:>3} %  {msg}")
        {
            bar.set_style(style);
        }
        bar.set_prefix(shown(what));
        Self { bar }
    }

    /// Shows the progress of runs.
    pub fn update(&self, progress: Progress<'_>) {
        match progress {
            Progress::Run { reached, of } => {
                self.bar.set_length(of.as_millis());
                self.bar.set_position(reached.as_millis());
                self.bar
                    .set_message(format!("{} left", HumanDuration(self.bar.eta())));
            }
            Progress::Cells { done, of, left, .. } => {
                self.bar.set_length(of as u64);
                self.bar.set_position(done as u64);
                let left = Duration::from_secs(left.as_secs());
                self.bar
                    .set_message(format!("{done}/{of} cells, {} left", HumanDuration(left)));
            }
            Progress::Runs { done, of, left } => {
                self.bar.set_length(of as u64);
                self.bar.set_position(done as u64);
                let left = Duration::from_secs(left.as_secs());
                self.bar
                    .set_message(format!("{done}/{of} runs, {} left", HumanDuration(left)));
            }
            Progress::Note(line) => self.bar.suspend(|| message!("narrows: {line}")),
            Progress::Compared { runs, of } => {
                self.bar.set_length(of as u64);
                self.bar.set_position(runs as u64);
                self.bar.set_message(format!("{runs}/{of} live runs"));
            }
            Progress::MachineTaken => *held() += 1,
            Progress::MachineLeft => *held() -= 1,
            _ => {}
        }
    }
}

/// A bar for the build of a kernel; nothing where standard error is no terminal.
pub struct KernelBar(Bar);

impl KernelBar {
    pub fn new() -> Self {
        Self(Bar::new("compiling"))
    }

    /// So many steps of about as many.
    pub fn update(&mut self, done: u64, of: u64) {
        let bar = &self.0.bar;
        bar.set_length(of);
        bar.set_position(done);
        bar.set_message(format!("{done}/{of}, {} left", HumanDuration(bar.eta())));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_program_ends_only_after_the_last_run_has_left_the_machine() {
        let bar = Bar::new("two runs");
        bar.update(Progress::MachineTaken);
        bar.update(Progress::MachineTaken);
        let (ended, end) = mpsc::channel();
        let waiter =
            std::thread::spawn(move || once_left(|| ended.send(()).expect("the test waits")));
        bar.update(Progress::MachineLeft);
        assert_eq!(
            end.recv_timeout(5 * LOOK),
            Err(mpsc::RecvTimeoutError::Timeout)
        );
        bar.update(Progress::MachineLeft);
        end.recv().expect("it ends");
        waiter.join().expect("no panic");
    }
}
