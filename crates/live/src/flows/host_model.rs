//! Which parts of the plan's host model can be set in a kernel.

use narrows_cc::ControlSpec;
use narrows_scenario::{FlowPlan, HostIndex, HostModel, Plan, TcpOptions, Transport};
use narrows_tcp::{
    MtuProbing, MtuProbingUse, PacingUse, ReceiveTuning, Segmentation, SendBuffer, SmallQueues,
};
use narrows_units::Duration;

use crate::world::{LINUX_GSO_MAX_BYTES, most_segments};

/// Whether TCP paces the flow whatever its congestion control asks for.
pub fn paces_always(model: &HostModel) -> bool {
    matches!(model.pacing, PacingUse::Always | PacingUse::Fq)
}

/// Whether the model's host has the fq queueing discipline.
fn has_fq(tcp: &TcpOptions) -> bool {
    match tcp.host.pacing {
        PacingUse::Fq => true,
        PacingUse::AsAlgorithm => tcp.cc.own().is_some_and(ControlSpec::wants_fq),
        PacingUse::Internal | PacingUse::Always | PacingUse::Never => false,
    }
}

/// What the model of the host `sender` of a connection with these options asks for that a
/// kernel decides by itself, a sentence each. What is as the model is by default is not
/// mentioned.
pub fn notes(plan: &Plan, sender: HostIndex, tcp: &TcpOptions) -> Vec<String> {
    let model = &tcp.host;
    let default = HostModel::default();
    let mut notes = Vec::new();
    if model.pacing == PacingUse::Never {
        notes.push("its congestion control decides whether it is paced".to_owned());
    }
    if has_fq(tcp) {
        notes.push(
            "its host has no fq queueing discipline: what TCP's own timer holds back does not \
             fill its window"
                .to_owned(),
        );
    }
    if let Segmentation::Tso {
        min_segments,
        gso_max_bytes,
        defer,
    } = model.segmentation
    {
        let limited = most_segments(plan, sender, ETHERNET_MTU).is_some();
        if gso_max_bytes != LINUX_GSO_MAX_BYTES && !limited {
            notes.push("the kernel decides about the longest of its bursts".to_owned());
        }
        if min_segments != LINUX_MIN_TSO_SEGMENTS {
            notes.push("the kernel decides about the smallest size of its bursts".to_owned());
        }
        if defer != LINUX_DEFER {
            notes.push("the kernel decides how long it waits for a larger burst".to_owned());
        }
    }
    if model.gro.is_some() {
        notes.push(
            "received segments are not coalesced: its devices take one packet at a time".to_owned(),
        );
    }
    if model.tick != default.tick {
        notes.push("the kernel's own tick rounds its timers".to_owned());
    }
    if model.mtu_probing != default.mtu_probing
        && mtu_probing(plan, sender) != Some(model.mtu_probing)
    {
        notes.push(
            "flows and applications of its host do not agree on `mtu_probing`, which is off for \
             all of them then"
                .to_owned(),
        );
    }
    if model.small_queues != SmallQueues::Off {
        notes.push("the kernel's own small queues hold it back".to_owned());
    }
    if model.receive_tuning != default.receive_tuning {
        notes.push("the kernel's release decides how its receive buffer grows".to_owned());
    }
    notes
}

/// `plan` with the hosts of its TCP flows and applications as a kernel in virtual time has them,
/// whatever the plan says: what is to be simulated where the two are held against each other.
/// `release` is what the kernel calls itself (`uname -r`).
pub fn with_hosts_in_virtual_time(plan: &Plan, release: &str) -> Plan {
    let mut fitted = plan.clone();
    let fit = |ends, transport: &mut Transport| {
        if let Transport::Tcp(tcp) = transport {
            tcp.host = in_virtual_time(plan, ends, tcp, release);
        }
    };
    for flow in &mut fitted.flows {
        fit((flow.from, flow.to), &mut flow.transport);
    }
    for app in &mut fitted.apps {
        // The server's answers are most of what they send.
        fit((app.to, app.from), &mut app.transport);
    }
    fitted
}

/// How a kernel that calls itself so grows its receive buffers; those between the two that are
/// modelled are taken for the older.
fn receive_tuning(release: &str) -> ReceiveTuning {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next()?.parse::<u32>().ok();
    match (number(), number()) {
        (Some(major), Some(minor)) if (major, minor) >= (6, 18) => ReceiveTuning::V6_18,
        _ => ReceiveTuning::V6_15,
    }
}

/// The model of the sender of connections with these options as a kernel in virtual time is one.
///
/// Towards elements of ours TCP hands down bursts, cut into segments that arrive together; its
/// devices of a link whose datapath is the kernel's take one segment at a time. No host has fq.
/// `HZ` is 1000, and the send buffer grows with the window up to [`LINUX_WMEM`].
fn in_virtual_time(
    plan: &Plan,
    (sender, receiver): (HostIndex, HostIndex),
    tcp: &TcpOptions,
    release: &str,
) -> HostModel {
    let routes = plan.routes();
    let path = routes.path(sender.0, receiver.0).unwrap_or_default();
    let first = path.first().map(|hop| &plan.links[hop.link]);
    let ours = first.is_some_and(|link| link.datapath.is_own());
    let limited = first.and_then(|link| most_segments(plan, sender, link.mtu));
    HostModel {
        segmentation: match tcp.host.segmentation {
            _ if !ours => Segmentation::OneSegment,
            Segmentation::Tso { gso_max_bytes, .. } if limited.is_some() => Segmentation::Tso {
                min_segments: LINUX_MIN_TSO_SEGMENTS,
                gso_max_bytes,
                defer: LINUX_DEFER,
            },
            _ => HostModel::TSO,
        },
        gro: None,
        tick: VIRTUAL_TICK,
        pacing: match tcp.host.pacing {
            PacingUse::Fq | PacingUse::Always => PacingUse::Always,
            PacingUse::AsAlgorithm if !has_fq(tcp) => PacingUse::AsAlgorithm,
            PacingUse::AsAlgorithm | PacingUse::Internal | PacingUse::Never => PacingUse::Internal,
        },
        compress_sacks: tcp.host.compress_sacks,
        small_queues: SmallQueues::Off,
        send_buffer: HostModel::AUTO_SEND_BUFFER,
        mtu_probing: tcp.host.mtu_probing,
        receive_tuning: receive_tuning(release),
    }
}

/// What a kernel in virtual time says of `flow`, whose longest burst had `segments`, where the
/// plan's model has none.
pub fn note_of_bursts(flow: &FlowPlan, segments: u32) -> Option<String> {
    let tcp = flow.transport.tcp();
    let by_one = tcp.is_some_and(|tcp| tcp.host.segmentation == Segmentation::OneSegment);
    (by_one && segments > 1).then(|| {
        format!(
            "its packets left in bursts of up to {segments} segments, as TCP forms them; the \
             scenario's hosts send one at a time (`segmentation = \"one\"`), and are simulated with \
             \"tso\" by `narrows compare`"
        )
    })
}

/// Switches of a host's namespace (sysctl) that its flows ask for. They hold
/// for all of its flows, so they are turned if all agree.
pub fn settings(plan: &Plan, host: HostIndex) -> Vec<(&'static str, String)> {
    let streams = || {
        plan.flows
            .iter()
            .filter_map(|f| Some((f, f.transport.tcp()?)))
    };
    let all = |mut flows: Box<dyn Iterator<Item = bool> + '_>| {
        flows.next().is_some_and(|first| first && flows.all(|f| f))
    };
    let mut settings = Vec::new();
    let sends_limited = streams().filter(|(f, _)| f.from == host).map(
        |(_, tcp)| matches!(tcp.host.send_buffer, SendBuffer::Auto { max } if max == LINUX_WMEM),
    );
    if all(Box::new(sends_limited)) {
        settings.push(("net/ipv4/tcp_wmem", "4096 16384 4194304".to_owned()));
    }
    let plain_sacks = streams()
        .filter(|(f, _)| f.to == host)
        .map(|(_, tcp)| !tcp.host.compress_sacks);
    if all(Box::new(plain_sacks)) {
        settings.push(("net/ipv4/tcp_comp_sack_nr", "0".to_owned()));
    }
    if let Some(probing) = mtu_probing(plan, host) {
        settings.extend(probing_switches(&probing));
    }
    settings
}

/// How all that `host` sends over TCP probes for the path's MTU, if it agrees: flows, and
/// applications, both of whose ends send.
fn mtu_probing(plan: &Plan, host: HostIndex) -> Option<MtuProbing> {
    let flows = plan.flows.iter().filter(|f| f.from == host);
    let apps = plan.apps.iter();
    let apps = apps.filter(|a| a.from == host || a.to == host);
    let transports = flows
        .map(|f| &f.transport)
        .chain(apps.map(|a| &a.transport));
    let mut probing = transports.filter_map(|t| Some(t.tcp()?.host.mtu_probing));
    let first = probing.next()?;
    probing.all(|other| other == first).then_some(first)
}

/// The switches of path MTU probing (Documentation/networking/ip-sysctl.rst, Linux 6.12).
fn probing_switches(probing: &MtuProbing) -> Vec<(&'static str, String)> {
    let when = match probing.when {
        MtuProbingUse::Off => return Vec::new(),
        MtuProbingUse::BlackHole => 1,
        MtuProbingUse::Always => 2,
    };
    vec![
        ("net/ipv4/tcp_mtu_probing", when.to_string()),
        ("net/ipv4/tcp_base_mss", probing.base_mss.to_string()),
        ("net/ipv4/tcp_mtu_probe_floor", probing.floor.to_string()),
        (
            "net/ipv4/tcp_probe_interval",
            (probing.interval.as_nanos() / 1_000_000_000).to_string(),
        ),
        (
            "net/ipv4/tcp_probe_threshold",
            probing.threshold.to_string(),
        ),
    ]
}

/// Bytes of a usual link's MTU: whether bursts are limited depends on no link's.
const ETHERNET_MTU: u32 = 1_500;

/// How long a newer kernel waits for a larger burst (`tcp_tso_should_defer`, v6.18).
const LINUX_DEFER: Duration = Duration::from_millis(1);

/// `net.ipv4.tcp_min_tso_segs`: Linux's default.
const LINUX_MIN_TSO_SEGMENTS: u32 = 2;

/// 1/HZ of a kernel in virtual time (the change "tick" of narrows-kernel).
const VIRTUAL_TICK: Duration = Duration::from_millis(1);

/// `tcp_wmem[2]`, 4 MiB: Linux's default, and the one size that the model's
/// words give.
const LINUX_WMEM: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_whose_model_has_fq_gets_a_note() {
        for (cc, model, noted) in [
            ("prague", "", true),
            ("prague variant 2020", "", false),
            ("cubic", "", false),
            ("cubic", "pacing = \"fq\"", true),
            ("prague", "pacing = \"internal\"", false),
        ] {
            let text = format!(
                "version = 1\nname = \"n\"\nduration = \"10s\"\n[host_model]\n{model}\n\
                 [[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\nup = [\"netem delay 10ms\"]\n\
                 [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ncc = \"{cc}\"\n"
            );
            let draft =
                narrows_scenario::Draft::read("n.toml", text.as_bytes()).expect("a scenario");
            let plan = draft.check().expect("a plan");
            let flow = &plan.flows[0];
            let notes = notes(&plan, flow.from, flow.transport.tcp().expect("TCP"));
            assert_eq!(
                notes.iter().any(|n| n.contains("fq")),
                noted,
                "{cc} {model}"
            );
        }
    }

    #[test]
    fn a_host_probes_as_all_of_its_flows_say_or_not_at_all() {
        for (other, set) in [("always floor 100", true), ("off", false)] {
            let flow = |name: &str, probing: &str| {
                format!(
                    "[[flow]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\ncc = \"cubic\"\n\
                     host_model = {{ mtu_probing = \"{probing}\" }}\n"
                )
            };
            let text = format!(
                "version = 1\nname = \"n\"\nduration = \"10s\"\n\
                 [[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\n{}{}",
                flow("f", "always floor 100"),
                flow("g", other)
            );
            let draft = narrows_scenario::Draft::read("n.toml", text.as_bytes()).expect("a file");
            let plan = draft.check().expect("a plan");
            let from = plan.flows[0].from;
            let settings = settings(&plan, from);
            let of = |name: &str| {
                let found = settings.iter().find(|(key, _)| key.ends_with(name));
                found.map(|(_, value)| value.as_str())
            };
            assert_eq!(of("tcp_mtu_probing"), set.then_some("2"));
            assert_eq!(of("tcp_mtu_probe_floor"), set.then_some("100"));
            assert_eq!(of("tcp_probe_interval"), set.then_some("600"));
            let notes = notes(&plan, from, plan.flows[0].transport.tcp().expect("TCP"));
            assert_eq!(notes.iter().any(|n| n.contains("mtu_probing")), !set);
        }
    }

    #[test]
    fn an_application_has_a_say_at_both_of_its_ends() {
        let text = "version = 1\nname = \"n\"\nduration = \"10s\"\n\
                    [[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\n\
                    [[request]]\nname = \"r\"\nfrom = \"a\"\nto = \"b\"\n\
                    host_model = { mtu_probing = \"always\" }\n";
        let draft = narrows_scenario::Draft::read("n.toml", text.as_bytes()).expect("a file");
        let plan = draft.check().expect("a plan");
        for host in [plan.apps[0].from, plan.apps[0].to] {
            let settings = settings(&plan, host);
            let probes = ("net/ipv4/tcp_mtu_probing", "2".to_owned());
            assert!(settings.contains(&probes), "{settings:?}");
        }
    }

    /// The sender's model in virtual time, over a link with this datapath and a flow of these words.
    fn in_virtual_time(datapath: &str, model: &str) -> HostModel {
        let text = format!(
            "version = 1\nname = \"n\"\nduration = \"10s\"\n[host_model]\n{model}\n\
             [[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\ndatapath = \"{datapath}\"\n\
             up = [\"netem delay 10ms\"]\n\
             [[link]]\nname = \"m\"\nends = [\"b\", \"c\"]\nup = [\"netem delay 10ms\"]\n\
             [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"c\"\ncc = \"prague\"\n\
             [[web]]\nname = \"w\"\nfrom = \"c\"\nto = \"a\"\n"
        );
        let draft = narrows_scenario::Draft::read("n.toml", text.as_bytes()).expect("a scenario");
        let plan = draft.check().expect("a plan");
        let fitted = with_hosts_in_virtual_time(&plan, "6.12.41");
        let [flow, app] = [&fitted.flows[0].transport, &fitted.apps[0].transport];
        let [flow, app] = [flow, app].map(|transport| transport.tcp().expect("TCP").host);
        assert_eq!(app.tick, flow.tick);
        assert_eq!(app.send_buffer, flow.send_buffer);
        flow
    }

    #[test]
    fn the_receive_buffer_grows_as_the_release_has_it() {
        let (old, new) = (ReceiveTuning::V6_15, ReceiveTuning::V6_18);
        for (release, expected) in [
            ("5.4.0-l4s", old),
            ("6.12.41", old),
            ("6.17", old),
            ("6.18.0-rc1", new),
            ("7.3.4-f5a2dec8cffe", new),
            ("10.0", new),
            ("", old),
        ] {
            assert_eq!(receive_tuning(release), expected, "{release}");
        }
    }

    #[test]
    fn in_virtual_time_bursts_are_as_the_first_link_takes_them_and_tcp_paces_itself() {
        let ours = in_virtual_time("narrows", "");
        assert_eq!(ours.segmentation, HostModel::TSO);
        assert_eq!(ours.pacing, PacingUse::Internal);
        assert_eq!(ours.tick, Duration::from_millis(1));
        assert_eq!(ours.send_buffer, HostModel::AUTO_SEND_BUFFER);
        let theirs = in_virtual_time("kernel", "segmentation = \"tso\"");
        assert_eq!(theirs.segmentation, Segmentation::OneSegment);
        // What a kernel can be set to is kept.
        let set = "segmentation = \"tso gso_max_bytes 15000\"\npacing = \"always\"\n\
                   compress_sacks = false";
        let limited = in_virtual_time("narrows", set);
        let words = "tso min_segments 2 gso_max_bytes 15000 defer 1ms";
        assert_eq!(narrows_scenario::host_model_words(&limited)[0].1, words);
        assert_eq!(limited.pacing, PacingUse::Always);
        assert!(!limited.compress_sacks);
    }
}
