//! The last few of many things.

/// How many: rules of a few kinds in turn are still found.
const KEPT: usize = 8;

/// Things, of which the last ones are kept.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    kept: Vec<T>,
    /// Where the oldest one is, once there are as many as are kept.
    oldest: usize,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            oldest: 0,
        }
    }
}

impl<T> Recent<T> {
    /// Those that are kept, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.kept.iter()
    }

    /// Keeps one more, in place of the oldest one.
    pub(crate) fn push(&mut self, new: T) {
        match self.kept.len() < KEPT {
            true => self.kept.push(new),
            false => {
                self.kept[self.oldest] = new;
                self.oldest = (self.oldest + 1) % KEPT;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_eight_are_kept() {
        let mut recent = Recent::default();
        for number in 0..21 {
            recent.push(number);
            let mut kept: Vec<i32> = recent.iter().copied().collect();
            kept.sort_unstable();
            let last: Vec<i32> = ((number - 7).max(0)..=number).collect();
            assert_eq!(kept, last);
        }
    }
}
