//! What a client asks of a proxy, in any layout, read as it comes.

use std::net::{IpAddr, SocketAddr};

use crate::config::Intake;
use crate::convert::{self, Fault, Message, Tlv};
use crate::cookie::Cookies;
use crate::policy::{Network, Policy};
use crate::proxy_header::HeaderVersion;
use crate::socks::{self, SocksMessage};
use crate::thesis;

/// TCP options that every connection of the proxy's carries by itself, by kind: window
/// scale, SACK permitted, timestamps (RFC 7323, RFC 2018).
const OWN_OPTIONS: [u8; 3] = [3, 4, 8];

/// The kind of TCP Fast Open (RFC 7413).
const FAST_OPEN: u8 = 34;

/// TCP options of one byte: end of the list, and padding (RFC 9293 §3.1).
const ONE_BYTE: [u8; 2] = [0, 1];

/// How requests are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// RFC 8803: the proxy answers.
    #[default]
    Convert,
    /// Bayer's thesis: it does not.
    Thesis,
    /// SOCKS version 5: it does.
    Socks,
    /// There was none: the connection was led here.
    Silent,
}

impl Layout {
    /// What a client is answered whose connection is open, or refused; `None` where there are
    /// no answers.
    pub(crate) fn answer(self, fault: Option<Fault>) -> Option<Vec<u8>> {
        match (self, fault) {
            // The converter's own message comes first (RFC 8803 §4.1).
            (Self::Convert, None) => Message::default().encode().ok(),
            (Self::Convert, Some(fault)) => Some(Message::refusal(fault)),
            (Self::Socks, fault) => Some(socks::answer(fault.as_ref()).to_vec()),
            (Self::Thesis | Self::Silent, _) => None,
        }
    }
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A connection.
    Connect {
        /// Its other end.
        destination: SocketAddr,
        /// How the request was laid out.
        layout: Layout,
    },
    /// A connection to the host of that name, by SOCKS.
    ConnectByName {
        /// The name.
        name: String,
        /// The port.
        port: u16,
    },
    /// Which TCP extensions are supported.
    Info,
    /// SOCKS, before it says where to: whether it would do so without authentication.
    Greeting(bool),
}

/// Why a request is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// In words, for a log.
    pub why: String,
    /// What the client is answered, where its layout has answers.
    pub answer: Option<Fault>,
}

/// What a listener asks of requests.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Whether the layout of the thesis is taken too.
    pub thesis: bool,
    /// Whether clients show a cookie; those without one are given it.
    pub cookies: Option<Cookies>,
    /// Whether data may go with the SYN to the destination.
    pub fast_open: bool,
    /// How clients say where they want to go.
    pub intake: Intake,
    /// Who may come, and where to.
    pub policy: Policy,
    /// Load balancers, whose connections say by a header whose they are.
    pub balancers: Vec<Network>,
    /// The header that says to destinations whose a connection is.
    pub announce: Option<HeaderVersion>,
    /// Whether connections to destinations come from the client's own address. The host must be
    /// able to have it.
    pub keep_source: bool,
}

/// Reads one request from the start of a stream.
#[derive(Clone, Debug, Default)]
pub struct RequestReader {
    head: Vec<u8>,
    state: State,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// Both layouts begin alike: version and length. The next two bytes tell.
    #[default]
    Head,
    Convert(convert::Reader),
    Thesis(thesis::Reader),
    Socks(socks::Reader),
}

impl RequestReader {
    /// Takes the next bytes of the stream that `client` opened. `None` while more are
    /// needed; then what is asked, and how many of these bytes belong to the request:
    /// what follows is for the destination, or behind a greeting the rest of the request.
    ///
    /// # Errors
    /// When it cannot become a request, or one that is not granted.
    pub fn take(
        &mut self,
        bytes: &[u8],
        terms: &Terms,
        client: IpAddr,
    ) -> Result<Option<(Asked, usize)>, Refused> {
        match &mut self.state {
            State::Head if terms.intake == Intake::Socks => {
                self.state = State::Socks(socks::Reader::default());
                self.take(bytes, terms, client)
            }
            State::Head => {
                let more = (convert::HEADER_LEN - self.head.len()).min(bytes.len());
                self.head.extend_from_slice(&bytes[..more]);
                let begins = self.head.first().is_none_or(|v| *v == convert::VERSION);
                if begins && self.head.len() < convert::HEADER_LEN {
                    return Ok(None);
                }
                let thesis = terms.thesis
                    && self.head.first() == Some(&thesis::VERSION)
                    && self.head.get(2..4) == Some(&thesis::MAGIC);
                self.state = if thesis {
                    State::Thesis(thesis::Reader::default())
                } else {
                    State::Convert(convert::Reader::default())
                };
                let head = std::mem::take(&mut self.head);
                match self.take(&head, terms, client)? {
                    // A message of a header alone.
                    Some((asked, _)) => Ok(Some((asked, more))),
                    None => {
                        let rest = self.take(&bytes[more..], terms, client)?;
                        Ok(rest.map(|(asked, used)| (asked, more + used)))
                    }
                }
            }
            State::Convert(reader) => match reader.take(bytes) {
                Ok(None) => Ok(None),
                Ok(Some((message, used))) => {
                    let granted = judge(&message, reader.bytes(), terms, client);
                    granted.map(|asked| Some((asked, used)))
                }
                Err(error) => Err(Refused {
                    why: error.to_string(),
                    answer: Some(error.fault(reader.bytes())),
                }),
            },
            State::Thesis(reader) => match reader.take(bytes) {
                Ok(read) => Ok(read.map(|(destination, used)| {
                    let destination = destination.into();
                    let layout = Layout::Thesis;
                    (
                        Asked::Connect {
                            destination,
                            layout,
                        },
                        used,
                    )
                })),
                Err(error) => Err(Refused {
                    why: error.to_string(),
                    answer: None,
                }),
            },
            State::Socks(reader) => match reader.take(bytes) {
                Ok(read) => Ok(read.map(|(said, used)| (asked_by_socks(said), used))),
                Err(error) => Err(Refused {
                    why: error.to_string(),
                    answer: error.fault(),
                }),
            },
        }
    }
}

fn asked_by_socks(said: SocksMessage) -> Asked {
    match said {
        SocksMessage::Greeting(acceptable) => Asked::Greeting(acceptable),
        SocksMessage::Connect(destination) => Asked::Connect {
            destination,
            layout: Layout::Socks,
        },
        SocksMessage::ConnectByName(name, port) => Asked::ConnectByName { name, port },
    }
}

/// What a message that could be read asks for.
fn judge(message: &Message, bytes: &[u8], terms: &Terms, client: IpAddr) -> Result<Asked, Refused> {
    let refuse = |why: &str, answer: Fault| {
        let (why, answer) = (why.to_owned(), Some(answer));
        Err(Refused { why, answer })
    };
    let mut asked = None;
    let mut shown: Option<&[u8]> = None;
    for tlv in &message.tlvs {
        let next = match tlv {
            Tlv::Info => Asked::Info,
            Tlv::Connect { peer, options } => {
                let unusable = unusable(options, terms.fast_open);
                if !unusable.is_empty() {
                    let answer = Fault::UnsupportedTcpOption(unusable);
                    return refuse("TCP options that cannot be used", answer);
                }
                let (destination, layout) = (*peer, Layout::Convert);
                Asked::Connect {
                    destination,
                    layout,
                }
            }
            Tlv::Cookie(cookie) if shown.is_none() => {
                shown = Some(cookie);
                continue;
            }
            Tlv::Unknown { .. } => {
                let answer = Fault::UnsupportedMessage(bytes.to_vec());
                return refuse("a TLV of a type that is not assigned", answer);
            }
            _ => {
                let answer = Fault::Malformed(bytes.to_vec());
                return refuse("a TLV that a client does not send, or sends once", answer);
            }
        };
        if asked.replace(next).is_some() {
            let answer = Fault::Malformed(bytes.to_vec());
            return refuse("two TLVs that each ask for something", answer);
        }
    }
    if let Some(cookies) = &terms.cookies {
        if !shown.is_some_and(|cookie| cookies.accepts(client, cookie)) {
            let answer = Fault::MissingCookie(cookies.of(client).to_vec());
            return refuse("no cookie, or that of another", answer);
        }
    }
    match asked {
        Some(asked) => Ok(asked),
        None => refuse("it asks for nothing", Fault::Malformed(bytes.to_vec())),
    }
}

/// The kinds of the TCP options in `options` that the proxy's own connection does not
/// have anyway. A list that cannot be read ends there.
fn unusable(mut options: &[u8], fast_open: bool) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let Some(&kind) = options.first() {
        if ONE_BYTE.contains(&kind) {
            options = &options[1..];
            continue;
        }
        let own = OWN_OPTIONS.contains(&kind) || (fast_open && kind == FAST_OPEN);
        if !own {
            kinds.push(kind);
        }
        let length = options.get(1).map_or(0, |length| usize::from(*length));
        options = options.get(length.max(2)..).unwrap_or_default();
    }
    kinds
}

/// What answers a question for the TCP extensions that are supported (RFC 8803 §4.2.4).
pub fn supported(fast_open: bool) -> Message {
    let mut kinds = OWN_OPTIONS.to_vec();
    kinds.extend(fast_open.then_some(FAST_OPEN));
    Message::of(Tlv::SupportedExtensions(kinds))
}

/// The bytes by which a client asks for a connection to `destination`. `None` where the
/// layout has no such addresses.
pub fn request(layout: Layout, destination: SocketAddr, cookie: Option<&[u8]>) -> Option<Vec<u8>> {
    match (layout, destination) {
        (Layout::Thesis, SocketAddr::V4(destination)) => Some(thesis::encode(destination).to_vec()),
        (Layout::Thesis, SocketAddr::V6(_)) | (Layout::Silent | Layout::Socks, _) => None,
        (Layout::Convert, peer) => {
            let options = Vec::new();
            let connect = Tlv::Connect { peer, options };
            let cookie = cookie.map(|cookie| Tlv::Cookie(cookie.to_vec()));
            let tlvs = [connect].into_iter().chain(cookie).collect();
            Message { tlvs }.encode().ok()
        }
    }
}
