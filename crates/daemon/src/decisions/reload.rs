//! Reading the configuration again: as a whole or not at all, one after the other in the order of the requests.

use super::{Decisions, Order, Replaced};
use crate::config::Config;
use crate::control::ClientId;
use std::collections::VecDeque;
use wavelane_base::{Instant, Span};

/// Another attempt to end a trial, if the configuration before could not be put in force.
const TRIAL_AGAIN: Span = Span::from_secs(5);
/// Most requests of clients that wait for their turn: more than clients, since nobody needs more than one at a time.
const REQUESTS_MAX: usize = 64;
/// Most that wait when one comes that ends a trial: it finds the room that requests for the file leave.
const ENDINGS_MAX: usize = 2 * REQUESTS_MAX;

const NO_TRIAL: &str =
    "no configuration is on trial, so what is in force stays (`wavelane reload --confirm 60s` begins a trial)";

/// What was asked for, and what became of the last.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    /// Why the last was refused.
    pub(crate) refused: Option<String>,
    /// Why what is in force is not what the file says.
    pub(crate) went_back: Option<String>,
    /// How the last trial ended, for whoever confirms it too late.
    ended: Option<String>,
    /// Whose configuration is looked at, or is being put in force, now.
    at_work: Option<Request>,
    /// The change that the kernel is making now.
    pub(super) pending: Option<(Box<Config>, Request)>,
    /// What was asked for meanwhile: at most [`ENDINGS_MAX`] of clients and one signal.
    waiting: VecDeque<Request>,
    trial: Option<Trial>,
}

/// Which configuration is to be in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Of {
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

impl Of {
    fn ends_trial(self) -> bool {
        matches!(self, Self::Trial | Self::Former { .. })
    }
}

/// A request, answered by its own outcome.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) of: Of,
    /// Who is told; nobody after a signal, and when a trial's time is up.
    pub(super) client: Option<ClientId>,
    pub(super) at: Instant,
}

/// A configuration that gives way to the one before it, unless somebody confirms it. The timer is the daemon's, since what may be wrong with
/// the configuration is that nobody reaches this host any more.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) former: Config,
    pub(super) lasts: Span,
    pub(super) until: Instant,
}

impl Reloads {
    /// When a trial ends.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.trial.as_ref().map(|trial| trial.until)
    }
    /// How much longer the configuration is on trial.
    pub(crate) fn trial_left(&self, now: Instant) -> Option<Span> {
        self.trial.as_ref().map(|trial| trial.until.since(now))
    }
    /// Whose turn it is: first who ends a trial, if that was asked in time, then the end of one that nobody did, then who asks for the file. So
    /// no number of requests for the file delays the end of a trial, and what was confirmed in time stays.
    pub(super) fn next(&mut self, now: Instant, kernel_is_busy: bool) -> Option<Request> {
        if self.pending.is_some() || self.at_work.is_some() {
            return None;
        }
        let due = self.deadline().filter(|until| *until <= now);
        let in_time = |request: &Request| due.is_none_or(|until| request.at <= until);
        // Without a trial they mean the one that a request before them begins.
        let place = self.waiting.iter().position(|request| request.of.ends_trial() && in_time(request));
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

impl<S> Decisions<S> {
    /// A configuration is asked for. What can change changes without touching a connection; otherwise everything stays.
    pub(super) fn asked(&mut self, now: Instant, of: Of, client: Option<ClientId>) {
        let most = if of.ends_trial() { ENDINGS_MAX } else { REQUESTS_MAX };
        let waiting = &mut self.reloads.waiting;
        if let Some(client) = client.filter(|_| waiting.len() >= most) {
            let why = format!("{most} requests wait for the kernel's answer: ask again in a few seconds");
            return self.orders.push(Order::Tell(client, Err(why)));
        }
        // Several signals are one request: one that waits will read the file as it is then.
        if client.is_some() || !waiting.iter().any(|request| request.client.is_none()) {
            waiting.push_back(Request { of, client, at: now });
        }
        self.go_on(now);
    }
    /// Does what is asked for, as far as the kernel is free for it. A trial that nobody confirmed in time ends.
    pub(super) fn go_on(&mut self, now: Instant) {
        while let Some(request) = self.reloads.next(now, self.ordered.is_some()) {
            match (request.of, &self.reloads.trial) {
                (Of::File { .. }, _) => self.check(request, None),
                (Of::Former { .. }, Some(trial)) => {
                    let former = Box::new(trial.former.clone());
                    self.check(request, Some(former));
                }
                (Of::Trial, Some(_)) => {
                    self.reloads.trial = None;
                    self.say("the configuration on trial was confirmed and stays");
                    self.tell(request, Ok("the configuration stays".into()));
                }
                (of, None) => {
                    let told = match (of, self.reloads.ended.clone()) {
                        // What is asked for holds already.
                        (Of::Former { .. }, Some(ended)) => Ok(format!("no trial is left to end: {ended}")),
                        (_, Some(ended)) => Err(format!("too late: {ended}")),
                        (_, None) => Err(NO_TRIAL.into()),
                    };
                    self.tell(request, told);
                }
            }
        }
    }
    fn check(&mut self, request: Request, former: Option<Box<Config>>) {
        self.reloads.at_work = Some(request);
        self.orders.push(Order::Check(former));
    }
    /// Has the kernel told what the configuration routes; the rest follows once the kernel has answered.
    pub(super) fn checked(&mut self, now: Instant, result: Result<Box<Config>, String>) {
        let Some(request) = self.reloads.at_work.take() else { return };
        match result {
            Ok(config) => {
                self.reloads.pending = Some((config.clone(), request));
                if self.rules {
                    self.ordered = Some(None);
                    return self.orders.push(Order::Lead(config));
                }
                self.led();
            }
            Err(why) => {
                self.refuse(now, request, &why);
                self.go_on(now);
            }
        }
    }
    /// The kernel routes what the configuration says. Returns whether there is one to put in force.
    pub(super) fn led(&mut self) -> bool {
        let Some((config, request)) = self.reloads.pending.take() else { return false };
        self.reloads.at_work = Some(request);
        self.orders.push(Order::PutInForce(config));
        true
    }
    /// It is in force, or is refused.
    pub(super) fn in_force(&mut self, now: Instant, config: &Config, result: Result<Box<Replaced>, String>) {
        let Some(request) = self.reloads.at_work.take() else { return };
        match result {
            Err(why) => self.refuse(now, request, &why),
            Ok(replaced) => {
                let Replaced { former, is_files, warnings } = *replaced;
                self.arrange(config, &former);
                self.reloads.refused = None;
                self.orders.push(Order::Count("reloads"));
                let mut text = self.note_trial(now, request.of, former, is_files);
                self.say(text.clone());
                for warning in warnings {
                    self.warn(&warning);
                    text += &format!("\nwarning: {warning}");
                }
                self.tell(request, Ok(text));
            }
        }
        self.go_on(now);
        self.give_back(config);
    }
    pub(super) fn refuse(&mut self, now: Instant, request: Request, why: &str) {
        self.orders.push(Order::Count("reloads_refused"));
        let is_former = matches!(request.of, Of::Former { .. });
        let what = match is_former {
            false => "reload refused, everything stays as it was",
            true => "the configuration before the trial cannot be put in force, and is tried again",
        };
        if let Some(trial) = self.reloads.trial.as_mut().filter(|trial| is_former && trial.until <= now) {
            trial.until = now + TRIAL_AGAIN;
        }
        // A trial that cannot end is not reported at each attempt.
        let text = format!("{what}: {why}");
        if self.reloads.refused.as_deref() != Some(why) || !is_former {
            self.warn(&text);
        }
        self.reloads.refused = Some(why.into());
        self.tell(request, Err(text));
    }
    fn tell(&mut self, request: Request, result: Result<String, String>) {
        self.orders.extend(request.client.map(|client| Order::Tell(client, result)));
    }
    /// The configuration `of` replaced `former`; `is_files` is whether it is the file's.
    fn note_trial(&mut self, now: Instant, of: Of, former: Config, is_files: bool) -> String {
        let before = self.reloads.trial.take();
        match of {
            Of::File { confirm: Some(lasts) } => {
                // What was confirmed last comes back, not what another trial was about.
                let former = before.map_or(former, |trial| trial.former);
                self.reloads.trial = Some(Trial { former, lasts, until: now + lasts });
                self.reloads.went_back = None;
                self.reloads.ended = None;
                format!(
                    "the configuration was read again and is on trial for {lasts}: `wavelane reload --keep` keeps it, else the one before comes back"
                )
            }
            Of::File { confirm: None } | Of::Trial => {
                self.reloads.trial = before;
                self.reloads.went_back = None;
                self.reloads.ended = None;
                match self.reloads.trial_left(now) {
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
}

#[cfg(test)]
#[path = "reload_tests.rs"]
mod tests;
