//! What searches cost.

/// What a discovery has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Probes sent.
    pub probes: u64,
    /// Bytes of their packets, headers included.
    pub bytes: u64,
    /// Sizes tried, each once however many probes it took.
    pub sizes_tried: u32,
    /// Sizes that arrived.
    pub sizes_arrived: u32,
    /// Sizes given up.
    pub sizes_failed: u32,
    /// Black holes found.
    pub black_holes: u32,
    /// Reports that were used.
    pub reports_used: u32,
    /// Reports that were not.
    pub reports_ignored: u32,
}

impl Counts {
    /// Each of its numbers with the same of `other`.
    fn with(self, other: Self, wide: fn(u64, u64) -> u64, narrow: fn(u32, u32) -> u32) -> Self {
        Self {
            probes: wide(self.probes, other.probes),
            bytes: wide(self.bytes, other.bytes),
            sizes_tried: narrow(self.sizes_tried, other.sizes_tried),
            sizes_arrived: narrow(self.sizes_arrived, other.sizes_arrived),
            sizes_failed: narrow(self.sizes_failed, other.sizes_failed),
            black_holes: narrow(self.black_holes, other.black_holes),
            reports_used: narrow(self.reports_used, other.reports_used),
            reports_ignored: narrow(self.reports_ignored, other.reports_ignored),
        }
    }
}

impl std::ops::Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, |a, b| a + b, |a, b| a + b)
    }
}

impl std::ops::Sub for Counts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        self.with(before, |a, b| a - b, |a, b| a - b)
    }
}
