//! A live run, from a plan to nothing left of it.

use std::fs;
use std::os::fd::AsFd;
use std::time::Instant;

use narrows_core::EventSink;
use narrows_engine::{DisciplineFacts, Ended, Rig};
use narrows_linux::is_virtual_time;
use narrows_scenario::{HostIndex, LinkIndex, Plan, Transport};
use narrows_units::Duration;

use crate::bursts::Bursts;
use crate::controls::Controls;
use crate::datapath::Datapath;
use crate::disciplines::{Counted, KernelQueue, Timers, Watching, translate};
use crate::flows::{Commands, Flows, note_of_bursts};
use crate::signals::RunSignals;
use crate::steal_time::Ticks;
use crate::{Clock, LiveError, RunHandle, RunId, World, reports};

/// From the moment at which all is built to the epoch of the run: time for
/// threads and sockets of flows to be there when it begins.
const LEAD: Duration = Duration::from_millis(250);

/// The same for each flow, application, probe and command.
const LEAD_OF_EACH: Duration = Duration::from_micros(500);

/// Runs `plan` on this machine and hands every event to `sink`. Randomness of
/// paths, of the flows' starts, and of QUIC's use of the spin bit, comes from `seed`;
/// stacks and schedulers have their own.
///
/// Nothing of the run is left when this returns, in whatever way.
///
/// # Errors
/// One line: what this machine, the kernel or this user cannot do, or what
/// failed in mid-run.
pub fn run(
    plan: &Plan,
    seed: u64,
    sink: &mut dyn EventSink,
    handle: &RunHandle<'_>,
) -> Result<Ended, LiveError> {
    let called = Instant::now();
    let ticks = Ticks::read();
    let plan = &plan.for_seed(seed);
    check_modelled(plan)?;
    Commands::check(plan)?;
    check_kernel_links(plan)?;
    let world = World::build(plan, &RunId::random())?;
    let mut controls = Controls::load(plan, &world)?;
    let signals = RunSignals::attach(plan, &world)?;
    let bursts = Bursts::attach(plan, &world);
    let mut path = match world.timed() {
        Some((timed, ports)) => Datapath::of_timed_links(plan, seed, (timed.socket(), &ports))?,
        None => {
            let devices: Vec<_> = (0..plan.links.len())
                .map(|l| world.own(LinkIndex(l)))
                .map(|own| own.map(|(first, second)| (first.as_fd(), second.as_fd())))
                .collect();
            Datapath::of_own_links(plan, seed, &devices)?
        }
    };

    let each = plan.flows.len() + plan.apps.len() + plan.probes.len() + plan.commands.len();
    let clock = Clock::starting_in(LEAD + LEAD_OF_EACH * each as u64);
    let (reporter, reports) = reports(plan.flows.len());
    let host = |index: HostIndex| world.namespace(index).clone();
    let setup = Flows::set_up(plan, seed, &clock)?;
    let mut flows = Flows::start(
        plan,
        setup,
        &host,
        &|socket, control| controls.name(socket, control),
        &controls.options()?,
        clock,
        &reporter,
    )?;
    let commands = Commands::start(plan, &host, clock, handle.keep)?;
    let records = controls.read_records(plan, clock, reporter)?;
    let mut notes = controls.notes.clone();
    let late = clock.now();
    if late > narrows_units::Instant::ZERO {
        notes.push(format!(
            "the flows were ready {} after the run had begun",
            late.since(narrows_units::Instant::ZERO)
        ));
    }
    let until_epoch = clock.until_epoch();
    let set_up_s = called.elapsed().as_secs_f64() + until_epoch.as_secs_f64();

    let counting = Watching::start(world.disciplines(), clock, plan.measure)?;

    let driven = path.drive(&clock, &reports, sink, handle);
    let ended = Instant::now();
    let mut flow_facts = flows.stop();
    bursts.add_to(plan, &mut flow_facts);
    if is_virtual_time() {
        for (flow, facts) in plan.flows.iter().zip(&mut flow_facts) {
            facts.notes.extend(note_of_bursts(flow, facts.gso_max_segs));
        }
    }
    let command_facts = commands.stop();
    let driven = driven?;
    let passed_on = path.pass_on_rest(&reports, driven.reached, sink);
    if driven.refused > 0 {
        notes.push(format!(
            "{} packets that had passed a path were refused by the stack behind it",
            driven.refused
        ));
    }
    let counted = counting.stop()?;
    let disciplines = discipline_facts(plan, &world.disciplines(), counted);
    notes.extend(full_devices(plan, &world));
    notes.extend(kernel_links(plan));
    let signal_counters = signals.counters(&mut notes);
    let ring_drops = records.stop()?;
    drop(path);
    drop(flows);
    drop(controls);
    drop(signals);
    bursts.detach();
    drop(world);
    for facts in &mut flow_facts {
        facts.name = format!("flow/{}", facts.name);
    }
    Ok(Ended {
        events: driven.events + passed_on,
        packets: driven.packets,
        virtual_time: driven.reached.since(narrows_units::Instant::ZERO),
        interrupted: driven.interrupted,
        signals: signal_counters,
        amended: None,
        rig: Some(Rig {
            kernel: kernel_release(),
            lateness: driven.lateness,
            ring_drops,
            refused: driven.refused,
            stolen_pct: ticks
                .zip(Ticks::read())
                .and_then(|(before, after)| after.steal_since(before)),
            set_up_s,
            tear_down_s: ended.elapsed().as_secs_f64(),
            notes,
            flows: flow_facts,
            disciplines,
            commands: command_facts,
        }),
    })
}

/// Refuses what the kernel has not got of a link whose datapath is the kernel's: changes in
/// mid-run, and elements that are no discipline.
pub(crate) fn check_kernel_links(plan: &Plan) -> Result<(), LiveError> {
    for link in plan.links.iter().filter(|l| !l.datapath.is_own()) {
        let refuse = |what| LiveError::NotInTheKernel {
            link: link.name.clone(),
            what,
        };
        let of_link = |name: &str| link.up.iter().chain(&link.down).any(|e| e.name == name);
        if plan.changes.iter().any(|change| of_link(&change.target)) {
            return Err(refuse("nothing changes in mid-run"));
        }
        for element in link.up.iter().chain(&link.down) {
            translate(&element.spec, link.mtu, Timers::here()).map_err(|reason| {
                LiveError::NoDiscipline {
                    element: element.name.clone(),
                    reason,
                }
            })?;
        }
    }
    Ok(())
}

/// A sentence for each link on which the truth about packets is not known.
fn kernel_links(plan: &Plan) -> impl Iterator<Item = String> {
    let theirs = plan.links.iter().filter(|l| !l.datapath.is_own());
    theirs.map(|link| {
        format!(
            "link/{}: its datapath is the kernel's, which does not report how long packets waited \
             nor what became of which",
            link.name
        )
    })
}

fn discipline_facts(
    plan: &Plan,
    places: &[KernelQueue],
    counted: Vec<Counted>,
) -> Vec<DisciplineFacts> {
    let window = plan.measure.length().as_secs_f64();
    let facts = |(place, counted): (&KernelQueue, Counted)| DisciplineFacts {
        element: place.element.clone(),
        disciplines: place.kinds.join(", "),
        packets: counted.packets,
        rate_mbit: counted.bytes as f64 * 8.0 / window / 1e6,
        drops: counted.drops,
        marks: counted.marks,
    };
    places.iter().zip(counted).map(facts).collect()
}

/// Refuses flows that only the simulator has.
pub(crate) fn check_modelled(plan: &Plan) -> Result<(), LiveError> {
    let mut modelled = plan.flows.iter().filter_map(|flow| match &flow.transport {
        Transport::Modelled(spec) => Some((flow, spec)),
        Transport::Tcp(_) | Transport::Quic(_) | Transport::Datagrams => None,
    });
    match modelled.next() {
        None => Ok(()),
        Some((flow, spec)) => Err(LiveError::Modelled {
            flow: flow.name.clone(),
            transport: spec.shape().name(),
        }),
    }
}

/// A sentence for each device whose own queue ran over.
fn full_devices(plan: &Plan, world: &World) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((timed, _)) = world.timed() {
        let lost = timed.socket().lost().unwrap_or(0);
        if lost > 0 {
            notes.push(format!(
                "{lost} packets were lost before the path read them: its buffer was full"
            ));
        }
    }
    for (i, link) in plan.links.iter().enumerate() {
        let Some((first, second)) = world.own(LinkIndex(i)) else {
            continue;
        };
        for (host, tun) in [(link.ends.0, first), (link.ends.1, second)] {
            let dropped = tun.dropped().unwrap_or(0);
            if dropped > 0 {
                notes.push(format!(
                    "link/{}: {dropped} packets of host/{} were lost before the path read them: \
                     the device's queue was full",
                    link.name,
                    plan.host(host).name
                ));
            }
        }
    }
    notes
}

fn kernel_release() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}
