//! Where a kernel's source comes from, and the copy of it that is changed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};
use walkdir::{DirEntry, WalkDir};

use crate::controls::hexadecimal;
use crate::error::BuildError;
use crate::process::failed;

/// What user-mode Linux does not compile and is large: the code of other
/// architectures, of drivers for devices that it has not, of tests. Their Kconfig files
/// are read all the same.
const LEFT_OUT: [&str; 10] = [
    "arch/[!ux]*",
    "drivers/gpu",
    "drivers/infiniband",
    "drivers/media",
    "drivers/scsi",
    "drivers/staging",
    "sound",
    "tools/testing",
    "tools/perf",
    "Documentation",
];

/// Endings of the files that are left out there.
const CODE: [&str; 8] = ["c", "h", "S", "dts", "dtsi", "rst", "yaml", "json"];

/// What user-mode Linux is in.
const ARCHITECTURE: &str = "arch/um/Kconfig";

/// The oldest kernel that is built: the texts that changes look for may be in an older one, which
/// then fails after minutes.
const OLDEST: (u32, u32) = (6, 12);

/// The kernel's version by the first lines of its `Makefile`, as far as they say it.
fn version(makefile: &str) -> Option<(u32, u32)> {
    let number = |name: &str| {
        let said = makefile.lines().filter_map(|line| line.split_once('='));
        let mut said = said.filter(|(key, _)| key.trim() == name);
        said.next()?.1.trim().parse().ok()
    };
    Some((number("VERSION")?, number("PATCHLEVEL")?))
}

/// Refuses what is no kernel's source, and a kernel that is too old.
///
/// # Errors
/// What it lacks, or which kernel it is.
pub(crate) fn check(tree: &Path) -> Result<(), BuildError> {
    for lack in ["Makefile", ARCHITECTURE, "net/ipv4/tcp_cong.c"] {
        if !tree.join(lack).is_file() {
            return Err(BuildError::NoTree {
                tree: tree.to_path_buf(),
                lack,
            });
        }
    }
    let makefile = tree.join("Makefile");
    let text = fs::read_to_string(&makefile).map_err(BuildError::io("read", &makefile))?;
    match version(&text) {
        Some((major, minor)) if (major, minor) < OLDEST => Err(BuildError::TooOld {
            tree: tree.to_path_buf(),
            found: format!("{major}.{minor}"),
        }),
        _ => Ok(()),
    }
}

/// Copies the tree `from` to `to`, which is made, and answers the digest of what was
/// copied. What a build has left in it is not: what it made is made anew where make finds
/// no record of the command. Not by `.gitignore`, of which Debian's names everything.
///
/// # Errors
/// When a file cannot be read or written.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<[u8; 32], BuildError> {
    let wanted = |entry: &DirEntry| {
        let path = entry.path().strip_prefix(from).unwrap_or(entry.path());
        !is_left_out(path) && !is_of_a_build(path)
    };
    let walk = WalkDir::new(from).sort_by_file_name().into_iter();
    let mut digest = Sha256::new();
    for entry in walk.filter_entry(wanted) {
        let entry = entry.map_err(|e| BuildError::Io {
            what: "read",
            path: from.to_path_buf(),
            why: e.into(),
        })?;
        let path = entry.path();
        let name = path.strip_prefix(from).unwrap_or(path);
        let target = to.join(name);
        let kind = entry.file_type();
        if kind.is_dir() {
            fs::create_dir_all(&target).map_err(BuildError::io("make", &target))?;
            continue;
        }
        digest.update(name.as_os_str().as_encoded_bytes());
        digest.update([0]);
        if kind.is_symlink() {
            let goal = fs::read_link(path).map_err(BuildError::io("read", path))?;
            digest.update(goal.as_os_str().as_encoded_bytes());
            link(&goal, &target).map_err(BuildError::io("write", &target))?;
        } else if kind.is_file() {
            let mut file = File::open(path).map_err(BuildError::io("read", path))?;
            io::copy(&mut file, &mut digest).map_err(BuildError::io("read", path))?;
            fs::copy(path, &target).map_err(BuildError::io("write", &target))?;
        }
        digest.update([0]);
    }
    Ok(digest.finalize().into())
}

#[cfg(unix)]
fn link(goal: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(goal, at)
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::other("a kernel is built on Linux only"))
}

/// Whether a file, named from the root of its tree, is not needed.
fn is_left_out(path: &Path) -> bool {
    let code = path.extension().and_then(OsStr::to_str);
    if !code.is_some_and(|e| CODE.contains(&e)) {
        return false;
    }
    let mut parts = path.components().map(|part| part.as_os_str().to_str());
    let first = parts.next().flatten().unwrap_or_default();
    let second = parts.next().flatten().unwrap_or_default();
    LEFT_OUT.iter().any(|left| match left.split_once('/') {
        None => first == *left,
        Some((one, two)) if first == one => match two.strip_suffix('*') {
            Some(_) => !second.starts_with(['u', 'x']) && path.components().count() > 2,
            None => second == two,
        },
        Some(_) => false,
    })
}

/// Whether a file or folder, named from the root of its tree, is no source: git's own, or
/// made by a build.
fn is_of_a_build(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let ends = [".o", ".a", ".ko", ".mod", ".mod.c", ".cmd", ".order"];
    let made = ["vmlinux", "linux", "System.map", "Module.symvers", ".git"];
    let folder = |name: &str| path.ends_with(Path::new("include").join(name));
    ends.iter().any(|end| name.ends_with(end))
        || (path.components().count() == 1 && made.contains(&name))
        || name.starts_with(".config")
        || folder("generated")
        || folder("config")
}

/// SHA-256, in hexadecimal, of the file `path`.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn sha256(path: &Path) -> Result<String, BuildError> {
    let mut digest = Sha256::new();
    File::open(path)
        .and_then(|mut file| io::copy(&mut file, &mut digest))
        .map_err(BuildError::io("read", path))?;
    Ok(hexadecimal(&digest.finalize()))
}

/// Unpacks the source in Debian's package `deb` to `to`, which is made.
///
/// # Errors
/// When a program fails, or the package has no source.
pub(crate) fn unpack(deb: &Path, name: &str, to: &Path) -> Result<(), BuildError> {
    fs::create_dir_all(to).map_err(BuildError::io("make", to))?;
    let mut package = Command::new("dpkg-deb");
    package.arg("--fsys-tarfile").arg(deb);
    let mut archive = Command::new("tar");
    let member = format!("./usr/src/{name}.tar.xz");
    archive.args(["--extract", "--to-stdout", "--file", "-", &member]);
    let mut tree = Command::new("tar");
    tree.args(["--extract", "--xz", "--file", "-", "--strip-components=1"]);
    tree.arg("--anchored");
    for left in LEFT_OUT {
        for ending in CODE {
            tree.arg(format!("--exclude={name}/{left}/*.{ending}"));
        }
    }
    tree.arg("--directory").arg(to);
    pipe(&mut [package, archive, tree])
}

/// Runs `commands`, each of which reads what the one before it prints.
///
/// # Errors
/// The first that failed.
fn pipe(commands: &mut [Command]) -> Result<(), BuildError> {
    let mut input = Stdio::null();
    let mut children = Vec::new();
    let last = commands.len() - 1;
    for (i, command) in commands.iter_mut().enumerate() {
        let output = if i == last {
            Stdio::null()
        } else {
            Stdio::piped()
        };
        command.stdin(input).stdout(output).stderr(Stdio::piped());
        let child = command.spawn();
        let mut child = child.map_err(|e| failed(command, &e.to_string()))?;
        input = child.stdout.take().map_or_else(Stdio::null, Stdio::from);
        children.push(child);
    }
    let mut ended = Ok(());
    // From the last, whose failure is why those before it could not write.
    for (child, command) in children.into_iter().zip(commands.iter()).rev() {
        let output = child.wait_with_output();
        let output = output.map_err(|e| failed(command, &e.to_string()))?;
        if !output.status.success() && ended.is_ok() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let said = if said.is_empty() {
                output.status.to_string()
            } else {
                said
            };
            ended = Err(failed(command, &crate::process::last_lines(&said)));
        }
    }
    ended
}

/// The absolute path of a tree, for the description of what was built.
pub(crate) fn full_path(tree: &Path) -> Result<PathBuf, BuildError> {
    fs::canonicalize(tree).map_err(BuildError::io("find", tree))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Files below `root`, by their names from there.
    fn files(root: &Path) -> Vec<String> {
        let walk = WalkDir::new(root).into_iter().map(Result::unwrap);
        let mut names: Vec<_> = walk
            .filter(|e| !e.file_type().is_dir())
            .map(|e| e.path().strip_prefix(root).unwrap().display().to_string())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_copy_has_what_user_mode_linux_needs_and_nothing_that_was_built() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("tree"), folder.path().join("copy"));
        for name in [
            "arch/Kconfig",
            "arch/arm/Kconfig",
            "arch/arm/kernel/a.c",
            "arch/um/a.c",
            "arch/x86/um/a.c",
            "drivers/gpu/drm/Kconfig",
            "drivers/gpu/drm/a.c",
            "drivers/net/tun.c",
            "net/a.c",
            "net/a.o",
            "net/.a.o.cmd",
            "include/generated/a.h",
            "include/linux/a.h",
            "vmlinux",
            ".config",
            ".git/HEAD",
            "Documentation/Kconfig",
            "Documentation/a.rst",
        ] {
            write(&from, name, name);
        }
        write(&from, ".gitignore", "/*\n");
        let before = files(&from);
        let first = copy(&from, &to).unwrap();
        assert_eq!(
            files(&to),
            [
                ".gitignore",
                "Documentation/Kconfig",
                "arch/Kconfig",
                "arch/arm/Kconfig",
                "arch/um/a.c",
                "arch/x86/um/a.c",
                "drivers/gpu/drm/Kconfig",
                "drivers/net/tun.c",
                "include/linux/a.h",
                "net/a.c",
            ]
        );
        assert_eq!(files(&from), before);
        let again = copy(&from, &folder.path().join("again")).unwrap();
        assert_eq!(first, again);
        write(&from, "net/a.c", "other");
        let other = copy(&from, &folder.path().join("other")).unwrap();
        assert_ne!(first, other);
    }

    #[test]
    fn what_is_no_tree_is_refused_by_what_it_lacks() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "Makefile", "");
        let said = check(folder.path()).unwrap_err().to_string();
        assert!(
            said.ends_with("is no Linux source tree: it has no arch/um/Kconfig"),
            "{said}"
        );
        write(folder.path(), ARCHITECTURE, "");
        write(folder.path(), "net/ipv4/tcp_cong.c", "");
        assert!(check(folder.path()).is_ok());
    }

    #[test]
    fn a_kernel_that_is_too_old_is_refused_before_it_is_built() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), ARCHITECTURE, "");
        write(folder.path(), "net/ipv4/tcp_cong.c", "");
        let of = |version: u32, level: u32| {
            let head = "# SPDX-License-Identifier: GPL-2.0\n";
            let text = format!("{head}VERSION = {version}\nPATCHLEVEL = {level}\nSUBLEVEL = 9\n");
            write(folder.path(), "Makefile", &text);
            check(folder.path())
        };
        for (version, level) in [(6, 1), (6, 11), (5, 19)] {
            let refused = of(version, level).unwrap_err();
            assert!(refused.is_refusal());
            let said = refused.to_string();
            assert!(
                said.contains(&format!("is Linux {version}.{level}, ")),
                "{said}"
            );
        }
        for (version, level) in [(6, 12), (6, 18), (7, 0), (7, 3)] {
            assert!(of(version, level).is_ok());
        }
    }

    #[test]
    fn a_pipe_fails_with_the_words_of_what_failed() {
        let sh = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        assert!(pipe(&mut [sh("echo a"), sh("grep -q a")]).is_ok());
        let said = pipe(&mut [sh("echo a"), sh("cat >/dev/null; echo no >&2; exit 1")]);
        let said = said.unwrap_err().to_string();
        assert!(said.ends_with(": no"), "{said}");
        let said = pipe(&mut [sh("echo lost >&2; exit 2"), sh("cat")]).unwrap_err();
        assert!(said.to_string().ends_with(": lost"), "{said}");
    }
}
