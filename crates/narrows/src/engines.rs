//! Which engines there are, and what they take.

use narrows_results::{Engine, Error};
use narrows_scenario::Refusal;
use narrows_sim::SimEngine;

/// An engine by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineName {
    /// The deterministic simulator.
    #[default]
    Sim,
    /// The machine's own stacks.
    Live,
    /// The stacks of a kernel that is booted for each run, in virtual time.
    Kernel,
}

impl EngineName {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sim, Self::Live, Self::Kernel];

    /// As it is typed.
    pub fn word(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Live => "live",
            Self::Kernel => "kernel",
        }
    }

    /// Why this process cannot run anything on it, if it cannot.
    pub fn hindrance(self) -> Option<String> {
        #[cfg(target_os = "linux")]
        if self == Self::Live && !narrows_linux::has_rights() {
            return Some("it takes the rights of root, which this process has not got".to_owned());
        }
        self.engine(None).err().map(|refusal| refusal.to_string())
    }

    /// The engine; of kernels in virtual time, that of the one whose id or release begins with
    /// `kernel`, or of the one that was built last.
    ///
    /// # Errors
    /// When this system has no such engine or kernel, or the engine takes none.
    pub fn engine(self, kernel: Option<&str>) -> Result<Box<dyn Engine>, Refusal> {
        if let Some(kernel) = kernel.filter(|_| self != Self::Kernel) {
            let allowed = "a kernel with `--engine kernel` only";
            return Err(Refusal::new("--kernel", format!("`{kernel}`"), allowed));
        }
        match self {
            Self::Sim => Ok(Box::new(SimEngine)),
            #[cfg(target_os = "linux")]
            Self::Live => Ok(Box::new(narrows_live::LiveEngine)),
            #[cfg(target_os = "linux")]
            Self::Kernel => Ok(Box::new(crate::kernel_engine(kernel)?)),
            #[cfg(not(target_os = "linux"))]
            Self::Live | Self::Kernel => {
                let help = format!(
                    "all but the simulator run Linux's stacks, and this is {}",
                    std::env::consts::OS
                );
                Err(Refusal::new("--engine", "an engine of Linux's", "`sim`").with_help(help))
            }
        }
    }
}

/// Gives the process the rights that a live run takes, if its user has not got
/// them: those of root in a user namespace of its own. To be called before any
/// thread is started, for Linux moves no process that has several. Returns whether it
/// now has such a namespace, in which there is no BPF; elsewhere there is nothing to gain.
///
/// # Errors
/// When the machine allows no such namespace.
pub fn gain_rights() -> Result<bool, Error> {
    #[cfg(target_os = "linux")]
    if !narrows_linux::has_rights() {
        narrows_linux::become_root_of_own_user_namespace()
            .map_err(|error| Error::NoPermission(error.to_string()))?;
        return Ok(true);
    }
    Ok(false)
}
