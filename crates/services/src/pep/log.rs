//! The log of a daemon, written by a thread of its own: who does not read it holds nobody up.

use std::io::{self, Write};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use narrows_linux::system_calls::give_way;

/// Lines that wait for whoever reads the log; what comes then is dropped and counted (our choice:
/// a second of a busy daemon's).
const LINES: usize = 8_192;

/// How long is waited at the end for the last lines to be read.
const LAST: Duration = Duration::from_secs(1);

/// Lines on their way to standard error.
pub(super) struct LogLines {
    sender: SyncSender<Vec<u8>>,
    receiver: Mutex<Option<Receiver<Vec<u8>>>>,
    waiting: AtomicU64,
    dropped: AtomicU64,
}

/// One of them, as it is written.
pub(super) struct Line(pub Arc<LogLines>);

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.waiting.fetch_add(1, SeqCst);
        if self.0.sender.try_send(line.to_vec()).is_err() {
            self.0.waiting.fetch_sub(1, SeqCst);
            self.0.dropped.fetch_add(1, SeqCst);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogLines {
    pub fn new() -> Arc<Self> {
        let (sender, receiver) = sync_channel(LINES);
        Arc::new(Self {
            sender,
            receiver: Mutex::new(Some(receiver)),
            waiting: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        })
    }

    /// Writes from now on what has come and what will; at its end the result waits for the last
    /// lines, a second at most.
    pub fn write_from_a_thread(self: &Arc<Self>) -> Written {
        let receiver = self
            .receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let lines = Arc::clone(self);
        let write = move || {
            give_way();
            for line in receiver.into_iter().flatten() {
                lines.write(&mut io::stderr(), &line);
            }
        };
        // Without a thread there is no log.
        let _ = thread::Builder::new().name("log".to_owned()).spawn(write);
        Written(Arc::clone(self))
    }

    fn write(&self, to: &mut impl Write, line: &[u8]) {
        let dropped = self.dropped.swap(0, SeqCst);
        if dropped > 0 {
            // Nobody may read it any more, as with the line itself.
            let _ = writeln!(
                to,
                "{dropped} lines of the log were dropped, as nobody read them"
            );
        }
        let _ = to.write_all(line);
        self.waiting.fetch_sub(1, SeqCst);
    }
}

/// Waits at its end for the last lines.
pub(super) struct Written(Arc<LogLines>);

impl Drop for Written {
    fn drop(&mut self) {
        let until = Instant::now() + LAST;
        while self.0.waiting.load(SeqCst) > 0 && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_nobody_reads_holds_nobody_up_and_says_what_it_lacks() {
        let lines = LogLines::new();
        for _ in 0..LINES + 5 {
            let mut line = Line(Arc::clone(&lines));
            line.write_all(b"a line\n").expect("it is taken");
        }
        let receiver = lines.receiver.lock().expect("whole").take().expect("once");
        let mut read = Vec::new();
        for line in receiver.try_iter() {
            lines.write(&mut read, &line);
        }
        let read = String::from_utf8(read).expect("text");
        let said = "5 lines of the log were dropped, as nobody read them\n";
        assert!(read.starts_with(&format!("{said}a line\n")));
        assert_eq!(read.lines().count(), LINES + 1);
        assert_eq!(lines.waiting.load(SeqCst), 0);
    }
}
