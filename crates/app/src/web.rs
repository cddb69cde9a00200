//! Web pages: objects that depend on each other, over parallel connections as browsers have
//! them for HTTP/1.1, and how long a page takes.

use std::collections::VecDeque;
use std::fmt;

use narrows_core::{App, Reduce, SocketError, SocketEvent, SocketId, Sockets, TelemetryField};
use narrows_units::{Bytes, Duration, Instant, Parameter, ParameterKind, Value, WordError, Words};
use narrows_wire::ip::Ecn;

use crate::arrivals::{ALLOWED, interval};
use crate::exchange::{Ask, Exchanges, Over, Server};
use crate::kind::{Delivery, Kind, Misfit, Site};
use crate::spec::Carries;

/// Connections at a time by default: what browsers open to a host over HTTP/1.1.
const CONNECTIONS: usize = 6;

/// Bytes of a request (our choice): a GET with the headers that browsers send.
const REQUEST: u64 = 500;

/// Time between pages by default (our choice).
const THINK: Duration = Duration::from_secs(5);

/// Connections that a page may have, and objects of a level (our choice): more than any has.
const MOST: usize = 100_000;

/// From the beginning of a page to the last byte of its last object.
const LOAD: TelemetryField = TelemetryField::new(
    "load",
    "ms",
    "page load time: from its beginning to the last byte of its last object",
    Reduce::Sample,
)
.in_parts(1_000_000)
.in_chart("page load time");

/// Pages that were begun.
const PAGES: TelemetryField =
    TelemetryField::new("pages", "", "pages that were begun", Reduce::Counter);

/// Objects that arrived.
const OBJECTS: TelemetryField =
    TelemetryField::new("objects", "", "objects that arrived", Reduce::Counter);

/// Objects that are asked for again.
const REPEATED: TelemetryField = TelemetryField::new(
    "repeated",
    "",
    "objects that are asked for again, as their connection was lost",
    Reduce::Counter,
);

/// Objects that are known and not here.
const MISSING: TelemetryField = TelemetryField::new(
    "missing",
    "",
    "objects of the page that are known and not there, at each sample",
    Reduce::Gauge,
);

/// So many objects of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Objects {
    count: usize,
    bytes: u64,
}

/// A page: levels of objects, which are known when all of the level before is there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Page {
    levels: Vec<Vec<Objects>>,
}

const fn of(count: usize, bytes: u64) -> Objects {
    Objects { count, bytes }
}

/// The median desktop page of HTTP Archive's Web Almanac 2024: 2652 kB (of 1024 bytes) in 71
/// requests, of which 18 are 1054 kB of images and 24 are 613 kB of scripts. The rest, 985 kB
/// in 29, is divided by our choice: a document of 30 kB, 8 style sheets of 10 kB, 4 fonts of 33 kB,
/// 16 others of 743 kB together. So are the levels: the document; style sheets and half of the scripts;
/// the other half, fonts and images; what scripts fetch. Objects of a type are equally large.
const DESKTOP: &[&[Objects]] = &[
    &[of(1, 30 << 10)],
    &[of(8, 10 << 10), of(12, (613 << 10) / 24)],
    &[
        of(12, (613 << 10) / 24),
        of(4, 33 << 10),
        of(18, (1054 << 10) / 18),
    ],
    &[of(16, (743 << 10) / 16)],
];

const PAGE: &str = "desktop, or levels such as 1x30kb 8x10kb+12x25kb";
const LEVEL: &str = "COUNTxBYTES, or several joined by +";

impl Page {
    fn desktop() -> Self {
        let levels = DESKTOP.iter().map(|level| level.to_vec()).collect();
        Self { levels }
    }

    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        if words.take_if("desktop") {
            return Ok(Self::desktop());
        }
        let mut levels = Vec::new();
        words.peek().ok_or_else(|| words.ended(PAGE))?;
        while let Some(word) = words.take() {
            let allowed = if levels.is_empty() { PAGE } else { LEVEL };
            let level = word.text.split('+').map(Objects::parse);
            let level: Option<Vec<Objects>> = level.collect();
            levels.push(level.ok_or_else(|| word.refused(allowed))?);
        }
        Ok(Self { levels })
    }

    /// The sizes of the objects of a level.
    fn sizes(&self, level: usize) -> impl Iterator<Item = u64> {
        let groups = self.levels.get(level).into_iter().flatten();
        groups.flat_map(|o| std::iter::repeat_n(o.bytes, o.count))
    }
}

impl Objects {
    fn parse(word: &str) -> Option<Self> {
        let (count, bytes) = word.split_once('x')?;
        let count = count.parse().ok().filter(|n| (1..=MOST).contains(n))?;
        let bytes = Bytes::parse(bytes).map(Bytes::get).filter(|b| *b > 0)?;
        Some(Self { count, bytes })
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::desktop() {
            return f.write_str("desktop");
        }
        for (n, level) in self.levels.iter().enumerate() {
            for (i, objects) in level.iter().enumerate() {
                let before = match (n, i) {
                    (0, 0) => "",
                    (_, 0) => " ",
                    _ => "+",
                };
                let size = Bytes::new(objects.bytes);
                write!(f, "{before}{}x{size}", objects.count)?;
            }
        }
        Ok(())
    }
}

/// The parameters of `web`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSpec {
    page: Page,
    connections: usize,
    think: Duration,
}

impl Default for WebSpec {
    fn default() -> Self {
        Self {
            page: Page::desktop(),
            connections: CONNECTIONS,
            think: THINK,
        }
    }
}

impl Kind for WebSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "page OBJECTS",
            ParameterKind::Words,
            PAGE,
            "desktop",
            "The objects of a page by levels, each of which is known when all of the one before \
             is there. `desktop` is the median of HTTP Archive's Web Almanac 2024, 2.7 MB in 71 \
             objects on four levels (the levels are our choice)",
        ),
        Parameter::new(
            "connections NUMBER",
            ParameterKind::Number("connections"),
            "1 to 256",
            "6",
            "Connections at a time, each for an object at a time. They are kept for a page, and \
             the next begins anew",
        ),
        Parameter::new(
            "think TIME",
            ParameterKind::Time,
            ALLOWED,
            "5s",
            "Time from the end of a page to the beginning of the next",
        ),
    ];

    const REPORTS: &'static [TelemetryField] = &[LOAD, PAGES, OBJECTS, REPEATED, MISSING];

    const CARRIES: Carries = Carries::Stream;

    fn codepoint(&self) -> Ecn {
        Ecn::NotEct
    }

    fn deliveries(&self) -> Vec<Delivery> {
        vec![Delivery {
            what: ["page", "was loaded"],
            due: Some(PAGES),
            waiting: Some(MISSING),
            got: LOAD,
            failed: None,
        }]
    }

    fn set(&mut self, name: &str, words: &mut Words<'_>) -> Result<(), WordError> {
        match name {
            "page" => self.page = Page::parse(words)?,
            "connections" => {
                let fits = |n: &u32| (1..=256).contains(n);
                self.connections = words.checked_value("1 to 256", fits)? as usize;
            }
            _ => self.think = interval(words)?,
        }
        Ok(())
    }

    fn values(&self) -> Vec<String> {
        vec![
            self.page.to_string(),
            self.connections.to_string(),
            self.think.to_string(),
        ]
    }

    fn misfit(&self) -> Option<Misfit> {
        None
    }

    fn ends(&self, site: &Site) -> [Box<dyn App>; 2] {
        let browser = Browser {
            spec: self.clone(),
            site: site.clone(),
            due: Some(site.start).filter(|at| *at < site.stop),
            began: site.start,
            level: 0,
            known: VecDeque::new(),
            exchanges: Exchanges::new(),
        };
        let server = Server::new(site.to, |_, _| {});
        [Box::new(browser), Box::new(server)]
    }
}

/// Loads page after page.
struct Browser {
    spec: WebSpec,
    site: Site,
    /// When the next page begins; not while one is loaded.
    due: Option<Instant>,
    /// When the present page began.
    began: Instant,
    /// The level of which objects are awaited.
    level: usize,
    /// Sizes of objects that are known and not asked for.
    known: VecDeque<u64>,
    /// With the size of each object.
    exchanges: Exchanges<u64>,
}

impl Browser {
    fn begin(&mut self, host: &mut dyn Sockets, at: Instant) {
        self.site.report(host, PAGES, 1);
        self.began = at;
        self.discover(0);
        self.ask(host);
    }

    fn discover(&mut self, level: usize) {
        self.level = level;
        self.known.extend(self.spec.page.sizes(level));
    }

    /// Asks for what is known, as far as there are connections for it.
    fn ask(&mut self, host: &mut dyn Sockets) {
        while let Some(bytes) = self.known.front().copied() {
            let socket = match self.exchanges.idle() {
                Some(idle) => idle,
                None if self.exchanges.connections() >= self.spec.connections => return,
                None => {
                    let (from, to) = (self.site.from.profile, &self.site.to);
                    match self.exchanges.open(host, from, to) {
                        Ok(new) => new,
                        // Those that there are go on; without any the page is given up.
                        Err(_) if self.exchanges.connections() > 0 => return,
                        Err(_) => return self.end(host),
                    }
                }
            };
            self.known.pop_front();
            let ask = Ask {
                request: REQUEST,
                response: bytes,
                issued: host.now(),
                last: false,
            };
            self.exchanges.ask(host, socket, ask, bytes);
        }
    }

    /// Goes on after objects arrived, or were lost.
    fn go_on(&mut self, host: &mut dyn Sockets) {
        if self.known.is_empty() && self.exchanges.awaited() == 0 {
            if self.level + 1 == self.spec.page.levels.len() {
                let load = host.now().since(self.began);
                self.site.report(host, LOAD, load.as_nanos());
                return self.end(host);
            }
            self.discover(self.level + 1);
        }
        self.ask(host);
    }

    /// The page is over.
    fn end(&mut self, host: &mut dyn Sockets) {
        self.known.clear();
        while let Some(socket) = self.exchanges.first() {
            self.exchanges.forget(host, socket);
        }
        let next = host.now() + self.spec.think;
        self.due = Some(next).filter(|at| *at < self.site.stop);
        host.wake_at(self.due);
    }
}

impl App for Browser {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        self.site.announce(host, WebSpec::REPORTS);
        host.wake_at(self.due);
        Ok(())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        let over = self.exchanges.on_event(host, socket, event);
        if over.is_empty() {
            return;
        }
        for over in over {
            match over {
                Over::Answered(_) => self.site.report(host, OBJECTS, 1),
                Over::Lost(bytes) => {
                    self.site.report(host, REPEATED, 1);
                    self.known.push_front(bytes);
                }
            }
        }
        self.go_on(host);
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        let now = host.now();
        if let Some(due) = self.due.take_if(|due| *due <= now) {
            self.begin(host, due);
        }
        host.wake_at(self.due);
    }

    fn sample(&mut self, host: &mut dyn Sockets) {
        let missing = self.known.len() + self.exchanges.awaited();
        self.site.report(host, MISSING, missing as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::testing::{refused_at, with};

    #[test]
    fn the_desktop_page_is_the_median_of_the_web_almanac() {
        let page = Page::desktop();
        let sizes: Vec<u64> = (0..4).flat_map(|level| page.sizes(level)).collect();
        assert_eq!(sizes.len(), 71);
        let total: u64 = sizes.iter().sum();
        // Whole bytes: up to one an object is missing.
        assert!((2652 * 1024 - 71..=2652 * 1024).contains(&total), "{total}");
        let images = sizes.iter().filter(|s| **s == 1054 * 1024 / 18);
        assert_eq!(images.count(), 18);
        let scripts = sizes.iter().filter(|s| **s == 613 * 1024 / 24);
        assert_eq!(scripts.count(), 24);
    }

    #[test]
    fn words_print_back() {
        let spec = with(
            "web",
            &[
                ("page", "1x30Kb 8x10Kb+12x25001b 1x1b"),
                ("connections", "1"),
                ("think", "1s"),
            ],
        );
        let words = "web page 1x30Kb 8x10Kb+12x25001b 1x1b connections 1 think 1s";
        assert_eq!(spec.to_string(), words);
    }

    #[test]
    fn wrong_values_are_refused_at_their_place() {
        refused_at(
            "web",
            &[
                ("page", "mobile", "mobile"),
                ("page", "0x10kb", "0x10kb"),
                ("page", "1x0b", "1x0b"),
                ("page", "1x1kb 3", "3"),
                ("page", "1x1kb 3x1kb+", "3x1kb+"),
                ("page", "9999999x1kb", "9999999x1kb"),
                ("page", "desktop 1x1kb", "1x1kb"),
                ("connections", "0", "0"),
                ("connections", "257", "257"),
                ("think", "0s", "0s"),
                ("think", "9us", "9us"),
            ],
        );
    }
}
