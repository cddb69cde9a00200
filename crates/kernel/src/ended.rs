//! How a run ended, as a guest says it.

use narrows_efm::HostSignals;
use narrows_engine::{Ended, Rig};
use narrows_units::Duration;
use serde::{Deserialize, Serialize};

/// [`Ended`] as a document.
#[derive(Serialize, Deserialize)]
pub(crate) struct EndDocument {
    events: u64,
    packets: u64,
    virtual_ns: u64,
    interrupted: bool,
    rig: Option<Rig>,
    signals: Vec<HostSignals>,
}

impl From<Ended> for EndDocument {
    fn from(ended: Ended) -> Self {
        Self {
            events: ended.events,
            packets: ended.packets,
            virtual_ns: ended.virtual_time.as_nanos(),
            interrupted: ended.interrupted,
            rig: ended.rig,
            signals: ended.signals,
        }
    }
}

impl From<EndDocument> for Ended {
    fn from(document: EndDocument) -> Self {
        Self {
            events: document.events,
            packets: document.packets,
            virtual_time: Duration::from_nanos(document.virtual_ns),
            interrupted: document.interrupted,
            rig: document.rig,
            signals: document.signals,
            amended: None,
        }
    }
}
