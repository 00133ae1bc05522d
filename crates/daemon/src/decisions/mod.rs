//! What the daemon decides: whose networks are given back to the kernel while they are down, what becomes of SYNs meanwhile, which
//! configuration is in force, and what is said of parts that others took away.
//!
//! Events go in and orders come out, by a `now` that is handed in: nothing here has a clock, a file or a kernel. `daemon/decided.rs` reports
//! what happened and does what is ordered; a test replays recorded events without any of it (`testing/decisions`).

mod reload;
mod replay;
pub(crate) mod words;

pub(crate) use reload::Of;
use reload::Reloads;
pub use replay::replay;

use crate::changes::{Losses, gone};
use crate::config::Config;
use crate::control::ClientId;
use crate::log::WARNING;
use crate::system::installed::Change;
use crate::system::part::Part;
use crate::system::rules::Down;
use std::net::IpAddr;
use wavelane_base::{Instant, Span};

/// Most SYNs held until the kernel's rules have changed: as many as attempts.
const WAITING_MAX: usize = 2_048;
/// A failed change of the kernel's rules is retried after this long; else a peer that is back would stay bypassed for ever.
const AGAIN: Span = Span::from_secs(5);

/// What happened. A SYN is an `S`.
#[derive(Debug)]
pub(crate) enum Event<S> {
    /// A peer was silent for too long, or answers again.
    Peer(usize, Reached),
    /// A SYN to a peer that is down, and that no flow waits for; `held` if the kernel keeps it.
    Syn { peer: usize, target: IpAddr, held: bool, syn: S },
    /// The kernel has answered an order, or something had vanished.
    Kernel(Change, Result<(), String>),
    /// A client, or SIGHUP, asks for a configuration.
    Asked(Of, Option<ClientId>),
    /// The configuration that was to be looked at can be put in force, or why not.
    Checked(Result<Box<Config>, String>),
    /// It is, or why not.
    InForce(Result<Box<Replaced>, String>),
    /// Time passed.
    Tick,
}

/// Whether a peer answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reached {
    Up,
    Down,
}

/// A configuration was replaced.
#[derive(Debug)]
pub(crate) struct Replaced {
    pub(crate) former: Config,
    /// Whether the one in force is now the file's.
    pub(crate) is_files: bool,
    pub(crate) warnings: Vec<String>,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Order<S> {
    Say(String),
    Count(&'static str),
    /// The silence of a peer is examined, and flows that wait for it are refused.
    GiveUp(usize),
    /// The kernel forwards plainly what goes to these, and takes what goes to the others.
    GiveBack(Down),
    /// The kernel gets the SYN, forgets it, or it is answered.
    LetGo(S),
    Discard(S),
    Refuse(S),
    /// Look at the file, or at the configuration before a trial: can it be put in force?
    Check(Option<Box<Config>>),
    /// The kernel routes what it says.
    Lead(Box<Config>),
    /// All else follows it.
    PutInForce(Box<Config>),
    Tell(ClientId, Result<String, String>),
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Decisions<S> {
    /// Whether there are rules in the kernel.
    rules: bool,
    /// By the peers' places.
    down: Vec<bool>,
    /// Whose networks are given back, as the kernel confirmed.
    given_back: Down,
    /// What the kernel was told and has not answered; with the peers to give back, unless it is about a configuration.
    ordered: Option<Option<Down>>,
    /// SYNs to peers that are down, until the kernel forwards them plainly. At most [`WAITING_MAX`].
    waiting: Vec<S>,
    /// When the rules for peers that are down are installed again.
    again: Option<Instant>,
    /// What bounds the lines on parts that other programs took away.
    losses: Losses,
    pub(crate) reloads: Reloads,
    orders: Vec<Order<S>>,
}

impl<S> Decisions<S> {
    pub(crate) fn new(rules: bool, peers: usize) -> Self {
        Self {
            rules,
            down: vec![false; peers],
            given_back: Down::new(),
            ordered: None,
            waiting: Vec::new(),
            again: None,
            losses: Losses::default(),
            reloads: Reloads::default(),
            orders: Vec::new(),
        }
    }
    /// What to do about an event, in this order. `config` is in force.
    pub(crate) fn take(&mut self, now: Instant, config: &Config, event: Event<S>) -> Vec<Order<S>> {
        match event {
            Event::Peer(peer, reached) => self.reached(config, peer, reached),
            Event::Syn { peer, target, held, syn } => self.pass_or_refuse(config, peer, target, held, syn),
            Event::Kernel(change, result) => self.answered(now, config, change, result),
            Event::Asked(of, client) => self.asked(now, of, client),
            Event::Checked(result) => self.checked(now, result),
            Event::InForce(result) => self.in_force(now, config, result),
            Event::Tick => {
                if self.again.is_some_and(|at| at <= now) {
                    self.give_back(config);
                }
                self.go_on(now);
            }
        }
        std::mem::take(&mut self.orders)
    }
    /// When it has something to do unless something happens before.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        [self.again, self.reloads.deadline()].into_iter().flatten().min()
    }
    pub(crate) fn is_down(&self, peer: usize) -> bool {
        self.down.get(peer).is_some_and(|down| *down)
    }
    /// Whether the peer is down and the kernel is to forward plainly what goes there.
    pub(crate) fn gives_back(&self, config: &Config, peer: usize) -> bool {
        has_networks(config, peer) && self.is_down(peer) && config.is_open()
    }
    /// Whether the peer is down and what goes to networks that only it has is refused.
    pub(crate) fn is_refused(&self, config: &Config, peer: usize) -> bool {
        let refuses = config.is_closed() && has_networks(config, peer) && self.is_down(peer);
        refuses && !config.is_stood_in(peer, |other| self.is_down(other))
    }
    /// Whether the kernel forwards plainly what goes to networks that only this peer has, or is about to.
    pub(crate) fn is_given_back(&self, config: &Config, peer: usize) -> bool {
        let told = self.ordered.as_ref().and_then(Option::as_ref);
        let is = |peer| {
            key(config, peer)
                .is_some_and(|key| self.given_back.contains(key) || told.is_some_and(|of| of.contains(key)))
        };
        is(peer) && !config.is_stood_in(peer, is)
    }
    /// Whether the kernel forwards plainly what goes to `target`.
    pub(crate) fn is_passed(&self, config: &Config, target: IpAddr) -> bool {
        let passes_by = |peer| key(config, peer).is_some_and(|key| self.given_back.contains(key));
        config.route(target, passes_by).is_some_and(passes_by)
    }
    fn say(&mut self, text: impl Into<String>) {
        self.orders.push(Order::Say(text.into()));
    }
    /// Says what is not as it should be.
    fn warn(&mut self, text: &str) {
        self.say(format!("{WARNING}{text}"));
    }
    fn reached(&mut self, config: &Config, peer: usize, reached: Reached) {
        if let Some(down) = self.down.get_mut(peer) {
            *down = reached == Reached::Down;
        }
        if reached == Reached::Down {
            let name = config.peers.get(peer).map_or("?", |peer| &peer.name);
            let stood_in = config.is_stood_in(peer, |other| self.is_down(other));
            let text = match (self.gives_back(config, peer), config.intercept.is_some()) {
                (_, true) if stood_in => {
                    format!(
                        "peer '{name}' is down: what goes to its networks goes to other peers that have them, until it is back"
                    )
                }
                (true, _) => {
                    format!("peer '{name}' is down: what goes to its networks is forwarded plainly until it is back")
                }
                (false, true) if has_networks(config, peer) => {
                    // Without a device the kernel forwards what is not TCP.
                    let what = if config.tun.is_some() { "what goes" } else { "TCP" };
                    format!("peer '{name}' is down: {what} to its networks is refused until it is back")
                }
                _ => format!("peer '{name}' is down"),
            };
            self.warn(&text);
            self.orders.push(Order::GiveUp(peer));
        }
        self.give_back(config);
    }
    /// Tells the kernel which peers' networks to forward plainly, if that has changed.
    fn give_back(&mut self, config: &Config) {
        if !self.rules || self.ordered.is_some() {
            return;
        }
        self.again = None;
        let wanted = (0..self.down.len()).filter(|peer| self.gives_back(config, *peer));
        let wanted: Down = wanted.filter_map(|peer| key(config, peer).copied()).collect();
        if self.given_back != wanted {
            self.ordered = Some(Some(wanted.clone()));
            return self.orders.push(Order::GiveBack(wanted));
        }
        // Nothing is left to wait for; a peer that is back already takes them.
        self.orders.extend(self.waiting.drain(..).map(Order::LetGo));
    }
    fn answered(&mut self, now: Instant, config: &Config, change: Change, result: Result<(), String>) {
        match (change, result) {
            (Change::Gone, result) => {
                let (count, line) = gone(result);
                self.orders.extend(count.map(Order::Count));
                return self.warn(&line);
            }
            (Change::Back(part), result) => return self.lost(now, config, part, result),
            (Change::Config, Ok(())) => {
                self.ordered = None;
                // The rest follows once all is in force.
                if self.led() {
                    return;
                }
            }
            (Change::Config, Err(why)) => {
                self.ordered = None;
                if let Some((_, request)) = self.reloads.pending.take() {
                    self.refuse(now, request, &why);
                }
            }
            (Change::Down, Ok(())) => {
                if let Some(Some(down)) = self.ordered.take() {
                    self.given_back = down;
                }
            }
            (Change::Down, Err(e)) => {
                self.ordered = None;
                self.orders.push(Order::Count("dropped_give_back"));
                self.warn(&format!(
                    "the rules for peers that are down could not be installed, so until then new connections may be refused, or bypass the gateway: {e}"
                ));
                self.orders.extend(self.waiting.drain(..).map(Order::Discard));
                // An immediate retry would fail again.
                self.again = Some(now + AGAIN);
                return self.go_on(now);
            }
        }
        // A reload that was requested meanwhile.
        self.go_on(now);
        self.give_back(config);
    }
    /// Another program took away what we installed.
    fn lost(&mut self, now: Instant, config: &Config, part: Part, result: Result<(), String>) {
        let device = config.tun.as_ref().map_or("", |tun| &tun.name);
        let (count, line) = self.losses.told(now, part.words(device), result);
        self.orders.push(Order::Count(count));
        line.into_iter().for_each(|line| self.warn(&line));
    }
    /// Gives the SYN to the kernel as soon as that forwards it plainly, or answers it.
    fn pass_or_refuse(&mut self, config: &Config, peer: usize, target: IpAddr, held: bool, syn: S) {
        let is_told = self.ordered.is_some();
        let (count, order) = match () {
            () if !self.gives_back(config, peer) => ("connections_refused", Order::Refuse(syn)),
            () if !held => return,
            () if self.is_passed(config, target) => ("connections_passed", Order::LetGo(syn)),
            () if is_told && self.waiting.len() < WAITING_MAX => {
                self.waiting.push(syn);
                return self.orders.push(Order::Count("connections_passed"));
            }
            () if is_told => return self.orders.push(Order::Discard(syn)),
            () => ("connections_refused", Order::Refuse(syn)),
        };
        self.orders.extend([Order::Count(count), order]);
    }
    /// The configuration in force is another: peers have other places now.
    fn arrange(&mut self, config: &Config, former: &Config) {
        let place = |key: &[u8; 32]| former.peers.iter().position(|peer| peer.public_key == *key);
        let was_down = |key: &[u8; 32]| place(key).is_some_and(|place| self.is_down(place));
        self.down = config.peers.iter().map(|peer| was_down(&peer.public_key)).collect();
    }
}

fn has_networks(config: &Config, peer: usize) -> bool {
    config.peers.get(peer).is_some_and(|p| !p.routes.is_empty())
}

fn key(config: &Config, peer: usize) -> Option<&[u8; 32]> {
    config.peers.get(peer).map(|p| &p.public_key)
}

#[cfg(test)]
mod tests;
