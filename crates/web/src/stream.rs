//! `GET /api/v1/stream`: one stream of events for each page, bounded; a slow reader misses events, and
//! gets their number.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender, channel};

use crate::error::{Answer, ApiError};
use crate::state::Shared;

/// Events that wait for a slow reader; older ones are skipped.
const KEPT: usize = 256;

/// Streams at the same time: several pages of one user.
const MOST: usize = 16;

/// How often something is sent, so that a reader that has gone is noticed.
const ALIVE: Duration = Duration::from_secs(15);

/// Where events go.
pub(crate) struct Stream {
    events: Sender<Bytes>,
    readers: AtomicUsize,
}

impl Stream {
    pub(crate) fn new() -> Self {
        Self {
            events: channel(KEPT).0,
            readers: AtomicUsize::new(0),
        }
    }

    /// Whether anybody reads.
    pub(crate) fn is_read(&self) -> bool {
        self.readers.load(Ordering::Relaxed) > 0
    }

    /// Sends an event to all that read.
    pub(crate) fn send(&self, event: &str, data: &impl Serialize) {
        if self.is_read() {
            // Fails only if nobody reads.
            let _ = self.events.send(framed(event, data));
        }
    }
}

/// An event as the stream spells it; JSON has no line ends.
fn framed(event: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_default();
    Bytes::from(format!("event: {event}\ndata: {data}\n\n"))
}

/// A reader, counted while it is there.
struct Reader {
    stream: Arc<Stream>,
    events: Receiver<Bytes>,
}

impl Reader {
    fn of(stream: &Arc<Stream>) -> Option<Self> {
        let more = |readers| (readers < MOST).then_some(readers + 1);
        let readers = &stream.readers;
        readers
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        Some(Self {
            events: stream.events.subscribe(),
            stream: Arc::clone(stream),
        })
    }

    /// What comes next; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        match tokio::time::timeout(ALIVE, self.events.recv()).await {
            Err(_) => Some(Bytes::from_static(b": still here\n\n")),
            Ok(Ok(event)) => Some(event),
            Ok(Err(RecvError::Lagged(count))) => {
                Some(framed("skipped", &serde_json::json!({ "count": count })))
            }
            Ok(Err(RecvError::Closed)) => None,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stream.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Streams events.
pub(crate) async fn stream(State(state): State<Shared>) -> Answer<Response> {
    let Some(reader) = Reader::of(&state.stream) else {
        let message = format!("{MOST} streams are open, which is the most");
        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, message)
            .hint("one stream has the events of all jobs; close the others"));
    };
    let jobs = state.jobs.list();
    let first: Vec<Bytes> = jobs.iter().map(|job| framed("job", job)).collect();
    let first = Bytes::from([&b"retry: 1000\n\n"[..], &first.concat()].concat());
    let events = unfold((Some(first), reader), |(first, mut reader)| async move {
        let event = match first {
            Some(first) => first,
            None => reader.next().await?,
        };
        Some((Ok::<_, Infallible>(event), (None, reader)))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream")];
    Ok((headers, Body::from_stream(events)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(reader: &mut Reader) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        let event = runtime.block_on(reader.next()).expect("an event");
        String::from_utf8(event.to_vec()).expect("text")
    }

    #[test]
    fn a_slow_reader_gets_the_number_of_what_it_missed_and_then_what_is_left() {
        let stream = Arc::new(Stream::new());
        let mut slow = Reader::of(&stream).expect("the first");
        for number in 0..KEPT + 44 {
            stream.send("job", &number);
        }
        assert_eq!(next(&mut slow), "event: skipped\ndata: {\"count\":44}\n\n");
        assert_eq!(next(&mut slow), "event: job\ndata: 44\n\n");
    }

    #[test]
    fn readers_are_counted_and_those_that_are_gone_make_room() {
        let stream = Arc::new(Stream::new());
        let mut readers: Vec<_> = (0..MOST).map_while(|_| Reader::of(&stream)).collect();
        assert_eq!((readers.len(), Reader::of(&stream).is_none()), (MOST, true));
        readers.pop();
        assert!(Reader::of(&stream).is_some());
        drop(readers);
        assert!(!stream.is_read());
    }
}
