//! When people do what: pages and their objects, spurts of datagrams. The place that runs it decides what is sent, and
//! over what; places with the same dice do the same at the same times.

use wavelane_base::{Chance, Instant, Span, maths};
use wavelane_scenario::Web;

/// Pages and how they are read; times are exponential, sizes of objects Pareto of the second kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pages {
    /// Bytes of the document that names the objects; `None` if they are known at once.
    pub document: Option<u64>,
    /// Objects of a page besides.
    pub objects: u32,
    /// Mean bytes of an object.
    pub size: u64,
    /// Shape of the sizes, above 1.
    pub shape: f64,
    /// Objects asked for at once.
    pub parallel: u32,
    /// Mean time between two requests of a page.
    pub gap: Span,
    /// Mean time from a page's end to the next.
    pub think: Span,
    /// Pages read; `None` reads until stopped.
    pub count: Option<u32>,
}

impl From<&Web> for Pages {
    fn from(web: &Web) -> Self {
        Self {
            document: web.document.map(|d| d.get()),
            objects: web.objects,
            size: web.size.get(),
            shape: web.shape,
            parallel: web.parallel,
            gap: web.gap,
            think: web.think,
            count: web.pages,
        }
    }
}

/// Largest object: sizes without a mean square are unbounded.
const OBJECT_MAX: f64 = (1u64 << 40) as f64;

/// Who reads pages: when one begins, and which object is asked for next.
#[derive(Debug)]
pub struct Reader {
    pages: Pages,
    dice: Chance,
    state: State,
    /// Pages begun.
    begun: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Until the next page.
    Thinking(Instant),
    /// Objects of the page still to be asked for, and when the next one may be.
    Loading { left: u32, next: Instant, document: bool },
    /// The last page has been read.
    Over,
}

/// What a reader does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Asks for an object of this size, of this page.
    Ask {
        /// From 0.
        page: u32,
        /// In bytes.
        size: u64,
    },
    /// Waits: for what is open, or until then.
    Wait(Option<Instant>),
    /// Nothing more.
    End,
}

impl Reader {
    /// A reader who begins with thinking.
    pub fn new(now: Instant, pages: Pages, mut dice: Chance) -> Self {
        let first = now + dice.exponential(pages.think);
        Self { pages, dice, state: State::Thinking(first), begun: 0 }
    }

    /// The next step, when `open` objects have been asked for and are not there yet.
    pub fn step(&mut self, now: Instant, open: usize) -> Step {
        loop {
            match self.state {
                State::Over => return Step::End,
                State::Thinking(until) if until > now => return Step::Wait(Some(until)),
                State::Thinking(_) => {
                    self.begun += 1;
                    let document = self.pages.document.is_some();
                    self.state = State::Loading { left: self.pages.objects, next: now, document };
                }
                State::Loading { left, next, document: true } => {
                    self.state = State::Loading { left, next, document: false };
                    return Step::Ask { page: self.begun - 1, size: self.pages.document.unwrap_or(1) };
                }
                State::Loading { left: 0, .. } if open == 0 => {
                    self.state = if self.pages.count == Some(self.begun) {
                        State::Over
                    } else {
                        State::Thinking(now + self.dice.exponential(self.pages.think))
                    };
                }
                State::Loading { left, next, .. } => {
                    // The document names the objects: until it is there nothing else can be asked for.
                    let reads_document = self.pages.document.is_some() && left == self.pages.objects;
                    let most = if reads_document { 1 } else { self.pages.parallel as usize };
                    if left == 0 || open >= most {
                        return Step::Wait(None);
                    }
                    if next > now {
                        return Step::Wait(Some(next));
                    }
                    let gap =
                        if self.pages.gap == Span::ZERO { Span::ZERO } else { self.dice.exponential(self.pages.gap) };
                    self.state = State::Loading { left: left - 1, next: now + gap, document: false };
                    return Step::Ask { page: self.begun - 1, size: self.size() };
                }
            }
        }
    }

    /// Pareto of the second kind: `scale ((1 - u)^(-1 / shape) - 1)` with the scale that gives the mean.
    fn size(&mut self) -> u64 {
        let Pages { size, shape, .. } = self.pages;
        let scale = size as f64 * (shape - 1.0);
        let drawn = scale * (maths::power(1.0 - self.dice.unit(), -1.0 / shape) - 1.0);
        drawn.ceil().clamp(1.0, OBJECT_MAX) as u64
    }
}

/// A source that sends datagrams at fixed intervals in spurts of exponential length, after silences of exponential
/// length.
#[derive(Debug)]
pub struct Spurt {
    dice: Chance,
    every: Span,
    on: Span,
    off: Span,
    /// When the next datagram is due, if the spurt lasts until then.
    next: Instant,
    until: Instant,
}

impl Spurt {
    /// One that begins with a silence. The first datagram of a spurt comes `every` after its start.
    pub fn new(now: Instant, dice: Chance, every: Span, (on, off): (Span, Span)) -> Self {
        let mut spurt = Self { dice, every, on, off, next: now, until: now };
        spurt.renew();
        spurt
    }
    /// Draws the spurt after the silence that begins at the end of this one.
    fn renew(&mut self) {
        let start = self.until + self.dice.exponential(self.off);
        self.until = start + self.dice.exponential(self.on);
        self.next = start + self.every;
    }
    /// When the next datagram is due.
    pub fn due(&mut self) -> Instant {
        while self.next > self.until {
            self.renew();
        }
        self.next
    }
    /// It is sent.
    pub fn send(&mut self) {
        self.next += self.every;
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
