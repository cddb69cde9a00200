//! Congestion controls of a daemon's legs, and the rates of the links that they send over.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use narrows_bpf::{SocketOptions, Trace};
use narrows_linux::RunId;
use narrows_linux::tcp_options::{TcpOptions, ask_for_control};
use narrows_live::OwnControls;
use narrows_pep::LinkRate;

use super::config::{Config, ListenerConfig};
use super::error::PepError;
use super::leg::LegConfig;

/// What the legs of all listeners have: registered controls, and links by the address of
/// their listener and the key of their leg.
pub(super) struct LegControls {
    own: OwnControls,
    pub(super) links: BTreeMap<(SocketAddr, &'static str), Arc<LinkRate>>,
}

/// The options of a listener's legs, near and far, with the kernel's names of their controls, and
/// the rates of their links.
pub(super) type Legs = [(TcpOptions, Option<Arc<LinkRate>>); 2];

/// The two legs of a listener, by their keys.
fn legs(listener: &ListenerConfig) -> [(&'static str, &LegConfig); 2] {
    [("near", &listener.near), ("far", &listener.far)]
}

impl LegControls {
    pub fn new() -> Self {
        Self {
            own: OwnControls::new(RunId::random(), Trace::Off),
            links: BTreeMap::new(),
        }
    }

    /// Registers Narrows' own controls that legs of `config` have and that are not yet, and
    /// asks the kernel for those that are its own.
    ///
    /// # Errors
    /// For the first leg whose control cannot be had.
    pub fn load(&mut self, config: &Config) -> Result<(), PepError> {
        for listener in &config.listeners {
            for (key, leg) in legs(listener) {
                if let Some(name) = &leg.options.control {
                    ask_for_control(name).map_err(|reason| PepError::NoControl {
                        listener: listener.listen,
                        leg: key,
                        control: name.clone(),
                        reason: reason.into(),
                    })?;
                }
                if let Some(spec) = leg.own.as_ref().filter(|s| self.own.name(s).is_none()) {
                    let loaded = self.own.register(spec);
                    loaded.map_err(|error| PepError::NotLoaded {
                        listener: listener.listen,
                        leg: key,
                        control: spec.to_string(),
                        error: error.into(),
                    })?;
                }
            }
        }
        Ok(())
    }

    /// What sets options of sockets that have one of the registered controls.
    ///
    /// # Errors
    /// If the kernel gives no hold of one, which it does on a working system.
    pub fn options(&self) -> Result<Vec<SocketOptions>, PepError> {
        let refused = PepError::setup("hold the options of a congestion control");
        let options = self.own.options();
        options.map_err(|e| refused(std::io::Error::other(e)))
    }

    /// The legs of each listener of `config`, for all threads.
    pub fn all_legs(&mut self, config: &Config) -> Vec<Legs> {
        config.listeners.iter().map(|l| self.legs(l)).collect()
    }

    fn legs(&mut self, listener: &ListenerConfig) -> Legs {
        legs(listener).map(|(key, leg)| {
            let own = leg.own.as_ref().and_then(|spec| self.own.name(spec));
            let own = own.map(str::to_owned);
            let options = TcpOptions {
                control: own.or_else(|| leg.options.control.clone()),
                ..leg.options.clone()
            };
            let link = leg.hint.map(|rate| {
                let place = (listener.listen, key);
                let link = self.links.entry(place);
                Arc::clone(link.or_insert_with(|| Arc::new(LinkRate::new(rate))))
            });
            (options, link)
        })
    }

    /// Links that are known have the rates of `config` from now on; those of which it says
    /// none any more are forgotten.
    pub fn set_rates(&mut self, config: &Config) {
        let mut said = BTreeMap::new();
        for listener in &config.listeners {
            for (key, leg) in legs(listener) {
                said.extend(leg.hint.map(|rate| ((listener.listen, key), rate)));
            }
        }
        self.links.retain(|place, link| {
            let rate = said.get(place);
            rate.is_some_and(|rate| {
                link.set(*rate);
                true
            })
        });
    }
}
