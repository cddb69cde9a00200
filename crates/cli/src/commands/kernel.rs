//! `narrows kernel`: kernels in virtual time are built, listed, removed.

use std::cell::RefCell;
use std::io::IsTerminal;
use std::time::{Duration, UNIX_EPOCH};

use narrows::kernel::{
    self, BuildOptions, BuildProgress, BuildWatch, BuiltKernel, Selection, Source,
};
use narrows::results::rfc3339;

use crate::args::{Format, Kernel, KernelBuild, KernelCommand, KernelList, KernelRemove};
use crate::output::{message, print, print_json};
use crate::progress::{KernelBar, cancel_flag};
use crate::status::{Outcome, Status};

pub fn kernel(args: &Kernel) -> Outcome {
    match &args.command {
        KernelCommand::Build(args) => build(args),
        KernelCommand::List(args) => list(args),
        KernelCommand::Remove(args) => remove(args),
    }
}

fn build(args: &KernelBuild) -> Outcome {
    let source = match (&args.source, &args.package) {
        (Some(tree), _) => Source::Tree(tree.clone()),
        (None, Some(name)) => Source::Package(name.clone()),
        (None, None) => Source::Newest,
    };
    let options = BuildOptions {
        source,
        jobs: args.jobs.map_or(0, usize::from),
        again: args.again,
    };
    let bar = RefCell::new(None);
    let progress = |progress: BuildProgress| match progress {
        BuildProgress::Step(what) => {
            bar.replace(None);
            message!("narrows: {what}");
        }
        BuildProgress::Compiled { done, of } => {
            let mut bar = bar.borrow_mut();
            if bar.is_none() && !std::io::stderr().is_terminal() {
                message!("narrows: compiling");
            }
            bar.get_or_insert_with(KernelBar::new).update(done, of);
        }
    };
    let watch = BuildWatch {
        progress: &progress,
        cancel: cancel_flag(),
    };
    let built = kernel::build(&options, &watch);
    bar.replace(None);
    let built = built?;
    let kernel = &built.kernel;
    match built.was_there {
        true => message!("narrows: it is there already, of the same source and changes"),
        false => message!(
            "narrows: built in {} min {} s",
            kernel.build_took_s / 60,
            kernel.build_took_s % 60
        ),
    }
    print(&format!(
        "{}  {}",
        kernel.made.id,
        kernel.binary().display()
    ));
    Ok(Status::Done)
}

fn list(args: &KernelList) -> Outcome {
    let kernels = kernel::list()?;
    match args.format {
        Format::Json => {
            let mut list = Vec::new();
            for kernel in &kernels {
                let mut value = serde_json::to_value(kernel).unwrap_or_default();
                value["binary"] = kernel.binary().display().to_string().into();
                list.push(value);
            }
            print_json(&list.into());
        }
        Format::Text if kernels.is_empty() => {
            message!("narrows: none is built; `narrows kernel build` builds one");
        }
        Format::Text => print(&table(&kernels)),
    }
    Ok(Status::Done)
}

/// A line for each, under its heads.
fn table(kernels: &[BuiltKernel]) -> String {
    let heads = ["ID", "SOURCE", "CONTROLS", "BUILT (UTC)"].map(str::to_owned);
    let rows = kernels.iter().map(|kernel| {
        [
            kernel.made.id.clone(),
            kernel.made.source.clone(),
            kernel.controls.join(" "),
            rfc3339(UNIX_EPOCH + Duration::from_secs(kernel.built_s)),
        ]
    });
    let rows: Vec<_> = std::iter::once(heads).chain(rows).collect();
    let width = |column: usize| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    };
    let widths = [width(0), width(1), width(2)];
    let line = |[id, source, controls, built]: &[String; 4]| {
        format!(
            "{id:0$}  {source:1$}  {controls:2$}  {built}\n",
            widths[0], widths[1], widths[2]
        )
    };
    rows.iter().map(line).collect()
}

fn remove(args: &KernelRemove) -> Outcome {
    let selection = match args.all {
        true => Selection::All,
        false => Selection::Ids(args.ids.clone()),
    };
    for id in kernel::remove(&selection)? {
        print(&format!("removed {id}"));
    }
    Ok(Status::Done)
}
