//! Which parts of the plan's host model can be set in a kernel.

use narrows_cc::ControlSpec;
use narrows_scenario::{FlowPlan, HostIndex, HostModel, Plan};
use narrows_tcp::{PacingUse, Segmentation, SendBuffer, SmallQueues};

use crate::world::{LINUX_GSO_MAX_BYTES, most_segments};

/// Whether TCP paces the flow whatever its congestion control asks for.
pub fn paces_always(model: &HostModel) -> bool {
    matches!(model.pacing, PacingUse::Always | PacingUse::Fq)
}

/// Whether the model's host has the fq queueing discipline.
fn has_fq(flow: &FlowPlan) -> bool {
    match flow.host.pacing {
        PacingUse::Fq => true,
        PacingUse::AsAlgorithm => flow.cc.own().is_some_and(ControlSpec::wants_fq),
        PacingUse::Internal | PacingUse::Always | PacingUse::Never => false,
    }
}

/// What the model of the sender of `flow` asks for that a kernel decides by
/// itself, a sentence each. What is as the model is by default is not mentioned.
pub fn notes(plan: &Plan, flow: &FlowPlan) -> Vec<String> {
    let model = &flow.host;
    let default = HostModel::default();
    let mut notes = Vec::new();
    if model.pacing == PacingUse::Never {
        notes.push("its congestion control decides whether it is paced".to_owned());
    }
    if has_fq(flow) {
        notes.push(
            "its host has no fq queueing discipline: what TCP's own timer holds back does not \
             fill its window"
                .to_owned(),
        );
    }
    if let Segmentation::Tso {
        min_segments,
        gso_max_bytes,
    } = model.segmentation
    {
        let limited = most_segments(plan, flow.from, ETHERNET_MTU).is_some();
        if gso_max_bytes != LINUX_GSO_MAX_BYTES && !limited {
            notes.push("the kernel decides about the longest of its bursts".to_owned());
        }
        if min_segments != LINUX_MIN_TSO_SEGMENTS {
            notes.push("the kernel decides about the smallest size of its bursts".to_owned());
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
    if model.small_queues != SmallQueues::Off {
        notes.push("the kernel's own small queues hold it back".to_owned());
    }
    notes
}

/// Switches of a host's namespace (sysctl) that its flows ask for. They hold
/// for all of its flows, so they are turned if all agree.
pub fn settings(plan: &Plan, host: HostIndex) -> Vec<(&'static str, &'static str)> {
    let streams = || plan.flows.iter().filter(|f| f.is_tcp());
    let all = |mut flows: Box<dyn Iterator<Item = bool> + '_>| {
        flows.next().is_some_and(|first| first && flows.all(|f| f))
    };
    let mut settings = Vec::new();
    let sends_limited = streams()
        .filter(|f| f.from == host)
        .map(|f| matches!(f.host.send_buffer, SendBuffer::Auto { max } if max == LINUX_WMEM));
    if all(Box::new(sends_limited)) {
        settings.push(("net/ipv4/tcp_wmem", "4096 16384 4194304"));
    }
    let plain_sacks = streams()
        .filter(|f| f.to == host)
        .map(|f| !f.host.compress_sacks);
    if all(Box::new(plain_sacks)) {
        settings.push(("net/ipv4/tcp_comp_sack_nr", "0"));
    }
    settings
}

/// Bytes of a usual link's MTU: whether bursts are limited depends on no link's.
const ETHERNET_MTU: u32 = 1_500;

/// `net.ipv4.tcp_min_tso_segs`: Linux's default.
const LINUX_MIN_TSO_SEGMENTS: u32 = 2;

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
            let notes = notes(&plan, &plan.flows[0]);
            assert_eq!(
                notes.iter().any(|n| n.contains("fq")),
                noted,
                "{cc} {model}"
            );
        }
    }
}
