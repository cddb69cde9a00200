//! The types of lower floors that a plan is made of.

pub use crate::control::Control;
pub use narrows_app::{Carries, Traffic};
pub use narrows_efm::SignalSpec;
pub use narrows_path::{Dscp, EcnWord, ElementSpec};
pub use narrows_tcp::{
    EcnMode, Gro, HostModel, MtuProbing, MtuProbingUse, PacingUse, ReceiveTuning, Segmentation,
    SendBuffer, SmallQueues,
};
