//! What passed a topology, and who runs in it.

use std::fs;

use narrows_linux::Namespace;
use narrows_linux::machine::processes;
use narrows_live::World;
use narrows_scenario::TimedChange;
use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::record::{ElementRecord, HostRecord, LinkRecord};

/// What the process that holds a topology answers on its socket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Seconds since it was up.
    pub up_s: f64,
    /// Of each host.
    pub hosts: Vec<HostFigures>,
    /// Of each link.
    pub links: Vec<LinkFigures>,
    /// The changes of the scenario that have been made, without those that later ones replace.
    pub changes: Vec<ChangeMade>,
}

/// A change of an element.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChangeMade {
    /// `link/access/up/bottleneck`.
    pub element: String,
    /// When, in seconds since the topology was up.
    pub at_s: f64,
    /// What is so since then: `rate 10Mbit`. What the words do not name stays.
    pub words: String,
}

/// Those of `changes`, in order of time, that have been made after `up_s`.
pub(super) fn made(changes: &[TimedChange], up_s: f64) -> Vec<ChangeMade> {
    // The names of what is set: all words but values.
    let named = |change: &ChangeMade| -> Vec<String> {
        let words = change.words.split_whitespace();
        let names = words.filter(|word| word.starts_with(|c: char| c.is_alphabetic()));
        names.map(str::to_owned).collect()
    };
    let mut made: Vec<ChangeMade> = Vec::new();
    for change in changes {
        let change = ChangeMade {
            element: change.target.clone(),
            at_s: change.at.as_nanos() as f64 / 1e9,
            words: change.words.clone(),
        };
        if change.at_s > up_s {
            break;
        }
        let same =
            |other: &ChangeMade| other.element == change.element && named(other) == named(&change);
        made.retain(|other| !same(other));
        made.push(change);
    }
    made
}

/// What runs in a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFigures {
    /// The host.
    pub name: String,
    /// The processes in it.
    pub pids: Vec<i32>,
}

/// What passed a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkFigures {
    /// The link.
    pub name: String,
    /// From its first end to its second.
    pub up: WayFigures,
    /// The way back.
    pub down: WayFigures,
    /// Packets that the link itself dropped: larger than its MTU, or to nobody.
    pub drops: u64,
}

/// What went one way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WayFigures {
    /// What the sender's device let go.
    pub sent: Passed,
    /// What the receiver's device got.
    pub arrived: Passed,
    /// Of each element in order of travel, but those of which nothing is known.
    pub elements: Vec<ElementFigures>,
}

/// Packets and their bytes of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What an element did. One that is the same in both directions counts both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ElementFigures {
    /// `link/access/up/bottleneck`.
    pub name: String,
    /// Packets that left it.
    pub packets: u64,
    /// Their bytes of IP.
    pub bytes: u64,
    /// Packets that it marked; not of a discipline of the kernel's that does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<u64>,
    /// Packets that it dropped.
    pub drops: u64,
    /// How long packets waited in its queue, on average; none of what has no queue of Narrows'
    /// own, and if none waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sojourn_mean_ms: Option<f64>,
    /// The longest of these times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sojourn_max_ms: Option<f64>,
}

/// What is so now.
pub(super) fn read(
    (hosts, links): (&[HostRecord], &[LinkRecord]),
    namespaces: &[Namespace],
    (counters, world): (&Counters, &World),
    up_s: f64,
) -> Figures {
    let devices: Vec<Vec<Device>> = namespaces.iter().map(devices_in).collect();
    let at = |host: &str, device: &str| {
        let host = hosts.iter().position(|h| h.name == host);
        let mut all = host.and_then(|i| devices.get(i)).into_iter().flatten();
        let found = all.find(|d| d.name == device);
        found.map_or((Passed::default(), Passed::default()), |d| {
            (d.received, d.sent)
        })
    };
    let known = counters.figures(world);
    let elements = |all: &[ElementRecord]| {
        let found = all.iter().filter_map(|e| known.get(&e.name));
        found.cloned().collect()
    };
    let links = links.iter().map(|link| {
        let [first, second] = [&link.ends[0], &link.ends[1]].map(|e| at(&e.host, &e.device));
        let way = |sent, arrived, all| WayFigures {
            sent,
            arrived,
            elements: elements(all),
        };
        LinkFigures {
            name: link.name.clone(),
            up: way(first.1, second.0, &link.up),
            down: way(second.1, first.0, &link.down),
            drops: counters.dropped_by_link(&link.name),
        }
    });
    let pids = hosts.iter().map(|host| HostFigures {
        name: host.name.clone(),
        pids: processes::all_in(&[host.inode]),
    });
    Figures {
        up_s,
        links: links.collect(),
        hosts: pids.collect(),
        changes: Vec::new(),
    }
}

/// What a device has counted.
#[derive(Debug, PartialEq, Eq)]
struct Device {
    name: String,
    received: Passed,
    sent: Passed,
}

fn devices_in(namespace: &Namespace) -> Vec<Device> {
    let read = || fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    // What cannot be read counts nothing.
    let text = namespace.run(read).unwrap_or_default();
    text.lines().filter_map(device).collect()
}

/// A line of `/proc/net/dev` (proc_pid_net(5)).
fn device(line: &str) -> Option<Device> {
    let (name, numbers) = line.split_once(':')?;
    let numbers: Vec<u64> = (numbers.split_whitespace())
        .map_while(|n| n.parse().ok())
        .collect();
    // Bytes and packets that were received come first, and those sent after eight numbers.
    let passed = |at: usize| {
        Some(Passed {
            bytes: *numbers.get(at)?,
            packets: *numbers.get(at + 1)?,
        })
    };
    Some(Device {
        name: name.trim().to_owned(),
        received: passed(0)?,
        sent: passed(8)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_made_at_its_time_and_replaced_by_one_of_the_same_parameters() {
        let change = |seconds, words: &str| TimedChange {
            name: None,
            at: narrows_units::Instant::ZERO + narrows_units::Duration::from_secs(seconds),
            target: "link/l/up/netem".to_owned(),
            words: words.to_owned(),
        };
        let all = [
            change(1, "delay 60ms"),
            change(2, "loss 1%"),
            change(3, "delay 20ms"),
            change(9, "loss 5%"),
        ];
        let words = |up_s| -> Vec<String> {
            let made = made(&all, up_s).into_iter();
            made.map(|change| change.words).collect()
        };
        assert_eq!(words(0.5), Vec::<String>::new());
        assert_eq!(words(2.5), ["delay 60ms", "loss 1%"]);
        assert_eq!(words(3.5), ["loss 1%", "delay 20ms"]);
    }

    #[test]
    fn bytes_and_packets_of_a_device_are_read_in_their_order() {
        let line = "nwabcde-0a: 1480 3 0 1 0 0 0 0 252 4 0 0 0 0 0 0";
        let found = device(line).expect("a device");
        assert_eq!(found.name, "nwabcde-0a");
        assert_eq!((found.received.bytes, found.received.packets), (1480, 3));
        assert_eq!((found.sent.bytes, found.sent.packets), (252, 4));
        assert_eq!(device(" face |bytes    packets errs drop fifo"), None);
    }
}
