//! What all requests share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::documents::Documents;
use crate::error::{Answer, ApiError};
use crate::guard::Gate;
use crate::jobs::Jobs;
use crate::stream::Stream;

/// What all requests share.
pub(crate) type Shared = Arc<Laboratory>;

/// How long a request waits for others of its kind to be done.
const PATIENCE: Duration = Duration::from_secs(5);

/// Kinds of work in threads for blocking work. Each has turns of its own, so that none holds up
/// requests of another kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Checks, edits and completions of texts.
    Text,
    /// Jobs that begin or are changed: they check a text, too.
    Job,
    /// Runs that are repeated to find packets.
    Packets,
    /// The store: many folders are looked at, or a whole run is read.
    Store,
    /// All that is quick: files, lists, the vocabulary.
    Quick,
}

/// The turns of each kind of work.
pub(crate) struct Turns([Arc<Semaphore>; 5]);

impl Turns {
    /// Threads for blocking work: those of all turns, and some of the server's own.
    pub(crate) const THREADS: usize = 18;

    pub(crate) fn new() -> Self {
        // In the order of `Work`.
        Self([2, 2, 2, 2, 8].map(|at_once| Arc::new(Semaphore::new(at_once))))
    }

    fn of(&self, work: Work) -> Arc<Semaphore> {
        Arc::clone(&self.0[work as usize])
    }
}

/// The server's own.
pub(crate) struct Laboratory {
    pub(crate) gate: Gate,
    pub(crate) documents: Documents,
    /// Where the store of cells is, if there is one.
    pub(crate) store: Option<PathBuf>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) stream: Arc<Stream>,
    pub(crate) turns: Turns,
}

/// Does `task` in a thread for blocking work, so that no other request waits for it.
///
/// # Errors
/// 503 when others of its kind are not done in time; a task that goes on when its client has
/// gone keeps its turn.
pub(crate) async fn aside<T: Send + 'static>(
    state: &Shared,
    work: Work,
    task: impl FnOnce(&Laboratory) -> Answer<T> + Send + 'static,
) -> Answer<T> {
    let turn = timeout(PATIENCE, state.turns.of(work).acquire_owned()).await;
    let turn = turn.map_err(|_| {
        let waited = PATIENCE.as_secs();
        let message = format!("the server is busy with other requests: waited {waited} s");
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message).hint("try again later")
    })?;
    let turn = turn.map_err(ApiError::internal)?;
    let state = Arc::clone(state);
    let done = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        task(&state)
    });
    done.await.map_err(ApiError::internal)?
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn slow_checks_hold_up_no_other_requests_and_a_third_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let address = SocketAddr::from(([127, 0, 0, 1], 8080));
        let gate = Gate::new(address, &[]).expect("random numbers");
        let stream = Arc::new(Stream::new());
        let state = Arc::new(Laboratory {
            gate,
            documents: Documents::of(folder.path()).expect("a folder"),
            store: None,
            jobs: Arc::new(Jobs::new(Arc::clone(&stream), "")),
            stream,
            turns: Turns::new(),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(Turns::THREADS)
            .enable_time()
            .build()
            .expect("a runtime");
        let slow = [(), ()].map(|()| {
            let (state, (begun, has_begun)) = (Arc::clone(&state), channel());
            let (go_on, may_end) = channel::<()>();
            let task = move |_: &Laboratory| {
                begun.send(()).expect("the test waits");
                let _ = may_end.recv();
                Ok(())
            };
            let check = runtime.spawn(async move { aside(&state, Work::Text, task).await });
            has_begun.recv().expect("it begins");
            (check, go_on)
        });
        runtime.block_on(async {
            for other in [Work::Quick, Work::Job, Work::Packets, Work::Store] {
                let answered = aside(&state, other, |_| Ok(7)).await;
                assert_eq!(answered.expect("it is answered"), 7, "{other:?}");
            }
            let third = aside(&state, Work::Text, |_| Ok(7)).await;
            let refused = third.expect_err("two are at it");
            assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
            for (check, go_on) in slow {
                drop(go_on);
                check.await.expect("no panic").expect("it is answered");
            }
            let next = aside(&state, Work::Text, |_| Ok(7)).await;
            assert_eq!(next.expect("both are done"), 7);
        });
    }
}
