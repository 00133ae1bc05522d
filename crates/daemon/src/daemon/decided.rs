//! What happens is reported to [`Decisions`], and what they order is done: here are the file, the kernel's thread, the doors and the clients.

use super::devices::PortPlan;
use super::{Contact, Daemon};
use crate::changes::Changes;
use crate::config::{Config, ConfigError, Peer};
use crate::decisions::{Event, Of, Order, Replaced, words};
use crate::log::DEBUG;
use crate::request::Answer;
use crate::start::StartError;
use crate::system::installed::Change;
use crate::system::kernel::Kernel;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use wavelane_base::{Address, Machine};
use wavelane_door::Syn;
use wavelane_gateway as gateway;
use wavelane_gateway::{PeerId, Reason, ReloadError};
use wavelane_host::nfqueue::HeldPacket;
use wavelane_settings::LogLevel;

/// A SYN, and its packet if the kernel holds it.
pub(super) type Taken = (Syn, Option<HeldPacket>);

/// Where a configuration comes from, and what the one that is looked at needs.
pub(super) struct Sources {
    /// Readable once SIGHUP came.
    pub(super) signal: UnixStream,
    file: PathBuf,
    ports: Option<PortPlan>,
}

impl Sources {
    pub(super) fn new(file: &Path, signal: UnixStream) -> io::Result<Self> {
        signal.set_nonblocking(true)?;
        Ok(Self { signal, file: file.into(), ports: None })
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
    Socket(#[from] StartError),
    #[error("{0} cannot change while wavelaned runs: restart it, or put the old value back")]
    Fixed(&'static str),
}

impl Daemon {
    pub(super) fn decide(&mut self, event: Event<Taken>) {
        let mut orders = VecDeque::from(self.take(event));
        while let Some(order) = orders.pop_front() {
            if let Some(event) = self.obey(order) {
                orders.extend(self.take(event));
            }
        }
    }
    /// What to do about an event; recorded if that is asked for. Of ticks only those count that had something to do.
    fn take(&mut self, event: Event<Taken>) -> Vec<Order<Taken>> {
        let counts = !matches!(event, Event::Tick) || self.decisions.deadline().is_some_and(|at| at <= self.now);
        let named = |(syn, _): &Taken| format!("{}>{}", syn.source, syn.target);
        let plainly = |(syn, _): &Taken| format!("{} to {}", syn.source, syn.target);
        let (is_recorded, is_told) = (counts && self.recorder.is_some(), counts && self.log.has(LogLevel::Debug));
        let happened = is_recorded.then(|| words::event(&self.config, &event, named));
        let told = is_told.then(|| words::plain_event(&self.config, &event, plainly));
        let is_tick = matches!(event, Event::Tick);
        let orders = self.decisions.take(self.now, &self.config, event);
        if let Some(told) = told.filter(|_| !(is_tick && orders.is_empty())) {
            let ordered = orders.iter().filter_map(|order| words::plain_order(&self.config, order, plainly));
            let ordered: Vec<String> = ordered.collect();
            let ordered = if ordered.is_empty() { "nothing is to be done".to_owned() } else { ordered.join("; ") };
            self.say(&format!("{DEBUG}{told}: {ordered}"));
        }
        if let Some(happened) = happened {
            let ordered: Vec<String> = orders.iter().map(|order| words::order(&self.config, order, named)).collect();
            if let Some(recorder) = &mut self.recorder
                && let Err(why) = recorder.note(self.now, &happened, &ordered)
            {
                self.recorder = None;
                self.warn(&format!("the recording of decisions ends: {why}; traffic goes on"));
            }
        }
        orders
    }
    /// Does what is ordered. Returns what came of it, if that is asked.
    fn obey(&mut self, order: Order<Taken>) -> Option<Event<Taken>> {
        match order {
            Order::Say(text) => self.say(&text),
            Order::Count(word) => self.counters.one(word),
            Order::GiveUp(peer) => {
                self.doubt(peer);
                self.gateway.refuse_unanswered(self.now, PeerId(peer));
            }
            Order::GiveBack(down) => self.kernel.iter_mut().for_each(|kernel| kernel.give_back(&down)),
            Order::LetGo((_, held)) => held.into_iter().for_each(|held| self.door.let_go(self.now, held)),
            Order::Discard((_, held)) => self.door.discard(held),
            Order::Refuse((syn, held)) => self.door.refuse_syn(&syn, held, Reason::Unreachable),
            Order::Check(former) => {
                let is_former = former.is_some();
                let config = former.map_or_else(|| Config::load(&self.sources.file).map(Box::new), Ok);
                let checked = config.map_err(Refusal::from).and_then(|config| self.check(config, is_former));
                return Some(Event::Checked(checked.map_err(|why| why.to_string())));
            }
            Order::Lead(config) => self.kernel.iter_mut().for_each(|kernel| kernel.lead(&config)),
            Order::PutInForce(config) => {
                let replaced = self.put_in_force(*config).map(Box::new);
                return Some(Event::InForce(replaced.map_err(|why| why.to_string())));
            }
            Order::Tell(client, result) => {
                self.control.tell(self.now, client, &result.map_or_else(Answer::Refused, Answer::Done).line());
            }
        }
        None
    }
    /// SIGHUP came.
    pub(super) fn reload_signalled(&mut self) {
        while matches!(self.sources.signal.read(&mut [0; 64]), Ok(n) if n > 0) {}
        self.decide(Event::Asked(Of::File { confirm: None }, None));
    }
    /// The kernel has answered.
    pub(super) fn kernel_answers(&mut self) {
        while let Some((change, result)) = self.kernel.as_mut().and_then(Kernel::answered) {
            if change == Change::Config && result.is_err() {
                self.sources.ports = None;
            }
            self.decide(Event::Kernel(change, result.map_err(|why| why.to_string())));
        }
        for note in self.kernel.as_ref().map(Kernel::notes).unwrap_or_default() {
            if let Some(unsaid) = self.notes_told.take(self.now) {
                self.say(&format!("{note}{}", Changes::unsaid(unsaid)));
            }
        }
        if let Some(tun) = self.kernel.as_ref().and_then(Kernel::new_device) {
            self.replace_device(tun);
        }
        for hindrance in self.kernel.as_mut().map(Kernel::new_hindrances).unwrap_or_default() {
            self.warn(&hindrance);
        }
    }
    /// A SYN to a peer that is down, and that no flow waits for.
    pub(super) fn pass_or_refuse(&mut self, peer: usize, syn: Syn, held: Option<HeldPacket>) {
        let (target, is_held) = (syn.target.ip(), held.is_some());
        self.decide(Event::Syn { peer, target, held: is_held, syn: (syn, held) });
    }
    pub(super) fn is_down(&self, peer: usize) -> bool {
        self.decisions.is_down(peer)
    }
    pub(super) fn gives_back(&self, peer: usize) -> bool {
        self.decisions.gives_back(&self.config, peer)
    }
    pub(super) fn is_passed(&self, target: IpAddr) -> bool {
        self.decisions.is_passed(&self.config, target)
    }
    /// Whether a configuration can be put in force. Its sockets are opened for it.
    fn check(&mut self, config: Box<Config>, is_former: bool) -> Result<Box<Config>, Refusal> {
        if let Some(key) = self.config.fixed_difference(&config) {
            return Err(Refusal::Fixed(key));
        }
        let ports = self.plan_ports(&config, is_former)?;
        self.gateway.check_reload(&self.for_gateway(&config, &[], &ports))?;
        self.sources.ports = Some(ports);
        Ok(config)
    }
    fn put_in_force(&mut self, config: Config) -> Result<Replaced, Refusal> {
        // What was reported so far names peers by their old places.
        while let Some(event) = self.gateway.poll_event() {
            self.handle_event(event);
        }
        let ports = self.sources.ports.take().expect("it was checked, and one is at a time");
        self.names.arrange(self.now, &config);
        let gateway = self.for_gateway(&config, &self.names.addresses(), &ports);
        if let Err(why) = self.gateway.reload(self.now, gateway) {
            // Names are by the peers' places, too.
            self.names.arrange(self.now, &self.config);
            return Err(why.into());
        }
        self.peer_addresses.arrange(&config);
        self.routes.iter_mut().for_each(|routes| routes.arrange(&config));
        // They have other places now.
        self.denials_told.clear();
        self.refusals_told.clear();
        let known = |key: &[u8; 32]| self.config.peers.iter().position(|p| p.public_key == *key);
        let contact = |p: &Peer| known(&p.public_key).map_or(Contact::new(self.now), |i| self.peers[i].clone());
        self.peers = config.peers.iter().map(contact).collect();
        let former = std::mem::replace(&mut self.config, config);
        self.log.set_level(self.config.log);
        self.set_ports(ports);
        let is_files = Config::load(&self.sources.file).is_ok_and(|file| file == self.config);
        Ok(Replaced { former, is_files, warnings: crate::commands::warnings(&self.config) })
    }
    fn for_gateway(&self, config: &Config, addresses: &[Vec<Option<Address>>], ports: &PortPlan) -> gateway::Config {
        let mut gateway = config.to_gateway_by(addresses, &ports.sockets);
        // The interfaces' addresses may have changed; where our ICMP errors come from does not.
        gateway.packets = self.gateway.config().packets;
        gateway
    }
}
