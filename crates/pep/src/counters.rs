//! What a proxy has done.

use std::iter::Sum;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Declares the counts once: names, and what they are, for people and for metrics.
macro_rules! counters {
    ($($name:ident: $about:literal,)*) => {
        /// Counts since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Counters {
            $(#[doc = $about] #[doc = "."] pub $name: u64,)*
        }

        impl Counters {
            /// Name, description and value of each.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), $about, self.$name),)*].into_iter()
            }
        }

        impl AddAssign for Counters {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    accepted: "Connections that clients opened",
    denied: "Of these, by clients that are not admitted",
    over_tunnels: "Of these, reset as there were as many tunnels as are allowed",
    over_client: "Of these, reset as the client had as many tunnels as it may have",
    opened: "Tunnels whose both ends were open",
    refused: "Clients that were refused, by their request, by the destination or for want of room",
    closed: "Tunnels that ended in order",
    broken: "Tunnels of which one end broke",
    direct: "Tunnels that went without the parent proxy",
    request_timeouts: "Clients whose request did not come in time",
    connect_timeouts: "Connections to destinations that did not open in time",
    idle_timeouts: "Tunnels in which nothing moved for too long",
    names: "Names that clients asked for",
    names_refused: "Of these, those for which there was no room",
    name_timeouts: "Of these, those whose addresses were not found in time",
    memory_short: "Times that a tunnel got no memory to read ahead of what goes out",
    lines_held_back: "Lines of the log that were held back, as there were too many",
    bytes_up: "Payload bytes read from clients, requests not counted",
    bytes_down: "Payload bytes read from destinations",
}

impl Sum for Counters {
    /// What several proxies have done together.
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

/// How often something took how long, in classes of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// How many took up to each of [`BOUNDS_MS`](Self::BOUNDS_MS), and longer than the one
    /// before; last those that took longer than all.
    pub counts: [u64; 16],
    /// Milliseconds, all together.
    pub sum_ms: u64,
}

impl Histogram {
    /// Upper bounds of the classes, in milliseconds (our choice: three for each power of ten, from
    /// a network's round trip to a long transfer).
    pub const BOUNDS_MS: [u64; 15] = [
        1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 10_000, 60_000, 600_000, 3_600_000,
    ];

    /// Counts one that took so many milliseconds.
    pub fn note(&mut self, ms: u64) {
        let class = Self::BOUNDS_MS.partition_point(|bound| *bound < ms);
        self.counts[class] += 1;
        self.sum_ms += ms;
    }
}

impl AddAssign<&Self> for Histogram {
    fn add_assign(&mut self, other: &Self) {
        for (own, more) in self.counts.iter_mut().zip(other.counts) {
            *own += more;
        }
        self.sum_ms += other.sum_ms;
    }
}

/// What a proxy has done at one listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Book {
    /// What it has counted.
    #[serde(flatten)]
    pub counters: Counters,
    /// How long connections to destinations took to open, from the client's arrival on.
    pub opening: Histogram,
    /// How long tunnels lasted that were open.
    pub lasting: Histogram,
}

impl AddAssign<&Self> for Book {
    fn add_assign(&mut self, other: &Self) {
        self.counters += other.counters;
        self.opening += &other.opening;
        self.lasting += &other.lasting;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_in_the_class_that_it_just_fits() {
        let mut histogram = Histogram::default();
        for ms in [0, 1, 2, 3, 3_600_000, 3_600_001] {
            histogram.note(ms);
        }
        assert_eq!(histogram.counts[..4], [2, 1, 1, 0]);
        assert_eq!(histogram.counts[14..], [1, 1]);
        assert_eq!(histogram.sum_ms, 7_200_007);
        assert!(Histogram::BOUNDS_MS.is_sorted());
    }

    #[test]
    fn each_count_is_in_the_sum_and_has_its_name() {
        let one = Counters {
            accepted: 1,
            bytes_down: 2,
            ..Counters::default()
        };
        let sum: Counters = [one, one].into_iter().sum();
        let values: Vec<_> = sum.each().filter(|(.., value)| *value > 0).collect();
        assert_eq!(values.len(), 2);
        assert_eq!((values[0].0, values[0].2), ("accepted", 2));
        assert_eq!((values[1].0, values[1].2), ("bytes_down", 4));
    }

    #[test]
    fn the_sum_of_two_listeners_books_has_the_counts_and_times_of_both() {
        let book = |ms: u64| {
            let mut book = Book::default();
            book.counters.accepted = ms;
            book.opening.note(ms);
            book.lasting.note(10 * ms);
            book
        };
        let mut sum = book(3);
        sum += &book(4);
        sum += &book(300);
        assert_eq!(sum.counters.accepted, 307);
        // Up to 5 ms twice, and up to 500 ms; of ten times that up to 50 ms and 5 s.
        assert_eq!(sum.opening.counts[2..9], [2, 0, 0, 0, 0, 0, 1]);
        assert_eq!((sum.opening.sum_ms, sum.lasting.sum_ms), (307, 3_070));
        assert_eq!((sum.lasting.counts[5], sum.lasting.counts[10]), (2, 1));
    }
}
