//! A box by rules at a device of this machine.

use std::fmt;

use libbpf_rs::{Link, Map, MapCore, MapFlags, Object, OpenObject, ProgramInput};
use narrows_mmb::{
    Condition, Program, ProgramAction, ProgramMapping, ProgramOption, ProgramRule, ProgramTest,
    RuleCounters,
};

use crate::box_connections::connections;
use crate::error::BpfError;
use crate::libbpf::{self, refused};
use crate::signal_program::Device;
use crate::tcx;
use crate::{BoxConnection, BoxTotals};

/// Sizes of bpf/mmb.h: looks, words of a row, words of an action, bytes of a change of options.
const LOOKS: usize = 8;
const WORDS: usize = 64;
const SETS: usize = 24;
const OPTIONS: usize = 40;
/// 64-bit words of `struct nw_mmb_totals`.
const TOTALS: usize = 13;
/// Fragmented packets that are followed at a time, as in a box of narrows-mmb.
const FRAGMENTED: usize = 16_384;

/// The program that forgets old connections; it is at no device.
const SWEEP: &str = "nw_mmb_sweep";

const PROGRAMS: &str = "the programs of the box";

/// A box at both sides of a device, as long as this is there. Dropping it detaches it; so does
/// the kernel when the process ends, however it ends, as nothing else holds its links.
pub struct BoxProgram {
    // Declared in the order in which they are to go.
    links: Vec<Link>,
    object: Object,
    rules: usize,
}

impl fmt::Debug for BoxProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxProgram")
            .field("links", &self.links.len())
            .finish_non_exhaustive()
    }
}

impl BoxProgram {
    /// Attaches rules to device `ifindex` of the *calling thread's* network namespace. What leaves
    /// by the device came from inside (up), what comes by it is from outside.
    ///
    /// # Errors
    /// If the device does not exist or is of a type that is not known, the kernel refuses or has
    /// no tcx (before Linux 6.6), or the caller is not root.
    pub fn attach(ifindex: u32, program: &Program) -> Result<Self, BpfError> {
        let device = Device::of(ifindex, "attach a box to")?;
        let object = load(program, device.net_at)?;
        let index = i32::try_from(ifindex).unwrap_or(i32::MAX);
        let mut links = Vec::new();
        for program in object.progs_mut().filter(|p| p.name() != SWEEP) {
            let link = tcx::attach(&program, index).ok_or_else(|| BpfError::Kernel {
                what: format!("{PROGRAMS} cannot be attached to {}", device.name),
                hint: "this needs tcx, which Linux has from 6.6 on",
            })?;
            links.push(link);
        }
        Ok(Self {
            links,
            object,
            rules: program.rules.len(),
        })
    }

    /// What each rule has counted, in their order.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn rules(&self) -> Result<Vec<RuleCounters>, BpfError> {
        rules(&self.object, self.rules)
    }

    /// Forgets connections that were idle for too long. Until then they take room; packets find
    /// them no more.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn sweep(&self) -> Result<(), BpfError> {
        sweep(&self.object)
    }

    /// The connections that it tracks, in no order, without those that were idle for too long.
    ///
    /// # Errors
    /// If the kernel does not show them.
    pub fn connections(&self) -> Result<Vec<BoxConnection>, BpfError> {
        connections(&self.object)
    }

    /// What the box has counted.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn totals(&self) -> Result<BoxTotals, BpfError> {
        totals(&self.object)
    }
}

/// Loads both programs with their rules for devices with `net_at` bytes before the network header.
pub(crate) fn load(program: &Program, net_at: u32) -> Result<Object, BpfError> {
    let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/mmb.bpf.o"));
    let mut object = libbpf::open(bytes)?;
    prepare(&mut object, program, net_at).map_err(|e| refused("set up the box", &e))?;
    let object = libbpf::load(object, &format!("load {PROGRAMS}"))?;
    fill(&object, program).map_err(|e| refused("give the box its rules", &e))?;
    Ok(object)
}

/// Writes `struct nw_mmb_settings`, and how large the maps are.
fn prepare(object: &mut OpenObject, program: &Program, net_at: u32) -> libbpf_rs::Result<()> {
    let words = program.masks.len().div_ceil(WORDS);
    let enabled = u32::from(program.enabled[0]) | u32::from(program.enabled[1]) << 1;
    let numbers = [
        net_at,
        program.masks.len() as u32,
        words as u32,
        program.looks.len() as u32,
        program.steps,
        u32::from(program.reads_options),
        enabled,
        u32::from(program.stateful),
        changes(program).count() as u32,
        0,
    ];
    let mut settings: Vec<u8> = numbers.into_iter().flat_map(u32::to_ne_bytes).collect();
    let mut look_at = [0; LOOKS];
    for (place, (at, _)) in look_at.iter_mut().zip(&program.looks) {
        *place = *at;
    }
    settings.extend(look_at);
    for mut map in object.maps_mut() {
        let entries = match &*map.name().to_string_lossy() {
            ".rodata.nw" => {
                if let Some(value) = map.initial_value_mut() {
                    value[..settings.len()].copy_from_slice(&settings);
                }
                continue;
            }
            "nw_mmb_rows" => program.looks.len() * 256 + 1,
            "nw_mmb_masks" => program.masks.len(),
            "nw_mmb_keys" => program.keys.len(),
            "nw_mmb_rules" | "nw_mmb_counts" => program.rules.len(),
            "nw_mmb_tests" => program.tests.len(),
            "nw_mmb_actions" => program.actions.len(),
            "nw_mmb_mappings" => program.actions.iter().map(|a| a.mappings.len()).sum(),
            "nw_mmb_changes" => changes(program).count(),
            "nw_mmb_connections" | "nw_mmb_reverses" if program.stateful => {
                program.most_connections
            }
            "nw_mmb_fragments" if program.stateful => FRAGMENTED,
            _ => continue,
        };
        map.set_max_entries(entries.max(1) as u32)?;
    }
    Ok(())
}

/// Puts the rules into the maps of a loaded object.
fn fill(object: &Object, program: &Program) -> libbpf_rs::Result<()> {
    for map in object.maps() {
        match &*map.name().to_string_lossy() {
            "nw_mmb_rows" => fill_rows(&map, program)?,
            "nw_mmb_masks" => fill_array(&map, program.masks.iter().map(|m| m.to_vec()))?,
            "nw_mmb_rules" => fill_array(&map, program.rules.iter().map(rule))?,
            "nw_mmb_tests" => fill_array(&map, program.tests.iter().map(test))?,
            "nw_mmb_actions" => fill_array(&map, actions(program))?,
            "nw_mmb_mappings" => {
                let mappings = program.actions.iter().flat_map(|a| &a.mappings);
                fill_array(&map, mappings.map(mapping))?;
            }
            "nw_mmb_changes" => fill_array(&map, changes(program).map(change))?,
            "nw_mmb_generator" => {
                // Of the lock in front the kernel takes no notice.
                let mut state = vec![0; 8];
                state.extend((program.draws as u64).to_ne_bytes());
                state.extend(((program.draws >> 64) as u64).to_ne_bytes());
                fill_array(&map, [state].into_iter())?;
            }
            "nw_mmb_keys" => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for (window, table, first) in &program.keys {
                    keys.extend_from_slice(window);
                    keys.extend(table.to_ne_bytes());
                    keys.extend([0; 4]);
                    values.extend(first.to_ne_bytes());
                }
                update(&map, &keys, &values, program.keys.len())?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The rows of bits by look and value, and behind them the one with all tables in it.
fn fill_rows(map: &Map<'_>, program: &Program) -> libbpf_rs::Result<()> {
    let words = program.masks.len().div_ceil(WORDS);
    let row = |bits: &[u64]| {
        let mut bits = bits.to_vec();
        bits.resize(WORDS, 0);
        bits.into_iter().flat_map(u64::to_ne_bytes).collect()
    };
    let mut all = vec![u64::MAX; words];
    if let (Some(last), rest @ 1..) = (all.last_mut(), program.masks.len() % WORDS) {
        *last = (1 << rest) - 1;
    }
    let looks = program.looks.iter();
    let rows = looks.flat_map(|(_, bits)| bits.chunks(words));
    fill_array(map, rows.chain([&all[..]]).map(row))
}

fn fill_array(map: &Map<'_>, values: impl Iterator<Item = Vec<u8>>) -> libbpf_rs::Result<()> {
    let (mut keys, mut all) = (Vec::new(), Vec::new());
    let mut count: u32 = 0;
    for value in values {
        keys.extend(count.to_ne_bytes());
        all.extend(value);
        count += 1;
    }
    update(map, &keys, &all, count as usize)
}

fn update(map: &Map<'_>, keys: &[u8], values: &[u8], count: usize) -> libbpf_rs::Result<()> {
    if count == 0 {
        return Ok(());
    }
    map.update_batch(keys, values, count as u32, MapFlags::ANY, MapFlags::ANY)
}

/// `struct nw_mmb_rule`.
fn rule(rule: &ProgramRule) -> Vec<u8> {
    let words = [rule.next, rule.action, rule.test];
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    bytes.extend(rule.tests.to_ne_bytes());
    bytes.extend(u16::from(rule.stateful).to_ne_bytes());
    bytes
}

/// `struct nw_mmb_test`.
fn test(test: &ProgramTest) -> Vec<u8> {
    let condition = match test.condition {
        Condition::Equal => 0,
        Condition::NotEqual => 1,
        Condition::Less => 2,
        Condition::Greater => 3,
        Condition::AtMost => 4,
        Condition::AtLeast => 5,
    };
    let mut bytes = vec![
        test.what as u8,
        u8::from(test.negated),
        test.layer,
        condition,
    ];
    bytes.extend(test.at.to_ne_bytes());
    bytes.extend([test.width, u8::from(test.kind.is_none())]);
    bytes.push(test.kind.unwrap_or(0));
    bytes.extend([0; 7]);
    for number in [test.mask, test.value] {
        bytes.extend(((number >> 64) as u64).to_ne_bytes());
        bytes.extend((number as u64).to_ne_bytes());
    }
    bytes
}

/// `struct nw_mmb_mapping`.
fn mapping(mapping: &ProgramMapping) -> Vec<u8> {
    let drawn = mapping.number.is_none();
    let mut bytes = vec![mapping.what as u8, u8::from(drawn), 0, 0];
    bytes.extend(mapping.number.unwrap_or(0).to_ne_bytes());
    bytes.extend(mapping.address);
    bytes
}

/// The changes of options of all actions.
fn changes(program: &Program) -> impl Iterator<Item = &ProgramOption> {
    program.actions.iter().flat_map(|action| &action.options)
}

/// `struct nw_mmb_change`.
fn change(option: &ProgramOption) -> Vec<u8> {
    let mut bytes = vec![option.what as u8, option.kind, option.bytes.len() as u8, 0];
    bytes.extend(&option.bytes);
    bytes.resize(4 + OPTIONS, 0);
    bytes
}

/// All of them; each knows where its changes of options and its mappings start among those of all.
fn actions(program: &Program) -> impl Iterator<Item = Vec<u8>> {
    let starts = program.actions.iter().scan((0, 0), |next, action| {
        let start = *next;
        next.0 += action.options.len() as u32;
        next.1 += action.mappings.len() as u32;
        Some(start)
    });
    program
        .actions
        .iter()
        .zip(starts)
        .map(|(a, (first_change, first_mapping))| action(a, first_change, first_mapping))
}

/// `struct nw_mmb_action`.
fn action(action: &ProgramAction, first_change: u32, first_mapping: u32) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    bytes.extend(action.verdicts.iter().flat_map(|v| v.to_ne_bytes()));
    for number in [
        action.sets.len() as u32,
        first_change,
        action.options.len() as u32,
        first_mapping,
        action.mappings.len() as u32,
        0,
    ] {
        bytes.extend(number.to_ne_bytes());
    }
    let start = bytes.len();
    for set in &action.sets {
        bytes.extend([set.layer, u8::from(set.from_ip)]);
        bytes.extend(set.at.to_ne_bytes());
        bytes.extend(set.keep);
        bytes.extend(set.value);
    }
    bytes.resize(start + 8 * SETS, 0);
    bytes
}

/// The 64-bit words in `bytes`.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let word = |chunk: &[u8]| <[u8; 8]>::try_from(chunk).map_or(0, u64::from_ne_bytes);
    bytes.chunks_exact(8).map(word)
}

/// Runs the program that forgets old connections.
pub(crate) fn sweep(object: &Object) -> Result<(), BpfError> {
    let Some(program) = object.progs_mut().find(|p| p.name() == SWEEP) else {
        return Ok(());
    };
    let run = program.test_run(ProgramInput::default());
    run.map_err(|e| refused("forget old connections", &e))?;
    Ok(())
}

const READING: &str = "read the counters of the box";

pub(crate) fn rules(object: &Object, count: usize) -> Result<Vec<RuleCounters>, BpfError> {
    let mut counted = Vec::with_capacity(count);
    let Some(map) = object.maps().find(|m| m.name() == "nw_mmb_counts") else {
        return Ok(counted);
    };
    for rule in 0..count as u32 {
        let value = map.lookup(&rule.to_ne_bytes(), MapFlags::ANY);
        let value = value.map_err(|e| refused(READING, &e))?.unwrap_or_default();
        let mut numbers = words(&value);
        let mut next = || numbers.next().unwrap_or(0);
        counted.push(RuleCounters {
            packets: next(),
            bytes: next(),
        });
    }
    Ok(counted)
}

pub(crate) fn totals(object: &Object) -> Result<BoxTotals, BpfError> {
    let map = object.maps().find(|m| m.name() == "nw_mmb_all");
    let cpus = map
        .map(|m| m.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY))
        .transpose()
        .map_err(|e| refused(READING, &e))?
        .flatten()
        .unwrap_or_default();
    let mut sum = [0u64; TOTALS];
    for cpu in &cpus {
        for (total, word) in sum.iter_mut().zip(words(cpu)) {
            *total += word;
        }
    }
    let [
        packets,
        dropped,
        malformed,
        options_unchanged,
        other,
        overmatched,
        unwritten,
        bundles,
        ports_used_up,
        table_full,
        begun,
        forgotten,
        related,
    ] = sum;
    Ok(BoxTotals {
        packets,
        dropped,
        malformed,
        options_unchanged,
        other,
        overmatched,
        unwritten,
        bundles,
        ports_used_up,
        table_full,
        related,
        // Read one after the other while packets come.
        connections: begun.saturating_sub(forgotten),
    })
}
