//! CUBIC's parameters and the words for them: those of Linux's module
//! (net/ipv4/tcp_cubic.c v6.17) and `hystart++`.

use std::fmt;

use narrows_units::{Value, WordError, Words};

use crate::spec::{choose, once};

/// `enum nw_cubic_flag`.
const FAST_CONVERGENCE: u32 = 1;
const FRIENDLY: u32 = 2;

/// Linux's `hystart_detect` by value; `hystart++` has the next bit.
const HYSTART: [&str; 4] = ["off", "train", "delay", "both"];
const HYSTART_PLUSPLUS: u32 = 4;
const SWITCH: [&str; 2] = ["off", "on"];
/// `enum nw_cubic_mutant`, by bit.
const MUTANT: [&str; 1] = ["alpha-one"];

const BETA: u32 = 717;
const BIC_SCALE: u32 = 41;
const LOW_WINDOW: u32 = 16;

const WORDS: &str = "`hystart`, `hystart++`, `fast_convergence`, `tcp_friendliness`, `beta`, \
                     `bic_scale`, `hystart_low_window` or `initial_ssthresh`";

/// `struct nw_cubic_params` of kernel/cubic.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CubicParams {
    cube_factor: u64,
    c: u32,
    beta: u32,
    beta_scale: u32,
    flags: u32,
    hystart: u32,
    low_window: u32,
    ack_delta_us: u32,
    initial_ssthresh: u32,
    mutant: u32,
    unused: u32,
}

const _: () = assert!(size_of::<CubicParams>() == 48);
const _: () = assert!(core::mem::offset_of!(CubicParams, hystart) == 24);
const _: () = assert!(core::mem::offset_of!(CubicParams, mutant) == 40);

impl CubicParams {
    const fn new(beta: u32, bic_scale: u32) -> Self {
        let c = bic_scale * 10;
        Self {
            cube_factor: (1 << 40) / c as u64,
            c,
            beta,
            beta_scale: 8 * (1024 + beta) / 3 / (1024 - beta),
            flags: FAST_CONVERGENCE | FRIENDLY,
            hystart: 3,
            low_window: LOW_WINDOW,
            ack_delta_us: 2000,
            initial_ssthresh: 0,
            mutant: 0,
            unused: 0,
        }
    }

    /// Reads what follows `cubic`.
    pub(crate) fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let (mut hystart, mut convergence, mut friendly, mut mutant) = (None, None, None, None);
        let (mut beta, mut scale, mut low, mut ssthresh) = (None, None, None, None);
        while let Some(key) = words.take() {
            match key.text {
                "hystart" => choose(words, key, &mut hystart, &HYSTART)?,
                "hystart++" => once(key, &mut hystart, HYSTART_PLUSPLUS as usize)?,
                "fast_convergence" => choose(words, key, &mut convergence, &SWITCH)?,
                "tcp_friendliness" => choose(words, key, &mut friendly, &SWITCH)?,
                "mutant" => choose(words, key, &mut mutant, &MUTANT)?,
                "beta" => once(key, &mut beta, words.value::<Beta>()?.0)?,
                "bic_scale" => once(key, &mut scale, words.value::<BicScale>()?.0)?,
                "hystart_low_window" => once(key, &mut low, words.value::<u32>()?)?,
                "initial_ssthresh" => once(key, &mut ssthresh, words.value::<u32>()?)?,
                other => {
                    return Err(WordError::new(key.span(), format!("`{other}`"), WORDS));
                }
            }
        }
        let mut params = Self::new(beta.unwrap_or(BETA), scale.unwrap_or(BIC_SCALE));
        if let Some(hystart) = hystart {
            params.hystart = u32::try_from(hystart).unwrap_or(0);
        }
        if convergence == Some(0) {
            params.flags &= !FAST_CONVERGENCE;
        }
        if friendly == Some(0) {
            params.flags &= !FRIENDLY;
        }
        if let Some(mutant) = mutant {
            params.mutant = 1 << mutant;
        }
        params.low_window = low.unwrap_or(LOW_WINDOW);
        params.initial_ssthresh = ssthresh.unwrap_or(0);
        Ok(params)
    }
}

/// The share of the window that a reduction keeps, of 1024.
struct Beta(u32);

impl Value for Beta {
    const ALLOWED: &'static str = "a whole number from 1 to 1023 (of 1024)";

    fn parse(word: &str) -> Option<Self> {
        word.parse()
            .ok()
            .filter(|n| (1..=1023).contains(n))
            .map(Self)
    }
}

/// C × 1024 / 10; above 102 the cube of the longest time would not fit 64 bits.
struct BicScale(u32);

impl Value for BicScale {
    const ALLOWED: &'static str = "a whole number from 1 to 102 (C is 10/1024 of it)";

    fn parse(word: &str) -> Option<Self> {
        word.parse()
            .ok()
            .filter(|n| (1..=102).contains(n))
            .map(Self)
    }
}

impl fmt::Display for CubicParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cubic")?;
        match self.hystart {
            3 => {}
            HYSTART_PLUSPLUS => f.write_str(" hystart++")?,
            other => write!(f, " hystart {}", HYSTART[other as usize])?,
        }
        if self.flags & FAST_CONVERGENCE == 0 {
            f.write_str(" fast_convergence off")?;
        }
        if self.flags & FRIENDLY == 0 {
            f.write_str(" tcp_friendliness off")?;
        }
        if self.beta != BETA {
            write!(f, " beta {}", self.beta)?;
        }
        if self.c != BIC_SCALE * 10 {
            write!(f, " bic_scale {}", self.c / 10)?;
        }
        if self.low_window != LOW_WINDOW {
            write!(f, " hystart_low_window {}", self.low_window)?;
        }
        if self.initial_ssthresh != 0 {
            write!(f, " initial_ssthresh {}", self.initial_ssthresh)?;
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
