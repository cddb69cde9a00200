//! The measurement bits of one end: the C senders of `narrows-efm`, called with
//! packet numbers in place of TCP's.

use narrows_efm::{PacketFacts, SignalFlow, SignalParams};
use narrows_units::{Instant, Rng};
use narrows_wire::quic_model::Shown;
use narrows_wire::{Profile, Signal};

use super::spec::{ModelSpec, SpinUse};

/// One C state machine and where its signals stand.
#[derive(Clone, Debug)]
struct SignalSender {
    flow: SignalFlow,
    params: SignalParams,
    profile: Profile,
}

impl SignalSender {
    fn new(profile: Profile, block: u32) -> Self {
        let square = profile.has(Signal::Square);
        let words = match square {
            true => format!("{profile} n {block}"),
            false => profile.to_string(),
        };
        // The block's length was checked when the flow's words were read.
        let spec = narrows_efm::SignalSpec::parse(&words)
            .unwrap_or_else(|_| narrows_efm::SignalSpec::new(profile));
        Self {
            flow: SignalFlow::new(),
            params: spec.params(),
            profile,
        }
    }

    fn bits(&self, signal: Signal, on: bool) -> u8 {
        if on { self.profile.mask(signal) } else { 0 }
    }
}

/// All signals of one end. A profile of TCP has room for three bits, which the
/// spin bit fills with its counter: the loss bits have a machine of their own.
#[derive(Clone, Debug)]
pub(super) struct Signals {
    spin: Option<SignalSender>,
    loss: Option<SignalSender>,
    /// In place of a spin bit that spins.
    instead: Option<Instead>,
}

#[derive(Clone, Copy, Debug)]
enum Instead {
    Fixed(bool),
    Drawn,
}

impl Signals {
    /// Those of `spec`; a fixed value comes from `rng`.
    pub fn new(spec: &ModelSpec, rng: &mut Rng) -> Self {
        let machine = |of: &[Signal]| {
            let profile = spec.profile(of)?;
            Some(SignalSender::new(profile, spec.block()))
        };
        let has_spin = spec.has(Signal::Spin);
        let instead = match spec.spin() {
            _ if !has_spin => None,
            SpinUse::On => None,
            SpinUse::Fixed => Some(Instead::Fixed(rng.unit() < 0.5)),
            SpinUse::Greased => Some(Instead::Drawn),
        };
        Self {
            spin: machine(&[Signal::Spin, Signal::Vec]).filter(|_| instead.is_none()),
            loss: machine(&[Signal::Square, Signal::Loss]),
            instead,
        }
    }

    fn senders(&mut self) -> impl Iterator<Item = &mut SignalSender> {
        self.spin.iter_mut().chain(&mut self.loss)
    }

    /// A packet of the handshake leaves, for the first time; `answer` if it is
    /// the responder's.
    pub fn open_out(&mut self, now: Instant, number: u32, answer: bool) {
        for machine in self.senders() {
            let facts = PacketFacts::numbered(now, number, Some(answer), 0);
            machine.flow.egress(&machine.params, &facts);
        }
    }

    /// A packet of the handshake arrives, for the first time.
    pub fn open_in(&mut self, now: Instant, number: u32, answer: bool) {
        for machine in self.senders() {
            let facts = PacketFacts::numbered(now, number, Some(answer), 0);
            machine.flow.ingress(&machine.params, &facts);
        }
    }

    /// The bits of packet `number`, which leaves now. `lost` and `spurious`
    /// count packets of this end since the beginning.
    pub fn out(
        &mut self,
        now: Instant,
        number: u32,
        (lost, spurious): (u64, u64),
        rng: &mut Rng,
    ) -> Shown {
        let mut shown = Shown::default();
        // C counts modulo 2^32, as Linux's sockets do.
        let facts = PacketFacts::numbered(now, number, None, 0).with_socket(
            lost as u32,
            spurious as u32,
            0,
        );
        if let Some(machine) = &mut self.spin {
            if let Some(write) = machine.flow.egress(&machine.params, &facts) {
                shown.spin = write.bits & machine.profile.mask(Signal::Spin) != 0;
                shown.vec = (write.bits & machine.profile.mask(Signal::Vec)) >> 1;
            }
        }
        if let Some(machine) = &mut self.loss {
            if let Some(write) = machine.flow.egress(&machine.params, &facts) {
                shown.square = write.bits & machine.profile.mask(Signal::Square) != 0;
                shown.loss = write.bits & machine.profile.mask(Signal::Loss) != 0;
            }
        }
        match self.instead {
            None => {}
            Some(Instead::Fixed(value)) => shown.spin = value,
            Some(Instead::Drawn) => shown.spin = rng.draw_u64() >> 63 != 0,
        }
        shown
    }

    /// Packet `number` arrives with these bits.
    pub fn arrived(&mut self, now: Instant, number: u32, shown: Shown) {
        if let Some(machine) = &mut self.spin {
            let bits = machine.bits(Signal::Spin, shown.spin)
                | shown.vec << 1 & machine.profile.mask(Signal::Vec);
            let facts = PacketFacts::numbered(now, number, None, bits);
            machine.flow.ingress(&machine.params, &facts);
        }
        if let Some(machine) = &mut self.loss {
            let bits =
                machine.bits(Signal::Square, shown.square) | machine.bits(Signal::Loss, shown.loss);
            let facts = PacketFacts::numbered(now, number, None, bits);
            machine.flow.ingress(&machine.params, &facts);
        }
    }
}
