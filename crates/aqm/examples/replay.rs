//! A queue of ours in place of the one that a run had: what differs?
//!
//! ```console
//! $ replay 'tbf rate 10Mbit burst 1639 limit 1Mb queue (codel)' \
//!       out/captures/arrivals.pcapng out/captures/departures.pcapng
//! ```
//!
//! The captures are those in front of the queue and behind it. With `--each` every packet that
//! the two do not treat alike is printed, with `--wire 10Mbit` packets leave as a link of that
//! rate sends them; `--numbered` is for captures of the simulator, which numbers packets. What
//! a recording does not show, the hash of flows and the phase of a clock that counts in
//! units of `--unit NS` (1024, as CoDel's), is tried with `--seeds N` and `--phases N`.

use std::error::Error;
use std::fs::File;
use std::io::BufReader;

use narrows_aqm::replay::{
    Departure, Difference, Known, Open, Recorded, Wire, departures, recording, replay,
};
use narrows_aqm::{LinkFacts, QueueSpec};
use narrows_units::{Duration, Rate, Value};
use narrows_wire::ip;

fn capture(path: &str) -> Result<Vec<Recorded>, Box<dyn Error>> {
    let file = File::open(path).map_err(|e| format!("{path}: {e}"))?;
    Ok(recording(BufReader::new(file))?)
}

fn fate(left: &[Departure], arrival: usize, came: &Recorded) -> String {
    match left.iter().find(|departure| departure.arrival == arrival) {
        None => "dropped".to_owned(),
        Some(Departure { at, marked, .. }) => {
            let waited = at.since(came.at).as_nanos() as f64 / 1e6;
            format!("{}{waited:.6} ms", if *marked { "CE " } else { "" })
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let each = args.iter().position(|arg| arg == "--each");
    let each = each.map(|at| args.remove(at)).is_some();
    let mut number = |word: &str, usual: u64| -> Result<u64, Box<dyn Error>> {
        let Some(at) = args.iter().position(|arg| arg == word) else {
            return Ok(usual);
        };
        args.remove(at);
        let value = args.get(at).and_then(|word| word.parse().ok());
        args.remove(at);
        value.ok_or_else(|| format!("{word} wants a number").into())
    };
    let (seeds, phases) = (number("--seeds", 1)?, number("--phases", 1)?);
    let unit = Duration::from_nanos(number("--unit", 1_024)?);
    let known = match args.iter().position(|arg| arg == "--numbered") {
        Some(at) => {
            args.remove(at);
            Known::ByNumber
        }
        None => Known::ByBytes,
    };
    let mut link = LinkFacts {
        rate: Rate::from_mbit(100_000),
        overhead: 14,
        mtu: 1500,
    };
    let mut wire = Wire::Free;
    if let Some(at) = args.iter().position(|arg| arg == "--wire") {
        args.remove(at);
        let rate = args.get(at).and_then(|word| Rate::parse(word));
        link.rate = rate.ok_or("--wire wants a rate such as 10Mbit")?;
        wire = Wire::Serial;
        args.remove(at);
    }
    let [words, before, behind] = &args[..] else {
        return Err("replay [--each] [--numbered] [--wire RATE] [--seeds N] [--phases N] 'QUEUE …' ARRIVALS DEPARTURES".into());
    };
    let spec = QueueSpec::parse(words).map_err(|e| e.to_string())?;
    let arrivals = capture(before)?;
    let theirs = departures(&arrivals, &capture(behind)?, known);
    // Of what the recording leaves open, what comes closest.
    let mut best: Option<(Difference, Open, Vec<Departure>)> = None;
    for open in Open::each(seeds, phases, unit) {
        let ours = replay(&spec, &arrivals, link, wire, open);
        let difference = Difference::between(arrivals.len(), [&theirs, &ours]);
        let apart = difference.packets_apart();
        if best
            .as_ref()
            .is_none_or(|(best, ..)| apart < best.packets_apart())
        {
            best = Some((difference, open, ours));
        }
        if apart == 0 {
            break;
        }
    }
    let (difference, open, ours) = best.ok_or("--seeds and --phases are 1 at least")?;
    println!("{difference:#?}\n{open:?}");
    if each {
        for (index, came) in arrivals.iter().enumerate() {
            let fates = [&theirs, &ours].map(|left| fate(left, index, came));
            if fates[0] != fates[1] {
                let class = ip::traffic_class(&came.bytes);
                let (at, len) = (came.at.as_nanos() as f64 / 1e6, came.len);
                println!(
                    "{index} {at:.6} ms {len} bytes {class:#04x}: {} | {}",
                    fates[0], fates[1]
                );
            }
        }
    }
    Ok(())
}
