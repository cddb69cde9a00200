//! Commands of a box, and packets through the ready ones: text up to the first line end, then
//! a packet.

#![no_main]

use libfuzzer_sys::fuzz_target;
use narrows_mmb::{Command, Middlebox, READY, Settings, commands};
use narrows_core::{DOWN, UP};
use narrows_units::{Instant, Rng};

fn boxed(commands: &[Command]) -> Option<Middlebox> {
    let mut middlebox = Middlebox::new(Settings::default(), Rng::for_name(1, "fuzz"));
    middlebox.apply(commands).ok()?;
    Some(middlebox)
}

fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|b| *b == b'\n').unwrap_or(0);
    let line = String::from_utf8_lossy(&bytes[..end]);
    let mut boxes = Vec::new();
    match Command::parse(&line) {
        Ok(command) => {
            let written = command.to_string();
            assert_eq!(Command::parse(&written).as_ref(), Ok(&command), "{written}");
            boxes.extend(boxed(&[command]));
        }
        Err(error) => assert!(line.get(error.span.clone()).is_some(), "{error:?}"),
    }
    for ready in READY {
        boxes.extend(commands(ready.rules).ok().and_then(|read| boxed(&read)));
    }
    for middlebox in &mut boxes {
        for (port, mut tail) in [(UP, 0), (DOWN, 700), (UP, 9)] {
            let mut packet = bytes[end..].to_vec();
            middlebox.process(Instant::ZERO, port, &mut packet, &mut tail);
        }
    }
});
