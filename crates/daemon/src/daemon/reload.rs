//! Reading the configuration again, on SIGHUP or by request: as a whole or not at all, one after the other in the order of the requests.

use super::devices::PortPlan;
use super::{Contact, Daemon};
use crate::config::{Config, ConfigError, Peer};
use crate::control::ClientId;
use crate::request::Answer;
use crate::start::StartError;
use crate::system::kernel::Kernel;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use wavelane_base::{Address, Instant, Span};
use wavelane_gateway as gateway;
use wavelane_gateway::ReloadError;
use wavelane_host::nft::ToolError;

/// Another attempt to end a trial, if the configuration before could not be put in force.
const TRIAL_AGAIN: Span = Span::from_secs(5);
/// Most requests of clients that wait for their turn: more than clients, since nobody needs more than one at a time.
const REQUESTS_MAX: usize = 64;
/// Most that wait when one comes that ends a trial: it finds the room that requests for the file leave.
const ENDINGS_MAX: usize = 2 * REQUESTS_MAX;

const NO_TRIAL: &str =
    "no configuration is on trial, so what is in force stays (`wavelane reload --confirm 60s` begins a trial)";

/// What asks for a reload, and what became of the last.
pub(super) struct Reloads {
    /// Readable once SIGHUP came.
    pub(super) signal: UnixStream,
    file: PathBuf,
    /// Why the last was refused.
    pub(super) refused: Option<String>,
    /// Why what is in force is not what the file says.
    pub(super) went_back: Option<String>,
    /// How the last trial ended, for whoever confirms it too late.
    ended: Option<String>,
    /// The change that the kernel is making now.
    pending: Option<Box<Pending>>,
    /// What was asked for meanwhile: at most [`ENDINGS_MAX`] of clients and one signal.
    waiting: VecDeque<Request>,
    trial: Option<Trial>,
}

/// Which configuration is to be in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Of {
    /// The file's. With `confirm` it is on trial for so long.
    File {
        /// See above.
        confirm: Option<Span>,
    },
    /// What was in force before the trial.
    Former {
        /// Somebody asked for it; otherwise the time is up.
        asked: bool,
    },
    /// What is on trial.
    Trial,
}

/// A request, answered by its own outcome.
#[derive(Clone, Copy, Debug)]
struct Request {
    of: Of,
    /// Who is told; nobody after a signal, and when a trial's time is up.
    client: Option<ClientId>,
    at: Instant,
}

/// A configuration that gives way to the one before it, unless somebody confirms it. The timer is the daemon's, since what may be wrong with
/// the configuration is that nobody reaches this host any more.
struct Trial {
    former: Config,
    lasts: Span,
    until: Instant,
}

impl Reloads {
    pub(super) fn new(file: &Path, signal: UnixStream) -> io::Result<Self> {
        signal.set_nonblocking(true)?;
        let file = file.into();
        let waiting = VecDeque::new();
        Ok(Self { signal, file, refused: None, went_back: None, ended: None, pending: None, waiting, trial: None })
    }
    /// When a trial ends.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.trial.as_ref().map(|trial| trial.until)
    }
    /// Whose turn it is: first who ends a trial, if that was asked in time, then the end of one that nobody did, then who asks for the file. So
    /// no number of requests for the file delays the end of a trial, and what was confirmed in time stays.
    fn next(&mut self, now: Instant, kernel_is_busy: bool) -> Option<Request> {
        if self.pending.is_some() {
            return None;
        }
        let due = self.deadline().filter(|until| *until <= now);
        let in_time = |request: &Request| due.is_none_or(|until| request.at <= until);
        let ends = |request: &Request| matches!(request.of, Of::Trial | Of::Former { .. });
        // Without a trial they mean the one that a request before them begins.
        let place = self.waiting.iter().position(|request| ends(request) && in_time(request));
        let place = place.filter(|_| self.trial.is_some());
        let first = place.and_then(|place| self.waiting.get(place));
        // To confirm a trial needs no kernel.
        if kernel_is_busy && first.is_none_or(|first| first.of != Of::Trial) {
            return None;
        }
        match (place, due) {
            (Some(place), _) => self.waiting.remove(place),
            (None, Some(until)) => Some(Request { of: Of::Former { asked: false }, client: None, at: until }),
            (None, None) => self.waiting.pop_front(),
        }
    }
}

/// A configuration that is checked, and the sockets that it needs.
struct Pending {
    config: Config,
    ports: PortPlan,
    request: Request,
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
    /// SIGHUP came.
    pub(super) fn reload_signalled(&mut self) {
        // Several signals are one request.
        while matches!(self.reloads.signal.read(&mut [0; 64]), Ok(n) if n > 0) {}
        let of = Of::File { confirm: None };
        // One that waits will read the file as it is then.
        if !self.reloads.waiting.iter().any(|request| request.client.is_none()) {
            self.reloads.waiting.push_back(Request { of, client: None, at: self.now });
        }
        self.go_on_reloading();
    }
    /// A client asks for a configuration. What can change changes without touching a connection; otherwise everything stays.
    pub(super) fn reload(&mut self, client: ClientId, of: Of) -> Result<(), String> {
        let ends_trial = of == Of::Trial || matches!(of, Of::Former { .. });
        let most = if ends_trial { ENDINGS_MAX } else { REQUESTS_MAX };
        if self.reloads.waiting.len() >= most {
            return Err(format!("{most} requests wait for the kernel's answer: ask again in a few seconds"));
        }
        self.reloads.waiting.push_back(Request { of, client: Some(client), at: self.now });
        self.go_on_reloading();
        Ok(())
    }
    /// Does what is asked for, as far as the kernel is free for it. A trial that nobody confirmed in time ends.
    pub(super) fn go_on_reloading(&mut self) {
        let is_busy = |kernel: &Option<Kernel>| kernel.as_ref().is_some_and(Kernel::is_busy);
        while let Some(request) = self.reloads.next(self.now, is_busy(&self.kernel)) {
            if let Err(why) = self.begin_reload(request) {
                self.refuse_reload(request, &why);
            }
        }
    }
    /// How much longer the configuration is on trial.
    pub(super) fn trial_left(&self) -> Option<Span> {
        self.reloads.trial.as_ref().map(|trial| trial.until.since(self.now))
    }
    /// Checks the configuration and has the kernel told what it routes; the rest follows once the kernel has answered.
    fn begin_reload(&mut self, request: Request) -> Result<(), Refusal> {
        let config = match (request.of, &self.reloads.trial) {
            (Of::File { .. }, _) => Config::load(&self.reloads.file)?,
            (Of::Former { .. }, Some(trial)) => trial.former.clone(),
            (Of::Trial, Some(_)) => {
                self.reloads.trial = None;
                self.say("the configuration on trial was confirmed and stays");
                self.tell_of_reload(request, Ok("the configuration stays".into()));
                return Ok(());
            }
            (of, None) => {
                let told = match (of, self.reloads.ended.clone()) {
                    // What is asked for holds already.
                    (Of::Former { .. }, Some(ended)) => Ok(format!("no trial is left to end: {ended}")),
                    (_, Some(ended)) => Err(format!("too late: {ended}")),
                    (_, None) => Err(NO_TRIAL.into()),
                };
                self.tell_of_reload(request, told);
                return Ok(());
            }
        };
        if let Some(key) = self.config.fixed_difference(&config) {
            return Err(Refusal::Fixed(key));
        }
        let ports = self.plan_ports(&config, matches!(request.of, Of::Former { .. }))?;
        self.gateway.check_reload(&self.for_gateway(&config, &[], &ports))?;
        let pending = Pending { config, ports, request };
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
        let request = pending.request;
        if let Err(why) = result.map_err(Refusal::from).and_then(|()| self.put_in_force(*pending)) {
            self.refuse_reload(request, &why);
        }
    }
    fn refuse_reload(&mut self, request: Request, why: &Refusal) {
        self.counters.one("reloads_refused");
        let is_former = matches!(request.of, Of::Former { .. });
        let what = match is_former {
            false => "reload refused, everything stays as it was",
            true => "the configuration before the trial cannot be put in force, and is tried again",
        };
        if let Some(trial) = self.reloads.trial.as_mut().filter(|trial| is_former && trial.until <= self.now) {
            trial.until = self.now + TRIAL_AGAIN;
        }
        // A trial that cannot end is not reported at each attempt.
        let text = format!("{what}: {why}");
        if self.reloads.refused.as_ref() != Some(&why.to_string()) || !is_former {
            self.say(&text);
        }
        self.reloads.refused = Some(why.to_string());
        self.tell_of_reload(request, Err(text));
    }
    fn tell_of_reload(&mut self, request: Request, result: Result<String, String>) {
        let Some(client) = request.client else { return };
        self.control.tell(self.now, client, &result.map_or_else(Answer::Refused, Answer::Done).line());
    }
    /// The configuration `of` replaced `former`.
    fn note_trial(&mut self, of: Of, former: Config) -> String {
        let before = self.reloads.trial.take();
        match of {
            Of::File { confirm: Some(lasts) } => {
                // What was confirmed last comes back, not what another trial was about.
                let former = before.map_or(former, |trial| trial.former);
                self.reloads.trial = Some(Trial { former, lasts, until: self.now + lasts });
                (self.reloads.went_back, self.reloads.ended) = (None, None);
                format!(
                    "the configuration was read again and is on trial for {lasts}: `wavelane reload --keep` keeps it, else the one before comes back"
                )
            }
            Of::File { confirm: None } | Of::Trial => {
                self.reloads.trial = before;
                (self.reloads.went_back, self.reloads.ended) = (None, None);
                match self.trial_left() {
                    None => "the configuration was read again and is in force".into(),
                    Some(left) => {
                        format!("the configuration was read again and is on trial for {:.0} s more", left.as_secs_f64())
                    }
                }
            }
            Of::Former { asked } => {
                let lasts = before.map_or(Span::ZERO, |trial| trial.lasts);
                let why =
                    if asked { "as was asked".into() } else { format!("since nobody confirmed the other in {lasts}") };
                let is_files = Config::load(&self.reloads.file).is_ok_and(|file| file == self.config);
                let file = match is_files {
                    true => "it is the file's",
                    false => "the file still says the other, which a restart or `wavelane reload` would take",
                };
                let text = format!("the configuration before the trial is in force again, {why}; {file}");
                self.reloads.went_back = (!is_files).then(|| text.clone());
                self.reloads.ended = Some(text.clone());
                text
            }
        }
    }
    fn put_in_force(&mut self, Pending { config, ports, request }: Pending) -> Result<(), Refusal> {
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
        self.peer_addresses.arrange(&config);
        self.routes.iter_mut().for_each(|routes| routes.arrange(&config));
        // They have other places now.
        self.denials_told.clear();
        self.refusals_told.clear();
        let known = |key: &[u8; 32]| self.config.peers.iter().position(|p| p.public_key == *key);
        let contact = |p: &Peer| known(&p.public_key).map_or(Contact::new(self.now), |i| self.peers[i].clone());
        self.peers = config.peers.iter().map(contact).collect();
        let former = std::mem::replace(&mut self.config, config);
        self.set_ports(ports);
        self.reloads.refused = None;
        self.counters.one("reloads");
        let mut text = self.note_trial(request.of, former);
        self.say(&text);
        for warning in crate::commands::warnings(&self.config) {
            self.say(&format!("warning: {warning}"));
            text += &format!("\nwarning: {warning}");
        }
        self.tell_of_reload(request, Ok(text));
        Ok(())
    }
    fn for_gateway(&self, config: &Config, addresses: &[Vec<Option<Address>>], ports: &PortPlan) -> gateway::Config {
        let mut gateway = config.to_gateway_by(addresses, &ports.sockets);
        // The interfaces' addresses may have changed; where our ICMP errors come from does not.
        gateway.packets = self.gateway.config().packets;
        gateway
    }
}

#[cfg(test)]
#[path = "reload_tests.rs"]
mod tests;
