//! Marks and drops, counted by what caused them.

use narrows_core::{DropCause, MarkCause};
use serde::{Deserialize, Serialize};

macro_rules! counts {
    (
        $(#[$of:meta])* $name:ident by $cause:ident;
        $($(#[$about:meta])* $field:ident of $variant:ident;)*
    ) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name {
            $($(#[$about])* pub $field: u64,)*
        }

        impl $name {
            /// Counts one.
            pub fn count(&mut self, cause: $cause) {
                *match cause {
                    $($cause::$variant => &mut self.$field,)*
                } += 1;
            }

            /// All of them.
            pub fn total(&self) -> u64 {
                0 $(+ self.$field)*
            }

            /// Cause and count, in a fixed order, for tables.
            pub fn by_cause(&self) -> [(&'static str, u64); [$(stringify!($field)),*].len()] {
                [$((stringify!($field), self.$field)),*]
            }

            /// Those that there were, for people: `3 (step), 1 (overflow)`.
            pub fn text(&self) -> String {
                let there = self.by_cause().into_iter().filter(|(_, n)| *n > 0);
                let each = there.map(|(cause, n)| format!("{n} ({cause})"));
                each.collect::<Vec<_>>().join(", ")
            }
        }
    };
}

counts! {
    /// CE marks by cause.
    MarkCounts by MarkCause;
    /// A shallow threshold.
    step of Step;
    /// Coupled over from the classic queue.
    coupled of Coupled;
    /// The AQM's own law.
    probability of Probability;
    /// Instead of a drop at a limit.
    overflow of Overflow;
}

counts! {
    /// Drops by cause.
    DropCounts by DropCause;
    /// A limit was reached.
    overflow of Overflow;
    /// The AQM's law.
    probability of Probability;
    /// The AQM is overloaded.
    overload of Overload;
    /// Random loss.
    loss of Loss;
    /// No route, or the link was down.
    unreachable of Unreachable;
    /// A middlebox's rule.
    policy of Policy;
    /// Not readable, or with a wrong checksum.
    malformed of Malformed;
    /// Larger than the MTU.
    too_big of TooBig;
    /// Below a window against replayed packets.
    #[serde(default)]
    replay of Replay;
    /// No socket at the host that it was for.
    #[serde(default)]
    no_socket of NoSocket;
}
