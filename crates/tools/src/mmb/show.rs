//! What a box answers, as text and for JSON.

use std::fmt::{self, Write as _};

use narrows_mmb::{Field, Middlebox, READY, ReadyBox};
use narrows_wire::{FlowKey, TcpFlags};
use serde::{Deserialize, Serialize};

use super::captures::{ExplainedPacket, Replayed};

/// What a box answers to a line.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Done; there is nothing to show.
    Done,
    /// The rules.
    Rules(Vec<ShownRule>),
    /// The classifier's tables.
    Tables(Vec<ShownTable>),
    /// The connections.
    Connections(Vec<ShownConnection>),
    /// What became of each packet of a capture.
    Explained(Vec<ExplainedPacket>),
    /// What became of a capture.
    Replayed(Replayed),
    /// What rules can name.
    Fields(Vec<ShownField>),
    /// The ready boxes.
    Boxes(Vec<ShownBox>),
}

/// A field of rules.
#[derive(Debug, Serialize)]
pub struct ShownField {
    name: &'static str,
    about: &'static str,
    values: String,
}

/// A ready box.
#[derive(Debug, Serialize)]
pub struct ShownBox {
    name: &'static str,
    about: &'static str,
    rules: &'static str,
}

/// A rule and what it counted.
#[derive(Debug, Serialize)]
pub struct ShownRule {
    /// From 1.
    number: usize,
    rule: String,
    packets: u64,
    bytes: u64,
}

/// A table of the classifier.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShownTable {
    /// The bytes of the headers that it looks at.
    mask: String,
    rules: usize,
    keys: usize,
    /// Whether its rules are ordered by a range.
    ordered: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    verbose: Vec<String>,
}

/// A connection.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShownConnection {
    protocol: u8,
    forward: [String; 2],
    reverse: [String; 2],
    state: String,
    /// When it is forgotten without further packets, in seconds of a capture's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_s: Option<f64>,
    #[serde(flatten)]
    at_device: Option<ConnectionAtDevice>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    flags: Option<[String; 2]>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rules: Vec<usize>,
}

/// What a box at a device knows of a connection besides.
#[derive(Debug, Serialize, Deserialize)]
pub struct ConnectionAtDevice {
    /// Packets, its segments where they came in bundles.
    packets: u64,
    /// Since its first packet.
    age_s: f64,
    /// Since its last one.
    idle_s: f64,
    /// Until it is forgotten without further packets.
    left_s: f64,
}

/// Bytes as they stand in tables: in groups of a word, without zeros at the end.
fn hex(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|b| *b != 0).map_or(1, |at| at + 1);
    let mut text = String::new();
    for (i, byte) in bytes[..end.next_multiple_of(4).min(bytes.len())]
        .iter()
        .enumerate()
    {
        let gap = if i > 0 && i % 4 == 0 { " " } else { "" };
        let _ = write!(text, "{gap}{byte:02x}");
    }
    text
}

fn flags(seen: u8) -> String {
    const NAMES: [(u16, &str); 4] = [
        (TcpFlags::SYN, "SYN"),
        (TcpFlags::ACK, "ACK"),
        (TcpFlags::FIN, "FIN"),
        (TcpFlags::RST, "RST"),
    ];
    let set = NAMES.iter().filter(|(bit, _)| u16::from(seen) & bit != 0);
    set.map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
}

fn ends(key: &FlowKey) -> [String; 2] {
    [
        (key.source, key.source_port),
        (key.destination, key.destination_port),
    ]
    .map(|end| std::net::SocketAddr::from(end).to_string())
}

impl Answer {
    pub(super) fn fields() -> Self {
        let shown = |field: Field| ShownField {
            name: field.name(),
            about: field.about(),
            values: field.values(),
        };
        Self::Fields(Field::all().map(shown).collect())
    }

    pub(super) fn boxes() -> Self {
        let shown = |ready: &ReadyBox| ShownBox {
            name: ready.name,
            about: ready.about,
            rules: ready.rules,
        };
        Self::Boxes(READY.iter().map(shown).collect())
    }

    pub(super) fn rules(middlebox: &Middlebox) -> Self {
        let rules = middlebox.rules().enumerate();
        Self::Rules(
            rules
                .map(|(index, (rule, counted))| ShownRule {
                    number: index + 1,
                    rule: rule.to_string(),
                    packets: counted.packets,
                    bytes: counted.bytes,
                })
                .collect(),
        )
    }

    pub(super) fn tables(middlebox: &Middlebox, verbose: bool) -> Self {
        Self::Tables(shown_tables(middlebox, verbose))
    }

    pub(super) fn connections(middlebox: &Middlebox, verbose: bool) -> Self {
        let connections = middlebox.connections().map(|connection| ShownConnection {
            protocol: connection.forward.protocol,
            forward: ends(&connection.forward),
            reverse: ends(&connection.reverse),
            state: state(connection.forward.protocol, connection.established),
            expires_s: Some(connection.expires.as_secs_f64()),
            at_device: None,
            flags: verbose.then(|| connection.flags.map(flags)),
            rules: if verbose {
                connection.rules
            } else {
                Vec::new()
            },
        });
        Self::Connections(connections.collect())
    }
}

/// The classifier's tables, with their keys if `verbose`.
pub(super) fn shown_tables(middlebox: &Middlebox, verbose: bool) -> Vec<ShownTable> {
    let tables = middlebox.tables().map(|table| ShownTable {
        mask: hex(&table.mask),
        rules: table.rules,
        keys: table.keys.len(),
        ordered: table.ordered,
        verbose: match verbose {
            true => table.keys.iter().map(|key| hex(key)).collect(),
            false => Vec::new(),
        },
    });
    tables.collect()
}

fn state(protocol: u8, established: bool) -> String {
    let word = match (protocol, established) {
        (6, true) => "established",
        (6, false) => "transient",
        _ => "tracked",
    };
    word.to_owned()
}

#[cfg(target_os = "linux")]
impl ShownConnection {
    /// One of a box at a device, with all that is known.
    pub(super) fn at_device(connection: &narrows_bpf::BoxConnection) -> Self {
        let protocol = connection.forward.protocol;
        let established = narrows_mmb::is_established(connection.flags);
        let kept = narrows_mmb::kept_for(protocol, connection.flags);
        let idle = connection.idle;
        let at_device = ConnectionAtDevice {
            packets: connection.packets,
            age_s: connection.age.as_secs_f64(),
            idle_s: idle.as_secs_f64(),
            left_s: kept.as_secs_f64() - idle.as_secs_f64(),
        };
        Self {
            protocol,
            forward: ends(&connection.forward),
            reverse: ends(&connection.reverse),
            state: state(protocol, established),
            expires_s: None,
            at_device: Some(at_device),
            flags: Some(connection.flags.map(flags)),
            rules: connection.rules.clone(),
        }
    }

    /// Without what only `verbose` shows.
    pub(super) fn shortened(self) -> Self {
        Self {
            flags: None,
            rules: Vec::new(),
            ..self
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => Ok(()),
            Self::Rules(rules) if rules.is_empty() => writeln!(f, "no rules"),
            Self::Rules(rules) => rules.iter().try_for_each(|rule| {
                let ShownRule {
                    number,
                    rule,
                    packets,
                    bytes,
                } = rule;
                writeln!(
                    f,
                    "{number:>4}  {packets:>10} packets {bytes:>14} bytes  {rule}"
                )
            }),
            Self::Tables(tables) if tables.is_empty() => writeln!(f, "no tables"),
            Self::Tables(tables) => tables.iter().try_for_each(|table| {
                let ordered = if table.ordered {
                    ", ordered by a range"
                } else {
                    ""
                };
                writeln!(
                    f,
                    "mask {}: {} rules, {} keys{ordered}",
                    table.mask, table.rules, table.keys
                )?;
                table
                    .verbose
                    .iter()
                    .try_for_each(|key| writeln!(f, "     {key}"))
            }),
            Self::Connections(all) if all.is_empty() => writeln!(f, "no connections"),
            Self::Connections(all) => all.iter().try_for_each(|connection| {
                let ([from, to], [back_from, back_to]) = (&connection.forward, &connection.reverse);
                write!(
                    f,
                    "protocol {} {from} > {to}, back {back_from} > {back_to}, {}",
                    connection.protocol, connection.state
                )?;
                if let Some(expires) = connection.expires_s {
                    write!(f, ", until {expires:.3} s")?;
                }
                if let Some(at) = &connection.at_device {
                    write!(
                        f,
                        ", {} packets, {:.1} s old, idle for {:.1} s, forgotten in {:.1} s",
                        at.packets, at.age_s, at.idle_s, at.left_s
                    )?;
                }
                if let Some([there, back]) = &connection.flags {
                    write!(
                        f,
                        ", flags [{there}] [{back}], rules {:?}",
                        connection.rules
                    )?;
                }
                writeln!(f)
            }),
            Self::Explained(packets) => packets
                .iter()
                .try_for_each(|packet| writeln!(f, "{packet}")),
            Self::Replayed(replayed) => writeln!(f, "{replayed}"),
            Self::Fields(fields) => fields.iter().try_for_each(|field| {
                writeln!(f, "{:<18} {}: {}", field.name, field.about, field.values)
            }),
            Self::Boxes(boxes) => boxes
                .iter()
                .try_for_each(|ready| writeln!(f, "{:<20} {}", ready.name, ready.about)),
        }
    }
}
