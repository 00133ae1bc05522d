//! The kernel's rules and routes, on a thread of their own: the time that the tools take delays no packet.

use crate::config::Config;
use crate::device::Ways;
use crate::firewall;
use crate::rules::{self, Attachment, Rules};
use crate::standing::{Part, Standing};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use wavelane_base::{Instant, IpPrefix, Span};
use wavelane_host::clock::since_boot;
use wavelane_host::nft::ToolError;
use wavelane_host::routes::StateWatch;
use wavelane_host::tun::OffloadTun;

/// The public keys of the peers whose networks are given back: what goes there is forwarded plainly.
pub(crate) type Down = BTreeSet<[u8; 32]>;

/// What is installed. Dropping it removes it, except for the rules that refuse connections and packets while no gateway runs.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) rules: Rules,
    pub(crate) ways: Option<Ways>,
}

impl Installed {
    /// Puts `new` in force in place of `old`, or leaves everything as it was.
    fn lead(&mut self, change: Change, new: &Wanted, old: &Wanted) -> Result<(), ToolError> {
        let done = self.try_lead(change, new);
        if done.is_err() {
            // What the kernel accepted already is undone; it accepted the old state before, so this does not fail again.
            let _ = self.try_lead(change, old);
        }
        done
    }
    fn try_lead(&mut self, change: Change, wanted: &Wanted) -> Result<(), ToolError> {
        let (config, down) = (&wanted.config, &wanted.down);
        match change {
            Change::Config => self.rules.replace(config, down)?,
            Change::Down => self.rules.take(config, down)?,
            Change::Gone => return self.rules.take(config, down),
            Change::Back(part) => return self.put_back(part, wanted),
        }
        self.ways.as_mut().map_or(Ok(()), |ways| ways.lead(config, down))
    }
    /// Makes anew what another program took away.
    fn put_back(&mut self, part: Part, wanted: &Wanted) -> Result<(), ToolError> {
        match part {
            Part::PolicyRules | Part::Routes | Part::Device => {
                let home = self.rules.lead_home();
                self.ways.as_mut().map_or(Ok(()), |ways| ways.renew(&wanted.config, &wanted.down)).and(home)
            }
            Part::ClosedTable => rules::close(&wanted.config),
            Part::HeldSyns => self.rules.hold_anew(&wanted.config),
        }
    }
}

/// What stood when it was last put right, what stands, and the networks that this host is attached to.
#[derive(Debug)]
struct Watched {
    whole: Standing,
    last: Standing,
    around: Around,
    /// What could not be put back, and was told.
    failing: BTreeMap<Part, Failing>,
    /// The networks around could not be followed.
    unfollowed: Option<Failing>,
    /// Lines for the log.
    notes: Vec<String>,
}

impl Watched {
    fn new(installed: &Installed, stands: &Wanted) -> Self {
        let whole = Standing::read(&stands.config, installed, &Standing::default());
        let around = Around::read(&stands.config).unwrap_or_default();
        let notes = around.news(&Around::default());
        Self { last: whole.clone(), whole, around, failing: BTreeMap::new(), unfollowed: None, notes }
    }
    /// Something was changed by us. What vanished meanwhile and does not follow from the change is put back, not forgotten.
    fn note(&mut self, installed: &mut Installed, stands: &Wanted) {
        self.read(installed, stands);
        // What cannot be put back is missing at the next look.
        let mut lost = Vec::new();
        for part in self.whole.missing(&self.last) {
            let again = match part {
                Part::PolicyRules | Part::Device => true,
                Part::HeldSyns => self.last.holds_nothing(),
                Part::Routes | Part::ClosedTable => false,
            };
            if again {
                lost.extend(installed.put_back(part, stands).is_err().then_some(part));
                self.read(installed, stands);
            }
        }
        let before = std::mem::replace(&mut self.whole, self.last.clone());
        lost.into_iter().for_each(|part| self.whole.take(part, &before));
    }
    fn read(&mut self, installed: &Installed, stands: &Wanted) {
        self.last = Standing::read(&stands.config, installed, &self.last);
    }
    /// Puts back what is missing. Returns what is to be told.
    fn look(
        &mut self,
        now: Instant,
        installed: &mut Installed,
        stands: &Wanted,
    ) -> Vec<(Change, Result<(), ToolError>)> {
        let had_six = self.last.six;
        self.read(installed, stands);
        match (had_six, self.last.six) {
            (true, false) => self.notes.push(SIX_OFF.into()),
            (false, true) => {
                self.notes.push(SIX_ON.into());
                // All that we have of it went with it, and what was to stand may have changed since.
                if installed.put_back(Part::Routes, stands).is_ok() {
                    self.note(installed, stands);
                }
                self.failing.clear();
            }
            _ => {}
        }
        let mut told = Vec::new();
        for part in self.whole.missing(&self.last) {
            let lacking = self.whole.lacking(part, &self.last);
            if self.failing.get(&part).is_some_and(|failing| failing.rests(now, &lacking)) {
                continue;
            }
            let (mut left, mut done) = (lacking.clone(), Ok(()));
            // What puts back one part may have put back another.
            if !left.is_empty() {
                done = installed.put_back(part, stands);
                self.read(installed, stands);
                left = self.whole.lacking(part, &self.last);
            }
            if left.is_empty() || left.len() < lacking.len() {
                told.push((Change::Back(part), Ok(())));
            }
            let failing = self.failing.remove(&part);
            if !left.is_empty() {
                // Until the part is whole again it is told once, whatever more of it is lost.
                if failing.is_none() {
                    let said = "it is gone again at once: another program takes it away".into();
                    let why = done.err().unwrap_or(ToolError::Refused { tool: "the kernel".into(), said });
                    told.push((Change::Back(part), Err(why)));
                }
                let same = failing.filter(|failing| failing.lacking == left);
                self.failing.insert(part, Failing::again(now, same, left));
            }
        }
        told
    }
    /// Leaves alone the networks that this host is attached to now, if these are others than before.
    fn follow(&mut self, now: Instant, changed: bool, installed: &mut Installed, stands: &Wanted) {
        let rests = self.unfollowed.as_ref().map_or(!changed, |failing| failing.rests(now, &[]));
        if rests {
            return;
        }
        let led = Around::read(&stands.config).and_then(|around| {
            let other = (around != self.around).then_some(around);
            if other.is_some() {
                installed.try_lead(Change::Config, stands)?;
            }
            Ok(other)
        });
        match led {
            Ok(other) => {
                self.unfollowed = None;
                if let Some(around) = other {
                    self.notes.extend(around.news(&self.around));
                    self.around = around;
                    self.note(installed, stands);
                }
            }
            Err(e) => {
                let known = self.unfollowed.take();
                if known.is_none() {
                    self.notes.push(format!("the networks that this host is attached to have changed, and the rules cannot follow (tried again, at longer and longer intervals): {e}"));
                }
                self.unfollowed = Some(Failing::again(now, known, Vec::new()));
            }
        }
    }
}

const SIX_OFF: &str =
    "IPv6 is switched off on this host: nothing is taken by it until it is on again; IPv4 is not touched";
const SIX_ON: &str = "IPv6 is switched on again on this host: what we have of it is made anew";

/// What was tried and failed: it is tried again less and less often.
#[derive(Debug)]
struct Failing {
    lacking: Vec<Vec<u8>>,
    wait: Span,
    again: Instant,
}

/// The first time until another try, and the longest.
const TRY_AGAIN: RangeInclusive<Span> = Span::from_millis(400)..=Span::from_secs(30);

impl Failing {
    /// It failed, as it may have `before`.
    fn again(now: Instant, before: Option<Self>, lacking: Vec<Vec<u8>>) -> Self {
        let wait = before.map_or(*TRY_AGAIN.start(), |before| before.wait.times(2).min(*TRY_AGAIN.end()));
        Self { lacking, wait, again: now + wait }
    }
    /// Whether the same is lacking, and it is not yet time.
    fn rests(&self, now: Instant, lacking: &[Vec<u8>]) -> bool {
        now < self.again && self.lacking == lacking
    }
}

/// How often something costly is done that others' changes call for: at most a twentieth of the time goes to it.
#[derive(Debug, Default)]
struct Pace {
    due: bool,
    after: Instant,
}

/// The least time between two readings of the whole ruleset of this host, which may be long and change all the time.
const READ_RULESETS_EVERY: Span = Span::from_secs(2);

impl Pace {
    /// Whether it is to be done now.
    fn comes(&mut self, now: Instant, called_for: bool) -> bool {
        self.due |= called_for;
        self.due && now >= self.after
    }
    /// It was done from `began` until `now`.
    fn did(&mut self, began: Instant, now: Instant) {
        *self = Self { due: false, after: now + READ_RULESETS_EVERY.max(now.since(began).times(19)) };
    }
}

/// What the kernel's rules and routes are to say.
#[derive(Clone, Debug)]
struct Wanted {
    config: Box<Config>,
    down: Down,
}

/// The networks that this host is attached to under a wider one of a peer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Around {
    /// Those that are left alone.
    left: Vec<Attachment>,
    /// Those that are not.
    kept: Vec<Attachment>,
}

impl Around {
    fn read(config: &Config) -> Result<Self, ToolError> {
        // A proxy has no peers, and the networks that it leaves alone stand in its file.
        if config.intercept.as_ref().is_none_or(|i| i.proxy.is_some()) {
            return Ok(Self::default());
        }
        let networks: Vec<IpPrefix> = config.peers.iter().flat_map(|peer| peer.routes.iter().copied()).collect();
        let all = rules::attachments(config)?;
        let attached: Vec<IpPrefix> = all.iter().map(|a| a.network).collect();
        let covered: BTreeSet<(IpAddr, u8)> =
            rules::excepted(&networks, &attached).map(|n| (n.address, n.bits)).collect();
        let all = all.into_iter().filter(|a| covered.contains(&(a.network.address, a.network.bits)));
        let (left, kept) = all.partition(|a| a.is_left_alone(config));
        Ok(Self { left, kept })
    }
    /// What is new since `before`, for the log.
    fn news(&self, before: &Self) -> Vec<String> {
        let new = |now: &[Attachment], then: &[Attachment], words: &str| {
            let names: Vec<String> = now.iter().filter(|a| !then.contains(a)).map(Attachment::to_string).collect();
            (!names.is_empty()).then(|| words.replacen("{}", &names.join(", "), 1))
        };
        let all = [
            new(
                &self.left,
                &before.left,
                "this host is attached to {}: what goes there goes plainly, although a peer's route covers it",
            ),
            new(
                &self.kept,
                &before.kept,
                "warning: this host is attached to {}, and what goes there goes to a peer all the same, whose route covers it, so that hosts there are not reached directly; if they are to be, set gateway.attached = \"all\", or list the network in gateway.serves if it is ours",
            ),
            new(
                &before.left,
                &self.left,
                "what goes to {} is not left alone any more: it goes to a peer, whose route covers it",
            ),
        ];
        all.into_iter().flatten().collect()
    }
}

/// What is to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// The configuration.
    Config,
    /// Whose networks are given back.
    Down,
    /// Nothing: what had vanished is made anew.
    Gone,
    /// Nothing: another program took this part away, and it is put back.
    Back(Part),
}

/// How often all that stands in the kernel is checked, word of changes or not.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The least time between two checks that word of changes causes, since a router's table may change many times a second: this many times
/// what the last one took, within bounds by which all is put back within a second.
const REST_PER_LOOK: u64 = 9;
const REST: RangeInclusive<Span> = Span::from_millis(400)..=Span::from_millis(900);

/// What the thread found, besides answers to orders.
#[derive(Debug, Default)]
struct Found {
    /// What on this host keeps traffic from us now.
    hindrances: Vec<String>,
    /// Lines for the log, at most [`NOTES_MAX`].
    notes: Vec<String>,
    /// A device that was made in place of one that is gone.
    device: Option<OffloadTun>,
}

/// Lines for the log that wait to be asked for; later ones are left out.
const NOTES_MAX: usize = 16;

impl Found {
    /// Adds what was found. Returns whether something is to be told.
    fn add(&mut self, hindrances: Option<Vec<String>>, notes: &mut Vec<String>, device: Option<OffloadTun>) -> bool {
        let news =
            hindrances.as_ref().is_some_and(|now| *now != self.hindrances) || !notes.is_empty() || device.is_some();
        self.hindrances = hindrances.unwrap_or_else(|| std::mem::take(&mut self.hindrances));
        self.notes.append(notes);
        self.notes.truncate(NOTES_MAX);
        self.device = device.or_else(|| self.device.take());
        news
    }
}

/// One order: what changes, to what, and from what.
type Order = (Change, Wanted, Wanted);

/// Has changes made, one at a time.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Whether SYNs are held until the far server has answered.
    pub(crate) holds_syns: bool,
    in_force: Wanted,
    /// What was ordered and not answered.
    ordered: Option<(Change, Wanted)>,
    orders: Option<Sender<Order>>,
    /// What the thread found.
    found: Arc<Mutex<Found>>,
    /// Those of them that were logged.
    told: Vec<String>,
    /// Wakes the thread for an order, or by being closed.
    wake: Option<UnixStream>,
    done: Receiver<(Change, Result<(), ToolError>)>,
    thread: Option<JoinHandle<Installed>>,
    /// Readable when a change was made or refused.
    pub(crate) bell: UnixStream,
}

impl Kernel {
    /// Hands what is installed for `config` to a thread.
    pub(crate) fn start(mut installed: Installed, config: &Config) -> io::Result<Self> {
        let (mut ring, bell) = UnixStream::pair()?;
        ring.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        let holds_syns = installed.rules.holds_syns();
        let (orders, to_do) = channel::<Order>();
        let (tell, done) = channel();
        let in_force = Wanted { config: Box::new(config.clone()), down: Down::new() };
        let mut stands = in_force.clone();
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let watch = StateWatch::open();
        // Those at the start are among the warnings.
        let told = firewall::findings(config);
        let found = Arc::new(Mutex::new(Found { hindrances: told.clone(), ..Found::default() }));
        let finds = Arc::clone(&found);
        let work = move || {
            // Of consecutive failures to renew the rules only the first is logged.
            let mut failing = false;
            let mut watched = Watched::new(&installed, &stands);
            let mut rulesets = Pace::default();
            loop {
                let news = watch.wait(woken.as_fd(), LOOK_EVERY);
                while matches!((&woken).read(&mut [0; 64]), Ok(n) if n > 0) {}
                let mut answers = Vec::new();
                if installed.rules.are_gone() {
                    let done = installed.try_lead(Change::Gone, &stands);
                    let told = failing && done.is_err();
                    failing = done.is_err();
                    answers.extend((!told).then_some((Change::Gone, done)));
                }
                let (before, began) = (watched.last.generation(), since_boot());
                answers.extend(watched.look(began, &mut installed, &stands));
                let changed = before.is_none() || before != watched.last.generation();
                let hindrances = rulesets.comes(since_boot(), changed).then(|| {
                    let began = since_boot();
                    let found = firewall::findings(&stands.config);
                    rulesets.did(began, since_boot());
                    found
                });
                match to_do.try_recv() {
                    Ok((change, new, old)) => {
                        let done = installed.lead(change, &new, &old);
                        stands = if done.is_ok() { new } else { old };
                        watched.note(&mut installed, &stands);
                        // By another file other networks may be left alone.
                        watched.follow(since_boot(), change == Change::Config, &mut installed, &stands);
                        answers.push((change, done));
                    }
                    Err(TryRecvError::Empty) => {
                        watched.follow(since_boot(), news.changed, &mut installed, &stands);
                    }
                    Err(TryRecvError::Disconnected) => break,
                }
                let made = installed.ways.as_mut().and_then(|ways| ways.made.take());
                if finds.lock().unwrap_or_else(PoisonError::into_inner).add(hindrances, &mut watched.notes, made) {
                    let _ = ring.write(&[1]);
                }
                let took = since_boot().since(began);
                for answer in answers {
                    if tell.send(answer).is_err() {
                        return installed;
                    }
                    // A bell that is full rings already.
                    let _ = ring.write(&[1]);
                }
                if news.changed {
                    let rest = took.times(REST_PER_LOOK).clamp(*REST.start(), *REST.end());
                    StateWatch::rest(woken.as_fd(), Duration::from_nanos(rest.as_nanos()));
                }
            }
            installed
        };
        let thread = std::thread::Builder::new().name("kernel".into()).spawn(work)?;
        let (orders, wake, thread) = (Some(orders), Some(wake), Some(thread));
        Ok(Self { holds_syns, in_force, ordered: None, orders, found, told, wake, done, thread, bell })
    }
    /// What on this host keeps traffic from us now.
    pub(crate) fn hindrances(&self) -> Vec<String> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).hindrances.clone()
    }
    /// Lines for the log since this was last asked.
    pub(crate) fn notes(&self) -> Vec<String> {
        std::mem::take(&mut self.found.lock().unwrap_or_else(PoisonError::into_inner).notes)
    }
    /// A device that was made in place of one that somebody deleted.
    pub(crate) fn new_device(&self) -> Option<OffloadTun> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).device.take()
    }
    /// Those that are new since this was last asked.
    pub(crate) fn new_hindrances(&mut self) -> Vec<String> {
        let now = self.hindrances();
        let new = now.iter().filter(|one| !self.told.contains(one)).cloned().collect();
        self.told = now;
        new
    }
    /// Whether a change is being made; the next has to wait for its end.
    pub(crate) fn is_busy(&self) -> bool {
        self.ordered.is_some()
    }
    /// Begins to route what `config` says.
    pub(crate) fn lead(&mut self, config: &Config) {
        let new = Wanted { config: Box::new(config.clone()), down: self.in_force.down.clone() };
        self.order(Change::Config, new);
    }
    /// Begins to forward plainly what goes to the peers `down`, and to take what goes to the others.
    pub(crate) fn give_back(&mut self, down: &Down) {
        let new = Wanted { config: self.in_force.config.clone(), down: down.clone() };
        self.order(Change::Down, new);
    }
    fn order(&mut self, change: Change, new: Wanted) {
        self.ordered = Some((change, new.clone()));
        if let Some(orders) = &self.orders {
            // Without the thread there is no answer, which `take` tells.
            let _ = orders.send((change, new, self.in_force.clone()));
        }
        // A full pipe wakes it already.
        let _ = self.wake.as_ref().map(|mut wake| wake.write(&[1]));
    }
    /// Whose networks are given back, as the kernel confirmed.
    pub(crate) fn given_back(&self) -> &Down {
        &self.in_force.down
    }
    /// The result of the change once it is known, or that something had vanished. `None` until then.
    pub(crate) fn answered(&mut self) -> Option<(Change, Result<(), ToolError>)> {
        while matches!(self.bell.read(&mut [0; 64]), Ok(n) if n > 0) {}
        let result = match self.done.try_recv() {
            Ok((change @ (Change::Gone | Change::Back(_)), result)) => return Some((change, result)),
            Ok((_, result)) => result,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => {
                panic!("the thread of the rules is gone: this is a bug, its panic message is above")
            }
        };
        let (change, new) = self.ordered.take()?;
        if result.is_ok() {
            self.in_force = new;
        }
        Some((change, result))
    }
    /// An orderly stop: everything is removed, what refuses new connections too.
    pub(crate) fn remove(mut self) {
        if let Some(installed) = self.end() {
            if let Some(ways) = installed.ways {
                ways.remove();
            }
            installed.rules.remove();
        }
    }
    fn end(&mut self) -> Option<Installed> {
        self.orders.take();
        self.wake.take();
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // Removes what is installed before the process ends.
        drop(self.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_tried_less_and_less_often_and_other_losses_at_once() {
        let (lacks, mut now, mut tries) = (vec![vec![6]], Instant::from_secs(10), 0);
        let mut failing = Failing::again(now, None, lacks.clone());
        assert!(!failing.rests(now, &[vec![4], vec![6]]), "another loss");
        // A look each 400 ms for ten minutes.
        for _ in 0..1_500 {
            now += Span::from_millis(400);
            if !failing.rests(now, &lacks) {
                tries += 1;
                failing = Failing::again(now, Some(failing), lacks.clone());
            }
        }
        assert!((20..30).contains(&tries), "{tries}");
    }

    #[test]
    fn a_busy_ruleset_of_others_is_read_for_a_twentieth_of_the_time_and_its_last_state_is_read() {
        let (mut pace, mut now, mut spent) = (Pace::default(), Instant::from_secs(10), Span::ZERO);
        for _ in 0..1_000 {
            now += Span::from_millis(400);
            if pace.comes(now, true) {
                let began = now;
                now += Span::from_millis(700);
                pace.did(began, now);
                spent += now.since(began);
            }
        }
        let all = now.since(Instant::from_secs(10));
        assert!(spent.times(18) < all && spent.times(25) > all, "{spent:?} of {all:?}");
        assert!(pace.comes(now + Span::from_secs(15), true));
        pace.did(now, now);
        assert!(!pace.comes(now + Span::from_secs(60), false), "nobody changed it");
    }
}
