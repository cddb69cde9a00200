//! What all requests share.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::documents::Documents;
use crate::error::{Answer, ApiError};
use crate::guard::Gate;
use crate::jobs::Jobs;
use crate::stream::Stream;

/// What all requests share.
pub(crate) type Shared = Arc<Laboratory>;

/// Requests that compute at the same time; others wait.
const AT_ONCE: usize = 2;

/// The server's own.
pub(crate) struct Laboratory {
    pub(crate) gate: Gate,
    pub(crate) documents: Documents,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) stream: Arc<Stream>,
    pub(crate) turns: Arc<Semaphore>,
}

impl Laboratory {
    pub(crate) fn turns() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(AT_ONCE))
    }
}

/// Computes in a thread for blocking work, so that no other request waits for it.
pub(crate) async fn aside<T: Send + 'static>(
    state: &Shared,
    work: impl FnOnce(&Laboratory) -> Answer<T> + Send + 'static,
) -> Answer<T> {
    let turn = Arc::clone(&state.turns).acquire_owned().await;
    let turn = turn.map_err(ApiError::internal)?;
    let state = Arc::clone(state);
    let done = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        work(&state)
    });
    done.await.map_err(ApiError::internal)?
}
