//! A live table of flows in the terminal.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{execute, queue};
use narrows::observe::format::Names;
use narrows::observe::{Estimate, Flow, Observer, Quantity, Side, Tap, Technique, View};
use narrows::scenario::Refusal;

/// Between two drawings.
const PERIOD: Duration = Duration::from_millis(500);
/// Time between two polls of the keyboard.
const BETWEEN_KEYS: Duration = Duration::from_millis(20);

/// The table, as long as the terminal is ours.
pub struct Top {
    title: String,
    names: Names,
    began: Instant,
    drawn: Option<Instant>,
    /// When keys were asked for last.
    asked: Instant,
    closed: bool,
}

impl Top {
    /// Takes the terminal.
    ///
    /// # Errors
    /// Where standard output is no terminal, or one without a screen.
    pub fn start(title: &str, names: Names) -> Result<Self, Refusal> {
        let refused = |found: &str| {
            Refusal::new("--top", found, "a terminal with a screen")
                .with_help("leave out --top for a report, or add --interval 1s for one each second")
        };
        if !io::stdout().is_terminal() {
            return Err(refused("standard output is no terminal"));
        }
        enable_raw_mode().map_err(|e| refused(&format!("a terminal that refuses keys: {e}")))?;
        let top = Self {
            title: title.to_owned(),
            names,
            began: Instant::now(),
            drawn: None,
            asked: Instant::now(),
            closed: false,
        };
        execute!(io::stdout(), EnterAlternateScreen, Hide)
            .map_err(|e| refused(&format!("a terminal that cannot be drawn on: {e}")))?;
        Ok(top)
    }

    /// The table as a view that ends observing when q or Ctrl-C is pressed.
    pub fn into_view(mut self) -> View {
        Box::new(move |taps| {
            self.draw(taps);
            match self.closed {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })
    }

    /// Draws the flows that were seen at `taps`, if it is time to.
    fn draw(&mut self, taps: &[Tap]) {
        // Asking the terminal for keys is a call to the kernel; packets come faster.
        if self.asked.elapsed() < BETWEEN_KEYS {
            return;
        }
        self.asked = Instant::now();
        self.read_keys();
        if self.drawn.is_some_and(|at| at.elapsed() < PERIOD) {
            return;
        }
        self.drawn = Some(Instant::now());
        let (width, height) = size().unwrap_or((80, 24));
        let head = head(&self.title, self.began.elapsed().as_secs_f64(), taps);
        let rows = table(taps, &self.names, usize::from(height).saturating_sub(2));
        // A terminal that has gone is noticed by who reads keys.
        if paint(&head, &rows, usize::from(width)).is_err() {
            self.closed = true;
        }
    }

    fn read_keys(&mut self) {
        while let Ok(true) = event::poll(Duration::ZERO) {
            let Ok(event) = event::read() else { break };
            match event {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    let control = key.modifiers.contains(KeyModifiers::CONTROL);
                    self.closed |= matches!(
                        (key.code, control),
                        (KeyCode::Char('q') | KeyCode::Esc, false) | (KeyCode::Char('c'), true)
                    );
                }
                Event::Resize(..) => self.drawn = None,
                _ => {}
            }
        }
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        // What cannot be put back now cannot be later either.
        let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

fn paint(head: &str, rows: &[String], width: usize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let cut = |line: &str| line.chars().take(width).collect::<String>();
    queue!(
        out,
        MoveTo(0, 0),
        Clear(ClearType::CurrentLine),
        Print(cut(head))
    )?;
    for (at, row) in rows.iter().enumerate() {
        let attribute = if at == 0 {
            Attribute::Reverse
        } else {
            Attribute::Reset
        };
        queue!(
            out,
            MoveTo(0, at as u16 + 1),
            Clear(ClearType::CurrentLine),
            SetAttribute(attribute),
            Print(cut(row)),
            SetAttribute(Attribute::Reset)
        )?;
    }
    queue!(out, Clear(ClearType::FromCursorDown))?;
    out.flush()
}

fn head(title: &str, seconds: f64, taps: &[Tap]) -> String {
    let sum = |count: fn(&Tap) -> u64| taps.iter().map(count).sum::<u64>();
    let packets = sum(|t| t.observer.counters().packets);
    let flows = sum(|t| t.observer.flows_now());
    let dropped = match sum(|t| t.observer.counters().dropped) {
        0 => String::new(),
        n => format!(" and {n} dropped"),
    };
    format!("{title}: {seconds:.1} s, {packets} packets{dropped}, {flows} flows   (q quits)")
}

/// A column: its title, its technique, and what of it to show.
type Column = (&'static str, Technique, What);

#[derive(Clone, Copy)]
enum What {
    /// The round trip, or both parts of it together.
    Rtt,
    /// The worse of both directions' losses of this kind.
    Loss(fn(Side) -> Quantity),
}

/// Round trips by technique in milliseconds, then loss by bits in percent.
const COLUMNS: [Column; 9] = [
    ("hs ms", Technique::Handshake, What::Rtt),
    ("ack ms", Technique::SeqAck, What::Rtt),
    ("ts ms", Technique::TsAll, What::Rtt),
    ("spin ms", Technique::Spin, What::Rtt),
    ("delay ms", Technique::Delay, What::Rtt),
    ("Q %", Technique::Square, What::Loss(Quantity::UpstreamLoss)),
    ("L %", Technique::Loss, What::Loss(Quantity::EndToEndLoss)),
    (
        "R %",
        Technique::Reflection,
        What::Loss(Quantity::ThreeQuarterLoss),
    ),
    (
        "T %",
        Technique::RoundTripLoss,
        What::Loss(Quantity::RoundTripLoss),
    ),
];

/// A title and the flows with the most packets, at most `height` lines.
fn table(taps: &[Tap], names: &Names, height: usize) -> Vec<String> {
    let mut title = format!("{:>10} {:>8} {:<8}", "packets", "again", "state");
    for (name, ..) in COLUMNS {
        title.push_str(&format!(" {name:>8}"));
    }
    title.push_str("  flow");
    let mut rows = vec![title];
    let all = taps
        .iter()
        .flat_map(|t| t.observer.flows().map(move |f| (t, f)));
    for (tap, flow) in most(all, height.saturating_sub(1)) {
        let name = names.flow(flow);
        let at = if taps.len() > 1 && !tap.name.is_empty() {
            format!(" at {}", tap.name)
        } else {
            String::new()
        };
        rows.push(format!("{}  {name}{at}", numbers(flow)));
    }
    rows
}

/// The flows with the most packets, the greatest first.
fn most<'a>(all: impl Iterator<Item = (&'a Tap, &'a Flow)>, n: usize) -> Vec<(&'a Tap, &'a Flow)> {
    let key = |flow: &Flow| std::cmp::Reverse((packets(flow), std::cmp::Reverse(flow.id())));
    let mut all: Vec<_> = all.collect();
    if n > 0 && all.len() > n {
        all.select_nth_unstable_by_key(n - 1, |(_, flow)| key(flow));
    }
    all.truncate(n);
    all.sort_by_key(|(_, flow)| key(flow));
    all
}

fn packets(flow: &Flow) -> u64 {
    Side::BOTH.into_iter().map(|s| flow.packets(s)).sum()
}

/// The columns before a flow's name.
fn numbers(flow: &Flow) -> String {
    let again: u64 = Side::BOTH
        .into_iter()
        .map(|s| u64::from(flow.again(s)))
        .sum();
    let mut row = format!(
        "{:>10} {again:>8} {:<8}",
        packets(flow),
        flow.state().name()
    );
    let estimates = Observer::estimates(flow);
    for (_, technique, what) in COLUMNS {
        let cell = value(&estimates, technique, what);
        row.push_str(&match (cell, what) {
            (None, _) => format!(" {:>8}", "-"),
            (Some(ms), What::Rtt) => format!(" {ms:>8.3}"),
            (Some(share), What::Loss(_)) => format!(" {:>8.3}", share * 100.0),
        });
    }
    row
}

/// What a technique says: a whole round trip of either side, else its two parts
/// together; of losses, the greater one.
fn value(estimates: &[Estimate], technique: Technique, what: What) -> Option<f64> {
    let of = |quantity: Quantity| {
        let mut found = estimates.iter();
        let found = found.find(|e| (e.technique, e.quantity) == (technique, quantity));
        found.map(|e| e.value)
    };
    match what {
        What::Rtt => {
            let full = Side::BOTH
                .into_iter()
                .find_map(|s| of(Quantity::FullRtt(s)));
            let both = || Some(of(Quantity::LeftRtt)? + of(Quantity::RightRtt)?);
            full.or_else(both)
        }
        What::Loss(quantity) => {
            let both = Side::BOTH.into_iter().filter_map(|s| of(quantity(s)));
            both.reduce(f64::max)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows::observe::{Nothing, ObserverConfig};
    use narrows::units::Instant;

    /// A datagram between two ends that differ by their number.
    fn datagram(n: u8) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
        bytes.extend_from_slice(&[10, 0, 0, n, 10, 0, 1, 1]);
        bytes.extend_from_slice(&[0x9c, n, 1, 187, 0, 8, 0, 0]);
        bytes
    }

    fn tap(packets: &[(u8, usize)]) -> Tap {
        let mut observer = Observer::new(ObserverConfig::default());
        for (flow, count) in packets {
            for id in 0..*count {
                let at = Instant::from_nanos(id as u64);
                observer.observe(&datagram(*flow), at, id as u64, &mut Nothing);
            }
        }
        Tap::new("eth0", observer)
    }

    #[test]
    fn flows_stand_in_the_order_of_their_packets_and_no_more_than_fit() {
        let taps = [tap(&[(1, 3), (2, 50), (3, 7), (4, 7)])];
        let rows = table(&taps, &Names::open(), 4);
        assert_eq!(rows.len(), 4);
        assert!(rows[0].trim_start().starts_with("packets"));
        for (row, (packets, address)) in
            rows[1..]
                .iter()
                .zip([("50", "10.0.0.2"), ("7", "10.0.0.3"), ("7", "10.0.0.4")])
        {
            assert_eq!(row.split_whitespace().next(), Some(packets));
            assert!(row.contains(address), "{row}");
        }
        assert_eq!(table(&taps, &Names::open(), 0).len(), 1);
    }

    #[test]
    fn a_cell_is_the_whole_round_trip_or_both_parts_and_the_worse_loss() {
        let mut observer = Observer::new(ObserverConfig::default());
        // SYN, SYN-ACK and ACK at 0, 30 and 50 ms.
        for (n, (flags, from_client)) in [(2u8, true), (18, false), (16, true)].iter().enumerate() {
            let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
            let (from, to, ports) = if *from_client {
                (a, b, [0x9c, 1, 1, 187])
            } else {
                (b, a, [1, 187, 0x9c, 1])
            };
            let mut bytes = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0];
            bytes.extend_from_slice(&from);
            bytes.extend_from_slice(&to);
            bytes.extend_from_slice(&ports);
            bytes
                .extend_from_slice(&[0, 0, 0, n as u8, 0, 0, 0, 1, 0x50, *flags, 1, 0, 0, 0, 0, 0]);
            let at = Instant::from_nanos([0, 30, 50][n] * 1_000_000);
            observer.observe(&bytes, at, n as u64, &mut Nothing);
        }
        let row = numbers(observer.flows().next().unwrap());
        assert!(row.contains(" 50.000 "), "{row}");
        let estimate = |side, value| Estimate {
            quantity: Quantity::UpstreamLoss(side),
            technique: Technique::Square,
            value,
            ..Observer::estimates(observer.flows().next().unwrap())[0]
        };
        let both = [
            estimate(Side::Initiator, 0.01),
            estimate(Side::Responder, 0.03),
        ];
        let what = What::Loss(Quantity::UpstreamLoss);
        assert_eq!(value(&both, Technique::Square, what), Some(0.03));
        assert_eq!(value(&both, Technique::Loss, what), None);
    }
}
