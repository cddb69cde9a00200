//! The disk that machines start from.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use narrows_results::Error;

/// How it is made.
const SCRIPT: &str = include_str!("image.sh");

/// The release of Debian that is made unless another is named.
pub const RELEASE: &str = "bookworm";

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The file of the disk, which is only read.
    pub(super) disk: PathBuf,
    /// `raw` or `qcow2`.
    pub(super) format: &'static str,
    /// Kernel and initial RAM disk, where the disk has no boot loader.
    pub(super) kernel: Option<(PathBuf, PathBuf)>,
}

impl Image {
    /// A disk that somebody has: a file, as Debian's cloud images are, or a folder that
    /// [`make`](Self::make) has made.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let path = &path.canonicalize().map_err(|source| Error::Io {
            verb: "read",
            path: path.to_path_buf(),
            source,
        })?;
        let (disk, kernel) = match path.is_dir() {
            true => {
                let kernel = (path.join("vmlinuz"), path.join("initrd.img"));
                (path.join("disk.img"), Some(kernel))
            }
            false => (path.clone(), None),
        };
        if let Some((vmlinuz, initrd)) = &kernel {
            for file in [vmlinuz, initrd] {
                if !file.is_file() {
                    let why = format!(
                        "--image: found the folder `{}` without `{}`, but a disk's file, or a folder \
                         that `narrows testbed image` has made, is expected here",
                        path.display(),
                        file.file_name().unwrap_or_default().to_string_lossy(),
                    );
                    return Err(Error::Refused(why));
                }
            }
        }
        let io = |source| Error::Io {
            verb: "read",
            path: disk.clone(),
            source,
        };
        let mut head = Vec::new();
        let file = File::open(&disk).map_err(io)?;
        file.take(512).read_to_end(&mut head).map_err(io)?;
        // QEMU's docs/interop/qcow2.txt. The format is said, as one that is guessed could be chosen
        // by what a machine writes.
        let format = match head.starts_with(b"QFI\xfb") {
            true => "qcow2",
            false => "raw",
        };
        Ok(Self {
            disk,
            format,
            kernel,
        })
    }

    /// The folder for the disk of a release, among what can be made again.
    pub fn kept(release: &str) -> Option<PathBuf> {
        Some(
            narrows_files::cache()?
                .join("narrows")
                .join("testbed")
                .join(release),
        )
    }

    /// Makes the disk of a release of Debian in `folder`, which is not there yet, with mmdebstrap.
    ///
    /// # Errors
    /// When `release` is no name, the folder is there, this is not root, or mmdebstrap fails.
    pub fn make(folder: &Path, release: &str) -> Result<(), Error> {
        let is_name = |c: char| c.is_ascii_lowercase();
        if release.is_empty() || !release.chars().all(is_name) {
            let why = format!(
                "found the release `{release}`, but a name as `{RELEASE}` is expected here"
            );
            return Err(Error::Refused(why));
        }
        if folder.exists() {
            let why = format!(
                "found {}, but a new folder is expected here",
                folder.display()
            );
            return Err(Error::Refused(why));
        }
        if !nix::unistd::geteuid().is_root() {
            let why = format!(
                "mmdebstrap needs root to make a disk: `sudo narrows testbed image {}` makes one that \
                 every user starts machines from, or name a disk of Debian with --image",
                folder.display()
            );
            return Err(Error::NoPermission(why));
        }
        let io = |verb, path: &Path| {
            let path = path.to_path_buf();
            move |source| Error::Io { verb, path, source }
        };
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent).map_err(io("create", parent))?;
        }
        let script = tempfile::NamedTempFile::new();
        let script = script.map_err(|e| Error::Engine(format!("a temporary file: {e}")))?;
        fs::write(script.path(), SCRIPT).map_err(io("write", script.path()))?;
        let mut bash = Command::new("bash");
        let bash = bash.arg(script.path()).arg(folder).arg(release);
        let status = bash.stdin(Stdio::null()).status();
        let status = status.map_err(|e| Error::Engine(format!("bash cannot be run: {e}")))?;
        match status.success() {
            true => Ok(()),
            false => Err(Error::Engine(format!(
                "the disk could not be made: {status}"
            ))),
        }
    }
}
