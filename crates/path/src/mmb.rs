//! Middleboxes by rules, as elements of a path.

use std::fmt;
use std::sync::Arc;

use narrows_core::Element;
use narrows_mmb::{
    Command, Field, FileError, LinkBox, Middlebox, READY, ReadyBox, Settings, Target, commands,
    complete,
};
use narrows_units::{Duration, Parameter, ParameterKind, Rng, WordError, Words};

use crate::ElementSpec;
use crate::kind::{Facts, Kind, NamesFile, Reports};
use crate::site::Site;

/// Where the rules of a box come from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// They stand in the words.
    Words,
    /// A box that is ready to use.
    Ready(&'static str),
    /// A file, which a scenario's check reads.
    File(String),
}

/// `mmb NAME`, `mmb FILE` or `mmb add …; add …`: a box that does what mmb's rules say.
/// NAME is one of the ready boxes; FILE has a command in each line. Its interfaces are
/// `inside`, towards the link's first end, and `outside`; its own addresses are `self` in
/// rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MmbSpec {
    source: Source,
    /// None until the file is read, and then every packet passes.
    commands: Arc<[Command]>,
}

/// The rules of a box at some time, as its language prints them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleList {
    /// The first ones.
    pub first: Vec<String>,
    /// How many there are.
    pub all: usize,
}

/// Commands that show something, to nobody on a path.
const ONLY_SHOW: [&str; 2] = ["list", "show"];

const ALLOWED: &str = "a ready box, a file of rules, or a rule: `mmb add …`";

impl MmbSpec {
    /// Rules that are sampled while a run goes on, the first ones.
    pub const SAMPLED_RULES: usize = LinkBox::SAMPLED_RULES;

    /// Takes the contents of the file that has the rules.
    ///
    /// # Errors
    /// What is wrong in it, with its line.
    fn load(&mut self, text: &str) -> Result<(), FileError> {
        let read = commands(text)?;
        carried_out(&read).map_err(|why| FileError {
            line: 1,
            offset: 0,
            error: WordError::new(0..0, why, "what the box can apply"),
        })?;
        self.commands = read.into();
        Ok(())
    }

    /// What can stand where `before`, the words behind `mmb`, ends, and what it is: ready boxes and
    /// the words of rules that go on with the last word.
    pub fn completions(before: &str) -> Vec<(String, &'static str)> {
        let command = before.rsplit(';').next().unwrap_or_default();
        let begins = !before.trim_start().contains(char::is_whitespace);
        let ready = READY.iter().filter(|_| begins);
        let ready = ready.map(|ready| (ready.name.to_owned(), ready.about));
        let command = command.trim_start();
        let (at, words) = complete(command);
        // What is typed of a word that `!` begins has it, too.
        let bang = if command[..at].ends_with('!') {
            "!"
        } else {
            ""
        };
        let words = words.into_iter().filter(|word| !ONLY_SHOW.contains(word));
        let about = |word: &str| Field::named(word).map_or("", Field::about);
        let words = words.map(|word| (format!("{bang}{word}"), about(word)));
        ready.chain(words).collect()
    }

    /// Whether `words` begin a command, as a change of a box does.
    pub fn is_command(words: &str) -> bool {
        let between = |c: char| c.is_whitespace() || c == ';';
        let first = words.split(between).find(|word| !word.is_empty());
        first.is_some_and(|first| Command::STARTS.contains(&first))
    }

    /// Where its rules come from: `words`, `ready` or `file`.
    pub fn source(&self) -> &'static str {
        match self.source {
            Source::Words => "words",
            Source::Ready(_) => "ready",
            Source::File(_) => "file",
        }
    }

    /// Its rules when a run begins, and after each of `changes`, which are words of changes: of
    /// each time those that are sampled. A change that the box refuses changes none.
    pub fn rules<'c>(&self, changes: impl IntoIterator<Item = &'c str>) -> Vec<RuleList> {
        let mut middlebox = Middlebox::new(Settings::default(), Rng::for_name(0, "rules"));
        let begin = self.commands.to_vec();
        let changes = changes
            .into_iter()
            .map(|words| commands(words).unwrap_or_default());
        let apply = |commands: Vec<Command>| {
            let _ = middlebox.apply_all(commands);
            let rules = middlebox.rules();
            let all = rules.len();
            let first = rules.take(Self::SAMPLED_RULES);
            let first = first.map(|(rule, _)| rule.to_string()).collect();
            RuleList { first, all }
        };
        std::iter::once(begin).chain(changes).map(apply).collect()
    }

    /// Whether it gives packets of a direction what it takes back from those of the other.
    fn translates(&self) -> bool {
        self.has(|target| matches!(target, Target::Map(..) | Target::Shuffle(_)))
    }

    /// Whether it changes ECN codepoints.
    fn sets_ecn(&self) -> bool {
        self.has(|target| matches!(target, Target::Set(named, _) if named.field.is_ecn()))
    }

    fn has(&self, is: impl Fn(&Target) -> bool) -> bool {
        self.commands.iter().any(|command| match command {
            Command::Add(rule) => rule.targets().iter().any(&is),
            _ => false,
        })
    }
}

impl Kind for MmbSpec {
    const PARAMETERS: &'static [Parameter] = &[Parameter::new(
        "NAME|FILE|RULES",
        ParameterKind::Words,
        ALLOWED,
        "",
        "A ready box, a file of rules, or rules: `add …; add …`",
    )];

    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let first = words.peek().ok_or_else(|| {
            let names: Vec<_> = READY.iter().map(|ready| ready.name).collect();
            let help = format!("ready boxes are {}", names.join(", "));
            words.ended(ALLOWED).with_help(help)
        })?;
        let is_command = Command::STARTS.contains(&first.text);
        let (source, read) = if is_command {
            let text = words.rest();
            (
                Source::Words,
                loaded(text.text).map_err(|e| e.shifted(text.start))?,
            )
        } else {
            let word = words.needed(ALLOWED)?;
            words.clone().finish("the end of the element")?;
            match ReadyBox::named(word.text) {
                Some(ready) => (Source::Ready(ready.name), loaded(ready.rules)?),
                None => (Source::File(word.text.to_owned()), Arc::default()),
            }
        };
        Ok(Self {
            source,
            commands: read,
        })
    }

    fn over(_: &ElementSpec, words: &mut Words<'_>) -> Result<Self, WordError> {
        Self::parse(words)
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Element> {
        let settings = Settings {
            own: site.addresses,
            mtu: site.mtu,
            ..Settings::default()
        };
        let mut middlebox = Middlebox::new(settings, Rng::for_name(site.seed, site.name));
        let done = middlebox.apply(&self.commands);
        debug_assert_eq!(done, Ok(()), "they were applied when they were read");
        Box::new(LinkBox::new(site.entity, middlebox))
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            link: None,
            holds_back: false,
            two_way: true,
            node: false,
            translates: self.translates(),
            wraps: false,
            sets_ecn: self.sets_ecn(),
            duplicates: false,
            corrupts: false,
            mtu: None,
            tap: None,
            reports: Reports::Packets,
        }
    }

    fn base_delay(&self, _: u8, _: u32) -> Duration {
        Duration::ZERO
    }

    fn file(&mut self) -> Option<&mut dyn NamesFile> {
        match self.source {
            Source::File(_) => Some(self),
            Source::Words | Source::Ready(_) => None,
        }
    }
}

impl NamesFile for MmbSpec {
    fn name(&self) -> &str {
        match &self.source {
            Source::File(name) => name,
            Source::Words | Source::Ready(_) => "",
        }
    }

    fn what(&self) -> &'static str {
        "the rules"
    }

    fn allowed(&self) -> &'static str {
        "a file of rules, or a ready box"
    }

    fn read(&mut self, text: &str) -> Result<(), String> {
        self.load(text).map_err(|e| e.to_string())
    }
}

/// The commands of `text`, which have been tried.
fn loaded(text: &str) -> Result<Arc<[Command]>, WordError> {
    let read = commands(text).map_err(|e| e.error.shifted(e.offset))?;
    carried_out(&read)
        .map_err(|why| WordError::new(0..text.len(), why, "what the box can apply"))?;
    Ok(read.into())
}

/// Why a box cannot apply `commands`.
fn carried_out(commands: &[Command]) -> Result<(), String> {
    if let Some(shown) = commands.iter().find(|command| command.only_shows()) {
        return Err(format!("`{shown}`, which shows something to nobody"));
    }
    let mut middlebox = Middlebox::new(Settings::default(), Rng::for_name(0, "check"));
    middlebox.apply(commands).map_err(|e| e.to_string())
}

impl fmt::Display for MmbSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("mmb ")?;
        match &self.source {
            Source::Ready(name) => f.write_str(name),
            Source::File(name) => f.write_str(name),
            Source::Words => {
                for (i, command) in self.commands.iter().enumerate() {
                    let between = if i > 0 { "; " } else { "" };
                    write!(f, "{between}{command}")?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use crate::testing::{BoxBench, OWN, datagram};
    use crate::{ElementSpec, MmbSpec};
    use narrows_core::{DOWN, Event, EventSink, UP};
    use narrows_units::Instant;
    use narrows_wire::FlowKey;

    const A: &str = "10.0.0.1:5000";
    const SERVER: &str = "10.0.0.9:80";

    #[test]
    fn rules_are_words_of_a_scenario_and_print_in_one_spelling() {
        for (words, written) in [
            ("mmb ecn-bleach", "mmb ecn-bleach"),
            ("mmb boxes/mine.mmb", "mmb boxes/mine.mmb"),
            (
                "mmb add-stateless all mod ip-ecn 0; mmb add ip6-ce  drop 100",
                "mmb add all mod ip-ecn 0; add ip6-ce drop",
            ),
        ] {
            let spec = ElementSpec::parse(words).unwrap();
            assert_eq!(spec.to_string(), written);
            assert_eq!(ElementSpec::parse(written), Ok(spec));
        }
        for (words, translates) in [("mmb snat", true), ("mmb udp-block", false)] {
            let spec = ElementSpec::parse(words).unwrap();
            assert_eq!(spec.facts().translates, translates, "{words}");
        }
        for (words, sets) in [("mmb ce-strip", true), ("mmb reserved-clear", false)] {
            let spec = ElementSpec::parse(words).unwrap();
            assert_eq!(spec.facts().sets_ecn, sets, "{words}");
        }
        for (words, at) in [
            ("mmb", ""),
            ("mmb add all", ""),
            ("mmb add all drop; add tcp-fni drop", "tcp-fni"),
            ("mmb mine.mmb more", "more"),
        ] {
            let error = ElementSpec::parse(words).unwrap_err();
            assert_eq!(&words[error.span.clone()], at, "{words}: {error}");
        }
        for words in [
            "mmb add in eth0 drop",
            "mmb add all drop; list",
            "mmb del 1",
        ] {
            let error = ElementSpec::parse(words).unwrap_err().to_string();
            assert!(error.contains("what the box can apply"), "{error}");
        }
    }

    #[test]
    fn a_translated_flow_is_reported_and_comes_back() {
        let mut bench = BoxBench::new("mmb snat");
        let sent = bench.push(UP, &datagram(A, SERVER, 100), 0);
        let key = FlowKey::of(&sent[0].1.bytes).unwrap();
        assert_eq!((sent[0].0, key.source), (UP, OWN[0]));
        let outside = SocketAddr::new(key.source, key.source_port);
        assert_eq!(bench.translated, [(outside, SERVER.parse().unwrap())]);
        let back = bench.push(DOWN, &datagram(SERVER, &outside.to_string(), 100), 0);
        assert_eq!(back[0].1.bytes, datagram(SERVER, A, 100));
    }

    #[test]
    fn samples_have_what_each_rule_applied_to_and_what_it_dropped_itself() {
        let rules = "mmb add udp-dport 80 drop; add ip-proto tcp drop; \
            add udp-dport 81 accept; add all drop; add all mod ip-ttl 3";
        let mut bench = BoxBench::new(rules);
        let mut sampled = Rules::default();
        bench.element.sample(Instant::ZERO, &mut sampled);
        assert_eq!(sampled.0, [], "no rule has applied");
        for port in [80, 80, 81, 82] {
            bench.push(UP, &datagram(A, &format!("10.0.0.9:{port}"), 100), 0);
        }
        bench.element.sample(Instant::ZERO, &mut sampled);
        let expected = [(1, 2, 2), (3, 1, 0), (4, 4, 1), (5, 4, 0)];
        assert_eq!(sampled.0, expected);
    }

    /// What was sampled of rules: the number, packets, those dropped.
    #[derive(Default)]
    struct Rules(Vec<(u32, u64, u64)>);

    impl EventSink for Rules {
        fn record(&mut self, _: Instant, event: Event<'_>) {
            if let Event::RuleSampled {
                rule,
                packets,
                dropped,
                ..
            } = event
            {
                self.0.push((rule, packets, dropped));
            }
        }
    }

    #[test]
    fn the_rules_at_each_time_are_known_before_a_run() {
        let ElementSpec::Mmb(spec) = ElementSpec::parse("mmb udp-block").unwrap() else {
            panic!("a box")
        };
        let [begin, refused, more, flushed] =
            &spec.rules(["del 9", "add all drop", "flush; add all accept"])[..]
        else {
            panic!("the beginning and three changes")
        };
        assert_eq!((begin.all, begin.first.len()), (2, 2));
        assert_eq!(refused, begin);
        assert_eq!((more.all, &more.first[..2]), (3, &begin.first[..]));
        assert_eq!(flushed.first, ["add all accept"]);
    }

    #[test]
    fn a_box_of_a_file_has_its_rules_when_that_was_read() {
        for (words, source) in [
            ("mmb add all drop", "words"),
            ("mmb udp-block", "ready"),
            ("mmb my.mmb", "file"),
        ] {
            let ElementSpec::Mmb(spec) = ElementSpec::parse(words).unwrap() else {
                panic!("{words}: no box")
            };
            assert_eq!(spec.source(), source, "{words}");
        }
        let mut spec = ElementSpec::parse("mmb my.mmb").unwrap();
        let file = spec.file().expect("a file");
        for (text, line) in [("add all drop\nadd all\n", 2), ("list\n", 1)] {
            let error = file.read(text).unwrap_err();
            assert!(error.contains(&format!("line {line}")), "{text}: {error}");
        }
        file.read("add all mod ip-ttl 3\nadd all drop\n").unwrap();
        let ElementSpec::Mmb(spec) = spec else {
            panic!("a box")
        };
        let rules = spec.rules([]).remove(0);
        assert_eq!(rules.first, ["add all mod ip-ttl 3", "add all drop"]);
    }

    #[test]
    fn a_change_of_rules_begins_with_a_command() {
        for (words, is) in [
            ("add all drop", true),
            ("flush; add all drop", true),
            (" ;del;", true),
            ("udp-block", false),
            ("all add", false),
            (" ; ", false),
            ("", false),
        ] {
            assert_eq!(MmbSpec::is_command(words), is, "{words}");
        }
    }

    #[test]
    fn ready_boxes_complete_the_first_word_and_words_of_rules_any() {
        let udp = ("udp-block".to_owned(), "drops UDP");
        assert!(MmbSpec::completions("udp").contains(&udp));
        let names = |before: &str| -> Vec<String> {
            let found = MmbSpec::completions(before).into_iter();
            found.map(|(name, _)| name).collect()
        };
        let has = |before: &str, name: &str| names(before).iter().any(|found| found == name);
        for (before, name, found) in [
            ("", "add", true),
            ("", "snat", true),
            ("", "list", false),
            ("", "show", false),
            ("add ", "snat", false),
            ("add ", "ip-ttl", true),
            ("add all drop; ", "flush", true),
            ("add all drop; fl", "flush", true),
            ("add all drop; fl", "add", false),
            ("add !ip-t", "!ip-ttl", true),
            ("add ip-t", "ip-ttl", true),
        ] {
            assert_eq!(has(before, name), found, "{before}: {:?}", names(before));
        }
        let all = MmbSpec::completions("add ip-tt");
        assert!(all.iter().all(|(_, about)| !about.is_empty()), "{all:?}");
    }

    #[test]
    fn rules_come_and_go_while_it_runs() {
        let mut bench = BoxBench::new("mmb udp-block");
        assert!(bench.push(UP, &datagram(A, SERVER, 100), 0).is_empty());
        assert_eq!(bench.element.counters().dropped, 1);
        bench.change("flush; add udp-dport 80 mod ip-ttl 3");
        let sent = bench.push(UP, &datagram(A, SERVER, 100), 900);
        assert_eq!((sent[0].1.bytes[8], sent[0].1.zero_tail), (3, 900));
    }
}
