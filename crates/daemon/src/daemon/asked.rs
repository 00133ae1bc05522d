//! What clients of the control socket ask for besides the status document.

use super::{Daemon, TOKEN_CLIENTS};
use crate::control::{ClientId, Wants};
use crate::decisions::{Event, Of};
use crate::request::{Answer, Ask, EchoAnswer, TRIAL_MAX, TRIAL_MIN, WAIT_MAX};
use wavelane_base::{Instant, Span};
use wavelane_gateway::PeerId;

/// Most echoes that wait for their answers.
const ECHOES_MAX: usize = 4_096;

/// What was asked for and is not answered yet.
#[derive(Debug, Default)]
pub(super) struct Asked {
    echoes: Vec<Waiting>,
    /// The gateway's name for the next echo.
    next: u32,
}

/// An echo on its way.
#[derive(Debug)]
struct Waiting {
    client: ClientId,
    peer: usize,
    lane: usize,
    id: u32,
    until: Instant,
    answer: EchoAnswer,
}

impl Asked {
    /// When the oldest echo counts as lost.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.echoes.iter().map(|waiting| waiting.until).min()
    }
}

impl Daemon {
    /// Clients came, said something, or have been silent for long enough.
    pub(super) fn hear_clients(&mut self) {
        let mut document = None;
        for (client, wants) in self.control.hear(self.now) {
            match wants {
                Wants::Status => {
                    let document = document.get_or_insert_with(|| self.document());
                    self.control.tell(self.now, client, document);
                    self.control.end(client);
                }
                Wants::Line(line) => {
                    let done = match serde_json::from_str(&line) {
                        Ok(ask) => self.answer(client, ask),
                        Err(e) => {
                            Err(format!("no request that this wavelaned knows ({e}): is it older than this wavelane?"))
                        }
                    };
                    match done {
                        Ok(None) => {}
                        Ok(Some(text)) => self.control.tell(self.now, client, &Answer::Done(text).line()),
                        Err(why) => self.control.tell(self.now, client, &Answer::Refused(why).line()),
                    }
                }
            }
        }
        if self.control.may_wait() {
            self.control.accept(self.now, &self.poller, TOKEN_CLIENTS);
        }
    }

    /// What a client is told now; `None` if that comes later.
    fn answer(&mut self, client: ClientId, ask: Ask) -> Result<Option<String>, String> {
        match ask {
            Ask::Ping { peer, number, wait_ms } => {
                let wait = Span::from_millis(wait_ms).min(WAIT_MAX);
                self.ping(client, &peer, number, wait).map(|()| None)
            }
            Ask::About { peer } => self.ask_about(client, &peer).map(|()| None),
            Ask::Reload { confirm_ms } => {
                let confirm = confirm_ms.map(Span::from_millis);
                if confirm.is_some_and(|confirm| !(TRIAL_MIN..=TRIAL_MAX).contains(&confirm)) {
                    return Err(format!("a configuration is on trial for {TRIAL_MIN} to {TRIAL_MAX}"));
                }
                self.decide(Event::Asked(Of::File { confirm }, Some(client)));
                Ok(None)
            }
            Ask::Keep | Ask::Back => {
                let of = if matches!(ask, Ask::Keep) { Of::Trial } else { Of::Former { asked: true } };
                self.decide(Event::Asked(of, Some(client)));
                Ok(None)
            }
        }
    }

    /// The place of a peer in the file.
    pub(super) fn peer_called(&self, name: &str) -> Result<usize, String> {
        self.config.peers.iter().position(|peer| peer.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.config.peers.iter().map(|peer| peer.name.as_str()).collect();
            format!("no peer is called '{name}': there is {}", names.join(", "))
        })
    }

    fn ping(&mut self, client: ClientId, name: &str, number: u64, wait: Span) -> Result<(), String> {
        let peer = self.peer_called(name)?;
        // Of those whose client has gone nobody hears.
        let control = &self.control;
        self.asked.echoes.retain(|waiting| control.has(waiting.client));
        if self.asked.echoes.len() >= ECHOES_MAX {
            return Err(format!("{ECHOES_MAX} pings wait for their answers: ask more slowly"));
        }
        let id = self.asked.next;
        self.asked.next = id.wrapping_add(1);
        let lanes = self.gateway.echo(self.now, PeerId(peer), id);
        if lanes.is_empty() {
            return Err(format!("no lane leads to peer '{name}': see `wavelane netcheck`"));
        }
        let count = lanes.len();
        for (lane, known) in lanes {
            let shown = self.lane_named(peer, &known);
            let answer = EchoAnswer { number, lanes: count, lane: shown.name, by: shown.by, ..EchoAnswer::default() };
            let until = self.now + wait;
            self.asked.echoes.push(Waiting { client, peer, lane, id, until, answer });
        }
        Ok(())
    }

    /// The gateway knows what became of an echo.
    pub(super) fn echo_ended(&mut self, lane: usize, id: u32, round_trip: Option<Span>) {
        let is_it = |waiting: &Waiting| (waiting.lane, waiting.id) == (lane, id);
        let Some(place) = self.asked.echoes.iter().position(is_it) else { return };
        let Waiting { client, mut answer, .. } = self.asked.echoes.remove(place);
        answer.round_trip_ms = round_trip.map(|span| span.as_nanos() as f64 / 1e6);
        if round_trip.is_none() {
            answer.why = Some("lost".into());
        }
        self.control.tell(self.now, client, &Answer::Echo(answer).line());
    }

    /// Echoes that nobody answered.
    pub(super) fn give_up_echoes(&mut self) {
        let now = self.now;
        let late: Vec<Waiting> = self.asked.echoes.extract_if(.., |waiting| waiting.until <= now).collect();
        for Waiting { client, peer, lane, mut answer, .. } in late {
            answer.why = Some(self.why_no_answer(peer, lane));
            self.control.tell(self.now, client, &Answer::Echo(answer).line());
        }
    }

    fn why_no_answer(&self, peer: usize, lane: usize) -> String {
        if let Some(cause) = self.cause_now(peer) {
            return self.cause_text(peer, &cause);
        }
        let unused =
            self.gateway.lane(self.now, PeerId(peer), lane).and_then(|known| self.lane_named(peer, &known).unused);
        unused.unwrap_or_else(|| "none in time".into())
    }
}
