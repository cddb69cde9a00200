//! A run in a booted kernel, as its machine sees it.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};

use narrows_core::EventSink;
use narrows_engine::{Ended, RunHandle, VirtualKernel};
use narrows_scenario::Plan;
use narrows_units::{Duration, Instant};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::BuiltKernel;
use crate::boot::Instance;
use crate::ended::EndDocument;
use crate::events::EventReader;
use crate::frames::{FrameKind, Frames};
use crate::job::Job;

/// Milliseconds after which a silent kernel's caller is asked whether to go on.
const POLL_MS: u16 = 100;

/// Why a run in a kernel came to no end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The plan cannot be handed over, or the guest refused it.
    #[error("{0}")]
    Refused(String),
    /// The kernel did not start.
    #[error("the kernel {} cannot be started: {why}", kernel.display())]
    NotStarted {
        /// Its file.
        kernel: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// The kernel ended before the run did.
    #[error("the kernel ended {when}: {said}")]
    Ended {
        /// At which time of the run.
        when: String,
        /// What it said last.
        said: String,
    },
    /// What came from the guest makes no sense.
    #[error("what the guest sent cannot be read ({0}): was its program replaced while it ran?")]
    Garbled(&'static str),
    /// A file of the run.
    #[error("could not write {}: {why}", path.display())]
    Keep {
        /// Which.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
}

/// A kernel and the program that is its first process.
#[derive(Clone, Debug)]
pub struct VirtualMachine {
    kernel: PathBuf,
    made: VirtualKernel,
    program: PathBuf,
}

impl VirtualMachine {
    /// `kernel` with `program` as its first process: `narrows` itself, which must know
    /// the words [`GUEST`](crate::GUEST) and [`KEEPER`](crate::KEEPER).
    pub fn new(kernel: &BuiltKernel, program: impl Into<PathBuf>) -> Self {
        Self {
            kernel: kernel.binary(),
            made: kernel.made.clone(),
            program: program.into(),
        }
    }

    /// Which kernel it is.
    pub fn kernel(&self) -> &VirtualKernel {
        &self.made
    }

    /// Whether `plan` can be handed to a guest.
    ///
    /// # Errors
    /// A sentence that says why not.
    pub fn accepts(plan: &Plan) -> Result<(), String> {
        Job::of(plan, plan.seed, false).map(drop)
    }

    /// Boots the kernel and runs `plan` in it with `seed`; hands every event to `sink`.
    /// All that draws in the kernel and its programs draws from the seed.
    ///
    /// A run that the caller cancels ends at once, with what there is. Nothing of the
    /// kernel is left when this returns.
    ///
    /// # Errors
    /// See [`KernelError`].
    pub fn run(
        &self,
        plan: &Plan,
        seed: u64,
        sink: &mut dyn EventSink,
        control: &RunHandle<'_>,
    ) -> Result<Ended, KernelError> {
        let job = Job::of(plan, seed, control.keep.is_some()).map_err(KernelError::Refused)?;
        let job = serde_json::to_vec(&job).map_err(|e| KernelError::Refused(e.to_string()))?;
        let booted = Instance::boot(&self.kernel, &self.program, &job, seed);
        let (mut instance, mut channel) = booted.map_err(|why| KernelError::NotStarted {
            kernel: self.kernel.clone(),
            why,
        })?;
        let mut received = Received {
            events: EventReader::default(),
            reached: None,
            keep: control.keep,
        };
        let mut frames = Frames::default();
        loop {
            while let Some((kind, content)) = frames
                .next()
                .map_err(|_| KernelError::Garbled("no frame"))?
            {
                match kind {
                    FrameKind::Up => {
                        instance.is_up();
                        received.reached = Some(Instant::ZERO);
                    }
                    FrameKind::Ended => {
                        let document: EndDocument = serde_json::from_slice(content)
                            .map_err(|_| KernelError::Garbled("its end"))?;
                        return Ok(document.into());
                    }
                    FrameKind::Failed => {
                        let why = String::from_utf8_lossy(content).into_owned();
                        return Err(KernelError::Refused(why));
                    }
                    other => received.take(other, content, sink, control)?,
                }
            }
            if control.cancelled() {
                return Ok(received.interrupted());
            }
            if !readable(&channel)? {
                continue;
            }
            let read = frames.fill(&mut channel);
            if read.map_err(|_| KernelError::Garbled("its channel"))? == 0 {
                return Err(KernelError::Ended {
                    when: received.when(),
                    said: instance.why_it_ended(),
                });
            }
        }
    }
}

/// Whether something comes within [`POLL_MS`].
fn readable(channel: &impl AsFd) -> Result<bool, KernelError> {
    let mut watched = [PollFd::new(channel.as_fd(), PollFlags::POLLIN)];
    match poll(&mut watched, PollTimeout::from(POLL_MS)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(_) => Err(KernelError::Garbled("its channel")),
    }
}

/// What came from a guest so far.
struct Received<'k> {
    events: EventReader,
    /// Time of the run; `None` before the guest is up.
    reached: Option<Instant>,
    keep: Option<&'k Path>,
}

impl Received<'_> {
    fn take(
        &mut self,
        kind: FrameKind,
        content: &[u8],
        sink: &mut dyn EventSink,
        control: &RunHandle<'_>,
    ) -> Result<(), KernelError> {
        match kind {
            FrameKind::Events => {
                let read = self.events.read(content, sink);
                read.map_err(|_| KernelError::Garbled("an event"))?;
                self.reached = self.reached.max(Some(self.events.reached()));
            }
            FrameKind::Reached => {
                let nanos = content.try_into().map(u64::from_le_bytes);
                let at = nanos.map_err(|_| KernelError::Garbled("a time"))?;
                let at = Instant::from_nanos(at);
                self.reached = self.reached.max(Some(at));
                control.tick(at);
            }
            FrameKind::File => self.file(content)?,
            FrameKind::Up | FrameKind::Ended | FrameKind::Failed => {}
        }
        Ok(())
    }

    /// Adds to a file of the run.
    fn file(&self, content: &[u8]) -> Result<(), KernelError> {
        let split = content.iter().position(|byte| *byte == 0);
        let (name, bytes) = content.split_at(split.ok_or(KernelError::Garbled("a file"))?);
        let name = std::str::from_utf8(name).map_err(|_| KernelError::Garbled("a file's name"))?;
        let inside = Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let Some(folder) = self.keep.filter(|_| inside) else {
            return Err(KernelError::Garbled("a file's name"));
        };
        let path = folder.join(name);
        let write = || -> io::Result<()> {
            if let Some(parent) = path.parent() {
                narrows_files::create_dir_all(parent)?;
            }
            let mut file = narrows_files::append(&path)?;
            file.write_all(&bytes[1..])
        };
        write().map_err(|why| KernelError::Keep {
            path: path.clone(),
            why,
        })
    }

    /// At which time of the run, in words.
    fn when(&self) -> String {
        match self.reached {
            None => "before the run began".to_owned(),
            Some(at) => format!("at {} of the run", at.since(Instant::ZERO)),
        }
    }

    /// The run as far as it went.
    fn interrupted(&self) -> Ended {
        let reached = self.reached.unwrap_or(Instant::ZERO);
        Ended {
            events: self.events.count(),
            virtual_time: reached.since(Instant::ZERO).max(Duration::ZERO),
            interrupted: true,
            ..Ended::default()
        }
    }
}
