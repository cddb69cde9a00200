//! The border to C: the only unsafe code of the crate.
//!
//! An [`Instance`] pairs one algorithm's table of hooks with a parameter block
//! of that algorithm's type and 104 bytes of state, so that a hook never meets
//! another algorithm's memory.

use core::ffi::c_void;

use crate::cubic::CubicParams;
use crate::facts::{Decision, Facts};
use crate::prague::PragueParams;

/// Words of state: Linux's `ICSK_CA_PRIV_SIZE`, 104 bytes, aligned to 8.
const STATE_WORDS: usize = 13;

/// What `nw_NAME_alpha` and `nw_NAME_max_tso_segs` answer for "none".
const NONE: u32 = u32::MAX;

type Hook = unsafe extern "C" fn(*mut c_void, *const c_void, *const Facts, *mut Decision);
type HookWith = unsafe extern "C" fn(*mut c_void, *const c_void, *const Facts, u32, *mut Decision);
type Question = unsafe extern "C" fn(*mut c_void, *const c_void, *const Facts) -> u32;
type Look = unsafe extern "C" fn(*const c_void, *const c_void) -> u32;

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
    alpha: Look,
    max_tso_segs: Look,
    mode: u32,
    state_size: u32,
    params_size: u32,
    unused: u32,
}

// SAFETY: the declarations match kernel/native.h, whose tables are constant
// and complete (every hook of every algorithm is defined).
unsafe extern "C" {
    static nw_ops_cubic: Ops;
    static nw_ops_prague: Ops;
    static nw_ops_reno: Ops;
}

/// Parameters of Reno: none (`struct nw_reno_params`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RenoParams {
    unused: u32,
}

/// The parameter block of one algorithm, which also says which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Params {
    Cubic(CubicParams),
    Prague(PragueParams),
    Reno(RenoParams),
}

impl Params {
    fn ops(&self) -> &'static Ops {
        match self {
            // SAFETY: a constant table, never written.
            Self::Cubic(_) => unsafe { &nw_ops_cubic },
            // SAFETY: as above.
            Self::Prague(_) => unsafe { &nw_ops_prague },
            // SAFETY: as above.
            Self::Reno(_) => unsafe { &nw_ops_reno },
        }
    }

    fn block(&self) -> *const c_void {
        match self {
            Self::Cubic(p) => core::ptr::from_ref(p).cast(),
            Self::Prague(p) => core::ptr::from_ref(p).cast(),
            Self::Reno(p) => core::ptr::from_ref(p).cast(),
        }
    }

    /// The parameter block as the kernel's memory is to hold it.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `block` points to `size` bytes of a plain structure of
        // integers without padding (its fields' sizes add up to its size), and
        // they live as long as `self`.
        unsafe { core::slice::from_raw_parts(self.block().cast(), self.size()) }
    }

    fn size(&self) -> usize {
        match self {
            Self::Cubic(p) => size_of_val(p),
            Self::Prague(p) => size_of_val(p),
            Self::Reno(p) => size_of_val(p),
        }
    }
}

/// One connection's instance of an algorithm.
#[derive(Clone)]
pub(crate) struct Instance {
    /// Always `params.ops()`, looked up once.
    ops: &'static Ops,
    params: Params,
    state: [u64; STATE_WORDS],
}

impl Instance {
    /// An instance with zeroed state, before `init`.
    pub(crate) fn new(params: Params) -> Self {
        let ops = params.ops();
        // Built from one source tree, so this cannot differ at run time; it
        // stands here because the calls below rest on it.
        assert!(ops.state_size as usize <= STATE_WORDS * 8);
        assert!(ops.params_size as usize == params.size());
        Self {
            ops,
            params,
            state: [0; STATE_WORDS],
        }
    }

    fn state(&mut self) -> *mut c_void {
        self.state.as_mut_ptr().cast()
    }

    fn hook(&mut self, hook: Hook, facts: &Facts) -> Decision {
        let mut decision = Decision::default();
        let params = self.params.block();
        // SAFETY: `hook` is of this instance's table (callers pass
        // `self.ops.*`); the state is 104 bytes aligned to 8, at least what the
        // table asks for, and any bit pattern is valid for it; the parameters
        // are of the table's type; facts and decision have the C layout. All
        // four outlive the call, do not overlap, and C keeps none of them.
        unsafe { hook(self.state(), params, facts, &raw mut decision) };
        decision
    }

    fn hook_with(&mut self, hook: HookWith, facts: &Facts, with: u32) -> Decision {
        let mut decision = Decision::default();
        let params = self.params.block();
        // SAFETY: as in `hook`; `with` is a plain number of any value.
        unsafe { hook(self.state(), params, facts, with, &raw mut decision) };
        decision
    }

    fn question(&mut self, question: Question, facts: &Facts) -> u32 {
        let params = self.params.block();
        // SAFETY: as in `hook`, without a decision.
        unsafe { question(self.state(), params, facts) }
    }

    fn look(&self, look: Look) -> Option<u32> {
        // SAFETY: `look` is of this instance's table and only reads
        // the state and the parameters, as in `hook`.
        let answer = unsafe { look(self.state.as_ptr().cast(), self.params.block()) };
        (answer != NONE).then_some(answer)
    }

    pub(crate) fn params(&self) -> &Params {
        &self.params
    }

    pub(crate) fn is_rate_mode(&self) -> bool {
        self.ops.mode != 0
    }

    pub(crate) fn init(&mut self, facts: &Facts) -> Decision {
        self.hook(self.ops.init, facts)
    }

    pub(crate) fn release(&mut self) {
        // SAFETY: as in `hook`, with the state alone.
        unsafe { (self.ops.release)(self.state()) };
    }

    pub(crate) fn ssthresh(&mut self, facts: &Facts) -> u32 {
        self.question(self.ops.ssthresh, facts)
    }

    pub(crate) fn undo_cwnd(&mut self, facts: &Facts) -> u32 {
        self.question(self.ops.undo_cwnd, facts)
    }

    pub(crate) fn set_state(&mut self, facts: &Facts, state: u8) -> Decision {
        self.hook_with(self.ops.set_state, facts, u32::from(state))
    }

    pub(crate) fn cwnd_event(&mut self, facts: &Facts, event: u32) -> Decision {
        self.hook_with(self.ops.cwnd_event, facts, event)
    }

    pub(crate) fn in_ack_event(&mut self, facts: &Facts) -> Decision {
        self.hook(self.ops.in_ack_event, facts)
    }

    pub(crate) fn pkts_acked(&mut self, facts: &Facts) -> Decision {
        self.hook(self.ops.pkts_acked, facts)
    }

    pub(crate) fn cong_avoid(&mut self, facts: &Facts, acked: u32) -> Decision {
        self.hook_with(self.ops.cong_avoid, facts, acked)
    }

    pub(crate) fn cong_control(&mut self, facts: &Facts) -> Decision {
        self.hook(self.ops.cong_control, facts)
    }

    pub(crate) fn alpha(&self) -> Option<u32> {
        self.look(self.ops.alpha)
    }

    pub(crate) fn max_tso_segs(&self) -> Option<u32> {
        self.look(self.ops.max_tso_segs)
    }
}
