//! What the live tests share: two network namespaces and a small user-space
//! path between them with a rate, a delay, step marking and faults.

pub mod path;
pub mod transfer;
pub mod wire;

use std::fmt::Display;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use nix::libc;
use nix::sched::{CloneFlags, setns, unshare};

use narrows_bpf::{BpfError, ControlLoader, EcnFlags, Loaded, Trace};
use narrows_cc::ControlSpec;

pub use path::Path;

nix::ioctl_write_ptr_bad!(
    tunsetiff,
    nix::request_code_write!(b'T', 202, size_of::<libc::c_int>()),
    libc::ifreq
);

/// Says why a test did not run.
pub fn skipped(test: &str, reason: &dyn Display) {
    eprintln!("skipped: {test}: {reason}");
}

/// A name that no other test or process has.
pub fn unique(stem: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{stem}{:x}x{count}", std::process::id() & 0xf_ffff)
}

/// A loaded control, or the word that this machine cannot.
pub fn control(test: &str, words: &str, ecn: EcnFlags, trace: Trace) -> Option<Loaded> {
    let spec = ControlSpec::parse(words).expect("the words name an algorithm");
    loaded(test, ControlLoader::load(&spec, &unique("nwt"), ecn, trace))
}

/// What was loaded, or the word that this machine cannot.
pub fn loaded<T>(test: &str, result: Result<T, BpfError>) -> Option<T> {
    match result {
        Ok(loaded) => Some(loaded),
        Err(e @ (BpfError::NotBuilt(_) | BpfError::Kernel { .. })) => {
            skipped(test, &e);
            None
        }
        Err(e) if !nix::unistd::geteuid().is_root() => {
            skipped(test, &e);
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// A network namespace, held by a descriptor.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    /// A new one with its loopback up.
    pub fn new() -> Result<Self, String> {
        let made = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|e| format!("no network namespace: {e}"))?;
            // A new one has that of the machine.
            let forwards = "/proc/sys/net/ipv4/ip_forward";
            std::fs::write(forwards, "0").map_err(|e| format!("no forwarding: {e}"))?;
            let file = File::open("/proc/thread-self/ns/net").map_err(|e| e.to_string())?;
            Ok::<_, String>(Self(file))
        });
        let namespace = made.join().expect("the thread ended well")?;
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Runs `what` inside, on a thread of its own.
    pub fn run<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(&self.0, CloneFlags::CLONE_NEWNET).expect("the namespace is there");
                what()
            });
            inside.join().expect("the thread ended well")
        })
    }

    /// Runs iproute2's `ip` inside.
    pub fn ip(&self, words: &str) -> Result<(), String> {
        let output = self.run(|| Command::new("ip").args(words.split(' ')).output());
        let output = output.map_err(|e| format!("no iproute2 (apt-get install iproute2): {e}"))?;
        if output.status.success() {
            Ok(())
        } else {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(format!("ip {words}: {why}"))
        }
    }

    /// Index of a device inside.
    pub fn index(&self, device: &str) -> u32 {
        self.run(|| nix::net::if_::if_nametoindex(device))
            .expect("the device exists")
    }

    /// A TUN device `tun0` inside, up, with addresses 10.9.0.`host` and
    /// fd09::`host`.
    pub fn tun(&self, host: u8) -> Result<OwnedFd, String> {
        let file = self.run(|| {
            let file = File::options()
                .read(true)
                .write(true)
                .open("/dev/net/tun")
                .map_err(|e| format!("no /dev/net/tun: {e}"))?;
            let mut request = libc::ifreq {
                ifr_name: [0; libc::IFNAMSIZ],
                ifr_ifru: libc::__c_anonymous_ifr_ifru {
                    ifru_flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short,
                },
            };
            for (to, from) in request.ifr_name.iter_mut().zip(*b"tun0") {
                *to = from as libc::c_char;
            }
            // SAFETY: an open descriptor and a whole request that outlives the
            // call.
            unsafe { tunsetiff(file.as_raw_fd(), &raw const request) }
                .map_err(|e| format!("no TUN device: {e}"))?;
            Ok::<_, String>(OwnedFd::from(file))
        })?;
        self.ip("link set tun0 txqueuelen 10000 up")?;
        self.ip(&format!("addr add 10.9.0.{host}/24 dev tun0"))?;
        self.ip(&format!("addr add fd09::{host}/64 dev tun0 nodad"))?;
        Ok(file)
    }
}
