//! A Hayes modem for tests of several rooms: commands and result codes towards the computer, calls towards the exchange.
//!
//! It carries octets and sets no pace: the line's rate is its owner's. It knows no data compression and no speeds but the
//! one that it reports.

mod command;
mod exchange;

pub(crate) use exchange::Exchange;

use command::Command;
use wavelane_base::{Instant, Span, Wakeup};

/// The most octets of a command line (V.250, section 5.2.1, asks for 40 at least).
const LINE_MAX: usize = 256;
/// The escape character is repeated so often.
const ESCAPES: u8 = 3;
/// Registers that exist.
const REGISTERS: usize = 38;
/// Register 0: rings before an answer; 0 never answers.
const RINGS: usize = 0;
/// Register 2: the escape character. Above 127 there is none.
const ESCAPE: usize = 2;
/// Registers 3 and 4: what ends a line, and what precedes and follows a result.
const CR: usize = 3;
const LF: usize = 4;
/// Register 5: what takes a character back.
const BACKSPACE: usize = 5;
/// Register 7: seconds until a call without carrier is given up.
const WAIT: usize = 7;
/// Register 12: the guard time around escapes, in 20 ms.
const GUARD: usize = 12;

/// How a modem behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Config {
    /// What it says behind `CONNECT`.
    pub(crate) rate: u32,
    /// From the answer to `CONNECT`.
    pub(crate) training: Span,
}

impl Default for Config {
    /// A V.34 modem.
    fn default() -> Self {
        Self { rate: 33_600, training: Span::from_secs(10) }
    }
}

/// What a modem says (V.250, table 1, and the codes that modems added).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Code {
    Ok = 0,
    Connect = 1,
    Ring = 2,
    NoCarrier = 3,
    Error = 4,
    NoDialtone = 6,
    Busy = 7,
    NoAnswer = 8,
}

/// Why a call did not come about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The other end is in a call.
    Busy,
    /// Nobody has that number, or nobody takes the call.
    NoAnswer,
    /// No line.
    NoDialtone,
}

/// What a modem wants from the exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Call that number.
    Dial(String),
    /// Take the call that rings.
    Answer,
    /// End the call, or the attempt.
    HangUp,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// On hook, commands.
    Idle,
    Ringing {
        rings: u8,
    },
    /// Dialled or answered; `until` is when it gives up, or when training is over.
    Calling {
        until: Instant,
    },
    Training {
        until: Instant,
    },
    Online,
    /// In a call, and taking commands.
    Escaped,
}

/// How far an escape has come.
#[derive(Clone, Copy, Debug, Default)]
struct Escape {
    seen: u8,
    last: Option<Instant>,
}

/// A modem.
#[derive(Debug)]
pub(crate) struct Modem {
    config: Config,
    state: State,
    registers: [u8; REGISTERS],
    echo: bool,
    quiet: bool,
    verbose: bool,
    extended: u8,
    line: Vec<u8>,
    /// The line before, for `A/`.
    previous: String,
    escape: Escape,
    dtr: bool,
    to_computer: Vec<u8>,
    to_line: Vec<u8>,
    action: Option<Action>,
}

impl Modem {
    /// Switched on.
    pub(crate) fn new(config: Config) -> Self {
        let mut modem = Self {
            config,
            state: State::Idle,
            registers: [0; REGISTERS],
            echo: true,
            quiet: false,
            verbose: true,
            extended: 4,
            line: Vec::new(),
            previous: String::new(),
            escape: Escape::default(),
            dtr: true,
            to_computer: Vec::new(),
            to_line: Vec::new(),
            action: None,
        };
        modem.reset();
        modem
    }

    fn reset(&mut self) {
        self.echo = true;
        self.quiet = false;
        self.verbose = true;
        self.extended = 4;
        self.registers = [0; REGISTERS];
        for (register, value) in [(ESCAPE, b'+'), (CR, b'\r'), (LF, b'\n'), (BACKSPACE, 8), (WAIT, 50), (GUARD, 50)] {
            self.registers[register] = value;
        }
    }

    /// Carrier detect.
    pub(crate) const fn carrier(&self) -> bool {
        matches!(self.state, State::Online | State::Escaped)
    }
    /// Whether the line is taken: a call to it finds it busy.
    pub(crate) const fn is_off_hook(&self) -> bool {
        !matches!(self.state, State::Idle | State::Ringing { .. })
    }

    fn guard(&self) -> Span {
        Span::from_millis(20).times(u64::from(self.registers[GUARD]))
    }

    fn say(&mut self, code: Code) {
        if self.quiet {
            return;
        }
        let rate = (code == Code::Connect && self.extended > 0).then_some(self.config.rate);
        let words = match code {
            Code::Ok => "OK",
            Code::Connect => "CONNECT",
            Code::Ring => "RING",
            Code::NoCarrier => "NO CARRIER",
            Code::Error => "ERROR",
            Code::NoDialtone => "NO DIALTONE",
            Code::Busy => "BUSY",
            Code::NoAnswer => "NO ANSWER",
        };
        let text = match (self.verbose, rate) {
            (false, _) => (code as u8).to_string(),
            (true, None) => words.to_string(),
            (true, Some(rate)) => format!("{words} {rate}"),
        };
        self.say_line(&text);
    }

    /// V.250, section 5.7.1: CR and LF around a text, a CR behind a number.
    fn say_line(&mut self, text: &str) {
        let end = [self.registers[CR], self.registers[LF]];
        if self.verbose {
            self.to_computer.extend(end);
        }
        self.to_computer.extend(text.as_bytes());
        self.to_computer.extend(if self.verbose { &end[..] } else { &end[..1] });
    }

    /// Takes octets from the computer.
    pub(crate) fn push(&mut self, now: Instant, octets: &[u8]) {
        for &octet in octets {
            match self.state {
                State::Online => self.data(now, octet),
                State::Idle | State::Ringing { .. } | State::Escaped => self.typed(now, octet),
                // Any character ends an attempt (V.250, section 6.3.1).
                State::Calling { .. } | State::Training { .. } => self.hang_up(Some(Code::NoCarrier)),
            }
        }
    }

    fn data(&mut self, now: Instant, octet: u8) {
        self.to_line.push(octet);
        let guard = self.guard();
        let silent = self.escape.last.is_none_or(|last| now.since(last) >= guard);
        let escapes = octet == self.registers[ESCAPE] && octet < 128;
        self.escape.seen = match (escapes, self.escape.seen) {
            (true, 0) if silent => 1,
            (true, seen @ 1..ESCAPES) if !silent => seen + 1,
            _ => 0,
        };
        self.escape.last = Some(now);
    }

    fn typed(&mut self, now: Instant, octet: u8) {
        if self.echo {
            self.to_computer.push(octet);
        }
        if octet == self.registers[CR] {
            let line = String::from_utf8_lossy(&core::mem::take(&mut self.line)).into_owned();
            self.enter(now, &line);
        } else if octet == self.registers[BACKSPACE] {
            self.line.pop();
        } else if self.line.len() < LINE_MAX && octet != self.registers[LF] {
            self.line.push(octet);
            if self.line.eq_ignore_ascii_case(b"A/") {
                self.line.clear();
                let previous = self.previous.clone();
                self.obey(now, &previous);
            }
        }
    }

    fn enter(&mut self, now: Instant, line: &str) {
        let line = line.trim();
        // What does not begin so is not for the modem.
        if line.get(..2).is_some_and(|at| at.eq_ignore_ascii_case("AT")) {
            self.previous = line[2..].to_string();
            self.obey(now, &line[2..]);
        }
    }

    fn obey(&mut self, now: Instant, line: &str) {
        let Some(commands) = command::parse(line) else { return self.say(Code::Error) };
        for command in commands {
            match command {
                Command::Dial(number) => return self.dial(now, number),
                Command::Answer if matches!(self.state, State::Ringing { .. }) => return self.answer(now),
                Command::Online if self.state == State::Escaped => {
                    self.state = State::Online;
                    self.escape = Escape::default();
                    return self.say(Code::Connect);
                }
                Command::Answer | Command::Online => return self.say(Code::NoCarrier),
                Command::HangUp => self.hang_up(None),
                Command::Reset => {
                    self.hang_up(None);
                    self.reset();
                }
                Command::Echo(on) => self.echo = on,
                Command::Quiet(on) => self.quiet = on,
                Command::Verbose(on) => self.verbose = on,
                Command::Extended(level) => self.extended = level,
                Command::SetRegister(which, value) => match self.registers.get_mut(usize::from(which)) {
                    Some(register) => *register = value,
                    None => return self.say(Code::Error),
                },
                Command::AskRegister(which) => match self.registers.get(usize::from(which)) {
                    Some(value) => self.say_line(&format!("{value:03}")),
                    None => return self.say(Code::Error),
                },
                Command::Identify => self.say_line("WAVELANE MODEM"),
                Command::Nothing => {}
            }
        }
        self.say(Code::Ok);
    }

    fn dial(&mut self, now: Instant, number: String) {
        if self.state == State::Escaped {
            return self.say(Code::Error);
        }
        self.state = State::Calling { until: now + Span::from_secs(u64::from(self.registers[WAIT])) };
        self.action = Some(Action::Dial(number.trim_end_matches(';').to_string()));
    }

    fn answer(&mut self, now: Instant) {
        self.state = State::Calling { until: now + Span::from_secs(u64::from(self.registers[WAIT])) };
        self.action = Some(Action::Answer);
    }

    fn hang_up(&mut self, code: Option<Code>) {
        if self.is_off_hook() {
            self.action = Some(Action::HangUp);
        }
        self.on_hook(code);
    }

    fn on_hook(&mut self, code: Option<Code>) {
        self.state = State::Idle;
        self.escape = Escape::default();
        self.to_line.clear();
        if let Some(code) = code {
            self.say(code);
        }
    }

    /// The computer's DTR: off ends a call.
    pub(crate) fn set_dtr(&mut self, on: bool) {
        if core::mem::replace(&mut self.dtr, on) && !on && self.is_off_hook() {
            self.hang_up(Some(Code::NoCarrier));
        }
    }

    /// One ring of a call from elsewhere.
    pub(crate) fn ring(&mut self, now: Instant) {
        let rings = match self.state {
            State::Idle => 1,
            State::Ringing { rings } => rings.saturating_add(1),
            _ => return,
        };
        self.state = State::Ringing { rings };
        self.say(Code::Ring);
        if self.dtr && self.registers[RINGS] != 0 && rings >= self.registers[RINGS] {
            self.answer(now);
        }
    }

    /// The call from elsewhere is over before it was taken.
    pub(crate) fn ringing_ends(&mut self) {
        if matches!(self.state, State::Ringing { .. }) {
            self.state = State::Idle;
        }
    }

    /// The other end is there: the modems train.
    pub(crate) fn answered(&mut self, now: Instant) {
        if matches!(self.state, State::Calling { .. }) {
            self.state = State::Training { until: now + self.config.training };
        }
    }

    /// The call does not come about.
    pub(crate) fn refused(&mut self, refusal: Refusal) {
        if matches!(self.state, State::Calling { .. }) {
            self.on_hook(Some(match refusal {
                Refusal::Busy if self.extended >= 3 => Code::Busy,
                Refusal::NoDialtone if self.extended == 2 || self.extended == 4 => Code::NoDialtone,
                Refusal::NoAnswer if self.extended >= 3 => Code::NoAnswer,
                _ => Code::NoCarrier,
            }));
        }
    }

    /// The other end is gone.
    pub(crate) fn carrier_lost(&mut self) {
        if self.is_off_hook() {
            self.on_hook(Some(Code::NoCarrier));
        }
    }

    /// Takes octets from the other end.
    pub(crate) fn push_line(&mut self, octets: &[u8]) {
        // In command mode what the other end sends is lost, as with a modem without a buffer.
        if self.state == State::Online {
            self.to_computer.extend_from_slice(octets);
        }
    }

    /// Tells that time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        match self.state {
            State::Calling { until } if until <= now => self.hang_up(Some(Code::NoCarrier)),
            State::Training { until } if until <= now => {
                self.state = State::Online;
                self.escape = Escape::default();
                self.say(Code::Connect);
            }
            State::Online if self.escape_due().is_some_and(|due| due <= now) => {
                self.state = State::Escaped;
                self.escape = Escape::default();
                self.say(Code::Ok);
            }
            _ => {}
        }
    }

    fn escape_due(&self) -> Option<Instant> {
        self.escape.last.filter(|_| self.escape.seen == ESCAPES).map(|last| last + self.guard())
    }

    /// When [`Self::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Wakeup> {
        match self.state {
            State::Calling { until } => Some(Wakeup { at: until, cause: "no carrier" }),
            State::Training { until } => Some(Wakeup { at: until, cause: "training" }),
            State::Online => self.escape_due().map(|at| Wakeup { at, cause: "escape" }),
            _ => None,
        }
    }

    /// Appends what goes to the computer.
    pub(crate) fn poll_computer(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.to_computer);
    }
    /// Appends what goes to the other end.
    pub(crate) fn poll_line(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.to_line);
    }
    /// What it wants from the exchange.
    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.action.take()
    }
}
