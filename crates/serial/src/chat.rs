//! The chat with a modem: what to expect and what to say then, in the words of `chat(8)`.
//!
//! A script alternates what is expected and what is sent, in words or quotes; `''` expects or sends nothing. `ABORT text`
//! ends the chat when the modem says that, until `CLR_ABORT text`; `TIMEOUT seconds` sets how long each following text is
//! waited for. `OK-ATZ-OK` expects the first, and if it does not come sends the second (nothing is an empty line) and expects
//! the third. What is sent ends in a carriage return, unless in `\c`; `\d` pauses a second and `\p` a tenth; `EOT` is control-D.
//! `\r`, `\n`, `\t`, `\b`, `\s`, `\\`, `\-`, `\^` and three octal digits are characters. Words of `chat(8)` for its terminal
//! (`SAY`, `ECHO`, `REPORT`) are refused. What the modem says is data: it is compared, and shown.

use std::collections::VecDeque;
use thiserror::Error;
use wavelane_base::{Instant, Span, Wakeup, text};

/// The most octets of a script.
pub const SCRIPT_MAX: usize = 4_096;
/// How long a text is waited for unless the script says otherwise: `chat(8)`'s default.
pub const TIMEOUT_DEFAULT: Span = Span::from_secs(45);
/// The longest that a script can ask for.
const TIMEOUT_MAX_S: u64 = 3_600;
/// Octets of what the modem said last that are kept, to compare and to show.
const HEARD_MAX: usize = 256;
/// The most alternatives to one expected text.
const OTHERS_MAX: usize = 16;
/// Words of `chat(8)` that concern its terminal or its own end.
const ELSEWHERE: [&str; 5] = ["SAY", "ECHO", "REPORT", "CLR_REPORT", "HANGUP"];
/// How long the rest of the last expected line is waited for: policy.
const LINE_END: Span = Span::from_secs(1);

/// Why a script cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ScriptError {
    /// Too long.
    #[error("the chat script is longer than {SCRIPT_MAX} octets: shorten it")]
    Long,
    /// A quote that is not closed.
    #[error("the chat script has a quote that is not closed: add it")]
    Quote,
    /// An escape that is none.
    #[error("the chat script has `\\{0}`: use \\r \\n \\t \\b \\s \\\\ \\- \\^ \\c \\d \\p or three octal digits")]
    Escape(char),
    /// `ABORT`, `CLR_ABORT` or `TIMEOUT` without its text.
    #[error("the chat script has {0} without a text behind it")]
    Missing(&'static str),
    /// No number of seconds.
    #[error("the chat script has `TIMEOUT {0}`: give seconds, 1 to 3600")]
    Timeout(String),
    /// An abort text that is empty or longer than what is kept.
    #[error("the chat script has a text of {0} octets to expect: use 1 to {HEARD_MAX}")]
    Length(usize),
    /// A word that does nothing here.
    #[error(
        "the chat script has `{0}`, which means nothing here: remove it with its text, for `wavelane status` and the log say what the modem says"
    )]
    Elsewhere(&'static str),
    /// A break.
    #[error("the chat script has `BREAK`, and breaks are not sent: remove it")]
    Break,
    /// What `chat(8)` takes for a control character.
    #[error(
        "the chat script has a `^`: write \\^ for the character, and three octal digits for a control character (\\003 for ^C)"
    )]
    Control,
    /// Alternatives that do not end with a text to expect, or too many.
    #[error(
        "the chat script has `{0}`: write expected-sent-expected with at most {OTHERS_MAX} further texts, and \\- for a dash"
    )]
    Others(String),
    /// It cannot find out whether there is a connection.
    #[error(
        "the chat script expects nothing after it calls: end it with what the modem says of a connection, such as CONNECT"
    )]
    Blind,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    /// What is waited for, for how long, and what is done if it does not come.
    Expect(Vec<u8>, Span, Vec<Step>),
    Abort(Vec<u8>),
    ClearAbort(Vec<u8>),
    Send(Vec<Piece>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Text(Vec<u8>),
    Pause(Span),
}

/// A chat, as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script(Vec<Step>);

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// [`ScriptError`], which says what to mend.
    pub fn parse(script: &str) -> Result<Self, ScriptError> {
        if script.len() > SCRIPT_MAX {
            return Err(ScriptError::Long);
        }
        let mut words = words(script)?.into_iter();
        let (mut steps, mut timeout, mut expects) = (Vec::new(), TIMEOUT_DEFAULT, true);
        while let Some(word) = words.next() {
            match word.as_str() {
                "ABORT" | "CLR_ABORT" if expects => {
                    let missing = if word == "ABORT" { "ABORT" } else { "CLR_ABORT" };
                    let text = comparable(plain(&words.next().ok_or(ScriptError::Missing(missing))?)?)?;
                    steps.push(if word == "ABORT" { Step::Abort(text) } else { Step::ClearAbort(text) });
                }
                "TIMEOUT" if expects => {
                    let text = words.next().ok_or(ScriptError::Missing("TIMEOUT"))?;
                    let seconds = text.parse().ok().filter(|seconds| (1..=TIMEOUT_MAX_S).contains(seconds));
                    timeout = Span::from_secs(seconds.ok_or(ScriptError::Timeout(shown(&text)))?);
                }
                _ => {
                    if !expects {
                        steps.push(Step::Send(pieces(&word)?));
                    } else if let Some(word) = ELSEWHERE.iter().find(|known| **known == word) {
                        return Err(ScriptError::Elsewhere(word));
                    } else if !word.is_empty() {
                        steps.push(expectation(&word, timeout)?);
                    }
                    expects = !expects;
                }
            }
        }
        let calls = steps.iter().rposition(dials).unwrap_or(0);
        if !steps[calls..].iter().any(|step| matches!(step, Step::Expect(..))) {
            return Err(ScriptError::Blind);
        }
        Ok(Self(steps))
    }

    /// Whether it calls somebody up (V.250, section 6.3.1: `D`), and does not only wait for a call.
    pub fn dials(&self) -> bool {
        self.0.iter().any(dials)
    }
}

fn dials(step: &Step) -> bool {
    let Step::Send(pieces) = step else { return false };
    let octets = pieces.iter().filter_map(|piece| if let Piece::Text(octets) = piece { Some(octets) } else { None });
    let said: Vec<u8> = octets.flatten().map(u8::to_ascii_uppercase).collect();
    said.starts_with(b"ATD") || said.windows(2).any(|word| word == b"DT" || word == b"DP")
}

/// `expected`, or `expected-sent-expected` and so on.
fn expectation(word: &str, timeout: Span) -> Result<Step, ScriptError> {
    let (mut parts, mut chars) = (vec![String::new()], word.chars());
    while let Some(c) = chars.next() {
        let part = parts.last_mut().expect("there is one from the start");
        match c {
            '-' => parts.push(String::new()),
            '\\' => {
                part.push(c);
                part.extend(chars.next());
            }
            c => part.push(c),
        }
    }
    if parts.len() % 2 == 0 || parts.len() / 2 > OTHERS_MAX {
        return Err(ScriptError::Others(shown(word)));
    }
    let mut otherwise = Vec::new();
    while let Some(expected) = parts.pop() {
        let step = Step::Expect(comparable(plain(&expected)?)?, timeout, core::mem::take(&mut otherwise));
        let Some(sent) = parts.pop() else { return Ok(step) };
        let sent = if sent.is_empty() { vec![Piece::Text(vec![b'\r'])] } else { pieces(&sent)? };
        otherwise = vec![Step::Send(sent), step];
    }
    Err(ScriptError::Others(shown(word)))
}

fn shown(said: &str) -> String {
    text::line(said, 60).into_owned()
}

fn comparable(text: Vec<u8>) -> Result<Vec<u8>, ScriptError> {
    if (1..=HEARD_MAX).contains(&text.len()) { Ok(text) } else { Err(ScriptError::Length(text.len())) }
}

/// The words of a script: between white space, or in quotes of either kind.
fn words(script: &str) -> Result<Vec<String>, ScriptError> {
    let (mut words, mut chars) = (Vec::new(), script.chars().peekable());
    while let Some(&first) = chars.peek() {
        if first.is_whitespace() {
            chars.next();
            continue;
        }
        let quote = matches!(first, '\'' | '"').then_some(first);
        if quote.is_some() {
            chars.next();
        }
        let mut word = String::new();
        loop {
            match (chars.next(), quote) {
                (None, Some(_)) => return Err(ScriptError::Quote),
                (None, None) => break,
                (Some(c), Some(quote)) if c == quote => break,
                (Some(c), None) if c.is_whitespace() => break,
                (Some('\\'), _) => {
                    word.push('\\');
                    word.extend(chars.next());
                }
                (Some(c), _) => word.push(c),
            }
        }
        words.push(word);
    }
    Ok(words)
}

/// A text with its escapes replaced; those of sending only are none here.
fn plain(word: &str) -> Result<Vec<u8>, ScriptError> {
    let mut text = Vec::new();
    for piece in unescape(word)? {
        match piece {
            Some(Piece::Text(octets)) => text.extend(octets),
            Some(Piece::Pause(_)) => return Err(ScriptError::Escape('d')),
            None => return Err(ScriptError::Escape('c')),
        }
    }
    Ok(text)
}

/// What is sent; a text that is not empty, or is asked for by no `\c`, ends in a carriage return.
fn pieces(word: &str) -> Result<Vec<Piece>, ScriptError> {
    match word {
        "EOT" => return Ok(vec![Piece::Text(vec![4])]),
        "BREAK" => return Err(ScriptError::Break),
        _ => {}
    }
    let mut pieces = Vec::new();
    let mut ends = true;
    for piece in unescape(word)? {
        match piece {
            Some(piece) => pieces.push(piece),
            None => ends = false,
        }
    }
    if ends && !word.is_empty() {
        pieces.push(Piece::Text(vec![b'\r']));
    }
    Ok(pieces)
}

/// Pieces in order; nothing for `\c`.
fn unescape(word: &str) -> Result<Vec<Option<Piece>>, ScriptError> {
    let (mut pieces, mut chars) = (Vec::new(), word.chars());
    let mut buffer = [0; 4];
    while let Some(c) = chars.next() {
        let text = |octet: u8| Some(Piece::Text(vec![octet]));
        let piece = match c {
            '\\' => match chars.next().unwrap_or('\\') {
                'r' => text(b'\r'),
                'n' => text(b'\n'),
                't' => text(b'\t'),
                'b' => text(8),
                's' => text(b' '),
                same @ ('\\' | '-' | '^') => text(same as u8),
                first @ '0'..='3' => {
                    let digits: String = core::iter::once(first).chain(chars.by_ref().take(2)).collect();
                    let octet = u8::from_str_radix(&digits, 8).ok().filter(|_| digits.len() == 3);
                    text(octet.ok_or(ScriptError::Escape(first))?)
                }
                'c' => None,
                'd' => Some(Piece::Pause(Span::from_secs(1))),
                'p' => Some(Piece::Pause(Span::from_millis(100))),
                other => return Err(ScriptError::Escape(other)),
            },
            '^' => return Err(ScriptError::Control),
            c => Some(Piece::Text(c.encode_utf8(&mut buffer).as_bytes().to_vec())),
        };
        pieces.push(piece);
    }
    Ok(pieces)
}

/// How a chat ended.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Outcome {
    /// As the script wants; with the line in which the last expected text came, such as `CONNECT 33600`.
    #[error("{0}")]
    Done(String),
    /// The modem said what ends it.
    #[error("the modem says {0}")]
    Aborted(String),
    /// It did not say what was expected.
    #[error("no `{expected}` from the modem, which said `{said}`: is it on, at this rate, and its number right?")]
    TimedOut {
        /// What the script waits for.
        expected: String,
        /// What came last.
        said: String,
    },
}

/// A chat in progress.
#[derive(Debug)]
pub struct Chat {
    steps: VecDeque<Step>,
    aborts: Vec<Vec<u8>>,
    /// What was said since the last step.
    heard: VecDeque<u8>,
    pieces: VecDeque<Piece>,
    due: Option<Instant>,
    out: Vec<u8>,
    /// A pause in what is sent.
    pausing: bool,
    /// The script has ended; the rest of the line is awaited.
    tail: bool,
    /// It has ended by a text that ends it.
    aborted: bool,
    outcome: Option<Outcome>,
}

impl Chat {
    /// Begins.
    pub fn new(now: Instant, script: &Script) -> Self {
        let mut chat = Self {
            steps: script.0.iter().cloned().collect(),
            aborts: Vec::new(),
            heard: VecDeque::new(),
            pieces: VecDeque::new(),
            due: None,
            out: Vec::new(),
            pausing: false,
            tail: false,
            aborted: false,
            outcome: None,
        };
        chat.go_on(now);
        chat
    }

    /// How it ended, once it has.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    fn heard_text(&self) -> String {
        let octets: Vec<u8> = self.heard.iter().copied().collect();
        shown(String::from_utf8_lossy(&octets).trim())
    }

    /// Does what needs no answer, up to the next text that is expected.
    fn go_on(&mut self, now: Instant) {
        loop {
            match self.pieces.pop_front() {
                Some(Piece::Text(text)) => self.out.extend(text),
                Some(Piece::Pause(span)) => {
                    self.due = Some(now + span);
                    self.pausing = true;
                    return;
                }
                None => match self.steps.front() {
                    Some(Step::Expect(_, timeout, _)) => {
                        self.due = Some(now + *timeout);
                        return;
                    }
                    Some(Step::Abort(text)) => {
                        self.aborts.push(text.clone());
                        self.steps.pop_front();
                    }
                    Some(Step::ClearAbort(text)) => {
                        self.aborts.retain(|abort| abort != text);
                        self.steps.pop_front();
                    }
                    Some(Step::Send(pieces)) => {
                        self.pieces.extend(pieces.iter().cloned());
                        self.steps.pop_front();
                        self.heard.clear();
                    }
                    None => return self.finish(Outcome::Done(self.heard_text())),
                },
            }
        }
    }

    fn finish(&mut self, outcome: Outcome) {
        self.outcome.get_or_insert(outcome);
        self.due = None;
    }

    /// Takes what the modem says, and returns how many octets of it were the chat's: what follows is the connection's.
    pub fn push(&mut self, now: Instant, octets: &[u8]) -> usize {
        for (at, &octet) in octets.iter().enumerate() {
            if self.outcome.is_some() {
                return at;
            }
            if self.tail && matches!(octet, b'\r' | b'\n') {
                self.tail_ends();
                // The line's end is the modem's, whole.
                return at + 1 + usize::from(octet == b'\r' && octets.get(at + 1) == Some(&b'\n'));
            }
            if self.heard.len() == HEARD_MAX {
                self.heard.pop_front();
            }
            self.heard.push_back(octet);
            if !self.tail {
                self.compare(now);
            }
        }
        octets.len()
    }

    fn ends_with(&self, text: &[u8]) -> bool {
        self.heard.len() >= text.len() && self.heard.iter().rev().zip(text.iter().rev()).all(|(a, b)| a == b)
    }

    fn compare(&mut self, now: Instant) {
        self.aborted = self.aborts.iter().any(|text| self.ends_with(text));
        let sent = self.pieces.is_empty() && !self.pausing;
        let met = sent && matches!(self.steps.front(), Some(Step::Expect(text, ..)) if self.ends_with(text));
        if self.aborted || met {
            let line = self.heard.iter().rposition(|octet| matches!(octet, b'\r' | b'\n')).map_or(0, |at| at + 1);
            self.heard.drain(..line);
        }
        if self.aborted {
            // The rest of the line says more than `NO `.
            self.tail = true;
            self.due = Some(now + LINE_END);
        } else if met {
            self.steps.pop_front();
            // What was said before in this line shall not count for the next text.
            let speaks =
                |step: &Step| matches!(step, Step::Expect(..)) || matches!(step, Step::Send(said) if !said.is_empty());
            if !self.steps.iter().any(speaks) {
                self.tail = true;
                self.due = Some(now + LINE_END);
            } else {
                self.heard.clear();
                self.go_on(now);
            }
        }
    }

    fn tail_ends(&mut self) {
        let said = self.heard_text();
        self.finish(if self.aborted { Outcome::Aborted(said) } else { Outcome::Done(said) });
    }

    /// Tells that time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        if self.tail {
            return self.tail_ends();
        }
        if core::mem::take(&mut self.pausing) {
            return self.go_on(now);
        }
        match self.steps.front_mut() {
            Some(Step::Expect(_, _, otherwise)) if self.pieces.is_empty() && !otherwise.is_empty() => {
                let otherwise = core::mem::take(otherwise);
                self.steps.pop_front();
                otherwise.into_iter().rev().for_each(|step| self.steps.push_front(step));
                self.go_on(now);
            }
            Some(Step::Expect(text, ..)) if self.pieces.is_empty() => {
                let expected = shown(&String::from_utf8_lossy(text));
                let said = self.heard_text();
                self.finish(Outcome::TimedOut { expected, said });
            }
            _ => self.go_on(now),
        }
    }

    /// Appends what is to be said to the modem.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.out);
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        self.due.map(|at| Wakeup { at, cause: "chat with the modem" })
    }
}
