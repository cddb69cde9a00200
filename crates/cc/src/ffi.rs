//! The border to C: the only unsafe code of the crate.
//!
//! An [`Algorithm`] is one table of hooks and declarations. [`Params`] holds a block
//! of its parameters, and an [`Instance`] that and as many bytes of state as it
//! declares, so that a hook never meets another algorithm's memory.

use core::ffi::{CStr, c_char, c_void};

use narrows_core::{Reduce, TelemetryField};

use crate::controller::{Answer, Call};
use crate::facts::{Decision, Facts};

/// What `nw_NAME_max_tso_segs` answers for "none".
const NONE: u32 = u32::MAX;
/// `NW_UNKNOWN`: a field of telemetry without a value.
const UNKNOWN: i64 = i64::MIN;
/// Fields of telemetry that a control may have: room without allocation for each sample.
const MOST_FIELDS: usize = 32;

type Hook = unsafe extern "C" fn(*mut c_void, *const c_void, *const Facts, *mut Decision);
type HookWith = unsafe extern "C" fn(*mut c_void, *const c_void, *const Facts, u32, *mut Decision);
type Question = unsafe extern "C" fn(*mut c_void, *const c_void, *const Facts) -> u32;

/// `struct nw_option` of kernel/native.h.
#[repr(C)]
struct RawOption {
    name: *const c_char,
    words: *const c_char,
    about: *const c_char,
    least: u64,
    most: u64,
    offset: u32,
    size: u16,
    kind: u16,
}

/// `struct nw_field` of kernel/native.h.
#[repr(C)]
struct RawField {
    name: *const c_char,
    unit: *const c_char,
    about: *const c_char,
    chart: *const c_char,
    scale: u64,
}

/// `struct nw_ops` of kernel/native.h.
#[repr(C)]
struct Ops {
    init: Hook,
    release: unsafe extern "C" fn(*mut c_void),
    ssthresh: Question,
    undo_cwnd: Question,
    set_state: HookWith,
    cwnd_event: HookWith,
    in_ack_event: Hook,
    pkts_acked: Hook,
    cong_avoid: HookWith,
    cong_control: Hook,
    timer: Hook,
    timer_at: unsafe extern "C" fn(*const c_void, *const c_void) -> u64,
    max_tso_segs: unsafe extern "C" fn(*const c_void, *const c_void) -> u32,
    report: unsafe extern "C" fn(*const c_void, *const c_void, *mut i64),
    needs: unsafe extern "C" fn(*const c_void) -> u32,
    sees_acks: unsafe extern "C" fn(*const c_void) -> u32,
    settle: unsafe extern "C" fn(*mut c_void) -> *const c_char,
    name: *const c_char,
    defaults: *const c_void,
    options: *const RawOption,
    fields: *const RawField,
    mode: u32,
    has_timer: u32,
    state_size: u32,
    params_size: u32,
}

// SAFETY: the declaration matches kernel/native.c. What it answers is null or a
// constant, complete table.
unsafe extern "C" {
    safe fn nw_control(index: u32, of_tests: u32) -> Option<&'static Ops>;
}

// SAFETY: constant tables of plain data, functions and pointers to more constant
// tables and strings; nothing ever writes them.
unsafe impl Sync for Ops {}

/// A string of a table.
fn text(at: *const c_char) -> &'static str {
    // SAFETY: string literals of the C source, which end in 0 and live for ever.
    let text = unsafe { CStr::from_ptr(at) };
    text.to_str().unwrap_or_default()
}

/// One of the controls that were built in.
#[derive(Clone, Copy)]
pub(crate) struct Algorithm(&'static Ops);

impl PartialEq for Algorithm {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

impl Eq for Algorithm {}

/// What kind of value an option has (`enum nw_option_kind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Number,
    Choice,
    /// A word without a value.
    Flag,
    /// In microseconds.
    Time,
    Bytes,
    /// A choice that cannot change once the connection is established.
    Variant,
}

/// A named parameter of an algorithm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    /// Of a choice: its words, by value.
    pub(crate) words: &'static str,
    pub(crate) about: &'static str,
    pub(crate) least: u64,
    pub(crate) most: u64,
    pub(crate) offset: usize,
    size: usize,
    pub(crate) kind: Kind,
}

impl Parameter {
    /// Its value in a block of parameters, if that is long enough.
    pub(crate) fn value_in(&self, block: &[u8]) -> Option<u64> {
        let bytes = block.get(self.offset..)?;
        if self.size == 8 {
            bytes.first_chunk().map(|b| u64::from_ne_bytes(*b))
        } else {
            bytes.first_chunk().map(|b| u32::from_ne_bytes(*b).into())
        }
    }
}

impl Algorithm {
    /// Those that ship, or those of tests, in the order of their list.
    pub(crate) fn all(of_tests: bool) -> impl Iterator<Item = Self> {
        (0..).map_while(move |i| nw_control(i, of_tests.into()).map(Self))
    }

    pub(crate) fn name(self) -> &'static str {
        text(self.0.name)
    }

    pub(crate) fn parameters(self) -> impl Iterator<Item = Parameter> {
        // SAFETY: the table ends with a row without a name, which is not passed.
        let row = |i| unsafe { &*self.0.options.add(i) };
        (0..).map(row).take_while(|o| !o.name.is_null()).map(|o| {
            let kinds = [
                Kind::Number,
                Kind::Choice,
                Kind::Flag,
                Kind::Time,
                Kind::Bytes,
                Kind::Variant,
            ];
            Parameter {
                name: text(o.name),
                words: text(o.words),
                about: text(o.about),
                least: o.least,
                most: o.most,
                offset: o.offset as usize,
                size: o.size.into(),
                kind: kinds[usize::from(o.kind)],
            }
        })
    }

    pub(crate) fn fields(self) -> impl Iterator<Item = TelemetryField> {
        // SAFETY: the table ends with a row without a name, which is not passed.
        let row = |i| unsafe { &*self.0.fields.add(i) };
        let rows = (0..).map(row).take_while(|f| !f.name.is_null());
        rows.map(|f| TelemetryField {
            name: text(f.name),
            unit: text(f.unit),
            about: text(f.about),
            chart: text(f.chart),
            scale: f.scale,
            // A control reports its state with each sample of its sender.
            reduce: Reduce::Gauge,
        })
    }

    pub(crate) fn state_size(self) -> usize {
        self.0.state_size as usize
    }

    pub(crate) fn is_rate_mode(self) -> bool {
        self.0.mode != 0
    }
}

/// So many bytes as words, zeroed.
fn zeroed(bytes: u32) -> Box<[u64]> {
    vec![0; (bytes as usize).div_ceil(8)].into()
}

/// The parameters of an algorithm, `struct nw_NAME_params`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Params {
    algorithm: Algorithm,
    block: Box<[u64]>,
}

impl Params {
    /// The defaults of `algorithm`.
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        let mut block = zeroed(algorithm.0.params_size);
        // SAFETY: the table's defaults have `params_size` bytes, and the block has
        // no fewer; they do not overlap.
        unsafe {
            core::ptr::copy_nonoverlapping(
                algorithm.0.defaults.cast::<u8>(),
                block.as_mut_ptr().cast::<u8>(),
                algorithm.0.params_size as usize,
            );
        }
        Self { algorithm, block }
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The value of `parameter`, which is of this algorithm.
    pub(crate) fn get(&self, parameter: &Parameter) -> u64 {
        let word = self.block[parameter.offset / 8].to_ne_bytes();
        let within = Parameter {
            offset: parameter.offset % 8,
            ..*parameter
        };
        within.value_in(&word).unwrap_or_default()
    }

    /// Sets `parameter`, which is of this algorithm, to a value within its range,
    /// and derives what follows.
    ///
    /// # Errors
    /// What is allowed, where it does not go with the other parameters; nothing
    /// is changed then.
    pub(crate) fn set(&mut self, parameter: &Parameter, value: u64) -> Result<(), &'static str> {
        let former = self.block.clone();
        let word = &mut self.block[parameter.offset / 8];
        if parameter.size == 8 {
            *word = value;
        } else {
            let mut bytes = word.to_ne_bytes();
            let value = u32::try_from(value).unwrap_or(u32::MAX);
            bytes[parameter.offset % 8..][..4].copy_from_slice(&value.to_ne_bytes());
            *word = u64::from_ne_bytes(bytes);
        }
        // SAFETY: the block is of this algorithm's type, aligned to 8.
        let allowed = unsafe { (self.algorithm.0.settle)(self.block.as_mut_ptr().cast()) };
        if allowed.is_null() {
            return Ok(());
        }
        self.block = former;
        Err(text(allowed))
    }

    /// `enum nw_need`.
    pub(crate) fn needs(&self) -> u32 {
        // SAFETY: the block is of this algorithm's type and only read.
        unsafe { (self.algorithm.0.needs)(self.pointer()) }
    }

    /// The block as the kernel's memory is to hold it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.block.iter().flat_map(|w| w.to_ne_bytes()).collect();
        bytes.truncate(self.algorithm.0.params_size as usize);
        bytes
    }

    fn pointer(&self) -> *const c_void {
        self.block.as_ptr().cast()
    }
}

/// One connection's instance of an algorithm.
#[derive(Clone)]
pub(crate) struct Instance {
    /// Always that of `params`, looked up once.
    ops: &'static Ops,
    pub(crate) params: Params,
    state: Box<[u64]>,
}

impl Instance {
    /// An instance with zeroed state, before `init`.
    pub(crate) fn new(params: Params) -> Self {
        let ops = params.algorithm.0;
        Self {
            ops,
            params,
            state: zeroed(ops.state_size),
        }
    }

    fn state(&mut self) -> *mut c_void {
        self.state.as_mut_ptr().cast()
    }

    fn hook(&mut self, hook: Hook, facts: &Facts) -> Answer {
        let mut decision = Decision::default();
        let params = self.params.pointer();
        // SAFETY: `hook` is of this instance's table (callers pass
        // `self.ops.*`); the state has at least the bytes that the table asks for,
        // aligned to 8, and any bit pattern is valid for it; the parameters are of
        // the table's type; facts and decision have the C layout. All four outlive
        // the call, do not overlap, and C keeps none of them.
        unsafe { hook(self.state(), params, facts, &raw mut decision) };
        Answer::from(decision)
    }

    fn hook_with(&mut self, hook: HookWith, facts: &Facts, with: u32) -> Answer {
        let mut decision = Decision::default();
        let params = self.params.pointer();
        // SAFETY: as in `hook`; `with` is a plain number of any value.
        unsafe { hook(self.state(), params, facts, with, &raw mut decision) };
        Answer::from(decision)
    }

    fn question(&mut self, question: Question, facts: &Facts) -> Answer {
        let params = self.params.pointer();
        // SAFETY: as in `hook`, without a decision.
        let returned = unsafe { question(self.state(), params, facts) };
        Answer {
            returned,
            ..Answer::default()
        }
    }

    #[inline]
    pub(crate) fn call(&mut self, call: Call, facts: &Facts) -> Answer {
        let ops = self.ops;
        match call {
            Call::Init => self.hook(ops.init, facts),
            Call::Release => {
                // SAFETY: as in `hook`, with the state alone.
                unsafe { (ops.release)(self.state()) };
                Answer::default()
            }
            Call::Ssthresh => self.question(ops.ssthresh, facts),
            Call::UndoCwnd => self.question(ops.undo_cwnd, facts),
            Call::SetState(state) => self.hook_with(ops.set_state, facts, state as u32),
            Call::CwndEvent(event) => self.hook_with(ops.cwnd_event, facts, event as u32),
            Call::InAckEvent => self.hook(ops.in_ack_event, facts),
            Call::PktsAcked => self.hook(ops.pkts_acked, facts),
            Call::CongAvoid(acked) => self.hook_with(ops.cong_avoid, facts, acked),
            Call::CongControl => self.hook(ops.cong_control, facts),
            Call::Timer => self.hook(ops.timer, facts),
        }
    }

    /// When its timer is due, if it has one that runs.
    #[inline]
    pub(crate) fn timer_at(&self) -> Option<u64> {
        if self.ops.has_timer == 0 {
            return None;
        }
        // SAFETY: of this instance's table, and only reads state and parameters,
        // as in `hook`.
        let at = unsafe { (self.ops.timer_at)(self.state.as_ptr().cast(), self.params.pointer()) };
        (at != 0).then_some(at)
    }

    /// Whether `in_ack_event` does anything.
    #[inline]
    pub(crate) fn sees_acks(&self) -> bool {
        // SAFETY: of this instance's table, and only reads the parameters.
        unsafe { (self.ops.sees_acks)(self.params.pointer()) != 0 }
    }

    #[inline]
    pub(crate) fn max_tso_segs(&self) -> Option<u32> {
        let (state, params) = (self.state.as_ptr().cast(), self.params.pointer());
        // SAFETY: as in `timer_at`.
        let answer = unsafe { (self.ops.max_tso_segs)(state, params) };
        (answer != NONE).then_some(answer)
    }

    /// Its fields of telemetry in their order, each with its value; `None` where there
    /// is none yet.
    pub(crate) fn report(&self) -> impl Iterator<Item = (TelemetryField, Option<i64>)> {
        let fields = self.params.algorithm.fields();
        let count = self.params.algorithm.fields().count();
        assert!(
            count <= MOST_FIELDS,
            "a control has {count} fields of telemetry"
        );
        let mut values = [UNKNOWN; MOST_FIELDS];
        let (state, params) = (self.state.as_ptr().cast(), self.params.pointer());
        // SAFETY: as in `timer_at`; it writes one number for each of its fields, for
        // which there is room.
        unsafe { (self.ops.report)(state, params, values.as_mut_ptr()) };
        fields.zip(values.map(|v| (v != UNKNOWN).then_some(v)))
    }
}
