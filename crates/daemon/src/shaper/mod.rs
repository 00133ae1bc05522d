//! `wavelaned` without a neighbour: the queue of an interface is made short where this machine can reach it.
//!
//! A rate below that of the link behind puts the queue here, in the kernel's `cake` or `fq_codel` or in a queue of ours. A
//! rate that moves is followed by [`Autorate`], from the delay to a machine beyond the link.

mod config;
mod continuous;
pub mod cure;
pub(crate) mod flow;
mod path;
mod qdisc;
pub(crate) mod reflector;

use crate::commands::checked;
use crate::config::ConfigError;
use crate::log::{DEBUG, Log, WARNING};
use crate::supervisor::Supervisor;
use crate::system::rules::CAPABILITIES_HINT;
use config::{How, Interface, Pace};
use path::{Lead, QueueInPath};
use qdisc::Qdisc;
use reflector::Reflector;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use wavelane_base::{Instant, Octets, Rate, Span};
use wavelane_host::claim::{self, Claim, Unclaimed};
use wavelane_host::clock::NodeClock;
use wavelane_host::nft::ToolError;
use wavelane_host::poller::{Poller, Watch};
use wavelane_host::{caps, interface_exists, interface_index};
use wavelane_measure::{AUTORATE_SILENCE as SILENCE, Autorate, AutorateCause};

const TOKEN_SIGNAL: u64 = 1;
const TOKEN_RELOAD: u64 = 2;
const TOKEN_QUEUES: u64 = 16;
const TOKEN_REFLECTORS: u64 = 32;
/// Abstract socket that marks this network namespace as having its one shaper.
const LOCK_NAME: &str = "wavelaned-shaper";
/// What was carried is counted over this time.
const CARRIED_OVER: Span = Span::from_millis(200);
/// A rate that differs by a fiftieth is set in the kernel, no more often than this.
const TOLD_EVERY: Span = Span::from_millis(100);
const TOLD_FROM: u64 = 50;
/// How often an interface is looked for that may go and come back (a line that is dialled anew, a modem that is unplugged).
const LOOK_EVERY: Span = Span::from_secs(1);
/// How often a moving rate is logged.
const SAID_EVERY: Span = Span::from_secs(60);

/// A change by a tenth is told at `debug`, so often that four interfaces stay below what the log takes for long.
const DETAIL_FROM: u64 = 10;
const DETAIL_EVERY: Span = Span::from_millis(500);

/// Why nothing is shaped. One line, with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ShaperError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The privilege.
    #[error("shaping an interface needs CAP_NET_ADMIN and CAP_NET_RAW: {CAPABILITIES_HINT}")]
    Capability,
    /// A second one would take the first one's rules away.
    #[error("another wavelaned already shapes in this network namespace: stop that one, or add a table to its file")]
    Taken,
    /// The interface.
    #[error("there is no interface {0} here: `ip link` lists them")]
    NoInterface(String),
    /// Something else stands there.
    #[error("{0}")]
    Occupied(String),
    /// What was asked for cannot be had.
    #[error("{interface} cannot be shaped by {how}: {why}")]
    Impossible {
        /// The interface.
        interface: String,
        /// The word in the file.
        how: &'static str,
        /// What each attempt met.
        why: String,
    },
    /// A tool.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The system refused something that should always work.
    #[error("the system refused {what}: {source}; check limits (ulimit -n) and permissions")]
    System {
        /// What.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
}

fn system(what: &'static str) -> impl Fn(io::Error) -> ShaperError {
    move |source| ShaperError::System { what, source }
}

/// Whether a file is that of a daemon that shapes. What cannot be read is not.
pub fn is_shaper_file(file: &Path) -> bool {
    crate::load::read_text(file).is_ok_and(|text| config::is_shaper(&text))
}

/// What a file's text asks for, in words.
pub fn check(file: &Path) -> Result<String, ConfigError> {
    let (mut text, mut warnings) = (String::new(), Vec::new());
    for one in config::load(file)? {
        let rate = match one.pace {
            Pace::Fixed(rate) => words(rate),
            Pace::Auto { terms, reflector, .. } => {
                format!("{} to {}, by the delay to {reflector}", words(terms.least), words(terms.most))
            }
        };
        let _ = writeln!(text, "{} at {rate}, by {}", one.name, one.how.word());
        if !interface_exists(&one.name) {
            warnings.push(format!("there is no interface {} here", one.name));
        }
        if let Some(why) = impossible(&one) {
            let how = one.how.word();
            warnings.push(format!(
                "{} cannot be shaped by {how} on this host ({why}): load what it needs (`modprobe sch_{how}`), or leave `how` out",
                one.name
            ));
        }
    }
    Ok(checked(file, "shaper", text, &warnings))
}

/// Why an interface cannot be shaped here by what its table names, found out in a network namespace of its own; `None` if it can, or without
/// the privilege.
fn impossible(of: &Interface) -> Option<String> {
    let like = Interface { name: "lo".to_owned(), ..of.clone() };
    let tried = move || match means(&like, path::NUMBER, 0) {
        Err(ShaperError::Impossible { why, .. }) => Some(why),
        _ => None,
    };
    wavelane_host::netns::Netns::new("wavelane-check").ok()?.run(tried).ok()?
}

/// What is wrong with a file's text, if anything.
pub fn parse_text(text: &str) -> Result<(), ConfigError> {
    config::parse(text, "text").map(drop)
}

/// Removes whatever a daemon that shapes left in this network namespace.
pub fn clear() {
    path::clear();
    qdisc::clear();
}

/// Claims this network namespace.
fn claim() -> Result<Claim, Unclaimed> {
    claim::claim(LOCK_NAME)
}

/// Whether a shaper runs in this network namespace.
pub(crate) fn is_running() -> bool {
    claim().is_err()
}

fn words(rate: Rate) -> String {
    format!("{} Mbit/s", rate.as_bps() as f64 / 1e6)
}

/// By what an interface is shaped.
#[derive(Debug)]
enum Means {
    Path(Box<QueueInPath>),
    Kernel(Qdisc),
}

/// A rate that follows the link.
#[derive(Debug)]
struct Follower {
    estimator: Autorate,
    reflector: Reflector,
    ask_at: Instant,
    /// Octets carried at the latest questions.
    carried: VecDeque<(Instant, u64)>,
    told: Instant,
    said: Instant,
    /// The rate that was told at `debug`, and when.
    detailed: (Rate, Instant),
    failing: bool,
    heard: Instant,
    is_silent: bool,
}

impl Follower {
    /// Returns a line if the reflector has fallen silent, or answers again.
    fn hears(&mut self, now: Instant) -> Option<String> {
        let was = std::mem::replace(&mut self.is_silent, now.since(self.heard) >= SILENCE);
        match (was, self.is_silent) {
            (false, true) => Some(format!(
                "the reflector does not answer at {}: at rate_idle until it does; is it up, and if it is a gateway, is this host its peer?",
                self.reflector.target()
            )),
            (true, false) => Some("the reflector answers again".to_owned()),
            _ => None,
        }
    }
    /// A change of the rate with its cause, if it is worth a line at `debug`.
    fn detail(&mut self, now: Instant) -> Option<String> {
        let ((before, at), rate) = (self.detailed, self.estimator.rate());
        let differs = rate.as_bps().abs_diff(before.as_bps()) >= before.as_bps() / DETAIL_FROM;
        if !differs || now.since(at) < DETAIL_EVERY {
            return None;
        }
        self.detailed = (rate, now);
        let (cause, rise_ms) = self.estimator.cause();
        let why = match cause {
            AutorateCause::Idle => "little is sent, and it goes back to rate_idle".to_owned(),
            AutorateCause::Room => format!("it is filled, and the delay is {rise_ms:.1} ms above its baseline"),
            AutorateCause::Queue => format!("a queue, for the delay is {rise_ms:.1} ms above its baseline or grows"),
            AutorateCause::Silence => "the reflector does not answer, so it is rate_idle".to_owned(),
        };
        let [from, to] = [before, rate].map(|rate| rate.as_bps() as f64 / 1e6);
        Some(format!("from {from:.2} to {to:.2} Mbit/s: {why}"))
    }
}

#[derive(Debug)]
struct Shaped {
    name: String,
    means: Means,
    follower: Option<Follower>,
    /// The kernel's index of the interface; `None` while it is gone or cannot be shaped.
    index: Option<u32>,
    /// That under which it was shaped last.
    last: Option<u32>,
    look_at: Instant,
    /// Why it is not shaped, as it was logged.
    trouble: Option<String>,
}

impl Shaped {
    fn carried(&self) -> Option<u64> {
        match &self.means {
            Means::Path(path) => Some(path.carried()),
            Means::Kernel(qdisc) => qdisc.carried(),
        }
    }
    /// Sets the kernel's discipline again on an interface that was made anew, or where another program took it away; the rule for our own
    /// queue goes by the name. Returns what is worth a line.
    fn look(&mut self, now: Instant) -> Option<String> {
        if now < self.look_at {
            return None;
        }
        self.look_at = now + LOOK_EVERY;
        let index = interface_index(&self.name);
        let stands = match &self.means {
            Means::Kernel(_) => index.is_none_or(Qdisc::stands),
            Means::Path(_) => true,
        };
        if index == self.index && stands {
            return None;
        }
        let same = index == self.last;
        let trouble = match (index, &self.means) {
            (Some(_), _) if same && stands => None,
            (None, _) => Some("the interface is gone; once it is back it is shaped again".to_owned()),
            (Some(_), Means::Kernel(qdisc)) => qdisc.again().err().map(|why| format!("it cannot be shaped now: {why}")),
            (Some(_), Means::Path(_)) => None,
        };
        self.index = index.filter(|_| trouble.is_none());
        self.last = self.index.or(self.last);
        if let Some(follower) = &mut self.follower {
            // Its counters begin anew.
            follower.carried.clear();
        }
        let is_new = trouble.is_none() || trouble != self.trouble;
        self.trouble = trouble;
        let said = self.trouble.as_deref().unwrap_or(if same && stands {
            "the interface has its name again, and is shaped"
        } else if same {
            "another program took its queueing discipline away, and it is set again (`tc qdisc del` does so, and network managers)"
        } else {
            "the interface was made anew, and is shaped again"
        });
        let level = if self.trouble.is_some() { WARNING } else { "" };
        is_new.then(|| format!("{level}{}: {said}", self.name))
    }
    /// Gives the estimator the delays, and asks again if it is time. Returns what is worth a line.
    fn follow(&mut self, now: Instant, clock: &NodeClock) -> Option<String> {
        let carried_now = self.carried();
        let follower = self.follower.as_mut()?;
        let mut remark = None;
        let first = follower.carried.front().copied().zip(carried_now);
        let carried = first.map_or(Rate::from_bps(0), |((since, octets), now_octets)| {
            Rate::of(Octets::new(now_octets.saturating_sub(octets)), now.since(since))
        });
        let delays = follower.reflector.answers(|| clock.now()).unwrap_or_default();
        follower.heard = if delays.is_empty() { follower.heard } else { now };
        for (asked, delay) in &delays {
            follower.estimator.sample(now, *asked, *delay, carried);
        }
        if now >= follower.ask_at {
            follower.ask_at = (follower.ask_at + follower.reflector.ask_every(&follower.estimator)).max(now);
            // One that is older than that stays.
            while follower.carried.get(1).is_some_and(|(at, _)| now.since(*at) >= CARRIED_OVER) {
                follower.carried.pop_front();
            }
            follower.carried.extend(carried_now.map(|octets| (now, octets)));
            follower.estimator.silent(now);
            remark = follower.reflector.ask(clock.now()).map(str::to_owned);
            remark = remark.or_else(|| follower.hears(now));
        }
        let wanted = follower.estimator.rate();
        let told = match &mut self.means {
            Means::Path(path) => {
                path.set_rate(wanted);
                Ok(())
            }
            Means::Kernel(_) if self.index.is_none() => Ok(()),
            Means::Kernel(qdisc) => {
                let differs = wanted.as_bps().abs_diff(qdisc.rate().as_bps()) >= qdisc.rate().as_bps() / TOLD_FROM;
                if differs && now.since(follower.told) >= TOLD_EVERY {
                    follower.told = now;
                    qdisc.set_rate(wanted)
                } else {
                    Ok(())
                }
            }
        };
        if let Err(why) = &told
            && !follower.failing
        {
            remark = Some(format!("{WARNING}its rate cannot be changed: {why}"));
        }
        follower.failing = told.is_err();
        if remark.is_none() && now.since(follower.said) >= SAID_EVERY {
            follower.said = now;
            remark = Some(format!("at {}", words(wanted)));
        }
        let remark = remark?;
        let (level, said) = remark.strip_prefix(WARNING).map_or(("", &*remark), |said| (WARNING, said));
        Some(format!("{level}{}: {said}", self.name))
    }
    /// What is told of it at `debug`.
    fn detail(&mut self, now: Instant) -> Option<String> {
        let detail = self.follower.as_mut()?.detail(now)?;
        Some(format!("{DEBUG}{}: {detail}", self.name))
    }
    fn deadline(&self) -> Option<Instant> {
        let due = match &self.means {
            Means::Path(path) => path.due(),
            Means::Kernel(_) => None,
        };
        due.into_iter().chain(self.follower.as_ref().map(|f| f.ask_at)).chain([self.look_at]).min()
    }
}

/// Shapes what `file` names until SIGTERM or SIGINT, and removes everything then.
pub fn run(file: &Path) -> Result<(), ShaperError> {
    let (level, interfaces) = config::load_all(file)?;
    if ![caps::NET_ADMIN, caps::NET_RAW].into_iter().all(caps::has) {
        return Err(ShaperError::Capability);
    }
    let lock = claim().map_err(|_| ShaperError::Taken)?;
    let (signals, signal_end) = UnixStream::pair().map_err(system("a pipe"))?;
    for signal in [SIGTERM, SIGINT] {
        let end = signal_end.try_clone().map_err(system("a descriptor"))?;
        signal_hook::low_level::pipe::register(signal, end).map_err(system("a signal handler"))?;
    }
    let (reload, end) = UnixStream::pair().map_err(system("a pipe"))?;
    reload.set_nonblocking(true).map_err(system("a pipe"))?;
    signal_hook::low_level::pipe::register(SIGHUP, end).map_err(system("a signal handler"))?;
    // A proxy's word of a gap is no reason to end.
    for signal in [SIGUSR1, SIGUSR2] {
        signal_hook::flag::register(signal, std::sync::Arc::default()).map_err(system("a signal handler"))?;
    }
    if !wavelane_host::is_root() {
        caps::pass_on(&[caps::NET_ADMIN, caps::NET_RAW]).map_err(system("passing on capabilities"))?;
    }
    clear();
    let clock = NodeClock;
    let mut remarks: Vec<String> = lock.remark.iter().cloned().collect();
    let (mut shaped, mut lead) = install(&interfaces, clock.now(), &mut remarks)?;
    caps::keep_only(&[caps::NET_ADMIN, caps::NET_RAW]).map_err(system("giving up privileges"))?;
    let mut log = Log::open(clock.now(), level).map_err(system("a thread"))?;
    log.pen().take_panics();
    let mut supervisor = Supervisor::of_this_process();
    let mut poller = Poller::new().map_err(system("epoll"))?;
    poller.add(&signals, TOKEN_SIGNAL, Watch::Readable).map_err(system("epoll"))?;
    poller.add(&reload, TOKEN_RELOAD, Watch::Readable).map_err(system("epoll"))?;
    let mut again = Again { signal: reload, file, interfaces };
    for (i, one) in (0..).zip(&shaped) {
        if let Means::Path(path) = &one.means {
            poller.add(path.as_ref(), TOKEN_QUEUES + i, Watch::Readable).map_err(system("epoll"))?;
        }
        if let Some(follower) = &one.follower {
            poller.add(&follower.reflector, TOKEN_REFLECTORS + i, Watch::Readable).map_err(system("epoll"))?;
        }
    }
    remarks.iter().for_each(|remark| log.line(clock.now(), remark));
    supervisor.ready(clock.now(), "shapes");
    let ended = turn(&mut shaped, lead.as_mut(), &clock, &mut poller, &mut supervisor, (&mut log, &mut again));
    supervisor.stopping();
    // First the rules, so that no packet comes to a queue that is about to close.
    drop(lead);
    drop(shaped);
    // An interface that was renamed has it still.
    qdisc::clear();
    log.line(clock.now(), "stopped");
    log.pen().flush();
    ended.map_err(system("waiting for events"))
}

/// The file, which SIGHUP has read again.
struct Again<'a> {
    signal: UnixStream,
    file: &'a Path,
    interfaces: Vec<Interface>,
}

impl Again<'_> {
    fn read(&mut self, now: Instant, log: &mut Log) {
        while matches!(self.signal.read(&mut [0; 64]), Ok(n) if n > 0) {}
        match config::load_all(self.file) {
            Ok((level, interfaces)) if interfaces == self.interfaces => {
                log.set_level(level);
                log.line(now, "reloaded");
            }
            Ok(_) => {
                log.warn(now, "reload refused: a shaper's tables cannot change while it runs, `log` alone: restart it")
            }
            Err(why) => log.warn(now, &format!("reload refused: {why}")),
        }
    }
}

/// The loop; ends with a signal.
fn turn(
    shaped: &mut [Shaped],
    mut lead: Option<&mut Lead>,
    clock: &NodeClock,
    poller: &mut Poller,
    supervisor: &mut Supervisor,
    (log, again): (&mut Log, &mut Again<'_>),
) -> io::Result<()> {
    loop {
        let mut now = clock.now();
        let mut more = false;
        for one in shaped.iter_mut() {
            if let Means::Path(path) = &mut one.means {
                more |= path.serve(now)?;
            }
            for remark in [one.look(now), one.follow(now, clock), one.detail(now)].iter().flatten() {
                log.line(now, remark);
            }
        }
        if let Some(remark) = lead.as_mut().and_then(|lead| lead.look(now)) {
            log.line(now, &remark);
        }
        supervisor.tick(now);
        now = clock.now();
        let next = shaped.iter().filter_map(Shaped::deadline).chain(supervisor.deadline()).min();
        let patience = if more { Some(std::time::Duration::ZERO) } else { next.map(|at| clock.until(at.max(now))) };
        let ready = poller.wait(patience)?;
        let rung = |token| ready.iter().any(|ready| ready.token == token);
        if rung(TOKEN_SIGNAL) {
            return Ok(());
        }
        if rung(TOKEN_RELOAD) {
            again.read(clock.now(), log);
        }
    }
}

/// Sets everything up; whatever was set before an error is taken back.
fn install(
    interfaces: &[Interface],
    now: Instant,
    remarks: &mut Vec<String>,
) -> Result<(Vec<Shaped>, Option<Lead>), ShaperError> {
    let mut entropy = [0; 8];
    wavelane_host::entropy::fill(&mut entropy);
    let key = u64::from_ne_bytes(entropy);
    let mut shaped: Vec<Shaped> = Vec::new();
    let mut led = Vec::new();
    for (of, number) in interfaces.iter().zip(path::NUMBER..) {
        if !interface_exists(&of.name) {
            return Err(ShaperError::NoInterface(of.name.clone()));
        }
        let (means, how) = means(of, number, key)?;
        if matches!(means, Means::Path(_)) {
            led.push((of.name.clone(), number));
        }
        let follower = follower(of, now, key as u16 ^ number)?;
        let pace = if follower.is_some() { ", at first" } else { "" };
        remarks.push(format!("{}: shaped by {}{pace} at {}", of.name, how.word(), words(of.pace.first())));
        let (index, look_at) = (interface_index(&of.name), now + LOOK_EVERY);
        shaped.push(Shaped { name: of.name.clone(), means, follower, index, last: index, look_at, trouble: None });
    }
    let lead = (!led.is_empty()).then(|| path::lead(led)).transpose()?;
    Ok((shaped, lead))
}

fn follower(of: &Interface, now: Instant, id: u16) -> Result<Option<Follower>, ShaperError> {
    let Pace::Auto { terms, reflector, way } = of.pace else { return Ok(None) };
    let reflector = Reflector::open(now, reflector, way, id).map_err(system("a socket to the reflector"))?;
    let estimator = Autorate::new(now, terms);
    let carried = VecDeque::new();
    Ok(Some(Follower {
        estimator,
        reflector,
        ask_at: now,
        carried,
        told: now,
        said: now,
        detailed: (of.pace.first(), now),
        failing: false,
        heard: now,
        is_silent: false,
    }))
}

/// The first of the means that works, or the one that is asked for.
fn means(of: &Interface, number: u16, key: u64) -> Result<(Means, How), ShaperError> {
    let all = [How::Cake, How::FqCodel, How::Path, How::Tbf];
    let tried: &[How] = if of.how == How::Auto { &all } else { &[of.how] };
    let mut why = Vec::new();
    // A discipline that somebody else set on the interface stays; our own queue works beside it.
    let taken = qdisc::taken(&of.name)?;
    for how in tried.iter().copied() {
        let tried = match (how, &taken) {
            (How::Path, _) => attempt_path(of, number, key).map(|path| Means::Path(Box::new(path))),
            (_, Some(taken)) if of.how == How::Auto => Err(taken.clone()),
            (_, Some(taken)) => return Err(ShaperError::Occupied(taken.clone())),
            (how, None) => Qdisc::set(of, how).map(Means::Kernel).map_err(|e| e.to_string()),
        };
        match tried {
            Ok(means) => return Ok((means, how)),
            Err(e) => why.push(format!("{}: {e}", how.word())),
        }
    }
    Err(ShaperError::Impossible { interface: of.name.clone(), how: of.how.word(), why: why.join("; ") })
}

/// Our queue, if the kernel takes the rule for it.
fn attempt_path(of: &Interface, number: u16, key: u64) -> Result<QueueInPath, String> {
    let path = QueueInPath::open(of, number, key).map_err(|e| format!("no NFQUEUE {number} here ({e})"))?;
    // Once the rules of all interfaces are known they are set together; this says whether they can be.
    path::lead(vec![(of.name.clone(), number)]).map(drop).map_err(|e| e.to_string())?;
    Ok(path)
}
