//! A mistake in the program itself: a panic.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::output::notice;

/// Where mistakes are reported.
const ISSUES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/issues");

/// Whether any thread has panicked.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// Runs the program. A panic in any of its threads is said on standard error with what to
/// report and where; `None` if there was one, whatever `run` came to. What is on the way to
/// be undone when it happens (namespaces, filters at devices) is undone.
pub fn guarded<T>(run: impl FnOnce() -> T) -> Option<T> {
    panic::set_hook(Box::new(|panic| {
        // One is enough: others often follow from it.
        if !PANICKED.swap(true, Ordering::SeqCst) {
            notice(&report(panic));
        }
    }));
    let done = panic::catch_unwind(AssertUnwindSafe(run)).ok();
    done.filter(|_| !PANICKED.load(Ordering::SeqCst))
}

fn report(panic: &PanicHookInfo<'_>) -> String {
    let place = panic
        .location()
        .map_or(String::new(), |at| format!(" at {at}"));
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("without a name").to_owned();
    let command = crate::call::texts();
    format!(
        "narrows: this is a mistake in narrows itself, and what was printed or written may be \
         incomplete.\n  {what}{place}, in the thread {thread}\n  Please report it at {ISSUES} \
         with these lines, the version ({version}) and the command:\n  {command}\n",
        what = message(panic.payload()),
        version = env!("CARGO_PKG_VERSION"),
        command = command.join(" "),
    )
}

/// The message of a panic.
fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the hook of [`guarded`] says is said by the test's own, as there is one hook for
    /// all threads.
    #[test]
    fn a_panic_is_no_status_of_its_own_and_its_report_says_where_to_go() {
        assert_eq!(guarded(|| 7), Some(7));
        assert_eq!(guarded(|| -> u8 { panic!("the sum is {}", 8) }), None);
        // One that a caller has caught is a mistake all the same.
        PANICKED.store(false, Ordering::SeqCst);
        let caught = || {
            let inner = std::thread::spawn(|| panic!("in a thread")).join();
            assert!(inner.is_err());
            7
        };
        assert_eq!(guarded(caught), None);
        let _ = panic::take_hook();
        let said = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
        let to = said.clone();
        panic::set_hook(Box::new(move |panic| {
            if let Ok(mut said) = to.lock() {
                *said = report(panic);
            }
        }));
        let _ = panic::catch_unwind(|| panic!("the sum is {}", 8));
        let _ = panic::take_hook();
        let said = said.lock().expect("the report").clone();
        for part in [
            "the sum is 8",
            "defect.rs:",
            ISSUES,
            env!("CARGO_PKG_VERSION"),
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
