//! What is wrong is said in one form, whatever is wrong.

#[allow(dead_code)] // This binary uses its own part.
use std::fs;
use std::path::Path;

use crate::program::narrows;

/// A scenario that is right.
const SCENARIO: &str = r#"
version  = 1
name     = "x"
duration = "2s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 5ms", "bottleneck: rate 20Mbit queue fq_codel"]
down = ["netem delay 5ms"]

[[flow]]
name = "first"
from = "client"
to   = "server"
cc   = "cubic"
"#;

/// A campaign that is right, over that.
const CAMPAIGN: &str = r#"
version = 1
kind    = "campaign"
name    = "c"
base    = "right.toml"
cell    = "{rate}"

[axis]
rate = ["10Mbit", "20Mbit"]

[set]
"link/access/up/bottleneck" = "rate {rate}"

[metric]
sum_mbit = "speed_mbit + 1"
speed_mbit = "goodput_mbit of flow/first"
"#;

/// Changes of the scenario, `was` to `is`, and a word of the advice that each gets; empty where
/// what is allowed says enough.
const OF_SCENARIOS: [(&str, &str, &str); 27] = [
    ("duration = \"2s\"", "duration = \"10\"", "`10s`"),
    ("duration = \"2s\"", "duration = 10", "`10s`"),
    ("duration = \"2s\"", "duration = \"10 s\"", ""),
    ("duration = \"2s\"", "length = \"10s\"", ""),
    ("version  = 1", "version  = 2", ""),
    ("rate 20Mbit", "rate 20", "`20Mbit`"),
    ("rate 20Mbit", "rate 20Mbits", ""),
    ("queue fq_codel", "queue fqcodel", "`fq_codel`"),
    ("queue fq_codel", "queue FQ_CODEL", "`fq_codel`"),
    ("queue fq_codel", "queue fq_codel limt 5", "`limit`"),
    ("queue fq_codel", "queue fq_codel target 5", "a time"),
    ("netem delay 5ms", "netem dely 5ms", "`delay`"),
    ("netem delay 5ms", "netem delay 5", "`5s`"),
    ("netem delay 5ms", "netem loss 200%", ""),
    ("netem delay 5ms", "neetm delay 5ms", "`netem`"),
    ("down = ", "queue = [\"fq_codel\"]\ndown = ", "`up`"),
    ("down = ", "delay = \"5ms\"\ndown = ", "elements"),
    ("down = ", "donw = ", "`down`"),
    ("ends = [\"client\", \"server\"]", "ends = [\"client\"]", ""),
    ("cc   = \"cubic\"", "cc   = \"Cubic\"", "`cubic`"),
    ("cc   = \"cubic\"", "cc   = \"CUBIC\"", "`cubic`"),
    ("cc   = \"cubic\"", "cc   = \"BBR\"", "kernel:bbr"),
    ("cc   = \"cubic\"", "cc   = \"bbr2\"", "kernel:bbr2"),
    ("cc   = \"cubic\"", "control = \"cubic\"", "`cc`"),
    ("cc   = \"cubic\"", "cc   = \"cubic ec\"", ""),
    ("to   = \"server\"", "to   = \"sever\"", "`server`"),
    ("name = \"first\"", "name = \"a b\"", ""),
];

/// The same of the campaign.
const OF_CAMPAIGNS: [(&str, &str, &str); 14] = [
    ("[axis]\nrate = ", "[axis.rate]\nvalues = ", "[axis]"),
    (
        "[axis]\nrate = [",
        "[axis.rate]\nlow = \"1Mbit\"\n[words]\nx = [",
        "",
    ),
    ("rate = [\"10Mbit\", \"20Mbit\"]", "rate = 10", ""),
    ("cell    = \"{rate}\"", "cell    = \"{rat}\"", "`rate`"),
    ("cell    = \"{rate}\"", "cell    = \"one\"", ""),
    ("speed_mbit + 1", "sum_mbit + 1", ""),
    ("speed_mbit + 1", "sped_mbit + 1", "a metric"),
    ("speed_mbit + 1", "(speed_mbit + 1", ""),
    (
        "goodput_mbit of flow/first",
        "goodput of flow/first",
        "`goodput_mbit`",
    ),
    (
        "goodput_mbit of flow/first",
        "goodput_mbit of flow/frist",
        "`flow/first`",
    ),
    (
        "goodput_mbit of flow/first",
        "flow/first/goodput_mbit",
        "METRIC of ENTITY",
    ),
    ("base    = \"right.toml\"", "base    = \"wrong.toml\"", ""),
    (
        "link/access/up/bottleneck",
        "link/acces/up/bottleneck",
        "`access`",
    ),
    ("\"rate {rate}\"", "\"rate {rate} queue fqcodel\"", "cell"),
];

/// Arguments, and a word of the advice likewise.
const ARGUMENTS: [(&[&str], &str); 21] = [
    (&["run", "lone-pargue"], "`lone-prague`"),
    (&["run", "right.toml", "--set", "duration=10"], "`10s`"),
    (
        &["run", "right.toml", "--set", "flow/frist/cc=reno"],
        "`first`",
    ),
    (&["run", "right.toml", "--set", "flow/first/cc"], ""),
    (&["run", "--link", "rate 1Mbit"], "--flow"),
    (&["run", "--flow", "cubic"], "--link"),
    (&["run", "--link", "rate 1Mbit", "--flow", "Reno"], "`reno`"),
    (&["run", "--link", "up rate 1Mbits", "--flow", "reno"], ""),
    (&["run", "right.toml", "--kernel", "6"], ""),
    (&["run", "right.toml", "--out", "."], ""),
    (&["run", "right.toml", "--save", "right.toml"], ""),
    (
        &["campaign", "right-campaign.toml", "--only", "30*"],
        "`10Mbit`",
    ),
    (&["campaign", "right.toml"], ""),
    (&["campaign", "nothing/*"], ""),
    (&["compare", "right.toml", "--engine", "sim"], ""),
    (&["list", "nothing"], "narrows list"),
    (&["shell", "--link", "rate 1", "--", "true"], "`1Mbit`"),
    (&["by", "yesterday", "--", "true"], ""),
    (&["mark", "-i", "lo", "--profile", "x"], ""),
    (
        &["mark", "-i", "lo", "--profile", "d", "--duration", "10"],
        "`10s`",
    ),
    (&["mmb", "add", "tcp-dprot", "80", "drop"], "`tcp-dport`"),
];

/// What stands in brackets as a part of what is allowed: units, how many more there are, limits.
const OF_ALLOWED: [&str; 3] = ["units ", " more", "at most "];

/// What is against the form of the refusal `line`: FILE:LINE:COLUMN or an option, what was
/// found and what is allowed, without a stop as it may end in a value; then in brackets
/// sentences, each with its stop.
fn against(line: &str) -> Option<&'static str> {
    let (said, advice) = match line.strip_suffix(')').and_then(|l| l.rsplit_once(" (")) {
        // A part of what is allowed: units, or how many more there are.
        Some((_, part)) if OF_ALLOWED.iter().any(|known| part.contains(known)) => (line, None),
        Some((said, advice)) if said.contains("; allowed: ") => (said, Some(advice)),
        _ => (line, None),
    };
    let begins = |c: char| c.is_ascii_lowercase() || matches!(c, '-' | '`' | '/' | '[');
    let argument = line.starts_with("TIME: ");
    if line.contains("  ") {
        return Some("two spaces");
    }
    if line.contains(" ;") || line.contains(" ,") || line.contains(" :") || line.contains("( ") {
        return Some("a space before a mark");
    }
    if line.trim() != line || !(line.starts_with(begins) || argument) {
        return Some("it begins with no place");
    }
    if said.ends_with(['.', ',', ';', ':', ' ']) && !said.ends_with("…") {
        return Some("its fact ends with a mark");
    }
    let advice = advice.unwrap_or("so.");
    if !advice.ends_with(['.', '?']) {
        return Some("its advice ends without a stop");
    }
    None
}

/// What the program says, in a line, of what it refuses; two spaces are in it where it does not.
fn one_line(at: &Path, arguments: &[&str]) -> String {
    let refused = narrows(at, arguments);
    let said = String::from_utf8(refused.stderr).expect("UTF-8");
    // Notes of what is done anyhow come before.
    let lines: Vec<_> = said
        .lines()
        .filter(|l| !l.contains("without --size"))
        .collect();
    match (refused.status.code(), lines.as_slice()) {
        (Some(2), [line]) => (*line).to_owned(),
        (status, _) => format!("{arguments:?} ends with {status:?} and says:  {said}"),
    }
}

#[test]
fn every_refusal_has_one_form_and_the_advice_that_helps() {
    let at = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(at.path().join(name), text).expect("a file");
    write("right.toml", SCENARIO);
    write("right-campaign.toml", CAMPAIGN);
    for name in ["right.toml", "right-campaign.toml"] {
        let shown = narrows(at.path(), &["show", name]);
        assert!(shown.status.success(), "{name}: {shown:?}");
    }
    let mut said = Vec::new();
    for (text, changes) in [(SCENARIO, &OF_SCENARIOS[..]), (CAMPAIGN, &OF_CAMPAIGNS)] {
        for (was, is, word) in changes {
            assert!(text.contains(was), "{was}");
            write("it.toml", &text.replace(was, is));
            let line = one_line(at.path(), &["show", "it.toml"]);
            said.push((line.replace("[\"show\"", is), *word));
        }
    }
    for (arguments, word) in ARGUMENTS {
        said.push((one_line(at.path(), arguments), word));
    }
    assert!(said.len() >= 60);
    let mut wrong = Vec::new();
    for (line, word) in &said {
        wrong.extend(against(line).map(|why| format!("{why}: {line}")));
        if !line.contains(word) {
            wrong.push(format!("{word} is missing: {line}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn what_is_against_the_form_is_found() {
    for right in [
        "a.toml:3:1: duration: found `10`; allowed: a time such as 10ms",
        "--link:1:6: found `x`; allowed: `a` or `b` (did you mean `a`?)",
    ] {
        assert_eq!(against(right), None, "{right}");
    }
    for wrong in [
        "a.toml:3:1: found  `10`; allowed: a time",
        "a.toml:3:1: found `10` ; allowed: a time",
        " a.toml:3:1: found `10`; allowed: a time",
        "a.toml:3:1: found `10`; allowed: a time.",
        "a.toml:3:1: found `10`; allowed: a time (write a unit)",
        "Found `10`; allowed: a time",
    ] {
        assert!(against(wrong).is_some(), "{wrong}");
    }
}

#[test]
fn a_terminal_gets_nothing_raw_of_a_file_or_an_argument() {
    let at = tempfile::tempdir().expect("a folder");
    let wild = "\u{1b}[2J\u{202e}\u{9b}\r";
    let escaped = "\\u{1b}[2J\\u{202e}\\u{9b}\\r";
    let clab = "name: x\ntopology:\n  nodes: {a: {kind: linux}, b: {kind: linux}}\n  links:\n    \
                - endpoints: [\"a:eth1\", \"b:eth1\"]\n      \
                vars: {narrows/up: \"netem \\e[2J\\u202e\\x9b\\r delay\"}\n";
    let toml = SCENARIO.replace(
        "netem delay 5ms\", ",
        "netem delay \\u001b[2J\\u202e\\u009b\\rms\", ",
    );
    let name = SCENARIO.replace("name     = \"x\"", "name = \"\\u202ex\"");
    let file = format!("{wild}.toml");
    for (file, text) in [
        ("x.clab.yml", clab),
        ("x.toml", &toml),
        ("name.toml", &name),
        (&file, "version = 2\n"),
    ] {
        fs::write(at.path().join(file), text).expect("a file");
    }
    let named = format!("--name={wild}");
    for arguments in [
        &["import", "x.clab.yml"][..],
        &["run", "x.toml"],
        &["run", "name.toml"],
        &["run", &file],
        &["run", wild],
        &["run", "--link", wild, "--flow", "cubic"],
        &["shell", "--link", wild],
        &["enter", wild],
        &["down", wild],
        &["status", wild],
        &["up", "name.toml", &named],
        &["run", "--format", wild],
        &[wild],
    ] {
        let output = narrows(at.path(), arguments);
        assert!(!output.status.success(), "{arguments:?}");
        let said = String::from_utf8(output.stderr).expect("UTF-8");
        let raw = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!said.contains(raw), "{arguments:?}: {said:?}");
        let is_named = said.contains(escaped) || said.contains("\\u{202e}");
        assert!(
            is_named || arguments.contains(&"x.toml"),
            "{arguments:?}: {said}"
        );
    }
}

/// Of commands that have no scenario.
#[test]
#[cfg(target_os = "linux")]
fn an_input_file_that_is_not_there_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (mix, token, orders) = (at("mix.yaml"), at("token"), at("orders.json"));
    let run = [
        "traffic",
        "run",
        &mix,
        "--token",
        &token,
        "--server",
        "127.0.0.1",
    ];
    let served = ["traffic", "serve", "127.0.0.1:0", "--token", &token];
    let testbed = [
        "testbed",
        "serve",
        &orders,
        "--listen",
        "127.0.0.1:0",
        "--token",
        &token,
    ];
    let refuses = |words: &[&str], missing: &str| {
        let output = narrows(folder.path(), words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(missing), "{words:?}: {said}");
    };
    refuses(&run, &mix);
    let flow = "label: a\nclient:\n  at: [0s]\n  config: {server-address: h, time-s: 2}\n";
    fs::write(&mix, flow).expect("a file");
    refuses(&run, &token);
    refuses(&served, &token);
    refuses(&testbed, &orders);
}
