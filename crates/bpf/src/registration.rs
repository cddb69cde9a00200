//! What a congestion control is registered with, whichever build of it that is.

use narrows_cc::ControlSpec;

use crate::{EcnFlags, Trace};

/// `TCP_CONG_NON_RESTRICTED`: sockets without privileges may choose it, and a
/// namespace may make it the default (include/net/tcp.h).
const NON_RESTRICTED: u32 = 1;
/// `TCP_CONG_NEEDS_ECN`.
const NEEDS_ECN: u32 = 2;
/// `TCP_CONG_NEEDS_ACCECN`, Linux 6.18.
const NEEDS_ACCECN: u32 = 4;

/// `ecn_flags` of a connection with classic or Accurate ECN.
const ANY_ECN_MODE: u32 = 1 | 16;
const ACCECN_MODE: u32 = 16;

/// The flags of its `struct tcp_congestion_ops`, and the words of `struct nw_config`
/// (bpf/control.h), of which the parameters follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    pub flags: u32,
    pub settings: [u32; 4],
}

impl Registration {
    /// Of `spec`, with what it asks of the handshake and what it is to report.
    pub(crate) fn of(spec: &ControlSpec, ecn: EcnFlags, trace: Trace) -> Self {
        let needs = spec.needs();
        let flags = NON_RESTRICTED
            | match ecn {
                EcnFlags::None => 0,
                EcnFlags::Classic => NEEDS_ECN,
                EcnFlags::AccEcn => NEEDS_ECN | NEEDS_ACCECN,
            };
        let bits = match (needs.accecn, ecn) {
            _ if !needs.ecn => 0,
            (true, EcnFlags::None | EcnFlags::AccEcn) => ACCECN_MODE,
            _ => ANY_ECN_MODE,
        };
        let dctcp = needs.accecn && ecn == EcnFlags::Classic;
        Self {
            flags,
            settings: [trace as u32, bits, u32::from(dctcp), u32::from(needs.ect1)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feedback_is_that_of_the_handshake() {
        let of = |words: &str, ecn| {
            let spec = ControlSpec::parse(words).unwrap();
            Registration::of(&spec, ecn, Trace::State)
        };
        assert_eq!(of("reno", EcnFlags::None).settings, [1, 0, 0, 0]);
        let prague = of("prague", EcnFlags::AccEcn);
        assert_eq!((prague.flags, prague.settings), (7, [1, 16, 0, 1]));
        // DCTCP-style feedback where there is no Accurate ECN.
        let prague = of("prague", EcnFlags::Classic);
        assert_eq!((prague.flags, prague.settings), (3, [1, 17, 1, 1]));
    }
}
