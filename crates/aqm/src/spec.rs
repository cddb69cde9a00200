//! Any queue by its words.

use narrows_units::{Word, WordError, Words};

use crate::fifo::FifoConfig;
use crate::tc_line::{self, Discipline};
use crate::{QUEUES, QueueSpec};

/// From one line for each queue (the word, the name, the parameters and how the queue is
/// made of them): all that depends on which queues there are. What a queue answers of
/// itself is the [`Parameters`](crate::reading::Parameters) of it.
macro_rules! queues {
    ($($(#[doc = $doc:literal])+ $kind:literal => $name:ident($config:ty), $new:path;)+) => {
        /// A queue discipline and its parameters, checked, not yet built.
        #[derive(Clone, Debug, PartialEq)]
        pub enum QueueSpec {
            $($(#[doc = $doc])+ $name($config),)+
        }

        /// The words that queues begin with.
        pub const QUEUES: &[&str] = &[$($kind),+];

        /// What each queue is, and its parameters.
        pub const QUEUE_KINDS: &[narrows_units::Declared] = &[$(narrows_units::Declared {
            name: $kind,
            about: concat!($($doc),+).trim_ascii(),
            parameters: <$config as $crate::reading::Parameters>::PARAMETERS,
        }),+];

        /// The names of the bands of the queues that have several, each once.
        pub fn bands() -> Vec<&'static str> {
            let mut all = Vec::new();
            $(for band in <$config as $crate::reading::Parameters>::BANDS {
                if !all.contains(band) {
                    all.push(*band);
                }
            })+
            all
        }

        impl QueueSpec {
            /// Reads the parameters of a queue; `None` if there is no such kind.
            fn read(kind: &str, words: narrows_units::Words<'_>) -> Option<Result<Self, narrows_units::WordError>> {
                Some(match kind {
                    $($kind => $crate::reading::fresh(words).map(Self::$name),)+
                    _ => return None,
                })
            }

            /// How long a packet may wait before it is marked for that alone, whatever waits
            /// behind it; `None` where time alone marks nothing.
            pub fn marking_step(&self) -> Option<narrows_units::Duration> {
                match self {
                    $(Self::$name(c) => $crate::reading::Parameters::marking_step(c),)+
                }
            }

            /// The rate that the queue itself holds its packets to; `None` if the link alone
            /// limits them.
            pub fn shaped_to(&self) -> Option<narrows_units::Rate> {
                match self {
                    $(Self::$name(c) => $crate::reading::Parameters::shaped_to(c),)+
                }
            }

            /// The bucket into which the queue that [`build`](Self::build) makes with `rng`
            /// sorts `packet`: packets of one bucket are one flow to it. `None` of a queue
            /// that keeps no flows apart.
            pub fn bucket_of(&self, rng: narrows_units::Rng, packet: &narrows_core::Packet) -> Option<usize> {
                match self {
                    $(Self::$name(c) => $crate::reading::Parameters::bucket_of(c, rng, packet),)+
                }
            }

            /// The kind's name, the first word of its line.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => $kind,)+
                }
            }

            /// The spec after a change in mid-run: `words` are parameters, with or
            /// without the kind before them; what they do not name stays.
            ///
            /// # Errors
            /// When the words are not this queue's, or name a parameter that cannot
            /// be changed while the queue runs.
            pub fn changed(&self, words: &str) -> Result<Self, narrows_units::WordError> {
                match self {
                    $(Self::$name(c) => $crate::reading::changed(c, $kind, words).map(Self::$name),)+
                }
            }

            /// The queue itself, named `entity` in events, feeding `link`, with
            /// `rng` as its own generator.
            pub fn build(&self, entity: narrows_core::EntityId, link: LinkFacts, rng: narrows_units::Rng) -> Box<dyn narrows_core::Queue> {
                match self {
                    $(Self::$name(c) => Box::new($new(c.clone(), entity, link, rng)),)+
                }
            }
        }

        impl std::fmt::Display for QueueSpec {
            /// The words in tc's order, without those that say the default.
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.kind())?;
                match self {
                    $(Self::$name(c) => $crate::reading::write(c, f),)+
                }
            }
        }
    };
}

impl Default for QueueSpec {
    /// `pfifo`, as a Linux device has if nothing else is said.
    fn default() -> Self {
        Self::Pfifo(FifoConfig::default())
    }
}

/// What may follow `queue`.
fn allowed() -> String {
    let (last, others) = QUEUES.split_last().unwrap_or((&"", &[]));
    format!("a queue: {} or {last}", others.join(", "))
}

/// What comes nearest to a queueing discipline of Linux that is not here.
fn nearest(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "sfb" | "choke" | "gred" => "the nearest is `red`",
        "netem" => {
            "delay, loss and reordering are an element of their own beside the rate: `netem delay 10ms`"
        }
        "pfifo_fast" => "the nearest is `prio`, which has its bands",
        "mq" | "noqueue" => "the nearest is `pfifo`",
        _ => return None,
    })
}

impl QueueSpec {
    /// Reads what follows `queue` in an element's line: the kind of queue and
    /// its parameters as tc writes them.
    ///
    /// # Errors
    /// When the kind or a parameter is unknown, or a value is one that tc or
    /// the kernel would refuse. The place in the error counts from the start
    /// of `words`. They may be a whole line for tc; `netem` in it is no queue.
    pub fn parse(words: &str) -> Result<Self, WordError> {
        if let Some(Discipline { kind, parameters }) = tc_line::discipline_of(words)? {
            return Self::of(kind, Words::new(parameters.text), parameters.start);
        }
        let mut words = Words::new(words);
        let kind = words.needed(&allowed())?;
        Self::of(kind, words, 0)
    }

    /// Reads the parameters of the queue that begins with `kind` from `words`, which begin
    /// at `start` of the line that `kind` is in.
    fn of(kind: Word<'_>, words: Words<'_>, start: usize) -> Result<Self, WordError> {
        match Self::read(kind.text, words) {
            Some(read) => read.map_err(|e| e.shifted(start)),
            None => {
                let error = kind.refused(allowed());
                Err(match nearest(kind.text) {
                    Some(near) => error.with_help(format!("`{}` is not here; {near}", kind.text)),
                    None => error,
                })
            }
        }
    }
}

narrows_units::written_as_words!(QueueSpec);

#[cfg(test)]
mod tests;
