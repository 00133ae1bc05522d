//! Reading the configuration again, on SIGHUP: as a whole or not at all.

use super::{Acquaintance, Daemon};
use crate::config::{Config, ConfigError};
use crate::start::{self, StartError};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use wavelane_host::nft::ToolError;
use wavelane_protocol::gateway::ReloadError;

/// What asks for a reload, and what became of the last.
pub(super) struct Reloads {
    /// Readable once SIGHUP came.
    pub(super) signal: UnixStream,
    file: PathBuf,
    /// Why the last was refused.
    pub(super) refused: Option<String>,
}

impl Reloads {
    pub(super) fn new(file: &Path, signal: UnixStream) -> io::Result<Self> {
        signal.set_nonblocking(true)?;
        Ok(Self { signal, file: file.into(), refused: None })
    }
}

/// Why a configuration was not put in force. One line, with the remedy.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Gateway(#[from] ReloadError),
    #[error(transparent)]
    Peer(#[from] StartError),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error("{0} cannot change while wavelaned runs: restart it, or put the old value back")]
    Fixed(&'static str),
}

impl Daemon {
    /// Reads the file again. What can change changes without touching a connection; otherwise everything stays.
    pub(super) fn reload(&mut self) {
        // Several signals are one wish.
        while matches!(self.reloads.signal.read(&mut [0; 64]), Ok(n) if n > 0) {}
        // What was reported so far names peers by their old places.
        while let Some(event) = wavelane_base::Machine::poll_event(&mut self.gateway) {
            self.handle_event(event);
        }
        match self.try_reload() {
            Ok(()) => {
                self.reloads.refused = None;
                self.counters.one("reloads");
                self.say("the configuration was read again and is in force");
                for warning in crate::commands::warnings(&self.config) {
                    self.say(&format!("warning: {warning}"));
                }
            }
            Err(why) => {
                self.counters.one("reloads_refused");
                self.say(&format!("reload refused, everything stays as it was: {why}"));
                self.reloads.refused = Some(why.to_string());
            }
        }
    }
    fn try_reload(&mut self) -> Result<(), Refusal> {
        let config = Config::load(&self.reloads.file)?;
        if let Some(key) = self.config.fixed_difference(&config) {
            return Err(Refusal::Fixed(key));
        }
        let addresses = self.resolve_again(&config)?;
        let mut gateway = config.to_gateway(&addresses);
        // The interfaces' addresses may have changed; where our ICMP errors come from does not.
        gateway.packets = self.gateway.config().packets;
        self.gateway.check_reload(&gateway)?;
        if let Err(why) = self.lead(&config) {
            // What the kernel took already is taken back; it took the old before, so this does not fail again.
            let old = self.config.clone();
            let _ = self.lead(&old);
            return Err(why.into());
        }
        self.gateway.reload(self.now, gateway)?;
        let acquainted = |key: &[u8; 32]| self.config.peers.iter().position(|p| p.public_key == *key);
        let peers =
            config.peers.iter().map(|p| acquainted(&p.public_key).map_or(Acquaintance::default(), |i| self.peers[i]));
        self.peers = peers.collect();
        self.addresses = addresses;
        self.config = config;
        Ok(())
    }
    /// Asks for the addresses of peers that are new or written differently, and for no others, because names may take
    /// long to resolve and connections wait meanwhile.
    fn resolve_again(&self, config: &Config) -> Result<Vec<Option<SocketAddr>>, StartError> {
        let known = |peer: &crate::config::Peer| {
            let same = |p: &crate::config::Peer| p.public_key == peer.public_key && p.address == peer.address;
            self.config.peers.iter().position(same).and_then(|i| self.addresses.get(i).copied())
        };
        config.peers.iter().map(|p| known(p).map_or_else(|| start::resolve(p, config.listen), Ok)).collect()
    }
    /// Tells the kernel what `config` routes.
    fn lead(&mut self, config: &Config) -> Result<(), ToolError> {
        if let Some(t) = &mut self.transparent {
            t.rules.replace(config)?;
        }
        match &mut self.packet_door {
            Some(door) => door.device.lead(config),
            None => Ok(()),
        }
    }
}
