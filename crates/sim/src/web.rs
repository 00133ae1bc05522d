//! Who reads pages: when a page begins, and which object is asked for next. The connections are the engine's.

use crate::traffic::Pages;
use wavelane_base::{Chance, Instant, Span, maths};

/// Largest object: sizes without a mean square have no end.
const OBJECT_MAX: f64 = (1u64 << 40) as f64;

/// One reader.
#[derive(Debug)]
pub(crate) struct Reader {
    pages: Pages,
    dice: Chance,
    state: State,
    /// Pages begun.
    begun: u32,
    /// Objects asked for and not there yet: the exchange's place in the log, and the flow that fetches it.
    pub(crate) open: Vec<(usize, usize)>,
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
pub(crate) enum Step {
    /// Asks for an object of this size, of this page.
    Ask { page: u32, size: u64 },
    /// Waits: for what is open, or until then.
    Wait(Option<Instant>),
    /// Nothing any more.
    End,
}

impl Reader {
    /// A reader who begins with thinking.
    pub(crate) fn new(now: Instant, pages: Pages, mut dice: Chance) -> Self {
        let first = now + dice.exponential(pages.think);
        Self { pages, dice, state: State::Thinking(first), begun: 0, open: Vec::new() }
    }

    /// The next step, once `open` says what is still on its way.
    pub(crate) fn step(&mut self, now: Instant) -> Step {
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
                State::Loading { left: 0, .. } if self.open.is_empty() => {
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
                    if left == 0 || self.open.len() >= most {
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

#[cfg(test)]
#[path = "web_tests.rs"]
mod tests;
