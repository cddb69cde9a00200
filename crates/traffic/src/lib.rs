//! Traffic mixes without I/O: the mix and flow files of trafic, as they stand, and the flows
//! that they are.
//!
//! A mix gives each of its [kinds](KINDS) a share of a bandwidth; [`Mix::read`] sizes it, exactly:
//! how many flows or clients of a kind fit into its share, rounded down. A flow file describes one
//! flow in the words of iperf3. Both become [`FlowSet`]s, which engines and tools run.
//!
//! What is read is bounded before it is used: bytes, nodes (aliases count as what they repeat),
//! depth, and every number. Nothing of it is executed or opened.
//!
//! ```
//! use narrows_traffic::Mix;
//!
//! let text = "total-bandwidth: 12.5MB\ntotal-time: 60s\nflows:\n  \
//!             - {kind: realtime-audio, percent-bandwidth: 1%, ports-range: 5000-5099, \
//!             props: {label: voice, server: host}}\n";
//! let mix = Mix::read("mix.yaml", text).unwrap();
//! assert_eq!(mix.sets[0].instances, 15); // 1 Mbit/s in flows of 64 kbit/s
//! ```

#![forbid(unsafe_code)]

mod error;
mod fields;
mod flow_file;
mod mix;
mod number;
mod set;

pub use error::MixError;
pub use flow_file::{DSCP, dscp};
pub use mix::{KINDS, Kind, Mix};
pub use set::{FlowSet, MAX_TRANSFERS, Offsets, Sends, Starts, Transfer, Until};

/// Bytes of the longest file that is read (our choice): a mix has a few hundred.
pub const MAX_BYTES: usize = 1 << 20;
