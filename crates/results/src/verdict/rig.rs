//! The checks of the rig that a run of real stacks ran on.

use narrows_scenario::{Control, Plan};

use super::checks::Findings;
use crate::summary::RunSummary;
use narrows_engine::{FlowFacts, Rig};

/// Most time in microseconds by which 99 of 100 packets may leave the path too
/// late: two fifths of what a full packet takes at 50 Mbit/s (242 µs), so that
/// the machine's timers stay below the grain of the traffic. A loop that waits
/// by spinning keeps within a few microseconds; one that the scheduler has to
/// wake does not.
const LATENESS_P99_US: f64 = 100.0;

/// The engine whose time is virtual.
const VIRTUAL: &str = "kernel";

/// The note that such a run has.
const VIRTUAL_TIME: &str = "virtual-time";

/// Most time in microseconds by which 99 of 100 packets may leave the path too late in
/// virtual time: a twentieth of what a full packet takes at 50 Mbit/s (242 µs). Only
/// readings of the clock and system calls that fail take time there, up to a microsecond
/// each; more of them than a dozen in a row are a loop that waits.
const VIRTUAL_LATENESS_P99_US: f64 = 12.0;

/// Part of the shortest base round trip by which one packet in a thousand may
/// be late. Beyond, the machine was away so long and so often that senders
/// took it for the network.
const HOLE_SHARE: f64 = 0.25;

/// Most percent of the processors' time that the machine's host may take away.
/// Time that is taken shows as lateness where it hits the path, and shows
/// nowhere where it hits the stacks.
const STOLEN_PCT: f64 = 5.0;

/// Part by which the marks that a sender learned of may differ from those that
/// its receiver counted; the last round trip's are on their way.
const FEEDBACK_SHARE: f64 = 0.02;

/// Checks that find what the machine did to one run, and not to the next one.
const OF_THE_MOMENT: [&str; 5] = [
    "late-release",
    "processor-taken-away",
    "stolen-time",
    "ring-drops",
    "refused-packets",
];

/// Whether what `check` finds is the machine's doing, so that another try may
/// be better.
pub fn is_the_rigs(check: &str) -> bool {
    OF_THE_MOMENT.contains(&check)
}

/// Judges the rig of a run of `plan` that came to `summary`.
pub(super) fn judge(found: &mut Findings, plan: &Plan, summary: &RunSummary, rig: &Rig) {
    if summary.engine == VIRTUAL {
        virtual_time(found, rig);
    } else {
        lateness(found, summary, rig);
    }
    if let Some(stolen) = rig.stolen_pct.filter(|pct| *pct > STOLEN_PCT) {
        found.distrust(
            "stolen-time",
            "run",
            format!("the machine's host took away {stolen:.0} % of the processors' time"),
        );
    }
    if rig.ring_drops > 0 {
        found.distrust(
            "ring-drops",
            "run",
            format!(
                "{} records of congestion controls were lost",
                rig.ring_drops
            ),
        );
    }
    if rig.refused > 0 {
        found.distrust(
            "refused-packets",
            "run",
            format!(
                "{} packets that the path had carried were lost, for the kernel had no room for them",
                rig.refused
            ),
        );
    }
    for (facts, flow) in plan.flows.iter().zip(&rig.flows) {
        if let Some(tcp) = facts.transport.tcp() {
            control(found, &tcp.cc, flow);
            feedback(found, flow);
        }
    }
    for command in &rig.commands {
        if command.status.is_some_and(|status| status != 0) {
            let line = format!("{} {}", command.name, command.ended);
            found.note("command-failed", &command.name, line);
        }
        if command.ended.starts_with("could not") {
            let line = format!("{} {}", command.name, command.ended);
            found.distrust("command-missing", &command.name, line);
        }
    }
    for note in rig.all_notes() {
        found.note("rig", "run", note);
    }
}

/// What a kernel in virtual time shows and what it cannot, and whether its time did what
/// it is to.
fn virtual_time(found: &mut Findings, rig: &Rig) {
    found.note(
        VIRTUAL_TIME,
        "run",
        format!(
            "what Linux {} decides is exact; processing, scheduling and interrupts took no \
             time, so this measures no machine",
            rig.kernel
        ),
    );
    if rig.lateness.p99_us > VIRTUAL_LATENESS_P99_US {
        found.distrust(
            "late-release",
            "run",
            format!(
                "one packet in a hundred left the path more than {:.1} µs late, in virtual time, \
                 where nothing but reading the clock takes any (at most \
                 {VIRTUAL_LATENESS_P99_US} µs is trusted)",
                rig.lateness.p99_us
            ),
        );
    }
}

fn lateness(found: &mut Findings, summary: &RunSummary, rig: &Rig) {
    let late = &rig.lateness;
    if late.p99_us > LATENESS_P99_US {
        found.distrust(
            "late-release",
            "run",
            format!(
                "one packet in a hundred left the path more than {:.0} µs late (at most {LATENESS_P99_US} µs is trusted)",
                late.p99_us
            ),
        );
    }
    let base = summary.flows.iter().filter_map(|f| f.rtt_ms);
    let Some(base_us) = base.map(|d| d.min * 1e3).reduce(f64::min) else {
        return;
    };
    if late.p999_us > HOLE_SHARE * base_us {
        found.distrust(
            "processor-taken-away",
            "run",
            format!(
                "one packet in a thousand left the path more than {:.1} ms late, beside a base \
                 round trip of {:.1} ms",
                late.p999_us / 1e3,
                base_us / 1e3
            ),
        );
    } else if late.max_us > base_us {
        found.note(
            "processor-taken-away",
            "run",
            format!(
                "the machine was away once for {:.1} ms, longer than a base round trip",
                late.max_us / 1e3
            ),
        );
    }
}

/// What the names of Narrows' own controls begin with, in the kernel: `nw` and
/// five letters of the run, then `_`, the algorithm, and a number where a run
/// has several of it (`nw7k2qa_prague1`). Those that are built into a kernel have no
/// run (`nw_prague`).
const OF_RUNS: (&str, usize) = ("nw", 7);

/// Characters of a name in the kernel (`TCP_CA_NAME_MAX` less its end): an algorithm's own is
/// cut so that run and number fit (`nw7k2qa_ledbatp`).
const LONGEST_NAME: usize = 15;

/// Whether a control that the kernel calls `got` is Narrows' own `algorithm`.
fn is_own(got: &str, algorithm: &str) -> bool {
    let (beginning, letters) = OF_RUNS;
    let Some((run, name)) = got.split_once('_') else {
        return false;
    };
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_cut = got.len() == LONGEST_NAME && !name.is_empty() && algorithm.starts_with(name);
    run.starts_with(beginning)
        && (run.len() == letters || run == beginning)
        && (name == algorithm || is_cut)
}

fn control(found: &mut Findings, planned: &Control, flow: &FlowFacts) {
    let got = flow.congestion_control.as_str();
    let asked = planned.name();
    let wants_kernels = planned.kernel().is_some();
    if got.is_empty() {
        let line = format!("which congestion control {} ran is not known", flow.name);
        found.note("unknown-control", &flow.name, line);
        return;
    }
    if wants_kernels && got == asked || !wants_kernels && is_own(got, asked) {
        return;
    }
    if got == asked {
        found.note(
            "kernels-own",
            &flow.name,
            format!("{} ran the kernel's own {asked}, not Narrows'", flow.name),
        );
    } else {
        found.distrust(
            "other-control",
            &flow.name,
            format!("{} asked for {planned} and ran {got}", flow.name),
        );
    }
}

fn feedback(found: &mut Findings, flow: &FlowFacts) {
    let (Some(received), Some(delivered)) = (flow.received_ce, flow.delivered_ce) else {
        return;
    };
    let off = received.abs_diff(delivered) as f64;
    // A handful may always be under way.
    if flow.accecn && off > 10.0 && off > FEEDBACK_SHARE * received.max(delivered) as f64 {
        found.distrust(
            "lost-feedback",
            &flow.name,
            format!(
                "the receiver of {} counted {received} CE marks and its sender learned of {delivered}",
                flow.name
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controls_own_name_may_be_cut_to_what_a_kernel_takes() {
        assert!(is_own("nw7k2qa_prague", "prague"));
        assert!(is_own("nw7k2qa_prague1", "prague"));
        assert!(is_own("nw_prague", "prague"));
        assert!(is_own("nw7k2qa_ledbatp", "ledbatpp"));
        assert!(is_own("nw7k2qa_ledbat1", "ledbatpp"));
        assert!(
            !is_own("nw7k2qa_ledbat", "ledbatpp"),
            "there was room for all"
        );
        assert!(!is_own("nw7k2qa_reno", "prague"));
        assert!(!is_own("cubic", "cubic"));
    }
}
