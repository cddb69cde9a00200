//! Work in pieces, on as many threads as there are to be.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Calls `work` with each number below `pieces`, in this order, on `jobs` threads (0 for
/// as many as there are processors). After an error no further piece is begun, nor once
/// `stop` says so.
///
/// # Errors
/// The first that a piece ended with.
pub fn each<E: Send>(
    pieces: usize,
    jobs: usize,
    stop: impl Fn() -> bool + Sync,
    work: impl Fn(usize) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let jobs = match jobs {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        n => n,
    };
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let failure_now = || failure.lock().unwrap_or_else(PoisonError::into_inner);
    let worker = || {
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= pieces || stop() || failure_now().is_some() {
                return;
            }
            if let Err(error) = work(piece) {
                failure_now().get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(pieces) {
            scope.spawn(worker);
        }
    });
    let failure = failure.into_inner();
    failure
        .unwrap_or_else(PoisonError::into_inner)
        .map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_is_done_once_and_none_begins_after_a_failure_or_a_stop() {
        for jobs in [0, 1, 3, 50] {
            let done = Mutex::new(vec![0; 20]);
            let all = each(
                20,
                jobs,
                || false,
                |n| {
                    done.lock().unwrap()[n] += 1;
                    Ok::<_, ()>(())
                },
            );
            assert_eq!((all, done.into_inner().unwrap()), (Ok(()), vec![1; 20]));
        }
        let done = AtomicUsize::new(0);
        let work = |n| {
            done.fetch_add(1, Ordering::Relaxed);
            if n == 3 { Err(n) } else { Ok(()) }
        };
        assert_eq!(each(20, 1, || false, work), Err(3));
        assert_eq!(done.load(Ordering::Relaxed), 4);
        assert_eq!(each(20, 2, || true, work), Ok(()));
        assert_eq!(done.load(Ordering::Relaxed), 4);
    }
}
