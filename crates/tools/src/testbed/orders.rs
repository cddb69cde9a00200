//! What each machine does: files that it gets, and lists of arguments that it runs.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use narrows_scenario::Refusal;
use serde::{Deserialize, Serialize};

use super::flows;
use super::line::{Line, Role};
use super::within_box::{self, HOSTS, STUBS, namespace};

/// Where the files of a role are in its machine.
pub(super) const FOLDER: &str = "/etc/narrows/testbed";

/// The device of a machine towards the source, and that towards the sink.
pub(super) const DEVICES: [&str; 2] = ["near", "far"];

/// How much longer than its scenario a run may take, in seconds: what is under way at the end, and
/// the comparisons of clocks.
const BEYOND_S: u64 = 60;

/// What the program in a machine does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Orders {
    /// What the machine is.
    pub role: Role,
    /// Switches below `/proc/sys` and their values, after `prepare`.
    #[serde(default)]
    pub switches: BTreeMap<String, String>,
    /// Programs with their arguments, run one after the other before the machine is ready.
    #[serde(default)]
    pub prepare: Vec<Vec<String>>,
    /// A program that runs as long as the machine does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serve: Option<Vec<String>>,
    /// A program that runs during a run: until it ends, or is asked to by SIGINT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub during: Option<Vec<String>>,
    /// A program that runs at the end of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<String>>,
    /// How long a run may take, in seconds.
    pub longest_s: u64,
}

/// A machine of a testbed: what is written into its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// What it does.
    pub orders: Orders,
    /// Files with their texts, by names below the folder of its role.
    pub files: Vec<(String, String)>,
}

impl Machine {
    /// The four machines of a line, in the order from source to sink, and what of the scenario they
    /// do not run, a sentence each.
    ///
    /// # Errors
    /// When no flow of the scenario can be run, or a file is outside of the scenario's folder.
    pub fn all(line: &Line) -> Result<(Vec<Self>, Vec<String>), Refusal> {
        let flows = flows::of(line)?;
        let machines = line.places.iter().map(|place| match place.role {
            Role::Source => Ok(source(line, &flows.controls)),
            Role::Box => inline(line),
            Role::Observer => Ok(observer(line)),
            Role::Sink => Ok(sink(line, &flows.files)),
        });
        Ok((machines.collect::<Result<_, Refusal>>()?, flows.left_out))
    }

    /// Its role.
    pub fn role(&self) -> Role {
        self.orders.role
    }
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

fn path(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

/// The file of lines for `ip -batch` (ip(8)).
const BATCH: &str = "network.batch";

fn orders(line: &Line, role: Role) -> Orders {
    Orders {
        role,
        switches: BTreeMap::new(),
        prepare: vec![words(["ip", "-batch", &path(BATCH)])],
        serve: None,
        during: None,
        after: None,
        longest_s: longest_s(line),
    }
}

/// How long a run may take, in seconds.
pub(super) fn longest_s(line: &Line) -> u64 {
    line.plan.duration.as_nanos().div_ceil(1_000_000_000) + BEYOND_S
}

/// The switch that says which controls a user without rights may choose (tcp(7)): what serves flows
/// is nobody.
const CONTROLS: &str = "net/ipv4/tcp_allowed_congestion_control";

fn source(line: &Line, controls: &[String]) -> Machine {
    let mut orders = orders(line, Role::Source);
    for control in controls.iter().filter(|control| *control != "reno") {
        let module = format!("tcp_{control}");
        orders.prepare.push(words(["modprobe", &module]));
    }
    let mut allowed = controls.to_vec();
    if !controls.iter().any(|control| control == "reno") {
        allowed.push("reno".to_owned());
    }
    orders
        .switches
        .insert(CONTROLS.to_owned(), allowed.join(" "));
    let own = line.address(Role::Source).to_string();
    let token = path("traffic.token");
    orders.serve = Some(words([
        "narrows", "traffic", "serve", &own, "--token", &token,
    ]));
    Machine {
        files: vec![(BATCH.to_owned(), addresses_and_routes(line, Role::Source))],
        orders,
    }
}

fn sink(line: &Line, flows: &[(String, String)]) -> Machine {
    let mut orders = orders(line, Role::Sink);
    let server = line.address(Role::Source).to_string();
    orders.during = Some(words([
        "narrows",
        "traffic",
        "run",
        &path("flows"),
        "--server",
        &server,
        "--token",
        &path("traffic.token"),
        "--format",
        "json",
    ]));
    let mut files = vec![(BATCH.to_owned(), addresses_and_routes(line, Role::Sink))];
    files.extend(
        flows
            .iter()
            .map(|(name, text)| (format!("flows/{name}"), text.clone())),
    );
    Machine { orders, files }
}

fn observer(line: &Line) -> Machine {
    let mut orders = orders(line, Role::Observer);
    for (switch, value) in [
        ("net/ipv4/ip_forward", "1"),
        ("net/ipv4/conf/all/send_redirects", "0"),
    ] {
        orders.switches.insert(switch.to_owned(), value.to_owned());
    }
    orders.during = Some(words([
        "narrows",
        "observe",
        "-i",
        DEVICES[0],
        "--rows",
        "estimates",
        "--format",
        "json",
    ]));
    Machine {
        files: vec![(BATCH.to_owned(), addresses_and_routes(line, Role::Observer))],
        orders,
    }
}

fn inline(line: &Line) -> Result<Machine, Refusal> {
    let (scenario, mut files) = within_box::scenario(line)?;
    let mut orders = orders(line, Role::Box);
    let file = path("box.toml");
    let up = words(["narrows", "up", &file, "--name", within_box::TOPOLOGY]);
    orders.prepare.insert(0, up);
    files.insert(0, ("box.toml".to_owned(), scenario));
    let devices = [(DEVICES[0], HOSTS[0]), (DEVICES[1], HOSTS[2])];
    let moves =
        devices.map(|(device, host)| format!("link set dev {device} netns {}\n", namespace(host)));
    files.push((BATCH.to_owned(), moves.concat()));
    for (host, text) in HOSTS.iter().zip(within_namespaces(line)) {
        let name = format!("{host}.batch");
        let enter = words(["ip", "-netns", &namespace(host), "-batch", &path(&name)]);
        orders.prepare.push(enter);
        files.push((name, text));
    }
    let status = words([
        "narrows",
        "status",
        within_box::TOPOLOGY,
        "--format",
        "json",
    ]);
    orders.after = Some(status);
    Ok(Machine { orders, files })
}

/// Routes to `others`, the next of them first, by the device towards it.
fn routes_by(device: &str, others: &[Ipv4Addr], source: Option<Ipv4Addr>) -> String {
    let source = source.map(|own| format!(" src {own}")).unwrap_or_default();
    let next = others.first();
    let route = |other: &Ipv4Addr| match next.filter(|next| *next != other) {
        None => format!("route replace {other}/32 dev {device} scope link{source}\n"),
        Some(next) => {
            format!("route replace {other}/32 via {next} dev {device} onlink{source}\n")
        }
    };
    others.iter().map(route).collect()
}

/// Those before a place in the line, the nearest first, and those behind it.
fn on_both_sides(line: &Line, at: usize) -> [Vec<Ipv4Addr>; 2] {
    let address = |i: usize| line.places[i].address;
    [
        (0..at).rev().map(address).collect(),
        (at + 1..line.places.len()).map(address).collect(),
    ]
}

/// Lines of a machine that has its address on each device.
fn addresses_and_routes(line: &Line, role: Role) -> String {
    let own = line.address(role);
    let sides = on_both_sides(line, line.index(role));
    let used = DEVICES
        .iter()
        .zip(sides)
        .filter(|(_, others)| !others.is_empty());
    let lines = used.map(|(device, others)| {
        let routes = routes_by(device, &others, Some(own));
        format!("link set dev {device} up\naddress replace {own}/32 dev {device}\n{routes}")
    });
    lines.collect()
}

/// Lines of the three namespaces of the box, which has its address where a device is.
fn within_namespaces(line: &Line) -> [String; 3] {
    let own = line.places[line.at_box].address;
    let [before, behind] = on_both_sides(line, line.at_box);
    let beyond = |stub: Ipv4Addr, others: &[Ipv4Addr]| -> String {
        let route = |other: &Ipv4Addr| format!("route replace {other}/32 via {stub}\n");
        others.iter().map(route).collect()
    };
    let outside = |device: &str, others: &[Ipv4Addr]| {
        let routes = routes_by(device, others, None);
        format!("link set dev {device} up\naddress replace {own}/32 dev {device}\n{routes}")
    };
    [
        outside(DEVICES[0], &before) + &beyond(STUBS[1], &behind),
        beyond(STUBS[0], &before) + &beyond(STUBS[2], &behind),
        outside(DEVICES[1], &behind) + &beyond(STUBS[1], &before),
    ]
}
