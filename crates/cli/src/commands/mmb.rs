//! `narrows mmb`: a box by rules, at the command line, from files and at a prompt.

mod device;
mod path;

use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;

use narrows::files;
use narrows::mmb::{Answer, Request, Session, complete};
use narrows::scenario::Refusal;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{Context, Editor, Helper, Highlighter, Hinter, Validator};

use crate::args::{Format, Mmb};
use crate::output::{message, print, print_json};
use crate::status::{Failure, Outcome, Status};

pub fn mmb(args: &Mmb) -> Outcome {
    // Who can guess what is drawn at a real device can send into its connections.
    let attaches = args.words.first().is_some_and(|word| word == "attach");
    let drawn = || {
        if attaches {
            RandomState::new().hash_one(())
        } else {
            1
        }
    };
    let mut session = Session::new(args.seed.unwrap_or_else(drawn), &args.addresses);
    for file in &args.files {
        session.load(file)?;
    }
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    if let Some(option) = words.iter().find(|word| word.starts_with("--")) {
        let allowed =
            "options before the command, such as narrows mmb --whole-bundles attach eth0 …";
        return Err(
            Refusal::new("mmb", format!("`{option}` behind `{}`", words[0]), allowed).into(),
        );
    }
    match words[..] {
        ["attach", device, ref rules @ ..] => {
            if !rules.is_empty() {
                session.load_words(&rules.join(" "))?;
            }
            return device::attach(args, session, device);
        }
        ["reload", device, ref rules @ ..] if !rules.is_empty() => {
            return device::reload(args, device, &rules.join(" "));
        }
        ["insert", device, number, ref rule @ ..] if is_number(number) => {
            return device::change(args, device, &format!("insert {number} {}", rule.join(" ")));
        }
        ["del", device, number] => {
            return device::change(args, device, &format!("del {number}"));
        }
        ["list", device] => return device::list(args, device),
        ["detach", device] => return device::detach(args, device),
        ["show", what @ ("tables" | "connections"), ref rest @ ..] => {
            if let Some(shown) = shown_at_device(args, what, rest) {
                return shown;
            }
        }
        ["detect", ref rest @ ..] => return path::detect(args, rest),
        ["respond", ref rest @ ..] => return path::respond(args, rest),
        ["attach" | "detach" | "reload"] => {
            let found = format!("`{}` alone", words[0]);
            return Err(Refusal::new("mmb", found, "the name of a device behind it").into());
        }
        ["reload", device] => {
            let found = format!("no rules behind `reload {device}`");
            let allowed = "a ready box, a file of rules, or rules with `;` between them";
            return Err(Refusal::new("mmb", found, allowed).into());
        }
        _ => {}
    }
    if !args.words.is_empty() {
        let line = args.words.join(" ");
        let parts = line.split(';').map(str::trim).filter(|p| !p.is_empty());
        let mut answers = Vec::new();
        for part in parts {
            let answered = answer(&mut session, part)?;
            match args.format {
                Format::Text => print_answer(&answered, args.format)?,
                Format::Json => {
                    answers.push(answered);
                    Status::Done
                }
            };
        }
        return print_all(&answers);
    }
    if io::stdin().is_terminal() {
        return prompt(&mut session, args.format);
    }
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|e| narrows::Error::Engine(format!("standard input: {e}")))?;
        let line = line.split('#').next().unwrap_or("").trim();
        if !line.is_empty() {
            print_answer(&answer(&mut session, line)?, args.format)?;
        }
    }
    Ok(Status::Done)
}

fn is_number(word: &str) -> bool {
    word.parse::<u64>().is_ok()
}

/// What a box at a device has, if `rest` names one: behind the command, as with `list`.
fn shown_at_device(args: &Mmb, what: &str, rest: &[&str]) -> Option<Outcome> {
    let (device, verbose) = match rest {
        [] | ["verbose"] => return None,
        [device] => (device, false),
        ["verbose", device] | [device, "verbose"] => (device, true),
        _ => return None,
    };
    Some(match (what, verbose) {
        ("connections", verbose) => device::connections(args, device, verbose),
        (_, false) => device::tables(args, device),
        (_, true) => Err(Refusal::new(
            "mmb",
            format!("`show tables verbose` of {device}"),
            "`show tables` without it: a box at a device shows no keys; those of its rules are \
             shown by `narrows mmb -f RULES show tables verbose`",
        )
        .into()),
    })
}

/// Does what `line` says.
fn answer(session: &mut Session, line: &str) -> Result<Answer, Failure> {
    let request = Request::parse(line).map_err(|e| {
        let (found, allowed) = (e.found, e.allowed);
        let place = format!("{line}, column {}", e.span.start + 1);
        let refusal = Refusal::new(place, found, allowed);
        match e.help {
            Some(help) => refusal.with_help(help),
            None => refusal,
        }
    })?;
    Ok(session.answer(&request)?)
}

/// Prints what several commands answered as one JSON document: a list where they are several.
fn print_all(answers: &[Answer]) -> Outcome {
    match answers {
        [] => {}
        [one] => return print_answer(one, Format::Json),
        several => {
            let value = serde_json::to_value(several);
            print_json(&value.map_err(|e| narrows::Error::Engine(e.to_string()))?);
        }
    }
    Ok(Status::Done)
}

fn print_answer(answer: &Answer, format: Format) -> Outcome {
    match format {
        Format::Text => {
            let text = answer.to_string();
            if !text.is_empty() {
                print(&text);
            }
        }
        Format::Json => {
            let value = serde_json::to_value(answer);
            print_json(&value.map_err(|e| narrows::Error::Engine(e.to_string()))?);
        }
    }
    Ok(Status::Done)
}

/// Completes commands.
#[derive(Helper, Highlighter, Hinter, Validator)]
struct Words;

impl Completer for Words {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, words) = complete(&line[..at]);
        let pair = |word: &str| Pair {
            display: word.to_owned(),
            replacement: format!("{word} "),
        };
        Ok((start, words.into_iter().map(pair).collect()))
    }
}

/// Where the prompt's history is kept: `$XDG_STATE_HOME`, `~/.local/state` without it.
fn history() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| Some(files::home()?.join(".local/state")))?;
    Some(state.join("narrows/mmb-history"))
}

/// Reads commands from the terminal until its end.
fn prompt(session: &mut Session, format: Format) -> Outcome {
    let failed = |e: ReadlineError| narrows::Error::Engine(format!("the terminal: {e}"));
    let mut editor: Editor<Words, DefaultHistory> = Editor::new().map_err(failed)?;
    editor.set_helper(Some(Words));
    let history = history();
    if let Some(file) = &history {
        // There is none before the first time.
        let _ = editor.load_history(file);
    }
    loop {
        let line = match editor.readline("mmb> ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(failed(error).into()),
        };
        let line = line.trim();
        match line {
            "" => continue,
            "quit" | "exit" => break,
            _ => {}
        }
        let _ = editor.add_history_entry(line);
        let answered = answer(session, line);
        if let Err(failure) = answered.and_then(|answer| print_answer(&answer, format)) {
            failure.report();
        }
    }
    if let Some(file) = &history {
        let kept = files::written_by_caller(|| {
            file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            match editor.save_history(file) {
                Err(ReadlineError::Io(error)) => Err(error),
                saved => Ok(saved),
            }
        });
        if let Err(error) = kept.map_err(ReadlineError::from).and_then(|saved| saved) {
            message!("narrows: the history could not be written: {error}");
        }
    }
    Ok(Status::Done)
}
