//! Network namespaces, held by a file descriptor and nothing else.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};

use super::RunId;
use super::interfaces::LOOPBACK;
use super::machine::NAMED_NAMESPACES;
use super::netlink::Netlink;
use super::run_id::RUN_VARIABLE;
use super::system_calls::{see_at, start_in};
use crate::LinuxError;

/// A network namespace: a host's own devices, addresses, routes and sockets.
///
/// It is no file and has no name in the system: it lives as long as a handle,
/// a TUN device's file, a socket or a process in it does, and so ends with
/// the process that made it, however that ends.
#[derive(Clone, Debug)]
pub struct Namespace(Arc<Held>);

#[derive(Debug)]
struct Held {
    descriptor: OwnedFd,
    inode: u64,
    name: String,
    run: RunId,
    netlink: Mutex<Netlink>,
}

/// What `setns` takes in a child: the handle keeps the descriptor open.
struct NamespaceFd(Namespace);

impl AsFd for NamespaceFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.descriptor()
    }
}

impl Namespace {
    /// Makes an empty one for `run`, with `lo` up; `name` is its name in
    /// messages (`host/client`).
    ///
    /// # Errors
    /// Without the right to make one.
    pub fn new(run: &RunId, name: &str) -> Result<Self, LinuxError> {
        let refused = |e| LinuxError::refused(format!("{name}: making a network namespace"), e);
        let made = in_fresh_thread(name, || {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|e| refused(e.into()))?;
            Self::current(run, name)
        });
        let namespace = made.map_err(refused)??;
        namespace.set_up(LOOPBACK)?;
        Ok(namespace)
    }

    /// The calling thread's own. In a process's first threads that is the
    /// namespace that the process started in: the machine's, as a rule.
    ///
    /// # Errors
    /// When `/proc` is not mounted or the kernel has no rtnetlink.
    pub fn current(run: &RunId, name: &str) -> Result<Self, LinuxError> {
        let open = || -> std::io::Result<Self> {
            let file = fs::File::open("/proc/thread-self/ns/net")?;
            let inode = file.metadata()?.ino();
            Ok(Self(Arc::new(Held {
                descriptor: file.into(),
                inode,
                name: name.to_owned(),
                run: run.clone(),
                netlink: Mutex::new(Netlink::open()?),
            })))
        };
        open().map_err(|e| LinuxError::refused(format!("{name}: its network namespace"), e))
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The run that it belongs to.
    pub fn run_id(&self) -> &RunId {
        &self.0.run
    }

    /// The number that `/proc/PID/ns/net` shows for it.
    pub fn inode(&self) -> u64 {
        self.0.inode
    }

    /// For `setns` and `IFLA_NET_NS_FD`.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.descriptor.as_fd()
    }

    pub(super) fn netlink(&self) -> MutexGuard<'_, Netlink> {
        // A question that panicked left its answers behind, which the next one
        // passes over by their sequence numbers.
        self.0
            .netlink
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self) -> Result<(), LinuxError> {
        setns(self.descriptor(), CloneFlags::CLONE_NEWNET)
            .map_err(|e| LinuxError::refused(format!("{}: entering it", self.name()), e))
    }

    /// Runs `work` in a thread of its own in this namespace, and waits for it.
    /// The thread ends with the work: none that was here is used for anything
    /// else.
    ///
    /// # Errors
    /// When no thread can be started, or it may not enter.
    ///
    /// # Panics
    /// If `work` does.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LinuxError> {
        in_fresh_thread(self.name(), || self.enter().map(|()| work()))
            .map_err(|e| LinuxError::refused(format!("{}: a thread", self.name()), e))?
    }

    /// Starts a thread called `name` (Linux shows 15 characters) in this
    /// namespace; it has entered when this returns.
    ///
    /// # Errors
    /// When no thread can be started, or it may not enter.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, LinuxError> {
        let refused = |e| LinuxError::refused(format!("{}: thread {name}", self.name()), e);
        let (sender, receiver) = channel();
        let here = self.clone();
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            let entered = here.enter();
            let outside = entered.is_err();
            let _ = sender.send(entered);
            drop(here);
            if outside {
                // Ends the thread without a word: its starter has the error.
                std::panic::resume_unwind(Box::new(()));
            }
            work()
        });
        let thread = thread.map_err(refused)?;
        match receiver.recv() {
            Ok(Ok(())) => Ok(thread),
            Ok(Err(e)) => {
                let _ = thread.join();
                Err(e)
            }
            Err(_) => Err(refused(std::io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Gives it a name that `ip netns` shows and takes. To be written down before, as
    /// [`Undo::NamespaceName`](crate::machine::Undo::NamespaceName).
    ///
    /// # Errors
    /// When there is one of that name, or this process may not mount.
    pub fn put_name(&self, name: &str) -> std::io::Result<()> {
        let folder = Path::new(NAMED_NAMESPACES);
        match fs::DirBuilder::new().mode(0o755).create(folder) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        let path = folder.join(name);
        let mut options = fs::OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .mode(0o444)
            .open(&path)?;
        let own = format!("/proc/self/fd/{}", self.descriptor().as_raw_fd());
        const NOTHING: Option<&str> = None;
        mount(
            Some(own.as_str()),
            &path,
            NOTHING,
            MsFlags::MS_BIND,
            NOTHING,
        )?;
        Ok(())
    }

    /// A program that will start in this namespace, with the run's id in its
    /// environment.
    ///
    /// It is killed when the *thread* that starts it ends (`PR_SET_PDEATHSIG`),
    /// so that thread must wait for it.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env(RUN_VARIABLE, self.run_id().to_string());
        start_in(&mut command, NamespaceFd(self.clone()));
        command
    }

    /// The same, which sees the file `file` at `place`.
    ///
    /// # Errors
    /// If a path has a zero in it.
    pub fn command_seeing(
        &self,
        program: impl AsRef<std::ffi::OsStr>,
        file: &Path,
        place: &Path,
    ) -> std::io::Result<Command> {
        let mut command = self.command(program);
        see_at(&mut command, file, place)?;
        Ok(command)
    }
}

/// Runs `work` in a thread that ends with it.
pub(crate) fn in_fresh_thread<T: Send>(
    name: &str,
    work: impl FnOnce() -> T + Send,
) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let thread = Builder::new()
            .name(name.to_owned())
            .spawn_scoped(scope, work)?;
        Ok(thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
