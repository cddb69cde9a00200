//! The AccECN option (RFC 9768 §3.2.3).

use super::options::NOP;

/// The AccECN option: 24-bit byte counters, each present or
/// not, in one of two orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccEcnOption {
    /// Whether the option is of the order with ECT(1) first (kind 174).
    pub ect1_first: bool,
    /// Bytes received with ECT(0), modulo 2²⁴.
    pub e0b: Option<u32>,
    /// Bytes received with CE.
    pub ceb: Option<u32>,
    /// Bytes received with ECT(1).
    pub e1b: Option<u32>,
}

/// Kind of AccECN order 0: EE0B, ECEB, EE1B (RFC 9768).
pub const KIND_ACCECN0: u8 = 172;
/// Kind of AccECN order 1: EE1B, ECEB, EE0B (RFC 9768).
pub const KIND_ACCECN1: u8 = 174;

impl AccEcnOption {
    /// Appends the option up to the last whole word and returns the bytes that are
    /// left, filled up to two, and how many they are.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> ([u8; 2], usize) {
        let (counters, n) = self.counters();
        let kind = if self.ect1_first {
            KIND_ACCECN1
        } else {
            KIND_ACCECN0
        };
        let start = out.len();
        out.extend_from_slice(&[kind, 2 + 3 * n as u8]);
        for counter in &counters[..n] {
            out.extend_from_slice(&counter.to_be_bytes()[1..]);
        }
        let mut left = [NOP, NOP];
        let rest = (out.len() - start) % 4;
        if rest == 3 {
            out.push(NOP);
            return (left, 0);
        }
        let whole = out.len() - rest;
        left[..rest].copy_from_slice(&out[whole..]);
        out.truncate(whole);
        (left, rest)
    }

    /// The counters in wire order and how many of them are sent: an absent
    /// counter ends the list (RFC 9768 §3.2.3).
    pub(super) fn counters(&self) -> ([u32; 3], usize) {
        let order = if self.ect1_first {
            [self.e1b, self.ceb, self.e0b]
        } else {
            [self.e0b, self.ceb, self.e1b]
        };
        let n = order.iter().take_while(|c| c.is_some()).count();
        (order.map(Option::unwrap_or_default), n)
    }
}
