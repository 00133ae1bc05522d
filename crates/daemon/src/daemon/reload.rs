//! Reading the configuration again, on SIGHUP: as a whole or not at all.

use super::devices::PortPlan;
use super::{Contact, Daemon};
use crate::config::{Config, ConfigError, Peer};
use crate::kernel::Kernel;
use crate::start::StartError;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use wavelane_base::Address;
use wavelane_gateway as gateway;
use wavelane_gateway::ReloadError;
use wavelane_host::nft::ToolError;

/// What asks for a reload, and what became of the last.
pub(super) struct Reloads {
    /// Readable once SIGHUP came.
    pub(super) signal: UnixStream,
    file: PathBuf,
    /// Why the last was refused.
    pub(super) refused: Option<String>,
    /// The change that the kernel is making now.
    pending: Option<Box<Pending>>,
    /// Another was asked for meanwhile.
    again: bool,
}

impl Reloads {
    pub(super) fn new(file: &Path, signal: UnixStream) -> io::Result<Self> {
        signal.set_nonblocking(true)?;
        Ok(Self { signal, file: file.into(), refused: None, pending: None, again: false })
    }
}

/// A configuration that is checked, and the sockets that it needs.
struct Pending {
    config: Config,
    ports: PortPlan,
}

/// Why a configuration was not put in force. One line, with the remedy.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Gateway(#[from] ReloadError),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(transparent)]
    Socket(#[from] StartError),
    #[error("{0} cannot change while wavelaned runs: restart it, or put the old value back")]
    Fixed(&'static str),
}

impl Daemon {
    /// Reads the file again. What can change changes without touching a connection; otherwise everything stays.
    pub(super) fn reload(&mut self) {
        // Several signals are one request.
        while matches!(self.reloads.signal.read(&mut [0; 64]), Ok(n) if n > 0) {}
        if self.kernel.as_ref().is_some_and(Kernel::is_busy) {
            self.reloads.again = true;
        } else if let Err(why) = self.begin_reload() {
            self.refuse_reload(&why);
        }
    }
    /// Checks the file and has the kernel told what it routes; the rest follows once the kernel has answered.
    fn begin_reload(&mut self) -> Result<(), Refusal> {
        let config = Config::load(&self.reloads.file)?;
        if let Some(key) = self.config.fixed_difference(&config) {
            return Err(Refusal::Fixed(key));
        }
        let ports = self.plan_ports(&config)?;
        self.gateway.check_reload(&self.for_gateway(&config, &[], &ports))?;
        let pending = Pending { config, ports };
        match &mut self.kernel {
            Some(kernel) => {
                kernel.lead(&pending.config);
                self.reloads.pending = Some(Box::new(pending));
                Ok(())
            }
            None => self.put_in_force(pending),
        }
    }
    /// The kernel has answered.
    pub(super) fn led(&mut self, result: Result<(), ToolError>) {
        let Some(pending) = self.reloads.pending.take() else { return };
        if let Err(why) = result.map_err(Refusal::from).and_then(|()| self.put_in_force(*pending)) {
            self.refuse_reload(&why);
        }
    }
    /// A reload that had to wait for the kernel.
    pub(super) fn go_on_reloading(&mut self) {
        if std::mem::take(&mut self.reloads.again) {
            self.reload();
        }
    }
    fn refuse_reload(&mut self, why: &Refusal) {
        self.counters.one("reloads_refused");
        self.say(&format!("reload refused, everything stays as it was: {why}"));
        self.reloads.refused = Some(why.to_string());
    }
    fn put_in_force(&mut self, Pending { config, ports }: Pending) -> Result<(), Refusal> {
        // What was reported so far names peers by their old places.
        while let Some(event) = wavelane_base::Machine::poll_event(&mut self.gateway) {
            self.handle_event(event);
        }
        self.names.arrange(self.now, &config);
        let gateway = self.for_gateway(&config, &self.names.addresses(), &ports);
        if let Err(why) = self.gateway.reload(self.now, gateway) {
            // Names are by the peers' places, too.
            self.names.arrange(self.now, &self.config);
            return Err(why.into());
        }
        self.whereabouts.arrange(&config);
        self.routes.iter_mut().for_each(|routes| routes.arrange(&config));
        // They have other places now.
        self.denials_told.clear();
        self.refusals_told.clear();
        let known = |key: &[u8; 32]| self.config.peers.iter().position(|p| p.public_key == *key);
        let contact = |p: &Peer| known(&p.public_key).map_or(Contact::new(self.now), |i| self.peers[i].clone());
        self.peers = config.peers.iter().map(contact).collect();
        self.config = config;
        self.set_ports(ports);
        self.reloads.refused = None;
        self.counters.one("reloads");
        self.say("the configuration was read again and is in force");
        for warning in crate::commands::warnings(&self.config) {
            self.say(&format!("warning: {warning}"));
        }
        Ok(())
    }
    fn for_gateway(&self, config: &Config, addresses: &[Vec<Option<Address>>], ports: &PortPlan) -> gateway::Config {
        let mut gateway = config.to_gateway_by(addresses, &ports.sockets);
        // The interfaces' addresses may have changed; where our ICMP errors come from does not.
        gateway.packets = self.gateway.config().packets;
        gateway
    }
}
