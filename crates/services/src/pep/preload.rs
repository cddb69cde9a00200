//! A program's connections, led to a port of loopback by a library that is loaded into it: for
//! users who may load nothing into the kernel.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{Uid, geteuid};
use tempfile::TempDir;
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// The library (preload.c); empty where the build's compiler could make none.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));

/// What the names of its folders begin with.
const PREFIX: &str = "narrows-pep-";

/// The file in them that lives with the run.
const NOTES: &str = "notes";

/// `struct nw_end` of lead_end.h, in which all is in network order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct End {
    address: [u8; 16],
    port: u32,
}

impl End {
    fn socket(self) -> SocketAddr {
        let address = IpAddr::V6(Ipv6Addr::from(self.address)).to_canonical();
        SocketAddr::new(address, u16::from_be(self.port as u16))
    }
}

/// `struct nw_note` of preload.c.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Note {
    from: End,
    to: End,
}

/// The library and its notes, in a folder that goes with this.
#[derive(Debug)]
pub(super) struct Preload {
    folder: TempDir,
    // Its lock says that the run lives: the kernel gives it back however that ends.
    notes: Flock<File>,
    settings: String,
}

/// Removes the folders of runs that were killed, as far as they are this user's.
fn sweep() {
    let all = fs::read_dir(std::env::temp_dir());
    for folder in all.into_iter().flatten().flatten() {
        let ours = folder.file_name().to_string_lossy().starts_with(PREFIX);
        let owner = folder
            .metadata()
            .ok()
            .filter(|m| m.is_dir())
            .map(|m| m.uid());
        let may = owner.is_some_and(|uid| geteuid().is_root() || geteuid().as_raw() == uid);
        // One that is being made has none of that name yet.
        let Some(notes) = (ours && may)
            .then(|| File::open(folder.path().join(NOTES)).ok())
            .flatten()
        else {
            continue;
        };
        if Flock::lock(notes, FlockArg::LockExclusiveNonblock).is_ok() {
            // What cannot be removed is tried again the next time.
            let _ = fs::remove_dir_all(folder.path());
        }
    }
}

impl Preload {
    /// For programs of `user`, whose connections are led to `port`, but for those to `spared`.
    pub fn open(port: u16, spared: SocketAddr, user: Option<Uid>) -> io::Result<Self> {
        if LIBRARY.is_empty() {
            let what = "this narrows was built without the library for LD_PRELOAD";
            return Err(io::Error::other(what));
        }
        sweep();
        let folder = TempDir::with_prefix(PREFIX)?;
        let at = folder.path();
        if statvfs(at)?.flags().contains(FsFlags::ST_NOEXEC) {
            let what = format!(
                "{} is on a file system from which nothing may be loaded (noexec): name another \
                 folder by TMPDIR",
                at.display()
            );
            return Err(io::Error::other(what));
        }
        fs::write(at.join("preload.so"), LIBRARY)?;
        // Locked before it has its name: who sweeps takes none that lives.
        let (made, notes) = (at.join("notes.new"), at.join(NOTES));
        fs::write(&made, [])?;
        fs::set_permissions(&made, Permissions::from_mode(0o600))?;
        let alive = Flock::lock(File::open(&made)?, FlockArg::LockExclusiveNonblock);
        let alive = alive.map_err(|(_, why)| why)?;
        fs::rename(&made, &notes)?;
        if user.is_some() {
            let user = user.map(Uid::as_raw);
            [at, &notes]
                .iter()
                .try_for_each(|path| chown(path, user, None))?;
        }
        let mapped = match spared.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let (proxy, path) = (spared.port(), notes.display());
        let settings = format!("{port} {mapped} {proxy} {path}");
        Ok(Self {
            notes: alive,
            folder,
            settings,
        })
    }

    /// What the program finds in its environment.
    pub fn environment(&self) -> [(&'static str, OsString); 2] {
        let mut preload = self.folder.path().join("preload.so").into_os_string();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|o| !o.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        [
            ("LD_PRELOAD", preload),
            ("NARROWS_LEAD", self.settings.clone().into()),
        ]
    }

    /// What finds out where to the connection from a client had been opened.
    pub fn origins(&self) -> io::Result<impl Fn(SocketAddr) -> Option<SocketAddr> + use<>> {
        let notes = self.notes.try_clone()?;
        Ok(move |client: SocketAddr| {
            let half: u64 = if client.ip().to_canonical().is_ipv4() {
                0
            } else {
                65_536
            };
            let mut bytes = [0; size_of::<Note>()];
            let place = (half + u64::from(client.port())) * bytes.len() as u64;
            notes.read_exact_at(&mut bytes, place).ok()?;
            let note = Note::read_from_bytes(&bytes).ok()?;
            let client = SocketAddr::new(client.ip().to_canonical(), client.port());
            (note.from.socket() == client).then(|| note.to.socket())
        })
    }
}
