//! What can go wrong between a congestion control and the kernel.

/// A sentence for the user: what was tried, what the kernel said, what to do.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The crate was compiled without what loads BPF.
    #[error("{0}")]
    NotBuilt(&'static str),
    /// The registered name is empty, too long or holds a character that
    /// `setsockopt(TCP_CONGESTION)` could not distinguish.
    #[error(
        "a congestion control cannot be registered as `{0}`: 1 to 15 letters, digits, `_` or `.` are allowed"
    )]
    Name(String),
    /// The running kernel lacks something.
    #[error("{what}: {hint}")]
    Kernel {
        /// What is not there.
        what: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// The kernel refused a step.
    #[error("could not {what}: {why}")]
    Refused {
        /// The step, as a verb phrase.
        what: String,
        /// What the kernel or the verifier answered.
        why: String,
    },
    /// This process may not do it.
    #[error("could not {what}: {why}: this needs root (CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN)")]
    NoPermission {
        /// The step, as a verb phrase.
        what: String,
        /// What the kernel answered.
        why: String,
    },
    /// An option was refused.
    #[error(transparent)]
    Option(#[from] narrows_cc::OptionError),
    /// A ring buffer held something that is no record.
    #[error("a record of {0} bytes came from the kernel, where {1} are expected")]
    Record(usize, usize),
    /// A file of the kernel cannot be read, or its devices cannot be listed.
    #[error("could not read what the kernel says of its devices and namespaces: {0}")]
    Io(#[from] std::io::Error),
}

/// What a build without clang or libbpf answers.
pub(crate) const NOT_BUILT: &str = if cfg!(not(target_os = "linux")) {
    "congestion controls can be loaded into the kernel on Linux only"
} else if cfg!(not(feature = "load")) {
    "built without libbpf: apt-get install clang llvm libelf-dev zlib1g-dev pkg-config and build again with the feature `load`"
} else {
    "built without clang: apt-get install clang llvm libelf-dev zlib1g-dev pkg-config and build again"
};
