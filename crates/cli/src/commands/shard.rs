//! `narrows campaign --shard`: one of several parts of the runs, into a store.

use std::fs;
use std::path::Path;

use narrows::campaign::{Costs, Division, Shard, run_shard};
use narrows::{CampaignOptions, Engine, Error, Watch};
use serde_json::{Value, json};

use super::campaign::{Chosen, failed_json, name_runs, options, print_documents};
use crate::args::{Campaign as Args, Format, ShardWord};
use crate::output::{message, print};
use crate::progress::{Bar, cancel_flag_of_runs};
use crate::status::{Outcome, Status};

pub fn shard(args: &Args, word: ShardWord, engine: &dyn Engine, chosen: &Chosen) -> Outcome {
    let shard = match word {
        ShardWord::One(shard) => shard,
        ShardWord::Auto => {
            let of_environment = |name: &str| std::env::var(name).ok();
            from_environment(&of_environment)
                .map_err(|why| Error::Refused(format!("--shard auto: {why}")))?
        }
    };
    let costs = match &args.costs {
        Some(file) => costs_in(file)?,
        None => Costs::default(),
    };
    let cells = super::store::of_shard(&args.store, engine)?;
    let mut division = Division::new(shard, costs);
    let mut parts = Vec::new();
    for campaign in &chosen.campaigns {
        let options = CampaignOptions {
            cells: Some(cells.clone()),
            ..options(&args.runs, campaign)
        };
        let part = division.part(campaign, &options.seeds);
        if args.costs.is_some() && part.known < campaign.cells.len() {
            message!(
                "narrows: what {} of {} cells of {} cost is estimated, as the file of costs does \
                 not have them",
                campaign.cells.len() - part.known,
                campaign.cells.len(),
                campaign.name
            );
        }
        parts.push((campaign, options, part));
    }
    let mut status = Status::Done;
    let mut documents = Vec::new();
    for (campaign, options, part) in parts {
        message!(
            "narrows: shard {shard} of {}: {} of {} runs, {:.1} % of their cost; division {}",
            campaign.name,
            part.len(),
            part.of,
            f64::from(part.cost_permille) / 10.0,
            division.name()
        );
        let done = {
            let bar = Bar::new(&campaign.name);
            let watch = Watch {
                cancel: cancel_flag_of_runs(),
                progress: &|progress| bar.update(progress),
            };
            run_shard(engine, campaign, &options, &part, &watch)?
        };
        let (failed, ran) = (done.failed.len(), done.done - done.taken);
        match args.runs.format {
            Format::Text => print(&format!(
                "shard {shard} of {}: {} of {} runs are in {}, {} of them were there before",
                campaign.name,
                done.done - failed,
                part.len(),
                cells.places(),
                done.taken,
            )),
            Format::Json => documents.push(json!({
                "campaign": campaign.name,
                "shard": shard.to_string(),
                "division": division.name(),
                "runs": part.len(),
                "of": part.of,
                "ran": ran,
                "taken": done.taken,
                "failed": done.failed.iter().map(failed_json).collect::<Vec<Value>>(),
            })),
        }
        if failed > 0 {
            message!("narrows: {failed} runs failed:");
            name_runs(&done.failed);
            status = status.and(Status::Failed);
        }
        if done.done < part.len() {
            status = status.and(Status::Interrupted);
            break;
        }
    }
    if args.runs.format == Format::Json {
        print_documents(documents, chosen.campaigns.len() > 1);
    }
    if args.runs.check {
        message!(
            "narrows: a shard judges nothing; `narrows merge {} --campaign {} --check` does, once \
             all shards are done",
            cells.places(),
            args.name
        );
    }
    Ok(status)
}

/// The costs in what `narrows store list --format json` printed.
fn costs_in(file: &Path) -> Result<Costs, Error> {
    let content = |what: String| Error::Content {
        path: file.to_path_buf(),
        what: format!("{what}; it is what `narrows store list --format json` prints"),
    };
    let text = fs::read(file).map_err(Error::io("read", file))?;
    let cells: Vec<Value> = serde_json::from_slice(&text).map_err(|e| content(e.to_string()))?;
    let mut known = Vec::new();
    for cell in &cells {
        let Some(name) = cell["scenario"].as_str() else {
            return Err(content("an entry has no `scenario`".to_owned()));
        };
        // Of a cell that could not be read nothing is known.
        if let Some(seconds) = cell["wall_s"].as_f64() {
            known.push((name.to_owned(), seconds));
        }
    }
    Costs::of(known).map_err(|why| Error::Content {
        path: file.to_path_buf(),
        what: why,
    })
}

/// The shard that the variables of a scheduler say, as `variable` reads them.
fn from_environment(variable: &dyn Fn(&str) -> Option<String>) -> Result<Shard, String> {
    const INDEX: &str = "NARROWS_SHARD_INDEX";
    const COUNT: &str = "NARROWS_SHARDS";
    const SLURM: &str = "SLURM_ARRAY_TASK_ID";
    const KUBERNETES: &str = "JOB_COMPLETION_INDEX";
    let number = |name: &str| match variable(name) {
        None => Ok(None),
        Some(text) => match text.trim().parse::<u64>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!("{name} is `{text}`; allowed: a whole number")),
        },
    };
    let needed = |name: &str, with: &str| {
        number(name)?.ok_or_else(|| format!("{with} is set, and {name} is missing beside it"))
    };
    let counted_from_0 = |name: &str| -> Result<Option<(u64, u64)>, String> {
        match number(name)? {
            Some(index) => Ok(Some((index, needed(COUNT, name)?))),
            None => Ok(None),
        }
    };
    let slurm = match number(SLURM)? {
        Some(id) => Some(of_slurm(id, &|name| needed(name, SLURM))?),
        None => None,
    };
    let (index, of, from) = match (counted_from_0(INDEX)?, slurm) {
        (Some((index, of)), _) => (index, of, INDEX),
        (None, Some(_)) if variable(KUBERNETES).is_some() => {
            return Err(format!(
                "{SLURM} and {KUBERNETES} are both set; {INDEX} (from 0) and {COUNT} decide"
            ));
        }
        (None, Some((index, of))) => match number(COUNT)? {
            Some(other) if other != of => {
                return Err(format!(
                    "Slurm's array has {of} tasks, and {COUNT} is {other}; unset it, or name \
                     the shard as I/N"
                ));
            }
            _ => (index, of, SLURM),
        },
        (None, None) => match counted_from_0(KUBERNETES)? {
            Some((index, of)) => (index, of, KUBERNETES),
            None => {
                return Err(format!(
                    "no variable says which shard; it takes {INDEX} (from 0) and {COUNT}, \
                     {SLURM} (of `sbatch --array`), or {KUBERNETES} and {COUNT}"
                ));
            }
        },
    };
    Shard::new(index.saturating_add(1), of)
        .map_err(|_| format!("by {from} it is number {index} (from 0) of {of} shards"))
}

/// Which task of a Slurm array, from 0, and of how many.
fn of_slurm(id: u64, needed: &dyn Fn(&str) -> Result<u64, String>) -> Result<(u64, u64), String> {
    let count = needed("SLURM_ARRAY_TASK_COUNT")?;
    let [min, max] = ["SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX"].map(needed);
    let (min, max) = (min?, max?);
    // A list such as 1,5,6 says nowhere which of its tasks this is.
    let even = match count.checked_sub(1) {
        Some(0) => (max == min).then_some(1),
        Some(gaps) => {
            let span = max.checked_sub(min);
            span.filter(|span| span % gaps == 0 && *span > 0)
                .map(|span| span / gaps)
        }
        None => None,
    };
    let index = even.and_then(|step| {
        let offset = id.checked_sub(min)?;
        (offset % step == 0 && offset / step < count).then_some(offset / step)
    });
    match index {
        Some(index) => Ok((index, count)),
        None => Err(format!(
            "task {id} of {count} from {min} to {max} is not of an even array; run all of the \
             array again (what is in the store is not run twice), or name the shard as I/N"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<String, String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        from_environment(&variable).map(|shard| shard.to_string())
    }

    fn slurm(id: &str, count: &str, min: &str, max: &str) -> Result<String, String> {
        read(&[
            ("SLURM_ARRAY_TASK_ID", id),
            ("SLURM_ARRAY_TASK_COUNT", count),
            ("SLURM_ARRAY_TASK_MIN", min),
            ("SLURM_ARRAY_TASK_MAX", max),
        ])
    }

    #[test]
    fn each_scheduler_s_variables_name_a_shard() {
        assert_eq!(slurm("1", "8", "1", "8").as_deref(), Ok("1/8"));
        assert_eq!(slurm("0", "8", "0", "7").as_deref(), Ok("1/8"));
        assert_eq!(slurm("19", "4", "10", "19").as_deref(), Ok("4/4"));
        assert_eq!(slurm("5", "1", "5", "5").as_deref(), Ok("1/1"));
        let kubernetes = [("JOB_COMPLETION_INDEX", "7"), ("NARROWS_SHARDS", "8")];
        assert_eq!(read(&kubernetes).as_deref(), Ok("8/8"));
        let own = [("NARROWS_SHARD_INDEX", "0"), ("NARROWS_SHARDS", "8")];
        assert_eq!(read(&own).as_deref(), Ok("1/8"));
        // Narrows' own ones decide.
        assert_eq!(read(&[own, kubernetes].concat()).as_deref(), Ok("1/8"));
    }

    #[test]
    fn variables_that_name_no_shard_for_certain_are_refused() {
        for (refused, says) in [
            (read(&[]), "no variable says which shard"),
            (read(&[("NARROWS_SHARDS", "8")]), "no variable says which"),
            (
                read(&[("JOB_COMPLETION_INDEX", "1")]),
                "NARROWS_SHARDS is missing",
            ),
            (
                read(&[("SLURM_ARRAY_TASK_ID", "1")]),
                "SLURM_ARRAY_TASK_COUNT is missing",
            ),
            (
                read(&[("JOB_COMPLETION_INDEX", "8"), ("NARROWS_SHARDS", "8")]),
                "number 8 (from 0) of 8 shards",
            ),
            (
                read(&[("JOB_COMPLETION_INDEX", "one"), ("NARROWS_SHARDS", "8")]),
                "JOB_COMPLETION_INDEX is `one`",
            ),
            (slurm("5", "3", "1", "6"), "not of an even array"),
            (slurm("6", "3", "1", "7"), "not of an even array"),
            (slurm("9", "3", "1", "3"), "not of an even array"),
            (slurm("1", "0", "1", "1"), "not of an even array"),
            (slurm("1", "2", "1", "1"), "not of an even array"),
        ] {
            let why = refused.expect_err(says);
            assert!(why.contains(says), "{why}");
        }
        let both = [
            ("SLURM_ARRAY_TASK_ID", "1"),
            ("SLURM_ARRAY_TASK_COUNT", "2"),
            ("SLURM_ARRAY_TASK_MIN", "1"),
            ("SLURM_ARRAY_TASK_MAX", "2"),
        ];
        let other = [&both[..], &[("NARROWS_SHARDS", "3")]].concat();
        assert!(read(&other).expect_err("differs").contains("has 2 tasks"));
        let other = [&both[..], &[("JOB_COMPLETION_INDEX", "1")]].concat();
        assert!(read(&other).expect_err("both").contains("both set"));
    }
}
