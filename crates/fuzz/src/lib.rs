//! A small mutation fuzzer that runs as an ordinary test on stable Rust.
//!
//! Coverage-guided engines (libFuzzer, AFL) need a nightly compiler or a build
//! of their own; the stable engine of `bolero` draws random bytes without
//! mutating a corpus. What a test suite wants is less: every kept input, then
//! a few thousand mutations of them, the same ones on each run. A target that
//! panics prints its input, which then joins the corpus.
//!
//! Used as a development dependency only:
//! ```
//! let seeds = narrows_fuzz::Corpus::of([b"10ms".to_vec(), b"50Mbit".to_vec()]);
//! seeds.with_words(&["us", "-", "99999999999999999999"]).run(1_000, |input| {
//!     let _ = std::str::from_utf8(input);
//! });
//! ```
//! `FUZZ_RUNS=1000000 cargo test fuzz_` runs longer.

#![forbid(unsafe_code)]

mod mutate;

use std::fmt::{Debug, Display};
use std::ops::Range;
use std::path::Path;

use mutate::{Mutator, Source};

/// Inputs to start from, and words worth inserting.
#[derive(Clone, Debug, Default)]
pub struct Corpus {
    seeds: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
}

impl Corpus {
    /// The given inputs.
    pub fn of(seeds: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self {
            seeds: seeds.into_iter().collect(),
            words: Vec::new(),
        }
    }

    /// Every file in `directory`, in order of name.
    ///
    /// # Panics
    /// When the directory cannot be read or is empty: a fuzz test without its
    /// corpus must not pass.
    pub fn in_directory(directory: impl AsRef<Path>) -> Self {
        let directory = directory.as_ref();
        let entries = std::fs::read_dir(directory)
            .unwrap_or_else(|e| panic!("corpus {}: {e}", directory.display()));
        let mut files: Vec<_> = entries
            .map(|e| e.expect("a corpus entry can be read").path())
            .filter(|p| p.is_file())
            .collect();
        files.sort();
        assert!(!files.is_empty(), "corpus {} is empty", directory.display());
        Self::of(
            files
                .iter()
                .map(|p| std::fs::read(p).unwrap_or_else(|e| panic!("{}: {e}", p.display()))),
        )
    }

    /// Every line of a text file: for parsers whose whole input is a line.
    ///
    /// # Panics
    /// When the file cannot be read or is empty.
    pub fn lines_of(file: impl AsRef<Path>) -> Self {
        let file = file.as_ref();
        let text =
            std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        assert!(!text.is_empty(), "corpus {} is empty", file.display());
        Self::of(text.lines().map(|line| line.as_bytes().to_vec()))
    }

    /// Further words that mutations insert: keys, units, magic numbers.
    #[must_use]
    pub fn with_words(mut self, words: &[&str]) -> Self {
        self.words
            .extend(words.iter().map(|w| w.as_bytes().to_vec()));
        self
    }

    /// Fuzzes what reads and writes lines of words. Every line of the corpus is
    /// read by `parse`; of mutations, what is read is written by its `Display` so
    /// that it reads back the same, and handed to `each`; what is refused is
    /// refused at a place of whole characters in its line, which `place` gives.
    ///
    /// Gives back how many mutations were read: if next to none are, the target
    /// tests only how it refuses.
    ///
    /// # Panics
    /// When one of these does not hold.
    pub fn run_words<T, E>(
        &self,
        runs: u32,
        parse: impl Fn(&str) -> Result<T, E>,
        place: impl Fn(&E) -> Range<usize>,
        mut each: impl FnMut(T),
    ) -> u32
    where
        T: Display + Debug + PartialEq,
        E: Display + Debug,
    {
        let mut seeds = self.seeds.len();
        let mut read = 0;
        self.run(runs, |input| {
            let line = String::from_utf8_lossy(input);
            let seed = seeds > 0;
            seeds -= usize::from(seed);
            match parse(&line) {
                Ok(value) => {
                    read += u32::from(!seed);
                    let written = value.to_string();
                    match parse(&written) {
                        Ok(again) => assert_eq!(again, value, "`{written}` says the same"),
                        Err(e) => panic!("`{written}` does not read back: {e}"),
                    }
                    each(value);
                }
                Err(e) if seed => panic!("`{line}` of the corpus: {e}"),
                Err(e) => assert!(line.get(place(&e)).is_some(), "no place in the line: {e:?}"),
            }
        });
        read
    }

    /// Gives `target` every input of the corpus and then `runs` mutations of
    /// them (as many as `FUZZ_RUNS` says, where that is set). The mutations are
    /// the same for the same corpus.
    pub fn run(&self, runs: u32, mut target: impl FnMut(&[u8])) {
        let runs = std::env::var("FUZZ_RUNS")
            .ok()
            .and_then(|n| n.parse().ok())
            .unwrap_or(runs);
        for seed in &self.seeds {
            let _shown = ShownOnPanic(seed);
            target(seed);
        }
        let mut mutator = Mutator::new(&self.seeds, &self.words, Source::default());
        for _ in 0..runs {
            let input = mutator.next_input();
            let _shown = ShownOnPanic(input);
            target(input);
        }
    }
}

/// Prints an input if the target panics on it.
struct ShownOnPanic<'a>(&'a [u8]);

impl Drop for ShownOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the target failed on this input ({} bytes): b\"{}\"",
                self.0.len(),
                self.0.escape_ascii()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "says the same")]
    fn words_that_read_back_as_others_are_found() {
        let corpus = Corpus::of([b"1".to_vec()]);
        // Reads 1 as 2.
        let parse = |line: &str| line.trim().parse::<u8>().map(|n| n.wrapping_add(1));
        corpus.run_words(0, parse, |_| 0..0, drop);
    }

    #[test]
    #[should_panic(expected = "no place in the line")]
    fn words_that_are_refused_elsewhere_are_found() {
        let corpus = Corpus::of([b"1".to_vec()]);
        corpus.run_words(1_000, str::parse::<u8>, |_| 99..100, drop);
    }
}
