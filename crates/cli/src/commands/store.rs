//! `narrows store`: what is in a store of cells, and what of it can go.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use narrows::campaign::{Cells, Use};
use narrows::results::rfc3339;
use narrows::results::store::{Found, Store, Survey, Unneeded};
use narrows::scenario::Glob;
use narrows::{Engine, Error};
use serde_json::{Value, json};

use crate::COMMIT;
use crate::args::{
    Format, Store as Args, StoreCommand, StoreList, StorePrune, StoreUse, StoreVerify,
};
use crate::output::{message, print, print_json};
use crate::status::{Outcome, Status};

/// Names the store in place of the option; empty for none.
const VARIABLE: &str = "NARROWS_STORE";

pub fn store(args: &Args) -> Outcome {
    match &args.command {
        StoreCommand::List(args) => list(args),
        StoreCommand::Verify(args) => verify(args),
        StoreCommand::Prune(args) => prune(args),
    }
}

/// Where a campaign on `engine` takes cells from and keeps them, if anywhere. That the user's
/// own place cannot be used is no reason not to run; that a named one cannot is.
pub fn of_campaign(args: &StoreUse, engine: &dyn Engine) -> Result<Option<Cells>, Error> {
    if args.no_store || engine.alone() {
        return Ok(None);
    }
    let Some(dir) = place(args.store.as_deref()) else {
        return Ok(None);
    };
    let must_keep = args.store.is_some() || std::env::var_os(VARIABLE).is_some();
    match Store::open(dir, version()?) {
        Ok(store) => Ok(Some(Cells {
            must_keep,
            ..Cells::of(store, how(args))
        })),
        Err(error) if must_keep => Err(error),
        Err(error) => {
            message!("narrows: cells are not kept, as {error}; --store names another place");
            Ok(None)
        }
    }
}

/// Where a shard keeps its runs: it leaves nothing else.
pub fn of_shard(args: &StoreUse, engine: &dyn Engine) -> Result<Cells, Error> {
    if engine.alone() {
        return Err(Error::Refused(format!(
            "runs of the engine {} measure this machine and are in no store, so that there are \
             no shards of them",
            engine.name()
        )));
    }
    let Some(dir) = place(args.store.as_deref()) else {
        return Err(Error::Refused(format!(
            "a shard leaves its runs in a store, and none is named (--store DIR or {VARIABLE} \
             names one)"
        )));
    };
    Ok(Cells::of(Store::open(dir, version()?)?, how(args)))
}

fn how(args: &StoreUse) -> Use {
    match args.fresh {
        true => Use::Fresh,
        false => Use::Resume,
    }
}

/// The stores in `dirs`, which have to be there.
pub fn named(dirs: &[PathBuf]) -> Result<Vec<Store>, Error> {
    let version = version()?;
    let open = |dir: &PathBuf| Store::existing(dir, version.clone());
    dirs.iter().map(open).collect()
}

/// The version of the program as stores have it.
fn version() -> Result<String, Error> {
    narrows::program::version(COMMIT)
}

/// The store that was named, by the option or the environment, or else the user's.
pub fn place(named: Option<&Path>) -> Option<PathBuf> {
    let of_environment = || std::env::var_os(VARIABLE).map(PathBuf::from);
    match named.map(Path::to_path_buf).or_else(of_environment) {
        Some(dir) if dir.as_os_str().is_empty() => None,
        Some(dir) => Some(dir),
        None => Store::of_user(),
    }
}

/// The store that is asked about; `None`, after a message, if there is none yet.
fn asked(named: Option<&Path>) -> Result<Option<Store>, Error> {
    let Some(dir) = place(named) else {
        return Err(Error::Refused(format!(
            "no store is named, and there is no home to look in (--store DIR or {VARIABLE} names one)"
        )));
    };
    if named.is_none() && !dir.exists() {
        message!("narrows: there is no store in {} yet", dir.display());
        return Ok(None);
    }
    Store::existing(dir, version()?).map(Some)
}

fn list(args: &StoreList) -> Outcome {
    let only = match &args.only {
        Some(pattern) => Some(Glob::parse(pattern)?),
        None => None,
    };
    let Some(store) = asked(args.store.as_deref())? else {
        return Ok(Status::Done);
    };
    let mut survey = store.survey(false)?;
    if let Some(glob) = &only {
        survey
            .cells
            .retain(|found| glob.matches(found.key.scenario()));
    }
    match args.format {
        Format::Json => {
            print_json(
                &survey
                    .cells
                    .iter()
                    .map(|found| cell_json(&store, found))
                    .collect(),
            );
        }
        Format::Text if survey.cells.is_empty() => message!("narrows: no such cell is in it"),
        Format::Text => print(&match only {
            Some(_) => cells(&survey.cells),
            None => versions(&survey.cells, store.version()),
        }),
    }
    say_rest(&survey);
    Ok(Status::Done)
}

fn cell_json(store: &Store, found: &Found) -> Value {
    let key = &found.key;
    json!({
        "name": found.name,
        "scenario": key.scenario(),
        "seed": key.seed,
        "engine": key.engine,
        "version": key.version,
        "kernel": key.kernel.as_ref().map(|kernel| &kernel.id),
        "summary_alone": key.series_ns == 0,
        "bytes": found.bytes,
        "wall_s": store.wall_s(found).ok(),
        "used_utc": rfc3339(found.used),
    })
}

/// A line for each cell.
fn cells(found: &[Found]) -> String {
    let rows = found.iter().map(|found| {
        let key = &found.key;
        [
            key.scenario().to_owned(),
            key.seed.to_string(),
            key.engine.clone(),
            key.version.clone(),
            size(found.bytes),
            rfc3339(found.used),
            found.name[..12].to_owned(),
        ]
    });
    columns(
        [
            "CELL",
            "SEED",
            "ENGINE",
            "VERSION",
            "SIZE",
            "USED (UTC)",
            "NAME",
        ],
        rows,
    )
}

/// A line for each version and engine.
fn versions(found: &[Found], ours: &str) -> String {
    let mut groups: BTreeMap<(String, String), (usize, u64, SystemTime)> = BTreeMap::new();
    for found in found {
        let key = &found.key;
        let kernel = key.kernel.as_ref().map(|kernel| format!(" {}", kernel.id));
        let engine = format!("{}{}", key.engine, kernel.unwrap_or_default());
        let group = groups.entry((key.version.clone(), engine));
        let (count, bytes, used) = group.or_insert((0, 0, SystemTime::UNIX_EPOCH));
        *count += 1;
        *bytes += found.bytes;
        *used = (*used).max(found.used);
    }
    let rows = groups
        .into_iter()
        .map(|((version, engine), (count, bytes, used))| {
            let mark = if version == ours { " *" } else { "" };
            [
                format!("{version}{mark}"),
                engine,
                count.to_string(),
                size(bytes),
                rfc3339(used),
            ]
        });
    columns(["VERSION", "ENGINE", "CELLS", "SIZE", "USED (UTC)"], rows)
}

/// Rows under their heads.
fn columns<const N: usize>(heads: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let rows: Vec<_> = std::iter::once(heads.map(str::to_owned))
        .chain(rows)
        .collect();
    let widths: Vec<usize> = (0..N)
        .map(|column| {
            rows.iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let line = |row: &[String; N]| {
        let padded = row
            .iter()
            .zip(&widths)
            .map(|(text, width)| format!("{text:width$}"));
        let line: Vec<String> = padded.collect();
        format!("{}\n", line.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn size(bytes: u64) -> String {
    const STEP: f64 = 1024.0;
    let (mut size, mut units) = (bytes as f64, ["B", "KiB", "MiB", "GiB", "TiB"].iter());
    let mut unit = units.next().unwrap_or(&"");
    while size >= STEP {
        let Some(next) = units.next() else { break };
        (size, unit) = (size / STEP, next);
    }
    let digits = usize::from(bytes as f64 >= STEP);
    format!("{size:.digits$} {unit}")
}

/// What is there beside the cells.
fn say_rest(survey: &Survey) {
    for (dir, why) in &survey.damaged {
        message!("narrows: {} is damaged: {why}", dir.display());
    }
    if survey.set_aside > 0 {
        message!(
            "narrows: {} were found damaged and set aside",
            survey.set_aside
        );
    }
    if survey.begun > 0 {
        message!(
            "narrows: {} are begun, by processes that run or by some that were killed",
            survey.begun
        );
    }
}

fn verify(args: &StoreVerify) -> Outcome {
    let Some(store) = asked(args.store.as_deref())? else {
        return Ok(Status::Done);
    };
    let survey = store.survey(true)?;
    let bytes = survey.cells.iter().map(|found| found.bytes).sum();
    print(&format!(
        "{} cells are sound ({}), {} damaged",
        survey.cells.len(),
        size(bytes),
        survey.damaged.len()
    ));
    say_rest(&survey);
    if survey.damaged.is_empty() {
        return Ok(Status::Done);
    }
    message!("narrows: a campaign runs them again; `narrows store prune` removes them");
    Ok(Status::Failed)
}

fn prune(args: &StorePrune) -> Outcome {
    let Some(store) = asked(args.store.as_deref())? else {
        return Ok(Status::Done);
    };
    let pruned = store.prune(&Unneeded {
        other_versions: args.other_versions,
        unused: args.unused,
        all: args.all,
    })?;
    print(&format!(
        "removed {} cells ({}), {} damaged ones, and what {} killed runs left",
        pruned.cells,
        size(pruned.bytes),
        pruned.damaged,
        pruned.left
    ));
    Ok(Status::Done)
}
