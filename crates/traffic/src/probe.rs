//! The payload of a latency probe: what irtt and ping put into theirs.

use narrows_units::Instant;

/// Length in bytes of what a probe carries; the rest of its payload is zeros.
pub const PAYLOAD_LEN: usize = 24;

/// First four bytes of the payload, so that captures show what it is.
const MAGIC: [u8; 4] = *b"nrwp";

/// One question or its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Whether it is the answer.
    pub reply: bool,
    /// Number of the question, from 0.
    pub sequence: u64,
    /// When the question was sent; the answer repeats it.
    pub sent: Instant,
}

impl Probe {
    /// The bytes that go into the datagram.
    pub fn to_bytes(self) -> [u8; PAYLOAD_LEN] {
        let mut bytes = [0; PAYLOAD_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = u8::from(self.reply);
        bytes[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[16..].copy_from_slice(&self.sent.as_nanos().to_be_bytes());
        bytes
    }

    /// Reads a datagram's payload; `None` if it is no probe's.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let bytes = payload.first_chunk::<PAYLOAD_LEN>()?;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(word)
        };
        (bytes[..4] == MAGIC && bytes[4] <= 1).then(|| Self {
            reply: bytes[4] == 1,
            sequence: word(8),
            sent: Instant::from_nanos(word(16)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_reads_back_and_nothing_else_does() {
        let probe = Probe {
            reply: true,
            sequence: u64::MAX - 3,
            sent: Instant::from_nanos(1 << 60),
        };
        let bytes = probe.to_bytes();
        assert_eq!(Probe::parse(&bytes), Some(probe));
        assert_eq!(Probe::parse(&bytes[..23]), None);
        assert_eq!(Probe::parse(&[0; 24]), None);
    }
}
