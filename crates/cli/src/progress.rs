//! Progress on standard error, and Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use narrows::Progress;

use crate::args::EngineName;
use crate::output::message;

/// Set by the first Ctrl-C.
static CANCEL: AtomicBool = AtomicBool::new(false);

/// Whether the program may be ended wherever it is.
static ENDS_ANYWHERE: AtomicBool = AtomicBool::new(false);

/// How long what is simulated has to end by itself, so that all is over within a second.
/// Results are written for half a second of it.
const GRACE: Duration = Duration::from_millis(850);

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

/// The same for runs of `engine`. What the simulator does, and what follows from it, is ended
/// wherever it is: files are whole or not there. An engine that has changed the machine has
/// to put it back.
pub fn cancel_flag_of(engine: EngineName) -> &'static AtomicBool {
    ENDS_ANYWHERE.store(engine == EngineName::Sim, Ordering::SeqCst);
    cancel_flag()
}

fn end_soon() {
    std::thread::sleep(GRACE);
    message!("narrows: ended before all was written; the results are not finished");
    std::process::exit(130);
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
        bar.set_prefix(what.to_owned());
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
            Progress::Compared { runs, of } => {
                self.bar.set_length(of as u64);
                self.bar.set_position(runs as u64);
                self.bar.set_message(format!("{runs}/{of} live runs"));
            }
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
