//! The chat with a modem: what to expect and what to say then, in the words of `chat(8)`.
//!
//! A script alternates what is expected and what is sent, in words or quotes; `''` expects or sends nothing. `ABORT text`
//! ends the chat when the modem says that, `TIMEOUT seconds` sets how long each following text is waited for. What is sent
//! ends in a carriage return, unless in `\c`; `\d` pauses a second and `\p` a tenth. `\r`, `\n`, `\t`, `\s` and `\\` are
//! characters. A `-` is one as well: there are no sub-expectations. What the modem says is data: it is compared, and shown.

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
    #[error("the chat script has `\\{0}`: use \\r \\n \\t \\s \\\\ \\c \\d or \\p")]
    Escape(char),
    /// `ABORT` or `TIMEOUT` without its text.
    #[error("the chat script has {0} without a text behind it")]
    Missing(&'static str),
    /// No number of seconds.
    #[error("the chat script has `TIMEOUT {0}`: give seconds, 1 to 3600")]
    Timeout(String),
    /// An abort text that is empty or longer than what is kept.
    #[error("the chat script has a text of {0} octets to expect: use 1 to {HEARD_MAX}")]
    Length(usize),
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    Expect(Vec<u8>, Span),
    Abort(Vec<u8>),
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
                "ABORT" if expects => {
                    let text = plain(&words.next().ok_or(ScriptError::Missing("ABORT"))?)?;
                    steps.push(Step::Abort(comparable(text)?));
                }
                "TIMEOUT" if expects => {
                    let text = words.next().ok_or(ScriptError::Missing("TIMEOUT"))?;
                    let seconds = text.parse().ok().filter(|seconds| (1..=TIMEOUT_MAX_S).contains(seconds));
                    timeout = Span::from_secs(seconds.ok_or(ScriptError::Timeout(shown(&text)))?);
                }
                _ => {
                    if !expects {
                        steps.push(Step::Send(pieces(&word)?));
                    } else if !word.is_empty() {
                        steps.push(Step::Expect(comparable(plain(&word)?)?, timeout));
                    }
                    expects = !expects;
                }
            }
        }
        Ok(Self(steps))
    }

    /// Whether it calls somebody up (V.250, section 6.3.1: `D`), and does not only wait for a call.
    pub fn dials(&self) -> bool {
        self.0.iter().any(|step| {
            let Step::Send(pieces) = step else { return false };
            let octets =
                pieces.iter().filter_map(|piece| if let Piece::Text(octets) = piece { Some(octets) } else { None });
            let said: Vec<u8> = octets.flatten().map(u8::to_ascii_uppercase).collect();
            said.starts_with(b"ATD") || said.windows(2).any(|word| word == b"DT" || word == b"DP")
        })
    }
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
                's' => text(b' '),
                '\\' => text(b'\\'),
                'c' => None,
                'd' => Some(Piece::Pause(Span::from_secs(1))),
                'p' => Some(Piece::Pause(Span::from_millis(100))),
                other => return Err(ScriptError::Escape(other)),
            },
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
                    Some(Step::Expect(_, timeout)) => {
                        self.due = Some(now + *timeout);
                        return;
                    }
                    Some(Step::Abort(text)) => {
                        self.aborts.push(text.clone());
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
        let met = sent && matches!(self.steps.front(), Some(Step::Expect(text, _)) if self.ends_with(text));
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
            if self.steps.iter().all(|step| matches!(step, Step::Abort(_)) || *step == Step::Send(Vec::new())) {
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
        match self.steps.front() {
            Some(Step::Expect(text, _)) if self.pieces.is_empty() => {
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
