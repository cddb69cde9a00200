//! Prague's parameters and the words for them.

use std::fmt;

use narrows_units::{Duration, WordError, Words};

use crate::spec::{choose, once};

/// What 2022 and 2024 add to 2020 (`enum nw_prague_flag`).
const FRACTIONAL: u32 = 1;
const OF_2024: u32 = 2;

/// `enum nw_prague_rtt_control`, by value.
const RTT_CONTROL: [&str; 4] = ["none", "rate", "scalable", "additive"];
/// `enum nw_prague_fallback`, by value.
const ECN_FALLBACK: [&str; 3] = ["off", "on", "detect"];
/// `enum nw_prague_mutant`, by bit.
const MUTANT: [&str; 2] = ["rounds", "scale"];
const MUTANT_SCALE: u32 = 2;

/// Longest `rtt_target`: 1 s keeps its square, in the finest unit, far inside
/// 64 bits.
const MAX_TARGET: Duration = Duration::from_secs(1);

const WORDS: &str = "`variant`, `rtt_control`, `rtt_target`, `rtt_transition` or `ecn_fallback`";

/// `struct nw_prague_params` of kernel/prague.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PragueParams {
    alpha_bits: u32,
    flags: u32,
    rtt_control: u32,
    rtt_target_us: u32,
    rtt_transition: u32,
    ecn_fallback: u32,
    mutant: u32,
}

const _: () = assert!(size_of::<PragueParams>() == 28);
const _: () = assert!(core::mem::offset_of!(PragueParams, mutant) == 24);

/// The variants and what each of them is by default. Sources: L4STeam/linux
/// net/ipv4/tcp_prague.c, module version 0.6; the 5.15 tree; version 0.7.
/// Deviation: 2020 has its RTT independence off, as in the published tests of
/// that year (heistp/l4s-tests).
const VARIANTS: [(&str, PragueParams); 3] = [
    ("2020", variant(20, 0, 0, 500)),
    ("2022", variant(20, FRACTIONAL, 1, 500)),
    ("2024", variant(24, FRACTIONAL | OF_2024, 1, 4)),
];

/// The variant that `prague` alone names: the newest.
const DEFAULT: usize = 2;

const fn variant(
    alpha_bits: u32,
    flags: u32,
    rtt_control: u32,
    rtt_transition: u32,
) -> PragueParams {
    PragueParams {
        alpha_bits,
        flags,
        rtt_control,
        rtt_target_us: 25_000,
        rtt_transition,
        ecn_fallback: 0,
        mutant: 0,
    }
}

impl PragueParams {
    /// Whether its authors ask for the fq queueing discipline below TCP: its pacing
    /// follows a fraction below the window (2022, 2024; kernel/prague.h).
    pub(crate) fn wants_fq(&self) -> bool {
        self.flags & FRACTIONAL != 0
    }

    /// Reads what follows `prague`.
    pub(crate) fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let mut variant = None;
        let (mut control, mut fallback, mut mutant) = (None, None, None);
        let (mut target, mut transition) = (None, None);
        let mut fallback_word = None;
        while let Some(key) = words.take() {
            match key.text {
                "variant" => choose(words, key, &mut variant, &VARIANTS.map(|v| v.0))?,
                "rtt_control" => choose(words, key, &mut control, &RTT_CONTROL)?,
                "ecn_fallback" => {
                    fallback_word = Some(key);
                    choose(words, key, &mut fallback, &ECN_FALLBACK)?;
                }
                "mutant" => choose(words, key, &mut mutant, &MUTANT)?,
                "rtt_target" => once(key, &mut target, rtt_target(words)?)?,
                "rtt_transition" => once(key, &mut transition, words.value::<u32>()?)?,
                other => {
                    return Err(WordError::new(key.span(), format!("`{other}`"), WORDS));
                }
            }
        }
        let mut params = VARIANTS[variant.unwrap_or(DEFAULT)].1;
        let index = |i: usize| u32::try_from(i).unwrap_or(0);
        if let Some(control) = control {
            params.rtt_control = index(control);
        }
        if let (Some(fallback), Some(key)) = (fallback, fallback_word) {
            if fallback > 0 && params.flags & OF_2024 != 0 {
                let found = format!("`{} {}`", key.text, ECN_FALLBACK[fallback]);
                let allowed = "`ecn_fallback off`: variant 2024 has no fall-back; \
                               name `variant 2020` or `variant 2022`";
                return Err(WordError::new(key.span(), found, allowed));
            }
            params.ecn_fallback = index(fallback);
        }
        if let Some(mutant) = mutant {
            params.mutant = 1 << mutant;
        }
        if params.mutant == MUTANT_SCALE {
            params.alpha_bits = 24;
        }
        params.rtt_target_us = target.unwrap_or(params.rtt_target_us);
        params.rtt_transition = transition.unwrap_or(params.rtt_transition);
        Ok(params)
    }
}

fn rtt_target(words: &mut Words<'_>) -> Result<u32, WordError> {
    let at = words.peek();
    let target: Duration = words.value()?;
    let us = target.as_nanos() / 1000;
    match (at, u32::try_from(us)) {
        // The coarsest variant counts in 128 µs.
        (_, Ok(us)) if us >= 128 && target <= MAX_TARGET => Ok(us),
        (Some(word), _) => Err(WordError::new(
            word.span(),
            format!("`{}`", word.text),
            "a time from 128us to 1s",
        )),
        (None, _) => Err(words.ended("a time from 128us to 1s")),
    }
}

impl fmt::Display for PragueParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, default) = VARIANTS
            .iter()
            .find(|(_, v)| v.flags == self.flags)
            .unwrap_or(&VARIANTS[DEFAULT]);
        // Always named: the default moves with the tree, and a run's table and a
        // saved scenario are to say what ran.
        write!(f, "prague variant {name}")?;
        if self.rtt_control != default.rtt_control {
            write!(f, " rtt_control {}", RTT_CONTROL[self.rtt_control as usize])?;
        }
        if self.rtt_target_us != default.rtt_target_us {
            let target = Duration::from_micros(u64::from(self.rtt_target_us));
            write!(f, " rtt_target {target}")?;
        }
        if self.rtt_transition != default.rtt_transition {
            write!(f, " rtt_transition {}", self.rtt_transition)?;
        }
        if self.ecn_fallback != default.ecn_fallback {
            write!(
                f,
                " ecn_fallback {}",
                ECN_FALLBACK[self.ecn_fallback as usize]
            )?;
        }
        if self.mutant != 0 {
            write!(
                f,
                " mutant {}",
                MUTANT[self.mutant.trailing_zeros() as usize]
            )?;
        }
        Ok(())
    }
}
