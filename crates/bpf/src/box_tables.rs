//! The rules of a box in the maps of its program: what is said in bpf/mmb.h, byte for byte.

use std::os::fd::AsFd;

use libbpf_rs::{Map, MapCore, MapFlags, Object, OpenObject};
use narrows_mmb::{
    Condition, Program, ProgramAction, ProgramMapping, ProgramOption, ProgramRule, ProgramTest,
};

/// Sizes of bpf/mmb.h: looks, words of a row, words of an action.
const PROBE_BYTES: usize = 8;
/// Words of the window, and bytes of a key without any of them.
const LANES: usize = 8;
const KEY: u32 = 8;
const WORDS: usize = 64;
const SETS: usize = 24;
/// Fragmented packets that are followed at a time, as in a box of narrows-mmb.
const FRAGMENTED: usize = 16_384;

/// Connections that may have to make room for new ones, as in a box of narrows-mmb.
const NEWEST: usize = 65_536;

/// Elements that are given to the kernel at once, which stay in the cache until then.
const BATCH: usize = 1024;

/// Maps that other rules in the place of these go on with: those of connections, and what is counted and
/// drawn of all.
const OF_CONNECTIONS: [&str; 5] = [
    "nw_mmb_connections",
    "nw_mmb_reverses",
    "nw_mmb_fragments",
    "nw_mmb_newest",
    "nw_mmb_earliest",
];
const OF_THE_BOX: [&str; 2] = ["nw_mmb_all", "nw_mmb_generator"];

/// Has a box that is not loaded yet go on with the maps of `before`: of its connections where it had room
/// for any.
pub(crate) fn take_over(
    object: &mut OpenObject,
    before: &Object,
    connections: bool,
) -> libbpf_rs::Result<()> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let of_connections = connections && OF_CONNECTIONS.contains(&&*name);
        if !OF_THE_BOX.contains(&&*name) && !of_connections {
            continue;
        }
        if let Some(old) = before.maps().find(|old| old.name() == &*name) {
            map.reuse_fd(old.as_fd())?;
        }
    }
    Ok(())
}

/// Writes `struct nw_mmb_settings`, and how large the maps are.
pub(crate) fn prepare(
    object: &mut OpenObject,
    program: &Program,
    idents: &[u32],
    net_at: u32,
) -> libbpf_rs::Result<()> {
    let enabled = u32::from(program.enabled[0]) | u32::from(program.enabled[1]) << 1;
    let numbers = [
        net_at,
        program.masks.len() as u32,
        program.probe_bytes.len() as u32,
        program.steps,
        u32::from(program.reads_options),
        enabled,
        u32::from(program.stateful),
        changes(program).count() as u32,
        u32::from(program.translates),
        u32::from(program.actions.iter().any(|a| !a.sums.is_empty())),
        u32::from(program.frames),
        lanes(program) as u32,
    ];
    let mut settings: Vec<u8> = numbers.into_iter().flat_map(u32::to_ne_bytes).collect();
    let mut probe_at = [0; PROBE_BYTES];
    for (place, (at, _)) in probe_at.iter_mut().zip(&program.probe_bytes) {
        *place = *at;
    }
    settings.extend(probe_at);
    for mut map in object.maps_mut() {
        let entries = match &*map.name().to_string_lossy() {
            ".rodata.nw" => {
                if let Some(value) = map.initial_value_mut() {
                    value[..settings.len()].copy_from_slice(&settings);
                }
                continue;
            }
            "nw_mmb_rows" => program.probe_bytes.len() * 256 + 1,
            "nw_mmb_masks" => program.masks.len(),
            "nw_mmb_keys" => {
                map.set_key_size(KEY + 8 * lanes(program) as u32)?;
                program.keys.len()
            }
            "nw_mmb_rules" | "nw_mmb_counts" => program.rules.len(),
            "nw_mmb_idents" if program.stateful => program.rules.len(),
            "nw_mmb_numbers" => numbers_of(program, idents).len(),
            "nw_mmb_tests" => program.tests.len(),
            "nw_mmb_actions" => program.actions.len(),
            "nw_mmb_mappings" => program.actions.iter().map(|a| a.mappings.len()).sum(),
            "nw_mmb_changes" => changes(program).count(),
            "nw_mmb_connections" | "nw_mmb_reverses" if program.stateful => {
                program.most_connections
            }
            "nw_mmb_fragments" if program.stateful => FRAGMENTED,
            "nw_mmb_newest" if program.stateful => NEWEST,
            _ => continue,
        };
        map.set_max_entries(entries.max(1) as u32)?;
    }
    Ok(())
}

/// The number of each rule with state by its identifier; [`ProgramRule::LAST`] where no rule has it.
fn numbers_of(program: &Program, idents: &[u32]) -> Vec<u32> {
    let stateful = || (0u32..).zip(&program.rules).zip(idents);
    let stateful = || stateful().filter(|((_, rule), _)| rule.stateful);
    let most = stateful().map(|(_, ident)| *ident as usize + 1).max();
    let mut numbers = vec![ProgramRule::LAST; most.unwrap_or(0)];
    for ((number, _), ident) in stateful() {
        numbers[*ident as usize] = number;
    }
    numbers
}

/// Puts the rules, of which those with state have these identifiers, into the maps of a loaded object. What
/// is drawn begins where `program` says, unless it goes on where a box was before.
pub(crate) fn fill(
    object: &Object,
    program: &Program,
    idents: &[u32],
    goes_on: bool,
) -> libbpf_rs::Result<()> {
    for map in object.maps() {
        match &*map.name().to_string_lossy() {
            "nw_mmb_rows" => fill_rows(&map, program)?,
            "nw_mmb_masks" => fill_array(&map, &program.masks, mask)?,
            "nw_mmb_rules" => fill_array(&map, &program.rules, rule)?,
            "nw_mmb_idents" if program.stateful => {
                fill_array(&map, idents, |ident, to| to.extend(ident.to_ne_bytes()))?
            }
            // A map has one element at least.
            "nw_mmb_numbers" => {
                let mut numbers = numbers_of(program, idents);
                numbers.resize(numbers.len().max(1), ProgramRule::LAST);
                fill_array(&map, numbers, |number, to| to.extend(number.to_ne_bytes()))?
            }
            "nw_mmb_tests" => fill_array(&map, &program.tests, test)?,
            "nw_mmb_actions" => fill_array(&map, actions(program), action)?,
            "nw_mmb_mappings" => {
                let mappings = program.actions.iter().flat_map(|a| &a.mappings);
                fill_array(&map, mappings, mapping)?;
            }
            "nw_mmb_changes" => fill_array(&map, changes(program), change)?,
            "nw_mmb_generator" if !goes_on => fill_array(&map, [program.draws], |draws, to| {
                // The kernel initialises the lock in front itself.
                to.extend([0; 8]);
                to.extend((draws as u64).to_ne_bytes());
                to.extend(((draws >> 64) as u64).to_ne_bytes());
            })?,
            "nw_mmb_keys" => {
                let len = lanes(program);
                fill_map(&map, &program.keys, |(window, table, first), key, value| {
                    let end = key.len() + KEY as usize + 8 * len;
                    key.extend(u64::from(*table).to_ne_bytes());
                    for at in lanes_of(&program.masks[*table as usize]) {
                        key.extend(&window[at..at + 8]);
                    }
                    key.resize(end, 0);
                    value.extend(first.to_ne_bytes());
                })?
            }
            _ => {}
        }
    }
    Ok(())
}

/// The rows of bits by look and value, and behind them the one with all tables in it.
fn fill_rows(map: &Map<'_>, program: &Program) -> libbpf_rs::Result<()> {
    let words = program.masks.len().div_ceil(WORDS);
    let mut all = vec![u64::MAX; words];
    if let (Some(last), rest @ 1..) = (all.last_mut(), program.masks.len() % WORDS) {
        *last = (1 << rest) - 1;
    }
    let probe_bytes = program.probe_bytes.iter();
    let rows = probe_bytes.flat_map(|(_, bits)| bits.chunks(words));
    fill_array(map, rows.chain([&all[..]]), |bits, to| {
        let filled = bits
            .iter()
            .rev()
            .fold(0, |filled, word| filled << 1 | u64::from(*word != 0));
        let rest = std::iter::repeat_n(0, WORDS - bits.len());
        let words = [filled].into_iter().chain(bits.iter().copied()).chain(rest);
        to.extend(words.flat_map(u64::to_ne_bytes));
    })
}

/// Where the words of the window start in which a mask has bits.
fn lanes_of(mask: &[u8; 64]) -> impl Iterator<Item = usize> + '_ {
    let lanes = (0..64).step_by(8);
    lanes.filter(|at| mask[*at..at + 8].iter().any(|byte| *byte != 0))
}

/// How many of them the mask has that has the most.
fn lanes(program: &Program) -> usize {
    let lanes = program.masks.iter().map(|mask| lanes_of(mask).count());
    lanes.max().unwrap_or(0)
}

/// `struct nw_mmb_mask`.
fn mask(mask: &[u8; 64], to: &mut Vec<u8>) {
    let start = to.len();
    to.extend(lanes_of(mask).map(|at| at as u8));
    to.resize(start + LANES, 0);
    for at in lanes_of(mask) {
        to.extend(&mask[at..at + 8]);
    }
    to.resize(start + 9 * LANES, 0);
}

/// Puts `values` into an array, each as `write` appends it.
fn fill_array<T>(
    map: &Map<'_>,
    values: impl IntoIterator<Item = T>,
    write: impl Fn(T, &mut Vec<u8>),
) -> libbpf_rs::Result<()> {
    let numbered = (0u32..).zip(values);
    fill_map(map, numbered, |(number, value), keys, values| {
        keys.extend(number.to_ne_bytes());
        write(value, values);
    })
}

/// Puts `elements` into a map; `write` appends the key and the value of one. A kernel that takes the
/// programs (from 5.17 on) takes many elements at once (from 5.6 on).
fn fill_map<T>(
    map: &Map<'_>,
    elements: impl IntoIterator<Item = T>,
    write: impl Fn(T, &mut Vec<u8>, &mut Vec<u8>),
) -> libbpf_rs::Result<()> {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    let mut elements = elements.into_iter();
    loop {
        let mut count = 0;
        for element in elements.by_ref().take(BATCH) {
            write(element, &mut keys, &mut values);
            count += 1;
        }
        if count == 0 {
            return Ok(());
        }
        map.update_batch(&keys, &values, count, MapFlags::ANY, MapFlags::ANY)?;
        keys.clear();
        values.clear();
    }
}

/// `struct nw_mmb_rule`.
fn rule(rule: &ProgramRule, to: &mut Vec<u8>) {
    for number in [rule.next, rule.action, rule.test] {
        to.extend(number.to_ne_bytes());
    }
    to.extend(rule.tests.to_ne_bytes());
    to.extend([rule.stateful, rule.frames].map(u8::from));
}

/// `struct nw_mmb_test`.
fn test(test: &ProgramTest, to: &mut Vec<u8>) {
    let condition = match test.condition {
        Condition::Equal => 0,
        Condition::NotEqual => 1,
        Condition::Less => 2,
        Condition::Greater => 3,
        Condition::AtMost => 4,
        Condition::AtLeast => 5,
    };
    to.extend([
        test.what as u8,
        u8::from(test.negated),
        test.layer,
        condition,
    ]);
    to.extend(test.at.to_ne_bytes());
    to.extend([test.width, u8::from(test.kind.is_none())]);
    to.push(test.kind.unwrap_or(0));
    to.extend([0; 7]);
    for number in [test.mask, test.value] {
        to.extend(((number >> 64) as u64).to_ne_bytes());
        to.extend((number as u64).to_ne_bytes());
    }
}

/// `struct nw_mmb_mapping`.
fn mapping(mapping: &ProgramMapping, to: &mut Vec<u8>) {
    to.extend([mapping.what, mapping.drawn, 0, 0]);
    to.extend(mapping.number.to_ne_bytes());
    to.extend(mapping.address);
}

/// The changes of options of all actions.
fn changes(program: &Program) -> impl Iterator<Item = &ProgramOption> {
    program.actions.iter().flat_map(|action| &action.options)
}

/// `struct nw_mmb_change`.
fn change(option: &ProgramOption, to: &mut Vec<u8>) {
    to.extend([option.what, option.kind, option.len, 0]);
    to.extend(option.bytes);
}

/// All of them, each with where its changes of options and its mappings start among those of all.
fn actions(program: &Program) -> impl Iterator<Item = (&ProgramAction, [u32; 2])> {
    program.actions.iter().scan([0, 0], |next, action| {
        let starts = *next;
        next[0] += action.options.len() as u32;
        next[1] += action.mappings.len() as u32;
        Some((action, starts))
    })
}

/// `struct nw_mmb_action`.
fn action((action, starts): (&ProgramAction, [u32; 2]), to: &mut Vec<u8>) {
    let [first_change, first_mapping] = starts;
    to.extend(action.verdicts.iter().flat_map(|v| v.to_ne_bytes()));
    for number in [
        action.sets.len() as u32,
        first_change,
        action.options.len() as u32,
        first_mapping,
        action.mappings.len() as u32,
        action.sums.len() as u32,
    ] {
        to.extend(number.to_ne_bytes());
    }
    let start = to.len();
    for set in action.sets.iter().chain(&action.sums) {
        to.extend([set.layer, set.from_ip]);
        to.extend(set.at.to_ne_bytes());
        to.extend(set.keep);
        to.extend(set.value);
    }
    to.resize(start + 8 * SETS, 0);
}
