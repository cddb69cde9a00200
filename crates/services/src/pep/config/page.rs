//! A document's values, checked; what is wrong with one is refused where it stands.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use narrows_cc::ControlSpec;
use narrows_pep::{HeaderVersion, Intake, NETWORK, Network, Parent, Policy, RATE_OPTION};
use narrows_scenario::Refusal;
use narrows_units::{Duration, Rate, Value};
use toml::Spanned;

use super::address::{DESTINATIONS, read_destinations, read_socket};
use super::document::{IntakeWord, Leg, LimitWords, ListenerWords};
use super::size::Size;
use super::{ListenerConfig, PATIENCE, PORT};
use crate::pep::leg::LegConfig;

/// What `cc` begins with where it is one of Narrows' own and none of the kernel's.
const OWN: &str = "narrows:";

/// A file, for messages.
pub(super) struct Page<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

/// What has a least value: times and sizes.
pub(super) trait Limited: Value + Copy + PartialOrd + std::fmt::Display {}
impl Limited for Duration {}
impl Limited for Size {}

impl Page<'_> {
    pub(super) fn refuse(
        &self,
        span: Range<usize>,
        key: &str,
        found: &str,
        allowed: &str,
    ) -> Refusal {
        Refusal::in_text((self.name, self.text), span, key, found, allowed)
    }

    pub(super) fn text(&self, word: &Spanned<String>, key: &str, allowed: &str) -> Refusal {
        self.refuse(word.span(), key, &format!("`{}`", word.get_ref()), allowed)
    }

    /// What the reader of TOML or of its keys says.
    pub(super) fn toml(&self, error: &toml::de::Error) -> Refusal {
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

    pub(super) fn set<T: Limited>(
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

    pub(super) fn limits(
        &self,
        words: &LimitWords,
        limits: &mut narrows_pep::Limits,
    ) -> Result<(), Refusal> {
        // Less than a segment does not get on.
        let least = Size(4_096);
        for (word, key, to) in [
            (&words.backlog, "backlog", &mut limits.backlog),
            (&words.budget, "budget", &mut limits.budget),
        ] {
            let mut bytes = Size(*to);
            self.set(word.as_ref(), key, least, &mut bytes)?;
            *to = bytes.0;
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
        self.set(words.probe.as_ref(), "probe", second, &mut limits.probe)?;
        self.set(words.idle.as_ref(), "idle", second, &mut limits.idle)?;
        let resolve = words.resolve.as_ref();
        self.set(resolve, "resolve", second, &mut limits.resolve)?;
        if let Some(word) = &words.ipv6_prefix {
            let bits = *word.get_ref();
            if !(1..=128).contains(&bits) {
                let allowed = "from 1 to 128 bits";
                return Err(self.refuse(word.span(), "ipv6_prefix", &bits.to_string(), allowed));
            }
            limits.ipv6_prefix = bits;
        }
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

    pub(super) fn socket(
        &self,
        word: &Spanned<String>,
        key: &str,
        port: Option<u16>,
    ) -> Result<SocketAddr, Refusal> {
        let read = read_socket(word.get_ref(), port);
        let allowed = "an address and a port such as 10.0.0.1:8803 or [2001:db8::1]:8803";
        read.ok_or_else(|| self.text(word, key, allowed))
    }

    pub(super) fn listener(&self, words: &ListenerWords) -> Result<ListenerConfig, Refusal> {
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
        let balancers = words.balancers.iter().map(|word| {
            let network = word.get_ref().parse::<Network>();
            network.map_err(|()| self.text(word, "balancers", NETWORK))
        });
        let balancers = balancers.collect::<Result<Vec<_>, _>>()?;
        if let Some(word) = words.balancers.first().filter(|_| transparent) {
            let allowed = "none where `intake = \"transparent\"`";
            return Err(self.text(word, "balancers", allowed));
        }
        let send_proxy = words
            .send_proxy
            .as_ref()
            .map(|word| match word.get_ref().as_str() {
                "v1" => Ok(HeaderVersion::V1),
                "v2" => Ok(HeaderVersion::V2),
                _ => Err(self.text(word, "send_proxy", "`v1` or `v2`")),
            });
        let keep_source = words
            .keep_source
            .as_ref()
            .is_some_and(|word| *word.get_ref());
        if let Some(word) = words.keep_source.as_ref().filter(|_| keep_source) {
            let other = words.from.is_some() || words.parent.is_some();
            if !transparent || other {
                let allowed =
                    "only with `intake = \"transparent\"`, and without `from` and `parent`";
                return Err(self.refuse(word.span(), "keep_source", "true", allowed));
            }
        }
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
            balancers,
            send_proxy: send_proxy.transpose()?,
            keep_source,
            from: from.transpose()?,
            parent: parent.transpose()?,
            near: self.leg(&words.near, true, transparent)?,
            far: self.leg(&words.far, words.replay_safe, keep_source)?,
        })
    }

    fn leg(&self, words: &Leg, fast_open: bool, transparent: bool) -> Result<LegConfig, Refusal> {
        let mut leg = Leg::plain(fast_open, transparent);
        let options = &mut leg.options;
        if let Some(word) = &words.unsent {
            let bytes: Size = self.value(word, "unsent")?;
            let read = u32::try_from(bytes.0).ok().filter(|bytes| *bytes > 0);
            let read = read.ok_or_else(|| self.text(word, "unsent", "from 1 to 4095MiB"))?;
            options.unsent = Some(read.into());
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
                *to = Some(self.value::<Size>(word, key)?.0);
            }
        }
        let second = Duration::from_secs(1);
        for (word, key, least, to) in [
            (
                &words.keepalive,
                "keepalive",
                second,
                &mut options.keepalive,
            ),
            (
                &words.user_timeout,
                "user_timeout",
                Duration::from_millis(1),
                &mut options.user_timeout,
            ),
        ] {
            let mut time = Duration::ZERO;
            self.set(word.as_ref(), key, least, &mut time)?;
            // What the kernel takes (net/ipv4/tcp.c, MAX_TCP_KEEPIDLE).
            if time > Duration::from_secs(32_767) {
                if let Some(word) = word {
                    return Err(self.text(word, key, "at most 32767s"));
                }
            }
            *to = word.as_ref().map(|_| time);
        }
        if let Some(word) = &words.cc {
            match word.get_ref().strip_prefix(OWN) {
                Some(own) => leg.own = Some(self.own_control(word, own)?),
                None => options.control = Some(word.get_ref().clone()),
            }
        }
        if let Some(word) = &words.hint {
            leg.hint = Some(self.hint(word, leg.own.as_ref())?);
        }
        Ok(leg)
    }

    /// The control of Narrows' own with these words, which `word` ends with.
    fn own_control(&self, word: &Spanned<String>, own: &str) -> Result<ControlSpec, Refusal> {
        let read = ControlSpec::parse(own).map_err(|e| {
            // Behind the quotation mark and the prefix.
            let e = e.shifted(word.span().start + 1 + OWN.len());
            self.refuse(e.span, "cc", &e.found, &e.allowed)
        })?;
        if read.needs().ect1 {
            let allowed = "a congestion control whose packets need no ECT(1), which the daemon \
                           does not give them";
            return Err(self.text(word, "cc", allowed));
        }
        Ok(read)
    }

    /// The rate of a link, which `control` can be given.
    fn hint(&self, word: &Spanned<String>, control: Option<&ControlSpec>) -> Result<Rate, Refusal> {
        let rate: Rate = self.value(word, "hint")?;
        let takes = control.filter(|spec| spec.option(RATE_OPTION).is_some());
        let Some(mut spec) = takes.cloned() else {
            let allowed = "a leg whose congestion control can be given a rate, such as \
                           `cc = \"narrows:quickstart\"`";
            return Err(self.text(word, "hint", allowed));
        };
        let set = spec.set_option(RATE_OPTION, rate.as_bytes());
        if rate.as_bytes() == 0 || set.is_err() {
            return Err(self.text(word, "hint", "a rate from 8bit to 1Tbit"));
        }
        Ok(rate)
    }
}
