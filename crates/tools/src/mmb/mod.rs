//! Middleboxes by rules, outside the laboratory: commands one after the other, and captures
//! that go through the box.

#[cfg(target_os = "linux")]
mod attach;
mod captures;
#[cfg(target_os = "linux")]
mod counts;
#[cfg(target_os = "linux")]
mod detect;
mod show;

use std::fs;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use narrows_mmb::{Command, Middlebox, READY, ReadyBox, Settings, commands};
use narrows_results::Error;
use narrows_units::{Rng, WordError, Words};

#[cfg(target_os = "linux")]
pub use attach::{AttachedBox, DeviceRules, change, connections, detach, list, reload, tables};
pub use captures::{ExplainedPacket, Replayed};
#[cfg(target_os = "linux")]
pub use counts::{BoxCounts, RuleCounts};
#[cfg(target_os = "linux")]
pub use detect::{
    FoundBox, PORT, PathBoxes, PathHop, PathStage, RespondCounts, RespondRequest, detect, respond,
};
pub use show::Answer;

/// One line for a box: a command of mmb, or what is done with files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A command of mmb.
    Command(Command),
    /// `load FILE|NAME`: the commands of a file, or of a ready box.
    Load(String),
    /// `explain CAPTURE`: what rules each packet matches, and what becomes of it.
    Explain(PathBuf),
    /// `replay IN OUT`: a capture through the box into another one.
    Replay(PathBuf, PathBuf),
    /// `fields`: what rules can name.
    Fields,
    /// `boxes`: those that are ready.
    Boxes,
}

/// The words of [`Request`] besides mmb's commands.
pub const FURTHER: [&str; 5] = ["load", "explain", "replay", "fields", "boxes"];

impl Request {
    /// Reads a line.
    ///
    /// # Errors
    /// The first word that cannot stand where it does; the span is that in `line`.
    pub fn parse(line: &str) -> Result<Self, WordError> {
        let mut words = Words::new(line);
        words.take_if("mmb");
        let first = words.take().map_or("", |word| word.text);
        let request = match first {
            "load" => Self::Load(
                words
                    .needed("a file of commands, or a ready box")?
                    .text
                    .to_owned(),
            ),
            "explain" => Self::Explain(words.needed("a capture")?.text.into()),
            "replay" => {
                let read = words.needed("a capture to read")?.text.into();
                Self::Replay(read, words.needed("a capture to write")?.text.into())
            }
            "fields" => Self::Fields,
            "boxes" => Self::Boxes,
            _ => {
                let further = FURTHER.join(", ");
                return Command::parse(line).map(Self::Command).map_err(|mut e| {
                    if e.allowed.starts_with("a command: ") {
                        e.allowed = format!("{}, {further}", e.allowed);
                    }
                    e
                });
            }
        };
        words.finish("the end of the command")?;
        Ok(request)
    }
}

/// What can stand next in a line that is being typed, and where it starts.
pub fn complete(line: &str) -> (usize, Vec<&'static str>) {
    let (start, mut words) = narrows_mmb::complete(line);
    let before = line[..start].trim();
    let last = &line[start..];
    match before {
        "" | "mmb" => words.extend(FURTHER.iter().filter(|word| word.starts_with(last))),
        "load" => words.extend(
            READY
                .iter()
                .map(|ready| ready.name)
                .filter(|name| name.starts_with(last)),
        ),
        _ => {}
    }
    (start, words)
}

/// A box and what was done to it so far.
#[derive(Clone, Debug)]
pub struct Session {
    middlebox: Middlebox,
}

/// Bytes of a file of rules at most: a million of them have fewer.
const MOST_BYTES: u64 = 64 << 20;

/// What a file of rules has in it.
fn read_rules(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = fs::File::open(path)?;
    file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MOST_BYTES {
        true => Err(io::Error::other(
            "it has more than 64 MiB, room for a million rules",
        )),
        false => Ok(text),
    }
}

/// Refuses a rule that can match no packet.
fn can_match(command: &Command) -> Result<(), Error> {
    let (Command::Add(rule) | Command::Insert(_, rule)) = command else {
        return Ok(());
    };
    match rule.never_matches() {
        Some(constraint) => Err(refused(format!(
            "`{rule}` can match no packet: `{constraint}` contradicts the rest of it, or no value is so"
        ))),
        None => Ok(()),
    }
}

/// The commands of a ready box or of a file.
fn text_named(name: &str) -> Result<String, Error> {
    match ReadyBox::named(name) {
        Some(ready) => Ok(ready.rules.to_owned()),
        None => read_rules(Path::new(name))
            .map_err(|e| refused(format!("the rules `{name}` cannot be read: {e}"))),
    }
}

/// The same, or `words` themselves where they are commands.
fn text_of(words: &str) -> Result<String, Error> {
    let first = words.split_whitespace().next().unwrap_or_default();
    match first == "mmb" || Command::STARTS.contains(&first) {
        true => Ok(words.to_owned()),
        false => text_named(words),
    }
}

/// The commands of `text`, called `name`, none of which only shows something, and rules that can match.
fn commands_of(name: &str, text: &str) -> Result<Vec<Command>, Error> {
    let read = commands(text).map_err(|e| refused(format!("`{name}`, {e}")))?;
    if let Some(shown) = read.iter().find(|command| command.only_shows()) {
        return Err(refused(format!(
            "`{name}` has `{shown}`: a file of rules shows nothing"
        )));
    }
    read.iter().try_for_each(can_match)?;
    Ok(read)
}

/// A file that has rules and cannot be used.
fn refused(what: impl Into<String>) -> Error {
    Error::Refused(what.into())
}

impl Session {
    /// A box without rules. Its draws come from `seed`; `own` are its addresses.
    pub fn new(seed: u64, own: &[IpAddr]) -> Self {
        let mut settings = Settings::default();
        for address in own {
            settings.own[usize::from(address.is_ipv6())] = *address;
        }
        Self {
            middlebox: Middlebox::new(settings, Rng::for_name(seed, "mmb")),
        }
    }

    /// Does what a line asks for.
    ///
    /// # Errors
    /// When it cannot be done; the box is then as it was.
    pub fn answer(&mut self, request: &Request) -> Result<Answer, Error> {
        Ok(match request {
            Request::Command(Command::List) => Answer::rules(&self.middlebox),
            Request::Command(Command::Tables { verbose }) => {
                Answer::tables(&self.middlebox, *verbose)
            }
            Request::Command(Command::Connections { verbose }) => {
                Answer::connections(&self.middlebox, *verbose)
            }
            Request::Command(command) => {
                self.apply(std::slice::from_ref(command))?;
                Answer::Done
            }
            Request::Load(name) => {
                self.load(name)?;
                Answer::Done
            }
            Request::Explain(path) => Answer::Explained(self.explain(path)?),
            Request::Replay(read, write) => Answer::Replayed(self.replay(read, write)?),
            Request::Fields => Answer::fields(),
            Request::Boxes => Answer::boxes(),
        })
    }

    fn apply(&mut self, commands: &[Command]) -> Result<(), Error> {
        commands.iter().try_for_each(can_match)?;
        let done = self.middlebox.apply(commands);
        done.map_err(|e| refused(e.to_string()))
    }

    /// Applies the commands of a ready box or of a file, all or none.
    ///
    /// # Errors
    /// When there is no such file, or what is wrong in it.
    pub fn load(&mut self, name: &str) -> Result<(), Error> {
        self.load_text(name, &text_named(name)?)
    }

    /// The same of a ready box, a file, or rules with `;` between them.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_words(&mut self, words: &str) -> Result<(), Error> {
        self.load_text(words, &text_of(words)?)
    }

    fn load_text(&mut self, name: &str, text: &str) -> Result<(), Error> {
        let done = self.middlebox.apply_all(commands_of(name, text)?);
        done.map_err(|e| refused(e.to_string()))
    }

    /// Applies the commands of `text`, or, `afresh`, puts the rules that they make in the place of all.
    /// Which number each rule had before, from 0, if it was there.
    #[cfg(target_os = "linux")]
    fn change_text(&mut self, afresh: bool, text: &str) -> Result<Vec<Option<u32>>, Error> {
        let commands = commands_of("the rules", text)?;
        let changed = match afresh {
            true => self.middlebox.reload(commands),
            false => self.middlebox.change(commands),
        };
        changed.map_err(|e| refused(e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_of_mmb_and_what_is_done_with_files() {
        let read = |line: &str| Request::parse(line);
        assert_eq!(read("mmb list"), Ok(Request::Command(Command::List)));
        assert_eq!(read("load snat"), Ok(Request::Load("snat".to_owned())));
        let replay = Request::Replay("a.pcap".into(), "b.pcap".into());
        assert_eq!(read("replay a.pcap b.pcap"), Ok(replay));
        for (line, at) in [("replay a.pcap", ""), ("explain a b", "b"), ("fly", "fly")] {
            let error = read(line).unwrap_err();
            assert_eq!(&line[error.span.clone()], at, "{error}");
        }
        assert!(read("fly").unwrap_err().allowed.contains("replay"));
    }

    #[test]
    fn files_and_ready_boxes_are_completed_too() {
        assert_eq!(complete("ex").1, ["explain"]);
        assert_eq!(complete("load sn"), (5, vec!["snat"]));
        assert!(complete("add tcp-opt-").1.contains(&"tcp-opt-mss"));
    }

    #[test]
    fn a_file_of_a_hundred_megabytes_is_refused_before_all_of_it_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(100_000_000).unwrap();
        let mut session = Session::new(1, &[]);
        let error = session.load(file.path().to_str().unwrap()).unwrap_err();
        assert!(error.to_string().contains("more than 64 MiB"), "{error}");
    }

    #[test]
    fn a_rule_that_can_match_no_packet_is_refused_by_what_contradicts_it() {
        let mut session = Session::new(1, &[]);
        let words = "add all mod ip-ecn 0; add tcp-dport 80 tcp-dport 443 drop";
        let error = session.load_words(words).unwrap_err().to_string();
        assert!(error.contains("`tcp-dport 443` contradicts"), "{error}");
        assert_eq!(session.middlebox.rules().len(), 0);
    }

    #[test]
    fn a_file_that_is_wrong_is_refused_with_its_line_and_nothing_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("box.mmb");
        std::fs::write(&file, "add all mod ip-ecn 0\nadd tcp-fni drop\n").unwrap();
        let mut session = Session::new(1, &[]);
        let name = file.to_str().unwrap();
        let error = session.load(name).unwrap_err().to_string();
        assert!(error.contains("line 2, column 5"), "{error}");
        assert_eq!(session.middlebox.rules().len(), 0);
        session.load("ecn-bleach").unwrap();
        let Answer::Rules(rules) = session.answer(&Request::Command(Command::List)).unwrap() else {
            panic!("rules are listed");
        };
        assert_eq!(rules.len(), 1);
    }
}
