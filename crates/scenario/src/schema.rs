//! The JSON Schema of scenario and campaign files.
//!
//! Editors use it to complete and to check; the program itself checks more,
//! and its reader does not depend on it. A test holds the keys of both
//! together.

#![allow(dead_code)] // The fields are read by the schema's derive alone.

use std::collections::BTreeMap;

use schemars::JsonSchema;

/// What the schema is called; the version of the format is part of it.
const ID: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/schema/v1.json");

/// A name before an element's words: `bottleneck: rate 50Mbit`.
macro_rules! element {
    () => {
        r"^\s*([A-Za-z0-9_.-]+:\s+)?(rate|netem|remark|by|police|tap)(\s|$)"
    };
}

/// A congestion control's words. What follows the name is the algorithm's.
macro_rules! control {
    () => {
        r"^\s*((reno|cubic|prague)(\s|$)|kernel:[a-z0-9_]{1,15}\s*$|quic:(cubic|newreno|bbr)\s*$)"
    };
}

/// Elements in words.
#[derive(JsonSchema)]
#[serde(transparent)]
struct Element(#[schemars(regex(pattern = element!()))] String);

/// The schema of all files, as a JSON document.
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(File);
    schema.insert("$id".to_owned(), ID.into());
    schema.insert("title".to_owned(), "Narrows scenario or campaign".into());
    schema.to_value()
}

/// A scenario or a campaign.
#[derive(JsonSchema)]
#[serde(untagged)]
enum File {
    Scenario(Box<Scenario>),
    Campaign(Box<Campaign>),
}

/// One run.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// The version of the format: 1.
    version: u64,
    /// `scenario`, which is also what a file is that does not say.
    kind: Option<String>,
    /// What it is called in results.
    name: String,
    /// What it shows, in a line.
    title: Option<String>,
    /// What it is, in a paragraph.
    about: Option<String>,
    /// Where it comes from.
    source: Option<String>,
    /// How long it lasts: `60s`.
    duration: String,
    /// The steady window, `10s..58s`; the last two thirds by default.
    measure: Option<String>,
    /// The seed of all randomness; 1 by default.
    seed: Option<u64>,
    /// How often flows and queues are looked at; `50ms` by default.
    sample_interval: Option<String>,
    /// Whether each flow that gives no `start` begins at a random time within a
    /// round trip, as the seed has it; `true` by default.
    start_offset: Option<bool>,
    /// Findings of the verdict that the experiment is about and that do not speak
    /// against a run, such as `idle-bottleneck` where loss is to limit flows.
    #[serde(default)]
    expected: Vec<String>,
    /// How hosts treat the segments of every flow.
    host_model: Option<HostModel>,
    /// Hosts about which there is more to say than their name.
    #[serde(default)]
    host: Vec<Host>,
    /// Hosts that only forward.
    #[serde(default)]
    router: Vec<Host>,
    /// Links between hosts.
    link: Vec<Link>,
    /// Flows.
    #[serde(default)]
    flow: Vec<Flow>,
    /// Measurement signals in the packets of flows.
    #[serde(default)]
    mark: Vec<Mark>,
    /// Latency probes.
    #[serde(default)]
    probe: Vec<Probe>,
    /// Programs that run in hosts, by the live engine alone.
    #[serde(default)]
    command: Vec<Command>,
    /// Observers of measurement signals.
    #[serde(default)]
    observe: Vec<Observe>,
    /// Packet captures.
    #[serde(default)]
    capture: Vec<Capture>,
    /// Changes of elements in mid-run.
    #[serde(default)]
    change: Vec<Change>,
}

/// A host or a router.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Host {
    /// Its name, as links and flows use it.
    name: String,
    /// Its IPv4 address.
    ipv4: Option<String>,
    /// Its IPv6 address.
    ipv6: Option<String>,
}

/// A link between two hosts.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Link {
    /// Its name.
    name: String,
    /// The two hosts; `up` runs from the first to the second.
    ends: [String; 2],
    /// The largest IP packet in bytes; 1500 by default.
    mtu: Option<u32>,
    /// `narrows` (the default): Narrows' own elements; `kernel`: in a live run
    /// the kernel's queueing disciplines of the same names.
    datapath: Option<String>,
    /// Elements from the first end to the second, in order of travel, each
    /// `words` or `name: words`: `netem delay 10ms`, `bottleneck: rate 50Mbit
    /// queue dualpi2`, `tap mid`, `remark …`, `by dscp …`, `police …`.
    #[serde(default)]
    up: Vec<Element>,
    /// Elements from the second end to the first.
    #[serde(default)]
    down: Vec<Element>,
}

/// A connection and what is sent over it.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Flow {
    /// Its name.
    name: String,
    /// Who sends the data.
    from: String,
    /// Who gets it.
    to: String,
    /// Who opens the connection; `from` by default.
    opens: Option<String>,
    /// The congestion control in words: `cubic`, `prague variant 2020`,
    /// `kernel:bbr`, `quic:cubic`.
    #[schemars(regex(pattern = control!()))]
    cc: Option<String>,
    /// `tcp` or `quic`; what `cc` is made for by default. Or a modelled flow in
    /// words, `quic-model signals s+vec window 64`, `plus rate 20Mbit`.
    transport: Option<String>,
    /// The spin bit of a flow over QUIC: `seed` (the default: each end
    /// switches it off by chance), `on` or `greased`.
    spin: Option<FlagOrText>,
    /// What the handshake asks for; what `cc` needs by default.
    ecn: Option<Ecn>,
    /// The code point, 0 to 63 or by name.
    dscp: Option<NumberOrText>,
    /// When it starts; `0s` by default.
    start: Option<String>,
    /// When it stops; at the end by default.
    stop: Option<String>,
    /// How much it sends: 1000000 or `10Mb`. Not beside `traffic`.
    bytes: Option<NumberOrText>,
    /// What it sends in words: `bulk` (the default), `bytes 10Mb`, `cbr rate
    /// 1Mbit`.
    traffic: Option<String>,
    /// 4 (the default) or 6.
    ip: Option<u8>,
    /// Whether data goes with the SYN.
    fast_open: Option<bool>,
    /// Measurement signals in its packets, in words: `d+q`, `s spin naive`.
    mark: Option<String>,
    /// How the two hosts treat this flow's segments.
    host_model: Option<HostModel>,
}

/// Measurement signals in the TCP headers of flows.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mark {
    /// Its name.
    name: String,
    /// The signals and their rules in words: `d+q`, `s spin naive`, `d delay
    /// thesis tmax 225ms`.
    signals: String,
    /// The flows; all over TCP by default.
    flows: Option<OneOrMore>,
    /// The hosts that put them there; both ends of the flows by default.
    hosts: Option<OneOrMore>,
}

/// ECN in the handshake.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Ecn {
    /// Whether there is any.
    Flag(bool),
    /// `off`, `classic` (RFC 3168) or `accecn` (RFC 9768).
    Word(String),
}

/// A number, or a value in words.
#[derive(JsonSchema)]
#[serde(untagged)]
enum NumberOrText {
    Number(u64),
    Text(String),
}

/// A flag, or a value in words.
#[derive(JsonSchema)]
#[serde(untagged)]
enum FlagOrText {
    Flag(bool),
    Text(String),
}

/// Texts, or one.
#[derive(JsonSchema)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// Seeds one by one, or in a row.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Seeds {
    Each(Vec<u64>),
    Row(String),
}

/// How a host treats segments.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostModel {
    /// `one` (offloads off, the default) or `tso [min_segments N]
    /// [gso_max_bytes N]`.
    segmentation: Option<String>,
    /// Receive-side coalescing: `false` (the default), `true`, or `hold 50us
    /// max_segments 17`.
    gro: Option<FlagOrText>,
    /// The timer tick; `4ms` by default, `0s` for exact timers.
    tick: Option<String>,
    /// `as-algorithm` (the default), `internal`, `fq`, `always` or `never`.
    pacing: Option<String>,
    /// Whether SACKs are compressed under loss; true by default.
    compress_sacks: Option<bool>,
    /// `off` (the default) or `unreported [segment_bytes N]`.
    small_queues: Option<String>,
    /// `unlimited` (the default) or `auto [max BYTES]`.
    send_buffer: Option<String>,
}

/// A latency probe.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Probe {
    /// Its name.
    name: String,
    /// Who asks.
    from: String,
    /// Who answers.
    to: String,
    /// Time between questions; `100ms` by default.
    interval: Option<String>,
    /// Length of the IP packet in bytes; 84 by default.
    size: Option<u32>,
    /// The code point, 0 to 63 or by name.
    dscp: Option<NumberOrText>,
    /// `not-ect` (the default), `ect0`, `ect1` or `ce`.
    ecn: Option<String>,
    /// When it starts; `0s` by default.
    start: Option<String>,
    /// When it stops; at the end by default.
    stop: Option<String>,
}

/// A program that runs in a host.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Command {
    /// Its name, and that of the files with its output.
    name: String,
    /// The host that it runs in.
    host: String,
    /// The program and its arguments. `{server}` stands for the IPv4 address
    /// of the host `server`, `{server/ipv6}` for its IPv6 address, `{{` and
    /// `}}` for a brace.
    run: Vec<String>,
    /// When it is started; `0s` by default.
    start: Option<String>,
    /// When it is ended if it has not ended by itself; at the end by default.
    stop: Option<String>,
}

/// An observer at a tap; its samples are held against what happened.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Observe {
    /// Its name.
    name: String,
    /// `tap/<name>`.
    tap: String,
    /// `rfc` (the default) or `thesis`.
    mode: Option<String>,
    /// The profile of all flows, for those that no handshake announces: `s+t`.
    profile: Option<String>,
    /// Whether the responder's answer decides on the profile.
    negotiated: Option<bool>,
    /// T_Max of the delay bit, if it is not to be learnt: `225ms`.
    t_max: Option<String>,
    /// Packets in a Q block, if not to be learnt.
    block: Option<u32>,
    /// Packets that make a change of Q or R, if not to be learnt.
    reordering: Option<u32>,
    /// The techniques of which samples are kept, such as `delay`; all by
    /// default.
    techniques: Option<OneOrMore>,
}

/// A packet capture.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Capture {
    /// Its name, and that of its file.
    name: String,
    /// `tap/<name>` or `host/<name>`.
    at: String,
    /// How many bytes of each packet are kept; 128 by default.
    snaplen: Option<u32>,
}

/// A change of an element in mid-run.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    /// Its name, by which it can be set.
    name: Option<String>,
    /// When: `30s`.
    at: String,
    /// The element's full name, `link/access/up/bottleneck`.
    target: String,
    /// Its new parameters in its own words: `rate 10Mbit`.
    to: String,
}

/// A matrix of runs, with the published figures that they are held against.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Campaign {
    /// The version of the format: 1.
    version: u64,
    /// `campaign`.
    kind: String,
    /// Its name, such as `l4s-tests/s1`.
    name: String,
    /// What it shows, in a line.
    title: Option<String>,
    /// What it is, in a paragraph.
    about: Option<String>,
    /// Where its figures come from.
    source: Option<String>,
    /// The seeds of each cell, a list or `1 to 200`; `[1]` by default.
    seeds: Option<Seeds>,
    /// The file of the scenario that all cells start from.
    base: Option<String>,
    /// That scenario itself, in place of `base`.
    scenario: Option<serde_json::Map<String, serde_json::Value>>,
    /// The name of a cell, with words to fill in: `{rate}/{qdisc}`.
    cell: String,
    /// Patterns of cells that are left out.
    exclude: Option<OneOrMore>,
    /// The matrix: for each axis its values, a list, or a table with what each
    /// value fills in for `{word}`.
    axis: BTreeMap<String, serde_json::Value>,
    /// Which cells `narrows compare` holds against each other.
    pair: Option<Pair>,
    /// What is filled in for `{word}` in every cell.
    words: Option<BTreeMap<String, NumberOrText>>,
    /// What is set in each cell, by name: `"flow/first/cc" = "{cc}"`.
    set: Option<BTreeMap<String, serde_json::Value>>,
    /// What is measured: `goodput_mbit of flow/first`, or a formula over
    /// metrics before it. By default goodputs, round trips and waiting times.
    metric: Option<BTreeMap<String, FormulaOrMetric>>,
    /// What the campaign is about: metrics drawn against its axes.
    #[serde(default)]
    figure: Vec<Figure>,
    /// The published table.
    published: Option<Published>,
    /// What is judged.
    #[serde(default)]
    tolerance: Vec<Tolerance>,
    /// What the measured figures must be among themselves.
    #[serde(default)]
    check: Vec<Check>,
}

/// A metric's formula, or that with what it is called.
#[derive(JsonSchema)]
#[serde(untagged)]
enum FormulaOrMetric {
    Formula(String),
    Metric(Metric),
}

/// A metric with what it is called on pages and plots.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metric {
    /// Its formula: `goodput_mbit of flow/first`.
    of: String,
    /// What it is, in a few words.
    title: Option<String>,
    /// What it is counted in: `ms`.
    unit: Option<String>,
}

/// Metrics drawn against an axis of the matrix: published figures as points with
/// their tolerance, measured ones as medians with the spread over seeds.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// What it shows, in a line.
    title: Option<String>,
    /// What is drawn upwards; of several metrics, each is a line.
    metrics: OneOrMore,
    /// The axis that is drawn across.
    x: String,
    /// The axes whose values are lines.
    by: Option<OneOrMore>,
    /// The axes whose values have drawings of their own.
    panels: Option<OneOrMore>,
    /// The pattern of the cells that are drawn; all by default.
    cells: Option<String>,
}

/// A shape that measured figures must have.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check {
    /// What it is called: `AC1`.
    id: String,
    /// What it says, in a line.
    text: String,
    /// Comparisons of figures, `METRIC[CELL]`, all of which must hold: `65 <=
    /// mean_ms[base] <= 76`, `a_ms[x] > a_ms[y] > a_ms[z]`.
    holds: OneOrMore,
    /// Whether the campaign fails if it does not hold; true by default.
    gate: Option<bool>,
    /// Why it is so, or why a figure misses it.
    source: Option<String>,
}

/// A table of published figures.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Published {
    /// A CSV file beside the campaign's.
    file: String,
    /// What stands in a cell's row, by column, with words to fill in.
    row: BTreeMap<String, String>,
    /// The column that holds each metric. A formula without a column is worked
    /// out of published metrics.
    metric: BTreeMap<String, String>,
}

/// Cells that are alike but for one axis, held against each other on the live
/// engine.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pair {
    /// The axis that tells the two sides apart.
    axis: String,
    /// Its value on the side that is judged.
    judge: String,
    /// Its value on the side that is known, and that is held against itself.
    against: String,
}

/// What a group of cells must reach.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tolerance {
    /// What the group is called.
    name: Option<String>,
    /// `published` (the default): the published figure and the measured one;
    /// `engines`: the simulator's and the live engine's; `pair`: those of the
    /// two cells of a `[pair]`. The last two `narrows compare` judges.
    between: Option<String>,
    /// The pattern of its cells; of pairs, of their values on the other axes.
    cells: String,
    /// The metric that is judged.
    metric: String,
    /// `5 points`, `25 percent or 1 points`, `factor 1.6`, `odds factor 1.6`; of several, all must hold.
    /// Between the cells of a pair it may be left out: then the known side's
    /// own spread is the band.
    within: Option<OneOrMore>,
    /// How many cells must be inside: `21 of 24`; all by default.
    at_least: Option<String>,
    /// Why the band is as wide as it is.
    source: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{campaign, check};

    fn keys<T: JsonSchema>() -> Vec<String> {
        let schema = schemars::schema_for!(T).to_value();
        let keys = schema["properties"].as_object().expect("properties");
        let mut keys: Vec<String> = keys.keys().cloned().collect();
        keys.sort();
        keys
    }

    fn sorted(known: &[&str]) -> Vec<String> {
        let mut known: Vec<String> = known.iter().map(|k| (*k).to_owned()).collect();
        known.sort();
        known
    }

    #[test]
    fn the_schema_and_the_reader_know_the_same_keys() {
        assert_eq!(keys::<Scenario>(), sorted(check::TOP));
        assert_eq!(keys::<Host>(), sorted(check::HOST));
        assert_eq!(keys::<Link>(), sorted(check::LINK));
        assert_eq!(keys::<Flow>(), sorted(check::FLOW));
        assert_eq!(keys::<Mark>(), sorted(check::MARK));
        assert_eq!(keys::<HostModel>(), sorted(check::model::MODEL));
        assert_eq!(keys::<Probe>(), sorted(check::watch::PROBE));
        assert_eq!(keys::<Command>(), sorted(check::COMMAND));
        assert_eq!(keys::<Observe>(), sorted(check::OBSERVE));
        assert_eq!(keys::<Check>(), sorted(campaign::CHECK));
        assert_eq!(keys::<Figure>(), sorted(campaign::FIGURE));
        assert_eq!(keys::<Metric>(), sorted(campaign::METRIC));
        assert_eq!(keys::<Capture>(), sorted(check::watch::CAPTURE));
        assert_eq!(keys::<Change>(), sorted(check::watch::CHANGE));
        assert_eq!(keys::<Campaign>(), sorted(campaign::AT_TOP));
        assert_eq!(keys::<Published>(), sorted(campaign::PUBLISHED));
        assert_eq!(keys::<Pair>(), sorted(campaign::PAIR));
        assert_eq!(keys::<Tolerance>(), sorted(campaign::TOLERANCE));
    }

    #[test]
    fn the_schema_describes_every_key() {
        let text = schema().to_string();
        assert!(text.contains("The steady window"));
        assert!(text.contains("https://json-schema.org/draft/2020-12/schema"));
    }
}
