//! The configuration of the daemon: a file of TOML, checked before anything starts.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use narrows_pep::{Destinations, Intake, NETWORK, Network, Parent, Policy};
use narrows_scenario::Refusal;
use narrows_units::{Bytes, Duration, Value};
use serde::Deserialize;
use toml::Spanned;

use super::leg::LegOptions;
use super::relay::READ_AHEAD;

/// Bytes that a configuration has at most: one that is longer is another file.
const LONGEST: usize = 1 << 20;

/// Where the daemon tells its state, unless it is said otherwise.
pub const STATUS: &str = "/run/narrows-pep/status.sock";

/// How long tunnels have to end when the daemon is to.
const DRAIN: Duration = Duration::from_secs(30);

/// The port of a listener whose address names none: RFC 8803 assigns no number to
/// converters; it is that of the laboratory's.
pub const PORT: u16 = 8803;

/// What a daemon is to do.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file that it comes from, to be read again.
    pub file: Option<PathBuf>,
    /// Whom the process becomes once its sockets are open.
    pub user: Option<String>,
    /// The socket at which it tells its state.
    pub status: Option<PathBuf>,
    /// Where it answers with metrics.
    pub metrics: Option<SocketAddr>,
    /// How long tunnels have to end by themselves.
    pub drain: Duration,
    /// The shortest round trip to senders of whom more is read than goes out at once; what
    /// nearer ones send waits in the kernel's buffers.
    pub read_ahead: Duration,
    /// How much it bears.
    pub limits: narrows_pep::Limits,
    /// Where clients come to.
    pub listeners: Vec<ListenerConfig>,
}

/// Where clients come to, and what becomes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerConfig {
    /// The address that clients connect to.
    pub listen: SocketAddr,
    /// How it learns where they want to go.
    pub intake: Intake,
    /// Who may come, and where to.
    pub policy: Policy,
    /// Whether the layout of Bayer's thesis is taken too.
    pub thesis: bool,
    /// Whether clients show a cookie.
    pub cookies: bool,
    /// The address that connections to destinations come from.
    pub from: Option<IpAddr>,
    /// The proxy that they go by in turn.
    pub parent: Option<Parent>,
    pub(super) near: LegOptions,
    pub(super) far: LegOptions,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            file: None,
            user: None,
            status: None,
            metrics: None,
            drain: DRAIN,
            read_ahead: READ_AHEAD,
            limits: narrows_pep::Limits {
                // A sixteenth of all (our choice).
                tunnels_per_client: 4_096,
                ..narrows_pep::Limits::default()
            },
            listeners: Vec::new(),
        }
    }
}

impl ListenerConfig {
    /// One at `listen` that clients ask by RFC 8803, by these words for networks.
    ///
    /// # Errors
    /// If one is no network.
    pub fn plain(
        listen: SocketAddr,
        clients: &[String],
        destinations: &[String],
    ) -> Result<Self, Refusal> {
        let refuse =
            |key: &str, word: &str, allowed: &str| Refusal::new(key, format!("`{word}`"), allowed);
        let clients = clients.iter().map(|word| {
            let read = word.parse::<Network>();
            read.map_err(|()| refuse("--clients", word, NETWORK))
        });
        let destinations = destinations
            .iter()
            .map(|word| read_destinations(word).ok_or_else(|| refuse("--to", word, DESTINATIONS)));
        Ok(Self {
            listen,
            intake: Intake::Request,
            policy: Policy {
                clients: clients.collect::<Result<_, _>>()?,
                destinations: destinations.collect::<Result<_, _>>()?,
                anywhere: false,
            },
            thesis: false,
            cookies: false,
            from: None,
            parent: None,
            near: Leg::default().options(true, false),
            far: Leg::default().options(false, false),
        })
    }
}

const DESTINATIONS: &str = "a network such as 192.0.2.0/24, and behind it `port 443` or \
     `ports 80-443` if not all";

/// A network, and ports of it.
fn read_destinations(words: &str) -> Option<Destinations> {
    let mut words = words.split_whitespace();
    let network = words.next()?.parse().ok()?;
    let ports: RangeInclusive<u16> = match (words.next(), words.next()) {
        (None, _) => 1..=u16::MAX,
        (Some("port"), Some(port)) => {
            let port = port.parse().ok()?;
            port..=port
        }
        (Some("ports"), Some(ports)) => {
            let (first, last) = ports.split_once('-')?;
            first.parse().ok()?..=last.parse().ok()?
        }
        _ => return None,
    };
    let sound = words.next().is_none() && !ports.is_empty() && *ports.start() > 0;
    sound.then_some(Destinations { network, ports })
}

/// The document, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: Spanned<u64>,
    user: Option<String>,
    status: Option<PathBuf>,
    metrics: Option<Spanned<String>>,
    drain: Option<Spanned<String>>,
    #[serde(default)]
    limits: LimitWords,
    #[serde(default)]
    listener: Vec<Spanned<ListenerWords>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitWords {
    backlog: Option<Spanned<String>>,
    budget: Option<Spanned<String>>,
    tunnels: Option<Spanned<usize>>,
    tunnels_per_client: Option<Spanned<usize>>,
    request: Option<Spanned<String>>,
    connect: Option<Spanned<String>>,
    idle: Option<Spanned<String>>,
    read_ahead: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListenerWords {
    listen: Spanned<String>,
    #[serde(default)]
    intake: IntakeWord,
    clients: Vec<Spanned<String>>,
    destinations: Vec<Spanned<String>>,
    #[serde(default)]
    thesis: bool,
    #[serde(default)]
    cookies: bool,
    #[serde(default)]
    replay_safe: bool,
    from: Option<Spanned<String>>,
    parent: Option<ParentWords>,
    #[serde(default)]
    near: Leg,
    #[serde(default)]
    far: Leg,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum IntakeWord {
    #[default]
    Request,
    Socks5,
    Transparent,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParentWords {
    proxy: Spanned<String>,
    patience: Option<Spanned<String>>,
    #[serde(default)]
    or_directly: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Leg {
    cc: Option<Spanned<String>>,
    unsent: Option<Spanned<String>>,
    send_buffer: Option<Spanned<String>>,
    receive_buffer: Option<Spanned<String>>,
}

impl Leg {
    fn options(&self, fast_open: bool, transparent: bool) -> LegOptions {
        LegOptions {
            control: self.cc.as_ref().map(|cc| cc.get_ref().clone()),
            fast_open,
            unsent: LegOptions::UNSENT,
            send_buffer: None,
            receive_buffer: None,
            transparent,
        }
    }
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Where in it what is wrong, and what is allowed.
    pub fn load(file: &Path) -> Result<Self, Refusal> {
        let name = file.display().to_string();
        let refuse = |found: String| Refusal::new(name.clone(), found, "a readable file of TOML");
        let size = fs::metadata(file).map_err(|e| refuse(e.to_string()))?.len();
        if size > LONGEST as u64 {
            return Err(refuse(format!("{size} bytes")));
        }
        let text = fs::read_to_string(file).map_err(|e| refuse(e.to_string()))?;
        let mut config = Self::read(&name, &text)?;
        config.file = Some(file.to_path_buf());
        Ok(config)
    }

    /// Reads and checks a configuration; `name` is that of its file in messages.
    ///
    /// # Errors
    /// See [`load`](Self::load).
    pub fn read(name: &str, text: &str) -> Result<Self, Refusal> {
        let page = Page { name, text };
        let document: Document = toml::from_str(text).map_err(|e| page.toml(&e))?;
        if *document.version.get_ref() != 1 {
            let found = document.version.get_ref().to_string();
            return Err(page.refuse(document.version.span(), "version", &found, "`version = 1`"));
        }
        let mut config = Self {
            user: document.user,
            status: Some(document.status.unwrap_or_else(|| STATUS.into())),
            ..Self::default()
        };
        if let Some(metrics) = &document.metrics {
            let address = page.socket(metrics, "metrics", None)?;
            if !address.ip().is_loopback() {
                let allowed = "an address of loopback such as 127.0.0.1:9464, as metrics are \
                               answered to whoever asks";
                return Err(page.text(metrics, "metrics", allowed));
            }
            config.metrics = Some(address);
        }
        page.set(
            document.drain.as_ref(),
            "drain",
            Duration::from_secs(0),
            &mut config.drain,
        )?;
        page.limits(&document.limits, &mut config.limits)?;
        let rtt = document.limits.read_ahead.as_ref();
        page.set(rtt, "read_ahead", Duration::ZERO, &mut config.read_ahead)?;
        let mut places = BTreeMap::new();
        for listener in &document.listener {
            let checked = page.listener(listener.get_ref())?;
            let listen = &listener.get_ref().listen;
            if places.insert(checked.listen, ()).is_some() {
                let allowed = "one listener at each address";
                return Err(page.text(listen, "listen", allowed));
            }
            config.listeners.push(checked);
        }
        if config.listeners.is_empty() {
            let allowed = "at least one `[[listener]]`";
            return Err(page.refuse(0..0, "listener", "none", allowed));
        }
        Ok(config)
    }
}

/// A file, for messages.
struct Page<'a> {
    name: &'a str,
    text: &'a str,
}

/// What has a least value: times and sizes.
trait Limited: Value + Copy + PartialOrd + std::fmt::Display {}
impl Limited for Duration {}
impl Limited for Bytes {}

impl Page<'_> {
    fn refuse(&self, span: Range<usize>, key: &str, found: &str, allowed: &str) -> Refusal {
        Refusal::in_text((self.name, self.text), span, key, found, allowed)
    }

    fn text(&self, word: &Spanned<String>, key: &str, allowed: &str) -> Refusal {
        self.refuse(word.span(), key, &format!("`{}`", word.get_ref()), allowed)
    }

    /// What the reader of TOML or of its keys says.
    fn toml(&self, error: &toml::de::Error) -> Refusal {
        let said = error.message();
        let (found, allowed) = said.split_once(", expected ").unwrap_or((said, "TOML"));
        let allowed = allowed.strip_prefix("one of ").unwrap_or(allowed);
        let (found, allowed) = match found.strip_prefix("missing field ") {
            Some(field) => (format!("no {field}"), "one, as it has no default"),
            None => (found.to_owned(), allowed),
        };
        self.refuse(error.span().unwrap_or(0..0), "", &found, allowed)
    }

    fn value<T: Value>(&self, word: &Spanned<String>, key: &str) -> Result<T, Refusal> {
        let read = T::parse(word.get_ref());
        read.ok_or_else(|| self.text(word, key, T::ALLOWED))
    }

    fn set<T: Limited>(
        &self,
        word: Option<&Spanned<String>>,
        key: &str,
        least: T,
        to: &mut T,
    ) -> Result<(), Refusal> {
        if let Some(word) = word {
            let value: T = self.value(word, key)?;
            if value < least {
                return Err(self.text(word, key, &format!("at least {least}")));
            }
            *to = value;
        }
        Ok(())
    }

    fn limits(&self, words: &LimitWords, limits: &mut narrows_pep::Limits) -> Result<(), Refusal> {
        // Less than a segment does not get on.
        let least = Bytes::new(4_096);
        for (word, key, to) in [
            (&words.backlog, "backlog", &mut limits.backlog),
            (&words.budget, "budget", &mut limits.budget),
        ] {
            let mut bytes = Bytes::new(*to);
            self.set(word.as_ref(), key, least, &mut bytes)?;
            *to = bytes.get();
        }
        let second = Duration::from_millis(1);
        self.set(
            words.request.as_ref(),
            "request",
            second,
            &mut limits.request,
        )?;
        self.set(
            words.connect.as_ref(),
            "connect",
            second,
            &mut limits.connect,
        )?;
        self.set(words.idle.as_ref(), "idle", second, &mut limits.idle)?;
        for (word, key, to) in [
            (&words.tunnels, "tunnels", &mut limits.tunnels),
            (
                &words.tunnels_per_client,
                "tunnels_per_client",
                &mut limits.tunnels_per_client,
            ),
        ] {
            if let Some(word) = word {
                if *word.get_ref() == 0 {
                    return Err(self.refuse(word.span(), key, "0", "at least 1"));
                }
                *to = *word.get_ref();
            }
        }
        Ok(())
    }

    fn socket(
        &self,
        word: &Spanned<String>,
        key: &str,
        port: Option<u16>,
    ) -> Result<SocketAddr, Refusal> {
        let read = read_socket(word.get_ref(), port);
        let allowed = "an address and a port such as 10.0.0.1:8803 or [2001:db8::1]:8803";
        read.ok_or_else(|| self.text(word, key, allowed))
    }

    fn listener(&self, words: &ListenerWords) -> Result<ListenerConfig, Refusal> {
        let networks = words.clients.iter().map(|word| {
            let network = word.get_ref().parse::<Network>();
            network.map_err(|()| self.text(word, "clients", NETWORK))
        });
        let destinations = words.destinations.iter().map(|word| {
            let read = read_destinations(word.get_ref());
            read.ok_or_else(|| self.text(word, "destinations", DESTINATIONS))
        });
        let from = words.from.as_ref().map(|word| {
            let read = word.get_ref().parse::<IpAddr>();
            read.map_err(|_| self.text(word, "from", "an address of this machine"))
        });
        let parent = words.parent.as_ref().map(|words| {
            let mut patience = PATIENCE;
            let least = Duration::from_millis(1);
            self.set(words.patience.as_ref(), "patience", least, &mut patience)?;
            Ok(Parent {
                proxy: self.socket(&words.proxy, "proxy", Some(PORT))?,
                patience,
                or_directly: words.or_directly,
            })
        });
        let intake = match words.intake {
            IntakeWord::Request => Intake::Request,
            IntakeWord::Socks5 => Intake::Socks,
            IntakeWord::Transparent => Intake::Transparent,
        };
        let transparent = intake == Intake::Transparent;
        Ok(ListenerConfig {
            listen: self.socket(&words.listen, "listen", Some(PORT))?,
            intake,
            policy: Policy {
                clients: networks.collect::<Result<_, _>>()?,
                destinations: destinations.collect::<Result<_, _>>()?,
                anywhere: false,
            },
            thesis: words.thesis,
            cookies: words.cookies,
            from: from.transpose()?,
            parent: parent.transpose()?,
            near: self.leg(&words.near, true, transparent)?,
            far: self.leg(&words.far, words.replay_safe, false)?,
        })
    }

    fn leg(&self, words: &Leg, fast_open: bool, transparent: bool) -> Result<LegOptions, Refusal> {
        let mut options = words.options(fast_open, transparent);
        if let Some(word) = &words.unsent {
            let bytes: Bytes = self.value(word, "unsent")?;
            let read = u32::try_from(bytes.get()).ok().filter(|bytes| *bytes > 0);
            options.unsent = read.ok_or_else(|| self.text(word, "unsent", "from 1b to 4095Mb"))?;
        }
        for (word, key, to) in [
            (&words.send_buffer, "send_buffer", &mut options.send_buffer),
            (
                &words.receive_buffer,
                "receive_buffer",
                &mut options.receive_buffer,
            ),
        ] {
            if let Some(word) = word {
                *to = Some(self.value::<Bytes>(word, key)?.get());
            }
        }
        Ok(options)
    }
}

/// How long a proxy may take to answer before connections go without it, unless it is
/// said otherwise: its SYN may be lost once, and be repeated after a second (RFC 6298).
pub const PATIENCE: Duration = Duration::from_secs(3);

/// An address with its port, which is `port` where none is written.
pub fn read_socket(word: &str, port: Option<u16>) -> Option<SocketAddr> {
    let without = || {
        let ip: IpAddr = word.trim_matches(['[', ']']).parse().ok()?;
        Some(SocketAddr::new(ip, port?))
    };
    let read: Option<SocketAddr> = word.parse().ok().or_else(without);
    read.filter(|at| at.port() != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTENER: &str = "[[listener]]\nlisten = \"10.0.0.1:8803\"\n\
        clients = [\"10.0.0.0/8\"]\ndestinations = [\"0.0.0.0/0 ports 80-443\"]\n";

    #[test]
    fn what_is_written_is_what_is_meant() {
        let text = format!(
            "version = 1\nuser = \"nobody\"\nmetrics = \"127.0.0.1:9464\"\ndrain = \"5s\"\n\
             [limits]\nbudget = \"1gb\"\ntunnels = 10\nidle = \"2h\"\nread_ahead = \"0s\"\n{LISTENER}\
             replay_safe = true\nnear = {{ cc = \"bbr\" }}\n\
             parent = {{ proxy = \"10.0.0.9\", or_directly = true }}\n"
        );
        let config = Config::read("pep.toml", &text).unwrap();
        assert_eq!(config.user.as_deref(), Some("nobody"));
        assert_eq!(config.drain, Duration::from_secs(5));
        assert_eq!(config.limits.budget, 1 << 30);
        assert_eq!(config.read_ahead, Duration::ZERO);
        assert_eq!(config.limits.idle, Duration::from_secs(7_200));
        let [listener] = &config.listeners[..] else {
            panic!("{config:?}");
        };
        assert_eq!(listener.near.control.as_deref(), Some("bbr"));
        assert!(listener.far.fast_open && listener.near.fast_open);
        assert_eq!(listener.policy.destinations[0].ports, 80..=443);
        let parent = listener.parent.unwrap();
        assert_eq!(parent.proxy, "10.0.0.9:8803".parse().unwrap());
        assert_eq!((parent.patience, parent.or_directly), (PATIENCE, true));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_place() {
        for (text, place, said) in [
            ("version = 2\n".to_owned() + LISTENER, "1:11", "version = 1"),
            ("version = 1\n".to_owned(), "1:1", "[[listener]]"),
            (
                format!("version = 1\nuserr = \"x\"\n{LISTENER}"),
                "2:1",
                "did you mean `user`",
            ),
            (
                format!("version = 1\n{LISTENER}thesis = 1\n"),
                "6:10",
                "boolean",
            ),
            (
                format!("version = 1\n{LISTENER}{LISTENER}"),
                "7:10",
                "one listener",
            ),
            (
                format!("version = 1\nmetrics = \"0.0.0.0:1\"\n{LISTENER}"),
                "2:11",
                "loopback",
            ),
            (
                format!("version = 1\ndrain = \"soon\"\n{LISTENER}"),
                "2:9",
                "10ms",
            ),
            (
                format!("version = 1\n[limits]\ntunnels = 0\n{LISTENER}"),
                "3:11",
                "at least 1",
            ),
            (
                "version = 1\n[[listener]]\nlisten = \"10.0.0.1:1\"\nclients = [\"10.0.0.1/8\"]\n\
                 destinations = []\n"
                    .to_owned(),
                "4:12",
                "192.0.2.0/24",
            ),
            (
                "version = 1\n[[listener]]\nlisten = \"10.0.0.1:1\"\nclients = []\n\
                 destinations = [\"0.0.0.0/0 port\"]\n"
                    .to_owned(),
                "5:17",
                "ports 80-443",
            ),
            (
                "version = 1\n[[listener]]\nlisten = \"10.0.0.1:1\"\nclients = []\n".to_owned(),
                "2:1",
                "no `destinations`",
            ),
            ("version = 1\n[[".to_owned(), "2:", ""),
        ] {
            let refusal = Config::read("pep.toml", &text).expect_err(&text).to_line();
            let begins = format!("pep.toml:{place}");
            assert!(
                refusal.starts_with(&begins) && refusal.contains(said),
                "{refusal}"
            );
        }
    }
}
