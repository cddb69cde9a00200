//! Whole proxies that are sent anything: by RFC 8803 and the layout of the thesis, by SOCKS, behind
//! a header of the PROXY protocol. They do not panic, and nothing stays.

use narrows_core::{App, ConnectionError, Profile};
use narrows_pep::{HeaderVersion, Intake, Limits, Listener, Proxy, Terms};

use super::fake::{CLIENT, Host};

/// A proxy of each kind.
pub struct Tunnels(Vec<(Host, Proxy)>);

impl Tunnels {
    pub fn new() -> Self {
        let client = || vec![CLIENT.parse::<std::net::SocketAddr>().unwrap().ip()];
        let network = |ip: &std::net::IpAddr| ip.to_string().parse().unwrap();
        let balancers: Vec<_> = client().iter().map(network).collect();
        let kinds = [
            Terms {
                thesis: true,
                ..Terms::default()
            },
            Terms {
                intake: Intake::Socks,
                announce: Some(HeaderVersion::V2),
                ..Terms::default()
            },
            Terms {
                balancers,
                fast_open: true,
                ..Terms::default()
            },
        ];
        Self(kinds.into_iter().map(Self::one).collect())
    }

    fn one(terms: Terms) -> (Host, Proxy) {
        let listener = Listener {
            near: Profile(0),
            local: "10.0.0.2:8803".parse().unwrap(),
            far: Profile(1),
            onward_from: None,
            terms,
            parent: None,
            flow: None,
            near_rate: None,
            far_rate: None,
        };
        let limits = Limits {
            budget: 5_000,
            ..Limits::default()
        };
        let (mut host, mut proxy) = (Host::new(), Proxy::new(vec![listener], limits));
        proxy.start(&mut host).unwrap();
        (host, proxy)
    }

    /// One connection of each that sends these bytes, in two pieces, and what follows from it.
    pub fn feed(&mut self, bytes: &[u8]) {
        for (host, proxy) in &mut self.0 {
            let near = host.connects(proxy);
            let (head, rest) = bytes.split_at(bytes.len() / 3);
            for piece in [head, rest] {
                if !host[near].closed {
                    host.arrives(proxy, near, piece);
                }
            }
            for name in proxy.take_names() {
                let found: Vec<_> = (name.id % 2 == 0)
                    .then(|| [192, 0, 2, 1].into())
                    .into_iter()
                    .collect();
                proxy.resolved(host, name.id, &found);
            }
            if let Some((far, _)) = host.onward().filter(|(far, _)| !host[*far].closed) {
                host.established(proxy, far);
                if !host[far].closed {
                    host.arrives(proxy, far, bytes);
                }
                if !host[far].closed {
                    host.breaks(proxy, far, ConnectionError::Reset);
                }
            }
            if !host[near].closed {
                host.peer_closes(proxy, near);
            }
            if !host[near].closed {
                host.breaks(proxy, near, ConnectionError::Reset);
            }
            assert!(host[near].closed);
            host.streams.clear();
            proxy.take_unwanted_names();
        }
    }

    /// Nothing is left of any of them.
    pub fn end(&mut self) {
        for (_, proxy) in &self.0 {
            assert_eq!((proxy.tunnels(), proxy.backlog()), (0, 0));
            let known = format!("{proxy:?}").len();
            assert!(known < 6_000, "{known} bytes: {proxy:?}");
        }
    }
}
