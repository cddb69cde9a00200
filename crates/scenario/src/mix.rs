//! `[[mix]]` as the `[[flow]]` and `[[app]]` tables that it stands for: a flow for each stream of a
//! constant rate, an application `get` for the clients of each kind that fetches objects.

use narrows_traffic::{FlowSet, MAX_BYTES, Mix, MixError, Offsets, Sends, Starts, Until};
use narrows_units::{Bytes, Duration, Rate, Value as _};

use crate::campaign::Shelf;
use crate::document::{Mix as Table, keys};
use crate::endpoints::MAX_FLOWS;
use crate::refusal::Refusal;
use crate::source::Spot;
use crate::tree::{Node, Value};

/// The words of `offsets`.
pub(crate) const OFFSETS: [&str; 3] = ["random", "spread", "together"];

/// Time between the writes of a connection of a constant rate (our choice): 1250 bytes at
/// 1 Mbit/s.
const WRITES: Duration = Duration::from_millis(10);

/// The longest `at` of an application `get`, in times.
const MAX_TIMES: usize = 1_000;

/// Keys of `[[mix]]` that its connections have.
const OF_CONNECTIONS: [&str; 4] = ["cc", "transport", "ecn", "host_model"];

/// What a mix stands for, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expanded {
    pub(crate) name: String,
    pub(crate) flows: Vec<String>,
    pub(crate) apps: Vec<String>,
}

/// Adds the flows and applications of each `[[mix]]` behind those that `root` has; which they are.
/// What is wrong in a table itself is refused when it is read; then nothing is added.
///
/// # Errors
/// If a file cannot be read, or is no mix.
pub(crate) fn expand(root: &mut Node, shelf: &dyn Shelf) -> Result<Vec<Expanded>, Refusal> {
    let Some(Value::List(mixes)) = root.at("mix").map(|node| node.value.clone()) else {
        return Ok(Vec::new());
    };
    let duration = root.at("duration").and_then(time);
    let mut all = Vec::new();
    for table in &mixes {
        let Some(one) = One::of(table, duration) else {
            continue;
        };
        let mix = one.read(shelf)?;
        let (mut flows, mut apps) = (Vec::new(), Vec::new());
        for set in &mix.sets {
            one.add(set, &mut flows, &mut apps)?;
        }
        let named = |tables: &[Node]| {
            let names = tables
                .iter()
                .filter_map(|table| table.at("name")?.as_text());
            names.map(str::to_owned).collect()
        };
        all.push(Expanded {
            name: one.name.to_owned(),
            flows: named(&flows),
            apps: named(&apps),
        });
        append(root, "flow", flows);
        append(root, "app", apps);
    }
    Ok(all)
}

fn time(node: &Node) -> Option<Duration> {
    Duration::parse(node.as_text()?.trim())
}

/// A table whose own values are those that a mix has.
struct One<'t> {
    table: &'t Node,
    spot: &'t Spot,
    name: &'t str,
    file: &'t Node,
    client: &'t Node,
    server: &'t Node,
    start: Duration,
    /// Of the run.
    duration: Option<Duration>,
}

impl<'t> One<'t> {
    fn of(table: &'t Node, duration: Option<Duration>) -> Option<Self> {
        let start = match table.at("start") {
            Some(start) => time(start)?,
            None => Duration::ZERO,
        };
        let Value::Table(given) = &table.value else {
            return None;
        };
        let known = keys::<Table>();
        let all_known = given
            .0
            .iter()
            .all(|(key, _)| known.contains(&key.name.as_str()));
        all_known.then_some(())?;
        Some(Self {
            table,
            spot: &table.spot,
            name: table.at("name")?.as_text()?,
            file: table.at("file")?,
            client: table.at("from")?,
            server: table.at("to")?,
            start,
            duration,
        })
    }

    fn key(&self, key: &str) -> String {
        format!("mix/{}/{key}", self.name)
    }

    /// The mix of its file, sized for its bandwidth.
    fn read(&self, shelf: &dyn Shelf) -> Result<Mix, Refusal> {
        let refuse = |found: String, allowed: &str| {
            Refusal::at(&self.file.spot, self.key("file"), found, allowed)
        };
        let file = self.file.as_text().unwrap_or_default();
        let mut parts = std::path::Path::new(file).components();
        if parts.any(|part| matches!(part, std::path::Component::ParentDir)) {
            return Err(refuse(format!("`{file}`"), "a path without `..`"));
        }
        let bytes = shelf
            .open(file)
            .map_err(|why| refuse(format!("`{file}`: {why}"), "a file that can be read"))?;
        if bytes.len() > MAX_BYTES {
            let found = format!("`{file}` of {} bytes", bytes.len());
            return Err(refuse(found, &format!("at most {MAX_BYTES} bytes")));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| refuse(format!("`{file}`, which is no text"), "a mix in UTF-8"))?;
        let of_file = |error: MixError| {
            let MixError {
                file,
                at,
                key,
                found,
                allowed,
            } = error;
            let place = format!("{file}:{}:{}", at.0, at.1);
            let found = match key.as_str() {
                "" => format!("{found} at {place}"),
                key => format!("{found} as {key} at {place}"),
            };
            refuse(found, &allowed)
        };
        match self.table.at("bandwidth") {
            None => Mix::read(file, &text).map_err(of_file),
            Some(given) => {
                let rate = given.as_text().and_then(|text| Rate::parse(text.trim()));
                // What is no rate is refused as such.
                let bytes = rate.map_or(1, |rate| rate.as_bits() / 8);
                Mix::read_with(file, &text, Some(bytes)).map_err(of_file)
            }
        }
    }

    /// What a flow or application of `set` has besides what it sends.
    fn common(&self, name: &str, set: &FlowSet, keys: &[&str]) -> Node {
        let text = |words: &str| Node::text(words, self.spot);
        let mut table = Node::table([("name", text(name))], self.spot);
        if let Some(dscp) = set.dscp {
            table.put("dscp", Node::text(dscp.to_string(), self.spot));
        }
        for key in keys.iter().chain(&["dscp", "ip"]) {
            if let Some(value) = self.table.at(key) {
                table.put(key, value.clone());
            }
        }
        if let (Some(control), true, None) = (&set.control, keys.contains(&"cc"), table.at("cc")) {
            table.put("cc", text(control));
        }
        table
    }

    /// A name of the run for `label`, of which files allow more letters.
    fn named(&self, label: &str) -> String {
        format!("{}-{}", self.name, label.replace('+', "-"))
    }

    fn put_time(&self, table: &mut Node, key: &str, at: Duration) {
        table.put(key, Node::text(at.to_string(), self.spot));
    }

    /// Adds what `set` is.
    fn add(
        &self,
        set: &FlowSet,
        flows: &mut Vec<Node>,
        apps: &mut Vec<Node>,
    ) -> Result<(), Refusal> {
        if set.transfers() == 0 {
            return Ok(());
        }
        if let Sends::Get(bytes) = set.sends {
            apps.push(self.clients(set, bytes)?);
            return Ok(());
        }
        // The seed is not known here: flows of a constant rate are spread over one of their gaps.
        let mut schedule = set.schedule(0, Offsets::Spread, 0);
        schedule.retain(|one| self.duration.is_none_or(|end| self.start + one.start < end));
        if flows.len() + schedule.len() > MAX_FLOWS {
            let found = format!("{} flows", flows.len() + schedule.len());
            let allowed = format!("at most {MAX_FLOWS}");
            return Err(Refusal::at(
                &self.file.spot,
                self.key("file"),
                found,
                allowed,
            ));
        }
        let alone = set.transfers() == 1;
        for (i, one) in schedule.iter().enumerate() {
            let name = self.named(&set.label);
            let name = match alone {
                true => name,
                false => format!("{name}-{}", i + 1),
            };
            flows.push(self.flow(&name, set, self.start + one.start));
        }
        Ok(())
    }

    /// The flow of one stream of `set`, from `start` on.
    fn flow(&self, name: &str, set: &FlowSet, start: Duration) -> Node {
        let connection = !matches!(set.sends, Sends::Datagrams { .. });
        let keys: &[&str] = if connection { &OF_CONNECTIONS } else { &[] };
        let mut table = self.common(name, set, keys);
        let (traffic, lasts) = traffic(&set.sends);
        table.put("from", self.server.clone());
        table.put("to", self.client.clone());
        table.put("opens", self.client.clone());
        table.put("traffic", Node::text(traffic, self.spot));
        if connection && table.at("cc").is_none() {
            let transport = table.at("transport").map(|node| &node.value);
            let over_quic = matches!(
                transport,
                Some(Value::Text(word) | Value::Raw(word)) if word == "quic"
            );
            let control = if over_quic { "quic:cubic" } else { "cubic" };
            table.put("cc", Node::text(control, self.spot));
        }
        self.put_time(&mut table, "start", start);
        let stop = start + lasts;
        if self.duration.is_none_or(|end| stop < end) {
            self.put_time(&mut table, "stop", stop);
        }
        table
    }

    /// The application of the clients of `set`, which fetch objects of so many bytes.
    fn clients(&self, set: &FlowSet, bytes: u64) -> Result<Node, Refusal> {
        let text = |words: String| Node::text(words, self.spot);
        let mut table = self.common(&self.named(&set.label), set, &OF_CONNECTIONS);
        let starts = match &set.starts {
            Starts::Every { period, times } => format!("every {period} times {times}"),
            Starts::At(times) if times.len() > MAX_TIMES => {
                let found = format!("{} times of `{}`", times.len(), set.label);
                let allowed = format!("at most {MAX_TIMES}");
                return Err(Refusal::at(
                    &self.file.spot,
                    self.key("file"),
                    found,
                    allowed,
                ));
            }
            Starts::At(times) => {
                let mut times = times.clone();
                times.sort_unstable();
                let words = times.iter().map(Duration::to_string);
                format!("at {}", words.collect::<Vec<_>>().join(" "))
            }
        };
        table.put("kind", text("get".to_owned()));
        table.put("from", self.client.clone());
        table.put("to", self.server.clone());
        table.put("bytes", text(Bytes::new(bytes).to_string()));
        // A number in words is none in a table; this is as `--app` has it.
        let clients = Node::raw(&set.instances.to_string(), self.spot.clone());
        table.put("clients", clients);
        table.put("starts", text(starts));
        if let Some(offsets) = self.table.at("offsets") {
            table.put("offsets", offsets.clone());
        }
        self.put_time(&mut table, "start", self.start);
        Ok(table)
    }
}

/// What a flow sends in words, and for how long: so that it is stopped between two of its writes
/// or datagrams, whose number is then exact.
fn traffic(sends: &Sends) -> (String, Duration) {
    let of_count = |gap: u128, count: u64| {
        let ns = gap * u128::from(count.max(1) - 1) + gap / 2;
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX / 4))
    };
    match *sends {
        Sends::Bulk(time) => ("bulk".to_owned(), time),
        Sends::Get(bytes) => (format!("bytes {bytes}"), Duration::MAX),
        Sends::Datagrams { rate, size, .. } => {
            let gap = u128::from(size) * 8_000_000_000 / u128::from(rate.max(1));
            let words = format!("cbr rate {} size {size}", Rate::from_bits(rate));
            (words, of_count(gap, sends.packets().unwrap_or(1)))
        }
        Sends::Paced { rate, until } => {
            // As many bytes as the rate has in the time between writes, and then the time that
            // they have at the rate.
            let bytes = Rate::from_bits(rate).bytes_in(WRITES).max(1);
            let gap = u128::from(bytes) * 8_000_000_000 / u128::from(rate.max(1));
            let every = Duration::from_nanos(u64::try_from(gap).unwrap_or(u64::MAX).max(1_000));
            let count = match until {
                Until::Bytes(all) => all.div_ceil(bytes),
                Until::Time(time) => time.as_nanos().div_ceil(every.as_nanos()),
            };
            let words = format!("writes {} every {every}", Bytes::new(bytes));
            (words, of_count(u128::from(every.as_nanos()), count))
        }
    }
}

fn append(root: &mut Node, kind: &str, tables: Vec<Node>) {
    if tables.is_empty() {
        return;
    }
    match root.at_mut(kind).map(|node| &mut node.value) {
        Some(Value::List(before)) => before.extend(tables),
        // What else it is, is refused.
        Some(_) => {}
        None => root.put(kind, Node::list(tables, &Spot::whole("[[mix]]", ""))),
    }
}
