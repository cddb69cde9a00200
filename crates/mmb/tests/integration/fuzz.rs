//! Words and packets of any kind: refused or counted, and the box goes on.

use narrows_core::{DOWN, UP};
use narrows_fuzz::Corpus;
use narrows_mmb::{Command, Middlebox, READY, Settings, commands};
use narrows_units::{Duration, Instant, Rng, WordError};

const WORDS: [&str; 30] = [
    " add ",
    " add-stateful ",
    " mod ",
    " strip ",
    " drop ",
    " accept ",
    " map ",
    " shuffle ",
    " all ",
    " ! ",
    "!",
    " == ",
    " != ",
    " < ",
    " >= ",
    " tcp-opt ",
    " tcp-opt-mss ",
    " ip6-eh ",
    " ip-saddr ",
    " ip6-daddr ",
    " tcp-payload ",
    " x",
    " xffff",
    " 10.0.0.1/8",
    " ::1",
    " self",
    " 99999999999999999999",
    " 0.01",
    "%",
    "\u{00b5}",
];

#[test]
fn fuzz_commands() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/commands.txt");
    let corpus = Corpus::lines_of(corpus).with_words(&WORDS);
    let place = |e: &WordError| e.span.clone();
    let read = corpus.run_words(20_000, Command::parse, place, |command| {
        let mut middlebox = Middlebox::new(Settings::default(), Rng::for_name(1, "fuzz"));
        let _ = middlebox.apply(&[command]);
    });
    assert!(read > 300, "mutations that are still commands: {read}");
}

/// All ready boxes in a row, and rules that change every kind of thing.
fn strict() -> Vec<Middlebox> {
    const OTHERS: &str = "add all mod ip-payload x0102 mod ip6-payload x0304
        add tcp-opt add tcp-opt 253 x0102030405060708 mod tcp-opt-sack x00
        add ip6-eh tcp-payload x00 mod tcp-payload xffff
        add-stateful all shuffle ip-id shuffle ip6-flow-label shuffle udp-dport";
    READY
        .iter()
        .map(|ready| ready.rules)
        .chain([OTHERS])
        .map(|rules| {
            let settings = Settings {
                most_connections: 64,
                ..Settings::default()
            };
            let mut middlebox = Middlebox::new(settings, Rng::for_name(1, "fuzz"));
            middlebox.apply(&commands(rules).unwrap()).unwrap();
            middlebox
        })
        .collect()
}

#[test]
fn fuzz_packets() {
    let mut rng = Rng::for_name(1, "packets");
    let seeds: Vec<_> = (0..60).map(|_| crate::packets::drawn(&mut rng)).collect();
    let mut boxes = strict();
    let mut now = Instant::ZERO;
    Corpus::of(seeds).run(20_000, |packet| {
        now += Duration::from_millis(20);
        for middlebox in &mut boxes {
            for (port, tail) in [(UP, 0), (DOWN, 1_000)] {
                let mut bytes = packet.to_vec();
                let mut zeros = tail;
                let before = bytes.len() + zeros as usize;
                middlebox.process(now, port, &mut bytes, &mut zeros);
                let after = bytes.len() + zeros as usize;
                assert!(
                    after.abs_diff(before) <= 40,
                    "options come and go, nothing else"
                );
            }
        }
    });
}

#[test]
fn packets_cut_at_every_byte_and_with_every_option_length_pass_or_are_dropped() {
    let mut rng = Rng::for_name(1, "cut packets");
    let mut boxes = strict();
    for _ in 0..40 {
        let packet = crate::packets::drawn(&mut rng);
        for len in 0..packet.len() {
            for middlebox in &mut boxes {
                let mut bytes = packet[..len].to_vec();
                middlebox.process(Instant::ZERO, UP, &mut bytes, &mut 0);
            }
        }
        for at in 0..packet.len().min(80) {
            for value in [0, 1, 255] {
                let mut changed = packet.clone();
                changed[at] = value;
                for middlebox in &mut boxes {
                    middlebox.process(Instant::ZERO, DOWN, &mut changed.clone(), &mut 9);
                }
            }
        }
    }
    assert!(boxes[0].counters().malformed > 0);
    assert!(boxes.iter().any(|b| b.counters().options_unchanged > 0));
}
