//! Parameters of queueing disciplines as rtnetlink takes them: in the byte
//! order of the machine, padded to four bytes (linux/netlink.h, `NLA_ALIGNTO`).

/// The value of `TCA_OPTIONS`: attributes, or a structure before them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options(Vec<u8>);

impl Options {
    /// Words of 32 bits, as structures of the kernel begin.
    pub fn words(words: &[u32]) -> Self {
        Self(words.iter().flat_map(|w| w.to_ne_bytes()).collect())
    }

    /// Bytes of a structure of the kernel.
    pub fn raw(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// With an attribute.
    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        const HEADER: usize = 4;
        let length = (HEADER + value.len()) as u16;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// With a number of 32 bits.
    pub fn with_u32(self, kind: u16, value: u32) -> Self {
        self.with(kind, &value.to_ne_bytes())
    }

    /// With a number of 32 bits, where there is one.
    pub fn with_some(self, kind: u16, value: Option<u32>) -> Self {
        match value {
            Some(value) => self.with_u32(kind, value),
            None => self,
        }
    }

    /// With a number of 8 bits.
    pub fn with_u8(self, kind: u16, value: u8) -> Self {
        self.with(kind, &[value])
    }

    /// With a number of 64 bits.
    pub fn with_u64(self, kind: u16, value: u64) -> Self {
        self.with(kind, &value.to_ne_bytes())
    }

    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_their_length_and_are_padded() {
        let bytes = Options::words(&[7])
            .with_u8(3, 9)
            .with_u32(4, 1)
            .into_bytes();
        let expected: Vec<u8> = [
            &7u32.to_ne_bytes()[..],
            &5u16.to_ne_bytes(),
            &3u16.to_ne_bytes(),
            &[9, 0, 0, 0],
            &8u16.to_ne_bytes(),
            &4u16.to_ne_bytes(),
            &1u32.to_ne_bytes(),
        ]
        .concat();
        assert_eq!(bytes, expected);
    }
}
