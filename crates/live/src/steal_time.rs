//! Steal time: processor time that the hypervisor gave to others.

/// The processors' time so far, from the first line of `/proc/stat`
/// (proc_stat(5)): user, nice, system, idle, iowait, irq, softirq, steal, in
/// clock ticks; guest time is in user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    pub(crate) fn read() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        const STEAL: usize = 7;
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line
            .split_whitespace()
            .take(STEAL + 1)
            .map_while(|word| word.parse().ok())
            .collect();
        Some(Self {
            all: ticks.iter().sum(),
            stolen: *ticks.get(STEAL)?,
        })
    }

    /// In percent; `None` where no tick has passed.
    pub(crate) fn steal_since(self, before: Self) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|n| *n > 0)?;
        let stolen = self.stolen.saturating_sub(before.stolen);
        Some(100.0 * stolen as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_a_share_of_all_time() {
        let at =
            |user, steal| Ticks::parse(&format!("cpu  {user} 0 50 800 0 0 5 {steal} 0 0\ncpu0 1"));
        let (before, after) = (at(100, 10).unwrap(), at(280, 30).unwrap());
        assert_eq!(after.steal_since(before), Some(10.0));
        assert_eq!(before.steal_since(before), None);
        assert_eq!(Ticks::parse("cpu  1 2 3 4"), None);
        assert_eq!(Ticks::parse(""), None);
    }
}
