//! Packages of Debian, as an ordinary user and without a change to the machine: apt with
//! lists and a cache of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::BuildError;
use crate::process::{answer, run};

/// Where kernels are published: Debian's archive and its security updates, by suite, those
/// with the newest kernels first.
const SUITES: [(Archive, &str); 5] = [
    (Archive::Main, "trixie-backports"),
    (Archive::Main, "trixie"),
    (Archive::Security, "trixie-security"),
    (Archive::Security, "bookworm-security"),
    (Archive::Main, "bookworm"),
];

/// The keys that they are signed with.
const KEYRINGS: [&str; 2] = [
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
];

/// How the names of packages with a kernel's source begin; a version follows.
const PREFIX: &str = "linux-source-";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Archive {
    Main,
    Security,
}

impl Archive {
    /// The last part of its address.
    fn name(self) -> &'static str {
        match self {
            Self::Main => "debian",
            Self::Security => "debian-security",
        }
    }

    /// Its address: the one that this machine uses, or Debian's for everybody.
    fn address(self) -> String {
        let asked = Command::new("apt-get")
            .args(["indextargets", "--format", "$(REPO_URI)"])
            .output();
        let said = asked.map(|output| output.stdout).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let own = said.lines().map(|uri| uri.trim_end_matches('/'));
        own.filter(|uri| uri.rsplit('/').next() == Some(self.name()))
            .map(str::to_owned)
            .next()
            .unwrap_or_else(|| format!("http://deb.debian.org/{}", self.name()))
    }
}

/// A package that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    /// `linux-source-7.3`
    pub name: String,
    /// Debian's version of it.
    pub version: String,
    /// Of the suite that has it, and of what was asked before.
    folder: PathBuf,
}

/// Looks for the package `asked`, or for the newest kernel, in a suite after the other;
/// `folder` is for apt's lists.
///
/// # Errors
/// When apt fails, or nothing is found.
pub(crate) fn find(folder: &Path, asked: Option<&str>) -> Result<Package, BuildError> {
    let keyring = KEYRINGS.iter().find(|path| Path::new(path).is_file());
    let keyring = keyring.ok_or(BuildError::NoKeyring)?;
    let mut there = Vec::new();
    for (archive, suite) in SUITES {
        let folder = folder.join(suite);
        prepare(&folder, &archive.address(), suite, keyring)?;
        run(&mut apt(&folder, "apt-get", &["-qq", "update"]))?;
        let names = answer(&mut apt(&folder, "apt-cache", &["pkgnames", PREFIX]))?;
        let mut names: Vec<_> = names.lines().filter(|n| release(n).is_some()).collect();
        names.sort_by_key(|name| release(name));
        let found = match asked {
            Some(asked) => names.iter().find(|name| **name == asked),
            None => names.last(),
        };
        if let Some(name) = found {
            let shown = answer(&mut apt(
                &folder,
                "apt-cache",
                &["show", "--no-all-versions", name],
            ))?;
            let version = shown.lines().find_map(|l| l.strip_prefix("Version: "));
            return Ok(Package {
                name: (*name).to_owned(),
                version: version.unwrap_or_default().to_owned(),
                folder,
            });
        }
        there.extend(names.into_iter().map(str::to_owned));
    }
    there.sort_by_key(|name| release(name));
    there.dedup();
    Err(BuildError::NoPackage {
        asked: asked.unwrap_or("linux-source-*").to_owned(),
        suites: SUITES
            .iter()
            .map(|(_, suite)| (*suite).to_owned())
            .collect(),
        there,
    })
}

/// Downloads `package`, whose signature and sum apt checks.
///
/// # Errors
/// When apt fails.
pub(crate) fn download(package: &Package) -> Result<PathBuf, BuildError> {
    let mut command = apt(
        &package.folder,
        "apt-get",
        &["-qq", "download", &package.name],
    );
    run(command.current_dir(&package.folder))?;
    let folder = &package.folder;
    let entries = fs::read_dir(folder).map_err(BuildError::io("read", folder))?;
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut debs = files.filter(|path| path.extension().is_some_and(|e| e == "deb"));
    debs.next().ok_or_else(|| BuildError::Failed {
        program: format!("apt-get download {}", package.name),
        said: "it left no file".to_owned(),
    })
}

/// The release in a package's name: 7.3 of `linux-source-7.3`.
fn release(name: &str) -> Option<(u32, u32)> {
    let (major, minor) = name.strip_prefix(PREFIX)?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// A folder in which apt finds `suite` and nothing else.
fn prepare(folder: &Path, address: &str, suite: &str, keyring: &str) -> Result<(), BuildError> {
    let make = |path: &Path| fs::create_dir_all(path).map_err(BuildError::io("make", path));
    make(&folder.join("lists/partial"))?;
    make(&folder.join("cache/archives/partial"))?;
    let list = folder.join("sources.list");
    let text = format!("deb [signed-by={keyring}] {address} {suite} main\n");
    fs::write(&list, text).map_err(BuildError::io("write", &list))
}

/// A program of apt's that uses `folder` alone. Proxies and the like are the machine's.
fn apt(folder: &Path, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    let mut option = |name: &str, value: &Path| {
        command.arg("-o").arg(format!("{name}={}", value.display()));
    };
    option("Dir::Etc::sourcelist", &folder.join("sources.list"));
    option("Dir::Etc::sourceparts", Path::new("-"));
    option("Dir::State::lists", &folder.join("lists"));
    option("Dir::Cache", &folder.join("cache"));
    command.args(["-o", "Acquire::Languages=none"]);
    // Without a network `update` would warn, succeed and find no package.
    command.args(["-o", "APT::Update::Error-Mode=any"]);
    // As root it would change to a user who may not write here.
    command.args(["-o", "APT::Sandbox::User="]);
    command.args(arguments).env("LC_ALL", "C");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_ordered_by_the_release_in_their_names() {
        let mut names = ["linux-source-6.12", "linux-source-7.3", "linux-source-6.9"];
        names.sort_by_key(|name| release(name));
        assert_eq!(
            names,
            ["linux-source-6.9", "linux-source-6.12", "linux-source-7.3"]
        );
        for other in ["linux-source", "linux-source-7.3-rt", "linux-image-7.3"] {
            assert_eq!(release(other), None, "{other}");
        }
    }

    #[test]
    fn apt_is_given_lists_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        prepare(
            folder.path(),
            "http://deb.example/debian",
            "trixie",
            "/keys.gpg",
        )
        .unwrap();
        let list = fs::read_to_string(folder.path().join("sources.list")).unwrap();
        assert_eq!(
            list,
            "deb [signed-by=/keys.gpg] http://deb.example/debian trixie main\n"
        );
        let command = apt(folder.path(), "apt-get", &["update"]);
        let said: Vec<_> = command.get_args().map(|a| a.to_string_lossy()).collect();
        let lists = format!("Dir::State::lists={}/lists", folder.path().display());
        assert!(said.iter().any(|word| *word == lists));
        assert!(said.contains(&"Dir::Etc::sourceparts=-".into()));
    }
    #[test]
    fn an_archive_that_cannot_be_reached_is_a_failure_and_not_one_without_packages() {
        if Command::new("apt-get").arg("--version").output().is_err() {
            eprintln!("skipped: an archive out of reach: there is no apt-get");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        // Where nobody listens.
        let address = "http://127.0.0.1:1/debian";
        prepare(folder.path(), address, "trixie", "/keys.gpg").unwrap();
        let mut update = apt(folder.path(), "apt-get", &["-qq", "update"]);
        update.args(["-o", "Acquire::Retries=0"]);
        update.args(["-o", "Acquire::http::Proxy=DIRECT"]);
        let said = run(&mut update).unwrap_err().to_string();
        assert!(said.contains("127.0.0.1"), "{said}");
    }
}
