//! Whatever is in a file, in `--set`, `--link` or `--flow`: it is read or
//! refused, and what is read can be written and read again.

use std::path::PathBuf;

use narrows_fuzz::Corpus;
use narrows_scenario::{Campaign, Draft, Glob, Shelf};

use super::json_schema;

const BASE: &str = include_str!("../corpus/scenario/prague-beside-cubic.toml");
const TABLE: &str = "mbit,cc,rate\n10,cubic,9.1\n50,cubic,20.5\n10,reno,24:1\n";

/// Words that files are made of, and that break them.
const WORDS: &[&str] = &[
    "[[link]]",
    "[[flow]]",
    "[[probe]]",
    "[[capture]]",
    "[[change]]",
    "[host_model]",
    "name",
    "ends",
    "up",
    "down",
    "from",
    "to",
    "cc",
    "ecn",
    "start",
    "stop",
    "bytes",
    "traffic",
    "netem ",
    "rate ",
    "queue ",
    "by dscp ",
    "else (",
    "remark ",
    "tap ",
    "police ",
    "dualpi2",
    "fq_codel",
    "red limit ",
    "pie ",
    "prague ",
    "cubic ",
    "reno",
    "0",
    "-1",
    "1e400",
    "nan",
    "18446744073709551616",
    "0.0000000000000000001s",
    "\"",
    "'''",
    "\\u0000",
    "{",
    "}",
    "{cc}",
    "..",
    "/",
    "=",
    ": ",
    "%",
    "\u{feff}",
    "\r\n",
    "é",
];

fn corpus(name: &str) -> Corpus {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    Corpus::in_directory(root.join(name)).with_words(WORDS)
}

struct Beside;

impl Shelf for Beside {
    fn open(&self, path: &str) -> Result<Vec<u8>, String> {
        match path {
            "base.toml" => Ok(BASE.as_bytes().to_vec()),
            "table.csv" => Ok(TABLE.as_bytes().to_vec()),
            _ => Err("there is no such file".to_owned()),
        }
    }
}

#[test]
fn fuzz_scenarios_are_refused_or_survive_being_written() {
    let mut read = 0;
    let schema = json_schema::Validator::of_files();
    corpus("scenario").run(3_000, |input| {
        match Draft::read("fuzz.toml", input).and_then(|d| d.check()) {
            Ok(plan) => {
                read += 1;
                // The schema takes what the reader takes.
                let input = String::from_utf8_lossy(input);
                assert!(schema.takes(&input), "{input}");
                let text = plan.to_toml();
                let again = Draft::read("again.toml", text.as_bytes()).and_then(|d| d.check());
                match again {
                    Ok(again) => assert_eq!(again, plan, "{text}"),
                    Err(refusal) => panic!("{}\n{text}", refusal.to_line()),
                }
                assert!(!plan.drawing().is_empty());
            }
            Err(refusal) => assert!(!refusal.to_line().is_empty()),
        }
    });
    // Every file of the corpus is good; mutations of comments and names are.
    assert!(read >= 5, "{read}");
}

#[test]
fn fuzz_campaigns_are_read_or_refused() {
    let mut read = 0;
    let schema = json_schema::Validator::of_files();
    corpus("campaign").run(1_500, |input| {
        match Campaign::read("fuzz.toml", input, &Beside, &[]) {
            Ok(mut campaign) => {
                read += 1;
                let input = String::from_utf8_lossy(input);
                assert!(schema.takes(&input), "{input}");
                let names: Vec<String> = campaign.cells.iter().map(|c| c.name.clone()).collect();
                assert!(!names.is_empty());
                let values = campaign.evaluate(&mut |_, _| Some(0.0));
                assert_eq!(values.len(), campaign.metrics.len());
                assert!(campaign.only(&["no such cell".to_owned()]).is_err());
            }
            Err(refusal) => assert!(!refusal.to_line().is_empty()),
        }
    });
    assert!(read >= 2, "{read}");
}

#[test]
fn fuzz_words_of_the_command_line_are_read_or_refused() {
    let base = Draft::read("base.toml", BASE.as_bytes()).expect("a scenario");
    corpus("words").run(3_000, |input| {
        let text = String::from_utf8_lossy(input).into_owned();
        let mut draft = base.clone();
        if let Err(refusal) = draft.set(&text).and_then(|()| draft.check().map(drop)) {
            assert!(!refusal.to_line().is_empty());
        }
        let words = vec![text.clone()];
        let rate = vec!["rate 1Mbit".to_owned()];
        let flow = vec!["cubic".to_owned()];
        for (links, flows) in [(&words, &flow), (&rate, &words)] {
            let plan = Draft::from_words(links, flows).and_then(|d| d.check());
            if let Ok(plan) = plan {
                let again = Draft::read("again.toml", plan.to_toml().as_bytes());
                assert_eq!(again.and_then(|d| d.check()).ok(), Some(plan));
            }
        }
        if let Ok(glob) = Glob::parse(&text) {
            glob.matches("50Mbit/160-10/dualpi2/prague-cubic");
        }
    });
}
