//! From a source to a kernel in the store.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use narrows_engine::VirtualKernel;
use sha2::{Digest, Sha256};

use crate::changes::{CONTROLS_FOLDER, changes};
use crate::config;
use crate::controls;
use crate::error::BuildError;
use crate::store::{BuiltKernel, Store, Work};
use crate::survey;
use crate::{apt, make, source};

/// Where a kernel's source comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The newest `linux-source-*` that Debian has.
    #[default]
    Newest,
    /// Debian's package of this name.
    Package(String),
    /// A tree of the user's. It is read and never changed.
    Tree(PathBuf),
}

/// What is to be built.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// Of what.
    pub source: Source,
    /// Compilers at a time; 0: as many as there are processors.
    pub jobs: usize,
    /// Although the store has it.
    pub again: bool,
}

/// How far a build is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildProgress {
    /// What is being done, as a phrase.
    Step(String),
    /// The kernel is being compiled.
    Compiled {
        /// Steps that make has done.
        done: u64,
        /// About as many as there are.
        of: u64,
    },
}

/// Who follows a build, and can end it.
#[derive(Clone, Copy)]
pub struct BuildWatch<'a> {
    /// Called from the thread that builds.
    pub progress: &'a dyn Fn(BuildProgress),
    /// Ends the build when it is set.
    pub cancel: &'a AtomicBool,
}

/// A kernel, and whether it was built now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The kernel.
    pub kernel: BuiltKernel,
    /// Whether the store had it already.
    pub was_there: bool,
}

/// Steps of make for Linux 7.3; the next build knows better.
const STEPS: u64 = 1500;

/// Builds a kernel in virtual time and puts it into `store`; an equal one that is there is
/// not built again. A copy of the source is changed, configured and compiled in the
/// store's folder, and nothing is left of it, however this ends; of one that is interrupted a
/// moment later.
///
/// # Errors
/// One sentence: what is missing, does not fit or failed.
pub fn build(
    store: &Store,
    options: &BuildOptions,
    watch: &BuildWatch<'_>,
) -> Result<Outcome, BuildError> {
    let (packages, others): (Vec<_>, Vec<_>) = survey::missing()
        .into_iter()
        .partition(|tool| tool.for_packages);
    if !others.is_empty() {
        return Err(BuildError::Tools(others));
    }
    if let Source::Tree(tree) = &options.source {
        source::check(tree)?;
    } else if !packages.is_empty() {
        return Err(BuildError::NoPackages(packages));
    }
    let work = store.begin()?;
    let built = build_in(&work, store, options, watch);
    if matches!(built, Err(BuildError::Interrupted)) {
        work.abandon();
    }
    built
}

/// The build in its folder.
fn build_in(
    work: &Work,
    store: &Store,
    options: &BuildOptions,
    watch: &BuildWatch<'_>,
) -> Result<Outcome, BuildError> {
    let began = Instant::now();
    let step = |what: String| (watch.progress)(BuildProgress::Step(what));
    let tree = work.path().join("tree");

    let (description, sha256, digest) = match &options.source {
        Source::Tree(from) => {
            let from = source::full_path(from)?;
            step(format!("copying {}", from.display()));
            let copied = source::copy(&from, &tree)?;
            let digest = digest(&copied);
            let sha256 = controls::hexadecimal(&copied);
            (from.display().to_string(), sha256, digest)
        }
        Source::Newest | Source::Package(_) => {
            let asked = match &options.source {
                Source::Package(name) => Some(name.as_str()),
                _ => None,
            };
            step(format!(
                "looking for {}",
                asked.unwrap_or("the newest linux-source")
            ));
            let package = apt::find(&work.path().join("apt"), asked)?;
            let description = format!("{} {}", package.name, package.version);
            let digest = digest(description.as_bytes());
            if let Some(kernel) = there(store, options, &digest)? {
                return Ok(kernel);
            }
            watch.go_on()?;
            step(format!("downloading {description}"));
            let deb = apt::download(&package)?;
            watch.go_on()?;
            let sha256 = source::sha256(&deb)?;
            step(format!("unpacking {}", package.name));
            source::unpack(&deb, &package.name, &tree)?;
            source::check(&tree)?;
            (description, sha256, digest)
        }
    };
    watch.go_on()?;
    if let Some(kernel) = there(store, options, &digest)? {
        return Ok(kernel);
    }

    step("changing the copy".to_owned());
    let mut made = Vec::new();
    for change in changes() {
        if change.make(&tree)? {
            made.push(change);
        }
    }
    controls::place(&tree).map_err(BuildError::io("put controls into", &tree))?;
    let asked: Vec<_> = made.iter().flat_map(|c| c.config).copied().collect();
    step("configuring".to_owned());
    let configured = make::configure(&tree, &config::wanted(&asked))?;
    let lacks = config::lacks(&configured, &asked);
    if !lacks.is_empty() {
        return Err(BuildError::Config(
            lacks.into_iter().map(str::to_owned).collect(),
        ));
    }
    let release = make::release(&tree)?;
    watch.go_on()?;

    let of = expected(store)?;
    let mut done = 0;
    let mut compiled = || {
        done += 1;
        (watch.progress)(BuildProgress::Compiled {
            done,
            of: of.max(done),
        });
    };
    let stopped = || watch.cancel.load(Ordering::Relaxed);
    // Narrows' own C first: what of it the tree or its compiler refuses is found in seconds.
    let targets = [&format!("{CONTROLS_FOLDER}/"), "linux"];
    let jobs = jobs(options);
    make::build(&tree, &targets, jobs, &store.log(), &mut compiled, &stopped)?;

    let config = tree.join(".config");
    let configured = fs::read_to_string(&config).map_err(BuildError::io("read", &config))?;
    let kernel = BuiltKernel {
        made: VirtualKernel {
            id: format!("{release}-{}", &digest[..12]),
            release,
            source: description,
            source_sha256: sha256,
            config_sha256: controls::hexadecimal(&Sha256::digest(&configured)),
            compiler: config::compiler(&configured),
            pahole: make::pahole(),
            controls_digest: controls::digest(),
            changes: made.iter().map(|change| change.name.to_owned()).collect(),
        },
        digest,
        controls: controls::registered_names(),
        built_s: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        build_took_s: began.elapsed().as_secs(),
        steps: done,
        folder: PathBuf::new(),
    };
    let binary = tree.join("linux");
    make::strip(&binary)?;
    let kernel = store.put(work, kernel, &binary, &config)?;
    Ok(Outcome {
        kernel,
        was_there: false,
    })
}

impl BuildWatch<'_> {
    /// Ends a build that was cancelled between two steps.
    fn go_on(&self) -> Result<(), BuildError> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(BuildError::Interrupted);
        }
        Ok(())
    }
}

/// What the store has of it already.
fn there(
    store: &Store,
    options: &BuildOptions,
    digest: &str,
) -> Result<Option<Outcome>, BuildError> {
    if options.again {
        return Ok(None);
    }
    let kernel = store.list()?.into_iter().find(|k| k.digest == digest);
    Ok(kernel.map(|kernel| Outcome {
        kernel,
        was_there: true,
    }))
}

/// Of everything that decides what is built: the source, the list of the configuration, the
/// changes and the controls.
fn digest(source: &[u8]) -> String {
    let mut digest = Sha256::new();
    let mut add = |bytes: &[u8]| {
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    };
    add(source);
    add(config::LIST.as_bytes());
    for change in changes() {
        add(format!(
            "{:?} {:?} {:?}",
            change.only_where, change.edits, change.config
        )
        .as_bytes());
    }
    add(controls::digest().as_bytes());
    controls::hexadecimal(&digest.finalize())
}

/// Steps of make, as many as the last build had.
fn expected(store: &Store) -> Result<u64, BuildError> {
    let mut last = store.list()?.into_iter().map(|kernel| kernel.steps);
    Ok(last.find(|steps| *steps > 0).unwrap_or(STEPS))
}

fn jobs(options: &BuildOptions) -> usize {
    match options.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_of_the_source_and_of_what_is_made_of_it() {
        let one = digest(b"linux-source-7.3 7.3.4-1");
        assert_eq!(one.len(), 64);
        assert_eq!(one, digest(b"linux-source-7.3 7.3.4-1"));
        assert_ne!(one, digest(b"linux-source-7.3 7.3.4-2"));
    }

    #[test]
    fn a_folder_that_is_no_tree_is_refused_before_anything_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("kernels"));
        let options = BuildOptions {
            source: Source::Tree(folder.path().to_path_buf()),
            ..BuildOptions::default()
        };
        let watch = BuildWatch {
            progress: &|_| (),
            cancel: &AtomicBool::new(false),
        };
        if !survey::missing().is_empty() {
            eprintln!("skipped: a_folder_that_is_no_tree: no tools to build with");
            return;
        }
        let refused = build(&store, &options, &watch).unwrap_err();
        assert!(refused.is_refusal(), "{refused}");
        assert!(!store.folder().exists());
    }
}
