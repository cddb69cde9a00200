//! Numbers in the byte order of the machine that wrote a capture.

/// A byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    #[default]
    Little,
    Big,
}

impl Order {
    pub fn u32(self, b: &[u8]) -> u32 {
        let b = [b[0], b[1], b[2], b[3]];
        match self {
            Self::Little => u32::from_le_bytes(b),
            Self::Big => u32::from_be_bytes(b),
        }
    }

    pub fn u16(self, b: &[u8]) -> u16 {
        let b = [b[0], b[1]];
        match self {
            Self::Little => u16::from_le_bytes(b),
            Self::Big => u16::from_be_bytes(b),
        }
    }

    pub fn u64(self, b: &[u8]) -> u64 {
        let (first, second) = (u64::from(self.u32(b)), u64::from(self.u32(&b[4..])));
        match self {
            Self::Little => second << 32 | first,
            Self::Big => first << 32 | second,
        }
    }
}
