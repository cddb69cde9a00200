//! Plausible wrong rules, kept so that tests can prove that they are caught.
//!
//! A mutation has no effect unless the crate is built for its own tests or
//! with the feature `mutants`, and only then do the words `mutant NAME` exist.

use narrows_units::Value;

/// A wrong rule that an implementation could plausibly have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mutation {
    /// The right rules.
    #[default]
    None,
    /// `dualpi2 variant linux-2020`: the step marks every L packet above the
    /// threshold, however few packets were waiting when it came.
    UngatedStep,
    /// `dualpi2`: the PI controller is fed the age of the newest packet
    /// instead of that of the oldest.
    NewestDelay,
    /// `dualpi2`: the classic queue marks with p′ instead of p′².
    Unsquared,
    /// `dualpi2`: the low-latency queue marks with p′ instead of k·p′.
    Uncoupled,
    /// `pfifo`, `bfifo`: the limit holds only for packets that have not waited
    /// yet, that is while the oldest packet is of this very instant.
    ZeroDelayLimit,
}

/// Whether this build knows wrong rules at all.
pub(crate) const KEPT: bool = cfg!(any(test, feature = "mutants"));

impl Mutation {
    /// Whether `wrong` is in force.
    #[inline]
    pub(crate) fn is(self, wrong: Self) -> bool {
        KEPT && self == wrong
    }

    /// The name in `mutant NAME`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::UngatedStep => "ungated-step",
            Self::NewestDelay => "newest-delay",
            Self::Unsquared => "unsquared",
            Self::Uncoupled => "uncoupled",
            Self::ZeroDelayLimit => "zero-delay-limit",
        }
    }
}

impl Value for Mutation {
    const ALLOWED: &'static str =
        "none, ungated-step, newest-delay, unsquared, uncoupled or zero-delay-limit";

    fn parse(word: &str) -> Option<Self> {
        [
            Self::None,
            Self::UngatedStep,
            Self::NewestDelay,
            Self::Unsquared,
            Self::Uncoupled,
            Self::ZeroDelayLimit,
        ]
        .into_iter()
        .find(|m| m.name() == word)
    }
}
