//! A scenario's file.

use std::net::{Ipv4Addr, Ipv6Addr};

use narrows_pep::{FirstData, Layout};
use narrows_units::{Bytes, Duration, Rate, Value, WordError};
use narrows_wire::efm::Profile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::app::App;
use super::flent::Test;
use super::leaf::{
    Besides, Choices, Element, Grammar, Name, OneOf, Scalar, Spelled, Whole, Words, grammar,
};
use super::mix::Mix;
use super::place::{At, More, Optional, Required};
use crate::metrics::TECHNIQUES;
use crate::parts::{
    Control, Dscp, EcnMode, EcnWord, ElementSpec, Gro, MtuProbing, PacingUse, ReceiveTuning,
    Segmentation, SendBuffer, SignalSpec, SmallQueues, Traffic,
};
use crate::plan::{Datapath, LARGEST_SEED, Window};
use crate::transport::{SpinUse, TransportName};

/// One run.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// The version of the format: 1.
    pub(crate) version: Required<Whole<1, 1>>,
    /// `scenario`, which is also what a file is that does not say.
    pub(crate) kind: Optional<ScenarioKind>,
    /// What it is called in results.
    pub(crate) name: Required<String>,
    /// What it shows, in a line.
    pub(crate) title: Optional<String>,
    /// What it is, in a paragraph.
    pub(crate) about: Optional<String>,
    /// Where it comes from.
    pub(crate) source: Optional<String>,
    /// How long it lasts: `60s`.
    pub(crate) duration: Required<Spelled<Duration>>,
    /// The steady window, `10s..58s`; the last two thirds by default.
    pub(crate) measure: Optional<Spelled<Window>>,
    /// Further windows that flows are measured in.
    #[serde(default)]
    pub(crate) window: Vec<At<NamedWindow>>,
    /// The seed of all randomness; 1 by default.
    pub(crate) seed: Optional<Whole<0, LARGEST_SEED>>,
    /// How often flows and queues are sampled; `50ms` by default.
    pub(crate) sample_interval: Optional<Spelled<Duration>>,
    /// Whether each flow that gives no `start` begins at a random time within a
    /// round trip, as the seed has it; `true` by default.
    pub(crate) start_offset: Optional<bool>,
    /// Findings of the verdict that the experiment is about and that do not speak
    /// against a run, such as `idle-bottleneck` where loss is to limit flows.
    #[serde(default)]
    pub(crate) expected: More<OneOf<Finding>>,
    /// How hosts treat the segments of every flow.
    pub(crate) host_model: Optional<HostModel>,
    /// Hosts about which there is more to say than their name.
    #[serde(default)]
    pub(crate) host: Vec<At<Host>>,
    /// Hosts that only forward.
    #[serde(default)]
    pub(crate) router: Vec<At<Host>>,
    /// Links between hosts.
    #[serde(default)]
    #[schemars(required, length(min = 1))]
    pub(crate) link: Vec<At<Link>>,
    /// Proxies between the ends of flows.
    #[serde(default)]
    pub(crate) proxy: Vec<At<Proxy>>,
    /// Flows.
    #[serde(default)]
    pub(crate) flow: Vec<At<Flow>>,
    /// One of Flent's tests: its flows and probes, beside those that are written.
    pub(crate) test: Optional<Test>,
    /// Traffic mixes: their flows and clients, beside those that are written.
    #[serde(default)]
    pub(crate) mix: Vec<At<Mix>>,
    /// Measurement signals in the packets of flows.
    #[serde(default)]
    pub(crate) mark: Vec<At<Mark>>,
    /// Applications that are named by their kind.
    #[serde(default)]
    pub(crate) app: Vec<At<App>>,
    /// Latency probes.
    #[serde(default)]
    pub(crate) probe: Vec<At<Probe>>,
    /// Programs that run in hosts, by the live engine alone.
    #[serde(default)]
    pub(crate) command: Vec<At<Command>>,
    /// Observers of measurement signals.
    #[serde(default)]
    pub(crate) observe: Vec<At<Observe>>,
    /// Packet captures.
    #[serde(default)]
    pub(crate) capture: Vec<At<Capture>>,
    /// Changes of elements in mid-run.
    #[serde(default)]
    pub(crate) change: Vec<At<Change>>,
}

/// A stretch of the run that flows are measured in, beside the steady window.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamedWindow {
    /// Its name.
    pub(crate) name: Required<Name>,
    /// From when to when: `100s..355s`.
    pub(crate) over: Required<Spelled<Window>>,
}

/// A host or a router.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Host {
    /// Its name, as links and flows use it.
    pub(crate) name: Required<Name>,
    /// Its IPv4 address.
    pub(crate) ipv4: Optional<Spelled<Address<Ipv4Addr>>>,
    /// Its IPv6 address.
    pub(crate) ipv6: Optional<Spelled<Address<Ipv6Addr>>>,
    /// Of a router: what it is in words, if its ports are more than where links begin:
    /// `switch buffer 1mb rate 1Gbit queue dualpi2`.
    pub(crate) is: Optional<Words<Node>>,
}

/// What a router is.
#[derive(Clone, Debug)]
pub(crate) struct Node(pub(crate) ElementSpec);

/// A link between two hosts.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Link {
    /// Its name. A scenario's only link may do without: it is then called `access`.
    pub(crate) name: Optional<Name>,
    /// The two hosts; `up` runs from the first to the second.
    #[schemars(with = "[Name; 2]")]
    pub(crate) ends: Required<More<String>>,
    /// The largest IP packet in bytes; 1500 by default.
    // Room for an IPv4 and a TCP header with all options and a little payload, and
    // the longest IP packet. Smaller than the 576 bytes that every host must take
    // (RFC 791), as measurements of small segments are.
    pub(crate) mtu: Optional<Whole<128, 65_535>>,
    /// `narrows` (the default): Narrows' own elements; `kernel`: in a live run
    /// the kernel's queueing disciplines of the same names.
    pub(crate) datapath: Optional<Datapath>,
    /// Elements from the first end to the second, in order of travel, each
    /// `words` or `name: words`: `netem delay 10ms`, `bottleneck: rate 50Mbit
    /// queue dualpi2`, `tap mid`, `remark …`, `by dscp …`, `police …`.
    #[serde(default)]
    pub(crate) up: More<Element>,
    /// Elements from the second end to the first.
    #[serde(default)]
    pub(crate) down: More<Element>,
}

/// A connection and what is sent over it.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Flow {
    /// Its name.
    pub(crate) name: Required<Name>,
    /// Who sends the data.
    pub(crate) from: Required<String>,
    /// Who gets it.
    pub(crate) to: Required<String>,
    /// Who opens the connection; `from` by default.
    pub(crate) opens: Optional<String>,
    /// The congestion control in words: `cubic`, `prague variant 2020`,
    /// `kernel:bbr`, `quic:cubic`.
    pub(crate) cc: Optional<Words<Control>>,
    /// `tcp` or `quic`; what `cc` is made for by default. Or a modelled flow in
    /// words, `quic-model signals s+vec window 64`, `plus rate 20Mbit`.
    pub(crate) transport: Optional<Words<TransportName>>,
    /// The spin bit of a flow over QUIC: `seed` (the default: each end
    /// switches it off by chance), `on` or `greased`.
    pub(crate) spin: Optional<Words<SpinUse>>,
    /// What the handshake asks for; what `cc` needs by default. `off`, `classic`
    /// (RFC 3168) or `accecn` (RFC 9768); `true` is the plainest that serves `cc`.
    pub(crate) ecn: Optional<Words<EcnRequest>>,
    /// The code point, 0 to 63 or by name.
    pub(crate) dscp: Optional<Words<Dscp>>,
    /// When it starts; `0s` by default.
    pub(crate) start: Optional<Spelled<Duration>>,
    /// When it stops; at the end by default.
    pub(crate) stop: Optional<Spelled<Duration>>,
    /// How much it sends: 1000000 or `10Mb`. Not beside `traffic`.
    pub(crate) bytes: Optional<Words<SizeInBytes>>,
    /// What it sends in words: `bulk` (the default), `bytes 10Mb`, `cbr rate
    /// 1Mbit`, `poisson rate 10Mbit`.
    pub(crate) traffic: Optional<Words<Traffic>>,
    /// 4 (the default) or 6.
    #[schemars(extend("enum" = [4, 6]))]
    pub(crate) ip: Optional<Whole<4, 6>>,
    /// Whether data goes with the SYN.
    pub(crate) fast_open: Optional<bool>,
    /// The proxy that it goes by; `none` (the default) for none.
    pub(crate) via: Optional<String>,
    /// When its data follows the request to the proxy: `with-request`,
    /// `after-handshake` (the default) or `after-answer`.
    pub(crate) first_data: Optional<Spelled<FirstData>>,
    /// Measurement signals in its packets, in words: `d+q`, `s spin naive`.
    pub(crate) mark: Optional<Words<SignalSpec>>,
    /// How the two hosts treat this flow's segments.
    pub(crate) host_model: Optional<HostModel>,
}

/// A proxy that ends connections of flows, and opens others in their place. Its near leg
/// leads to who opens a flow, its far leg to the other end.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Proxy {
    /// Its name.
    pub(crate) name: Required<Name>,
    /// The host or router that it runs on.
    pub(crate) host: Required<String>,
    /// How it is asked: `rfc8803` (the default) or `thesis`.
    pub(crate) layout: Optional<Spelled<Layout>>,
    /// Whether data may go with the SYN to a destination.
    pub(crate) fast_open: Optional<bool>,
    /// The congestion control of what it sends on the near leg; `cubic` by default.
    pub(crate) near_cc: Optional<Words<Control>>,
    /// The same of the far leg.
    pub(crate) far_cc: Optional<Words<Control>>,
    /// The largest receive window on the near leg, in bytes: 1000000 or `75Mb`.
    pub(crate) near_window: Optional<Words<SizeInBytes>>,
    /// The same on the far leg.
    pub(crate) far_window: Optional<Words<SizeInBytes>>,
    /// How much may wait in the send buffer of the near leg without having been sent
    /// (`TCP_NOTSENT_LOWAT`).
    pub(crate) near_unsent: Optional<Words<SizeInBytes>>,
    /// The same of the far leg.
    pub(crate) far_unsent: Optional<Words<SizeInBytes>>,
    /// How much waits in the proxy in each direction of a flow at most; `128Mb` by default.
    pub(crate) backlog: Optional<Words<SizeInBytes>>,
    /// How much waits in it at most; 32 times 128 MiB by default.
    pub(crate) budget: Optional<Words<SizeInBytes>>,
    /// The peak rate of the leg that it stands beside, from which windows, low-water marks
    /// and backlog are reckoned where they are not given: `70Mbit`.
    pub(crate) capacity: Optional<Spelled<Rate>>,
    /// The element whose rate the proxy is given, and shares among the connections that it sends
    /// on to clients: `link/access/down/bottleneck`. Takes `near_cc = "quickstart"`.
    pub(crate) near_hint: Optional<String>,
    /// The same of the connections to destinations; takes `far_cc = "quickstart"`.
    pub(crate) far_hint: Optional<String>,
}

/// Measurement signals in the TCP headers of flows.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mark {
    /// Its name.
    pub(crate) name: Required<Name>,
    /// The signals and their rules in words: `d+q`, `s spin naive`, `d delay
    /// thesis tmax 225ms`.
    pub(crate) signals: Required<Words<SignalSpec>>,
    /// The flows; all over TCP by default.
    pub(crate) flows: Optional<More<String>>,
    /// The hosts that put them there; both ends of the flows by default.
    pub(crate) hosts: Optional<More<String>>,
}

/// How a host treats segments.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostModel {
    /// `one` (offloads off, the default) or `tso [min_segments N]
    /// [gso_max_bytes N] [defer TIME]`.
    pub(crate) segmentation: Optional<Words<Segmentation>>,
    /// Receive-side coalescing: `false` (the default), `true`, or `hold 50us
    /// max_segments 17`.
    pub(crate) gro: Optional<Words<Gros>>,
    /// The timer tick; `4ms` by default, `0s` for exact timers.
    pub(crate) tick: Optional<Spelled<Duration>>,
    /// `as-algorithm` (the default), `internal`, `fq`, `always` or `never`.
    pub(crate) pacing: Optional<Words<PacingUse>>,
    /// Whether SACKs are compressed under loss; true by default.
    pub(crate) compress_sacks: Optional<bool>,
    /// `off` (the default) or `unreported [segment_bytes N]`.
    pub(crate) small_queues: Optional<Words<SmallQueues>>,
    /// `unlimited` (the default) or `auto [max BYTES]`.
    pub(crate) send_buffer: Optional<Words<SendBuffer>>,
    /// `off` (the default), or `black-hole` or `always`, then `[base_mss BYTES] [floor BYTES]
    /// [interval TIME] [threshold BYTES]`.
    pub(crate) mtu_probing: Optional<Words<MtuProbing>>,
    /// `v6.15` (the default) or `v6.18`.
    pub(crate) receive_tuning: Optional<Words<ReceiveTuning>>,
}

/// A latency probe.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Probe {
    /// Its name.
    pub(crate) name: Required<Name>,
    /// Who asks.
    pub(crate) from: Required<String>,
    /// Who answers.
    pub(crate) to: Required<String>,
    /// Time between questions; `100ms` by default.
    pub(crate) interval: Optional<Spelled<Duration>>,
    /// Length of the IP packet in bytes; 84 by default.
    // At least an IPv6 and a UDP header with 12 bytes for number and time.
    pub(crate) size: Optional<Whole<60, 65_535>>,
    /// The code point, 0 to 63 or by name.
    pub(crate) dscp: Optional<Words<Dscp>>,
    /// `not-ect` (the default), `ect0`, `ect1` or `ce`.
    pub(crate) ecn: Optional<Spelled<EcnWord>>,
    /// When it starts; `0s` by default.
    pub(crate) start: Optional<Spelled<Duration>>,
    /// When it stops; at the end by default.
    pub(crate) stop: Optional<Spelled<Duration>>,
}

/// A program that runs in a host.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Command {
    /// Its name, and that of the files with its output.
    pub(crate) name: Required<Name>,
    /// The host that it runs in.
    pub(crate) host: Required<String>,
    /// The program and its arguments. `{server}` is replaced by the IPv4 address
    /// of the host `server`, `{server/ipv6}` for its IPv6 address, `{{` and
    /// `}}` for a brace.
    #[schemars(with = "More<String>")]
    pub(crate) run: Required<More<Scalar>>,
    /// When it is started; `0s` by default.
    pub(crate) start: Optional<Spelled<Duration>>,
    /// When it is ended if it has not ended by itself; at the end by default.
    pub(crate) stop: Optional<Spelled<Duration>>,
}

/// An observer at a tap; its samples are held against what happened.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Observe {
    /// Its name.
    pub(crate) name: Required<Name>,
    /// `tap/<name>`.
    pub(crate) tap: Required<String>,
    /// The window that its figures are of, `0s..60s`; the steady one by default.
    pub(crate) measure: Optional<Spelled<Window>>,
    /// `rfc` (the default) or `thesis`.
    pub(crate) mode: Optional<Mode>,
    /// The profile of all flows, for those that no handshake announces: `s+t`.
    pub(crate) profile: Optional<Spelled<Profile>>,
    /// Whether the responder's answer decides on the profile.
    pub(crate) negotiated: Optional<bool>,
    /// T_Max of the delay bit, if it is not to be learnt: `225ms`.
    pub(crate) t_max: Optional<Spelled<Duration>>,
    /// Packets in a Q block, if not to be learnt.
    pub(crate) block: Optional<Whole<4, { 1 << 20 }>>,
    /// Packets that make a change of Q or R, if not to be learnt.
    pub(crate) reordering: Optional<Whole<1, { 1 << 19 }>>,
    /// The techniques of which samples are kept, such as `delay`; all by
    /// default.
    #[serde(default)]
    pub(crate) techniques: More<OneOf<Technique>>,
}

/// By whose rules an observer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// RFC 9506.
    Rfc,
    /// The observer of Guarna's thesis (2024).
    Thesis,
}

/// A packet capture.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Capture {
    /// Its name, and that of its file.
    pub(crate) name: Required<Name>,
    /// `tap/<name>` or `host/<name>`.
    pub(crate) at: Required<String>,
    /// How many bytes of each packet are kept; 128 by default.
    pub(crate) snaplen: Optional<Whole<20, 262_144>>,
}

/// A change of an element in mid-run.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    /// Its name, by which it can be set.
    pub(crate) name: Optional<Name>,
    /// When: `30s`.
    pub(crate) at: Required<Spelled<Duration>>,
    /// The element's full name, `link/access/up/bottleneck`.
    pub(crate) target: Required<String>,
    /// Its new parameters in its own words: `rate 10Mbit`.
    pub(crate) to: Required<String>,
}

/// What the path may do to flows that an experiment can be about. What a machine does
/// to a run, and a run that did not come to its end, is never expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {}

impl Choices for Finding {
    const WORDS: &'static [&'static str] = &[
        "broke-off",
        "codepoint-changed",
        "ecn-negotiation",
        "failures",
        "idle-bottleneck",
        "mtu-black-hole",
        "never-started",
        "not-carried",
        "nothing-delivered",
        "out-of-ports",
        "sender-limited",
        "short-window",
        "starved",
        "unanswered",
        "wrong-bottleneck",
        "wrong-limit",
    ];
}

/// What a scenario's file is.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ScenarioKind {
    Scenario,
}

/// What an observer measures by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Technique {}

impl Choices for Technique {
    const WORDS: &'static [&'static str] = &TECHNIQUES;
}

/// The address of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address<A>(pub(crate) A);

macro_rules! address {
    ($($type:ty, $allowed:literal;)*) => {$(
        impl Value for Address<$type> {
            const ALLOWED: &'static str = $allowed;

            fn parse(word: &str) -> Option<Self> {
                let address: $type = word.parse().ok()?;
                let of_a_host = !address.is_multicast() && !address.is_unspecified();
                of_a_host.then_some(Self(address))
            }
        }
    )*};
}

address! {
    Ipv4Addr, "an IPv4 address of a host";
    Ipv6Addr, "an IPv6 address of a host";
}

impl<A: std::fmt::Display> std::fmt::Display for Address<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// ECN as a file asks for it: on, whichever serves the control, or a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EcnRequest {
    On,
    Mode(EcnMode),
}

/// A number of bytes above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeInBytes(pub(crate) u64);

/// Receive-side coalescing, if there is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gros(pub(crate) Option<Gro>);

/// The error for a line of words that means nothing.
pub(crate) fn no_such(line: &str, allowed: &str) -> WordError {
    WordError::new(
        0..line.len(),
        format!("`{}`", crate::tree::clipped(line)),
        allowed,
    )
}

impl Grammar for EcnRequest {
    const ALLOWED: &'static str = "`true`, `false`, \"classic\", \"accecn\" or \"off\"";
    const BESIDES: Besides = Besides::Flag;

    fn read(line: &str) -> Result<Self, WordError> {
        Ok(match line {
            "true" | "on" => Self::On,
            "false" | "off" => Self::Mode(EcnMode::Off),
            "classic" => Self::Mode(EcnMode::Classic),
            "accecn" => Self::Mode(EcnMode::AccEcn),
            _ => return Err(no_such(line, Self::ALLOWED)),
        })
    }

    fn pattern() -> Option<String> {
        Some("^(true|on|false|off|classic|accecn)$".to_owned())
    }
}

impl Grammar for SizeInBytes {
    const ALLOWED: &'static str = "a size above zero, such as 1000000, \"64kb\", \"32Mb\"";
    const BESIDES: Besides = Besides::Number;

    fn read(line: &str) -> Result<Self, WordError> {
        let bytes = Bytes::parse(line)
            .map(Bytes::get)
            .filter(|bytes| *bytes > 0);
        bytes.map(Self).ok_or_else(|| no_such(line, Self::ALLOWED))
    }
}

impl Grammar for Node {
    const ALLOWED: &'static str =
        "`switch …`, `cell …` or `wifi ap …`, such as \"switch buffer 1mb rate 1Gbit\"";

    fn read(line: &str) -> Result<Self, WordError> {
        let first = line.len() - line.trim_start().len();
        let spec =
            ElementSpec::parse_node(line).map_err(|error| match error.span.start <= first {
                true => no_such(line, Self::ALLOWED),
                false => error,
            })?;
        match spec.facts().node {
            true => Ok(Self(spec)),
            false => {
                Err(no_such(line, Self::ALLOWED).with_help("all other elements stand in links"))
            }
        }
    }
}

impl Grammar for Dscp {
    const ALLOWED: &'static str = <Self as Value>::ALLOWED;
    const BESIDES: Besides = Besides::Number;

    fn read(line: &str) -> Result<Self, WordError> {
        Self::parse(line).ok_or_else(|| no_such(line, <Self as Value>::ALLOWED))
    }
}

grammar!(
    Control,
    "a congestion control in words",
    pattern format!(
        r"^\s*(({})(\s|$)|kernel:[a-z0-9_]{{1,15}}\s*$|quic:({})\s*$)",
        narrows_cc::names().join("|"),
        narrows_quic::QuicControl::ALL.map(|control| control.name()).join("|")
    )
);
grammar!(Traffic, "traffic in words");
grammar!(
    SignalSpec,
    "signals in words, such as \"d+q\" or \"s spin naive\""
);
