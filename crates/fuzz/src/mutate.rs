//! The mutations.

/// SplitMix64 (Steele, Lea, Flood 2014): enough randomness for a fuzzer, and
/// the same on every machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source(u64);

impl Source {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 for 0.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Bytes at which parsers change their mind.
const EDGES: [u8; 12] = [0, 1, 2, 4, 7, 8, 0x7f, 0x80, 0xfe, 0xff, b'"', b' '];

/// The longest input that mutations grow to.
const MAX_LEN: usize = 1 << 16;

/// Makes inputs from a corpus.
pub(crate) struct Mutator<'a> {
    seeds: &'a [Vec<u8>],
    words: &'a [Vec<u8>],
    source: Source,
    input: Vec<u8>,
}

impl<'a> Mutator<'a> {
    pub(crate) fn new(seeds: &'a [Vec<u8>], words: &'a [Vec<u8>], source: Source) -> Self {
        Self {
            seeds,
            words,
            source,
            input: Vec::new(),
        }
    }

    /// A seed with one change as often as not, with two half as often, and so
    /// on up to eight: most inputs stay near what a parser takes.
    pub(crate) fn next_input(&mut self) -> &[u8] {
        let mut input = std::mem::take(&mut self.input);
        input.clear();
        let seed = self.source.below(self.seeds.len());
        if let Some(seed) = self.seeds.get(seed) {
            input.extend_from_slice(seed);
        }
        for _ in 0..=self.source.next().trailing_ones().min(7) {
            self.change(&mut input);
        }
        input.truncate(MAX_LEN);
        self.input = input;
        &self.input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let len = input.len();
        let at = self.source.below(len);
        match self.source.below(8) {
            0 if len > 0 => input[at] ^= 1 << self.source.below(8),
            1 if len > 0 => input[at] = EDGES[self.source.below(EDGES.len())],
            2 if len > 0 => input[at] = self.source.next() as u8,
            3 => input.truncate(at),
            4 if len > 0 => {
                let end = at + 1 + self.source.below((len - at).min(16));
                input.drain(at..end.min(len));
            }
            5 => {
                let from = self.source.below(len);
                let end = len.min(from + 1 + self.source.below(32));
                let copy = input[from..end].to_vec();
                insert(input, at, &copy);
            }
            6 => {
                let word = self.source.below(self.words.len());
                match self.words.get(word) {
                    Some(word) => insert(input, at, word),
                    None => insert(input, at, &[self.source.next() as u8]),
                }
            }
            _ => {
                let other = self.source.below(self.seeds.len());
                if let Some(other) = self.seeds.get(other) {
                    let from = self.source.below(other.len());
                    input.truncate(at);
                    input.extend_from_slice(&other[from..]);
                }
            }
        }
    }
}

fn insert(input: &mut Vec<u8>, at: usize, what: &[u8]) {
    input.splice(at..at, what.iter().copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(n: usize) -> Vec<Vec<u8>> {
        let seeds = vec![
            b"hello world".to_vec(),
            b"".to_vec(),
            b"0123456789".to_vec(),
        ];
        let words = vec![b"KEY".to_vec()];
        let mut mutator = Mutator::new(&seeds, &words, Source::default());
        (0..n).map(|_| mutator.next_input().to_vec()).collect()
    }

    #[test]
    fn the_same_corpus_gives_the_same_inputs() {
        assert_eq!(inputs(500), inputs(500));
    }

    #[test]
    fn mutations_shorten_lengthen_splice_and_insert_words() {
        let all = inputs(2_000);
        assert!(all.iter().any(Vec::is_empty));
        assert!(all.iter().any(|i| i.len() > 20));
        assert!(all.iter().any(|i| i.windows(3).any(|w| w == b"KEY")));
        assert!(
            all.iter()
                .any(|i| i.starts_with(b"hel") && i.ends_with(b"789"))
        );
    }

    #[test]
    fn an_empty_corpus_still_makes_inputs() {
        let mut mutator = Mutator::new(&[], &[], Source::default());
        assert!((0..100).any(|_| !mutator.next_input().is_empty()));
    }
}
