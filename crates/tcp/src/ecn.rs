//! Which ECN feedback a connection uses, how that is negotiated (RFC 3168
//! §6.1.1, RFC 9768 §3.1), and the classic echo of RFC 3168.

use narrows_wire::{Ecn, TcpFlags};

/// The feedback in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Feedback {
    /// None: nothing that is sent is ECN-capable.
    #[default]
    None,
    /// RFC 3168: ECE until CWR.
    Classic,
    /// RFC 9768: counters.
    Accurate,
}

/// State of ECN other than AccECN's counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EcnState {
    /// Feedback in use.
    pub(crate) feedback: Feedback,
    /// Highest feedback that this end asks for in its SYN.
    pub(crate) request: Feedback,
    /// Highest feedback that this end grants.
    pub(crate) grant: Feedback,
    /// What this end sends may be marked ECN-capable.
    pub(crate) capable: bool,
    /// Classic: a CE mark is echoed until the peer says CWR.
    pub(crate) echo: bool,
    /// Classic: the window was reduced, the next new data says so.
    pub(crate) announce_cwr: bool,
    /// An ECN-capable packet has come.
    pub(crate) seen: bool,
    /// ECN field of the SYN or SYN-ACK that came.
    pub(crate) syn_came_with: Ecn,
}

/// Flags of a SYN that asks for `feedback`.
pub(crate) const fn syn_flags(feedback: Feedback) -> u16 {
    match feedback {
        Feedback::None => 0,
        Feedback::Classic => TcpFlags::ECE | TcpFlags::CWR,
        Feedback::Accurate => TcpFlags::AE | TcpFlags::ECE | TcpFlags::CWR,
    }
}

/// The ACE field that reports with which ECN field its SYN or SYN-ACK
/// came (RFC 9768 table 2).
pub(crate) const fn reflect(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0b010,
        Ecn::Ect1 => 0b011,
        Ecn::Ect0 => 0b100,
        Ecn::Ce => 0b110,
    }
}

/// What a reflecting ACE field says; `None` for values that say nothing.
pub(crate) const fn reflected(ace: u8) -> Option<Ecn> {
    match ace {
        0b010 => Some(Ecn::NotEct),
        0b011 => Some(Ecn::Ect1),
        0b100 => Some(Ecn::Ect0),
        0b110 => Some(Ecn::Ce),
        _ => None,
    }
}

impl EcnState {
    /// A SYN with flags `ace` came, marked `ecn`: what is used from now on.
    pub(crate) fn syn_received(&mut self, ace: u8, ecn: Ecn) {
        self.syn_came_with = ecn;
        // RFC 9768 §3.1.2 and table 2; any flags but those of RFC 3168 ask for AccECN
        // (§3.1.3).
        self.feedback = match (ace, self.grant) {
            (0, _) | (_, Feedback::None) => Feedback::None,
            (0b011, _) => Feedback::Classic,
            (_, Feedback::Accurate) => Feedback::Accurate,
            // An RFC 3168 server reads ECE and CWR alone.
            (ace, Feedback::Classic) if ace & 0b011 == 0b011 => Feedback::Classic,
            (_, Feedback::Classic) => Feedback::None,
        };
        self.capable = self.feedback != Feedback::None;
    }

    /// Flags of the SYN-ACK.
    pub(crate) fn syn_ack_flags(&self) -> u16 {
        match self.feedback {
            Feedback::None => 0,
            Feedback::Classic => TcpFlags::ECE,
            Feedback::Accurate => TcpFlags(0).with_ace(reflect(self.syn_came_with)).0,
        }
    }

    /// A SYN-ACK with flags `ace` came, marked `ecn`. Returns whether the
    /// reflected field shows that the path garbled that of our SYN, which is
    /// never ECN-capable.
    pub(crate) fn syn_ack_received(&mut self, ace: u8, ecn: Ecn) -> bool {
        self.syn_came_with = ecn;
        // RFC 9768 table 2; 0b111 is a server that reflects the flags of the SYN.
        self.feedback = match (ace, self.request) {
            (0 | 0b111, _) | (_, Feedback::None) => Feedback::None,
            (0b001 | 0b101, _) => Feedback::Classic,
            (_, Feedback::Accurate) => Feedback::Accurate,
            (_, Feedback::Classic) => Feedback::None,
        };
        self.capable = self.feedback != Feedback::None;
        let garbled =
            self.feedback == Feedback::Accurate && reflected(ace).is_some_and(|e| e != Ecn::NotEct);
        if garbled {
            self.capable = false;
        }
        garbled
    }

    /// A packet came marked `ecn` with payload, under classic feedback.
    /// Returns whether it is to be acknowledged quickly: the sender may have
    /// a very small window.
    pub(crate) fn data_received(&mut self, ecn: Ecn) -> bool {
        match ecn {
            // Not ECT although the peer uses ECT: probably a retransmission.
            Ecn::NotEct => self.seen,
            // RFC 3168 §6.1.3: ECE on every ACK from here until CWR.
            Ecn::Ce => {
                self.seen = true;
                self.feedback == Feedback::Classic && !std::mem::replace(&mut self.echo, true)
            }
            Ecn::Ect0 | Ecn::Ect1 => {
                self.seen = true;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(grant: Feedback) -> EcnState {
        EcnState {
            grant,
            ..EcnState::default()
        }
    }

    #[test]
    fn any_unknown_combination_on_a_syn_asks_for_accecn() {
        for ace in [1, 2, 4, 5, 6, 7] {
            let mut s = server(Feedback::Accurate);
            s.syn_received(ace, Ecn::NotEct);
            assert_eq!(s.feedback, Feedback::Accurate, "{ace:03b}");
            assert_eq!(TcpFlags(s.syn_ack_flags()).ace(), 0b010);
        }
        let mut s = server(Feedback::Accurate);
        s.syn_received(0b011, Ecn::NotEct);
        assert_eq!(s.feedback, Feedback::Classic);
        assert_eq!(s.syn_ack_flags(), TcpFlags::ECE);
        s.syn_received(0, Ecn::NotEct);
        assert_eq!(s.feedback, Feedback::None);
    }

    #[test]
    fn a_classic_server_answers_an_accecn_syn_in_classic_manner() {
        let mut s = server(Feedback::Classic);
        s.syn_received(0b111, Ecn::NotEct);
        assert_eq!(s.feedback, Feedback::Classic);
        s.syn_received(0b101, Ecn::NotEct);
        assert_eq!(s.feedback, Feedback::None);
    }

    #[test]
    fn the_client_follows_table_2() {
        let modes = [
            (0b000, Feedback::None),
            (0b001, Feedback::Classic),
            (0b010, Feedback::Accurate),
            (0b011, Feedback::Accurate),
            (0b100, Feedback::Accurate),
            (0b101, Feedback::Classic),
            (0b110, Feedback::Accurate),
            (0b111, Feedback::None),
        ];
        for (ace, expected) in modes {
            let mut c = EcnState {
                request: Feedback::Accurate,
                ..EcnState::default()
            };
            let garbled = c.syn_ack_received(ace, Ecn::NotEct);
            assert_eq!(c.feedback, expected, "{ace:03b}");
            assert_eq!(garbled, matches!(ace, 0b011 | 0b100 | 0b110), "{ace:03b}");
        }
    }

    #[test]
    fn reflection_is_its_own_inverse() {
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            assert_eq!(reflected(reflect(ecn)), Some(ecn));
        }
    }
}
