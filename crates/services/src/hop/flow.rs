//! One flow: its state table, its two halves and its small frames.

use super::incoming::{Incoming, RECEIPT_DELAY};
use super::outgoing::Outgoing;
use super::shares::{Held, UnreadRoom};
use super::sure::{Sure, earliest};
use std::net::SocketAddr;
use wavelane_base::{Instant, Span};
use wavelane_transport::PathView;
use wavelane_wire::frame::{Answered, Passage, Reach, Reason, Word};

/// How long an opener that knows its Open arrived waits for the answer before it repeats the Open. The far connect may
/// legitimately take long; the repeat only guards against an answer that never comes.
pub(super) const OPEN_AGAIN: Span = Span::from_secs(3);

/// The state of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// We asked for it; no answer yet.
    Opening,
    /// The peer asked for it; our owner has not decided.
    Asked,
    /// Bytes may move both ways, each until its Finish.
    Open,
    /// Our owner reset it; what it wrote before, and the Reset itself, are still being delivered.
    Ending,
    /// Over for its owner; our last word is not known to have arrived.
    Done,
    /// In no table any more.
    Gone,
}

/// What moves a flow from state to state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    /// The peer's Answer accepted it.
    PeerAccepts,
    /// The peer's Answer refused it.
    PeerRefuses,
    /// Our owner accepted it.
    OwnerAccepts,
    /// Our owner, or a full table, refused it.
    OwnerRefuses,
    /// Our owner reset it: what it wrote is discarded.
    OwnerResets,
    /// Our owner reset it: what it wrote is delivered first.
    OwnerEnds,
    /// A Reset (one that follows bytes: once our owner has read them), or a receipt with state refuse.
    PeerResets,
    /// The peer restarted, forgot the flow or does not know it.
    PeerLostIt,
    /// Our direction is complete at the peer, and the owner has read the peer's to its end.
    BothEnded,
    /// The last Reset (and what goes before it), refusing Answer or Complete receipt arrived, or room was needed.
    LastWordArrived,
}

/// Every transition. What is not listed does not happen: the cause is ignored (owner) or counted as a protocol
/// error (peer).
pub(super) const TRANSITIONS: [(State, Cause, State); 22] = {
    use Cause::{
        BothEnded, LastWordArrived, OwnerAccepts, OwnerEnds, OwnerRefuses, OwnerResets, PeerAccepts, PeerLostIt,
        PeerRefuses, PeerResets,
    };
    use State::{Asked, Done, Ending, Gone, Open, Opening};
    [
        (Opening, PeerAccepts, Open),
        (Opening, PeerRefuses, Gone),
        (Opening, OwnerResets, Done),
        (Opening, PeerResets, Gone),
        (Opening, PeerLostIt, Gone),
        (Asked, OwnerAccepts, Open),
        (Asked, OwnerRefuses, Done),
        (Asked, OwnerResets, Done),
        (Asked, PeerResets, Gone),
        (Asked, PeerLostIt, Gone),
        (Open, BothEnded, Done),
        (Open, OwnerResets, Done),
        (Open, OwnerEnds, Ending),
        (Open, PeerResets, Gone),
        (Open, PeerLostIt, Gone),
        (Ending, OwnerResets, Done),
        (Ending, LastWordArrived, Gone),
        (Ending, PeerResets, Gone),
        (Ending, PeerLostIt, Gone),
        (Done, LastWordArrived, Gone),
        (Done, PeerResets, Gone),
        (Done, PeerLostIt, Gone),
    ]
};

impl State {
    /// Where `cause` leads from here.
    pub(super) fn next(self, cause: Cause) -> Option<State> {
        TRANSITIONS.iter().find(|(from, why, _)| *from == self && *why == cause).map(|(_, _, to)| *to)
    }
}

/// What a flow that is done still has to deliver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LastWord {
    Receipt,
    Answer,
    Reset,
}

/// Longest delay of a word to the other edge: until then it may ride with other frames.
pub(super) const PROGRESS_DELAY: Span = Span::from_millis(100);

/// Additional state of a flow across relays: the two edges' words to each other.
#[derive(Debug, Default)]
pub(super) struct Across {
    /// The word we send next or sent last.
    pub(super) ours: Reach,
    pub(super) our_word: Option<Word>,
    pub(super) word: Sure,
    word_at: Option<Instant>,
    /// The furthest reach that the other edge reported.
    pub(super) theirs: Reach,
    pub(super) their_word: Option<Word>,
    /// Our VTX offer, and the bytes it asks for until it is answered.
    pub(super) vtx: Sure,
    pub(super) asked: Option<(u64, u64)>,
    /// We made one since we last heard the other edge.
    pub(super) awaits_word: bool,
    /// When the peer's newest was taken.
    pub(super) vtx_at: Option<Instant>,
    /// Our answer to it: the first byte it asked for, and the ranges held here.
    pub(super) answer: Sure,
    pub(super) here: (u64, Vec<(u64, u64)>),
}

/// Whether an edge's statement is newer than its previous one: words are numbered; a reach without a word only grows.
pub(super) fn is_news(before: (Reach, Option<Word>), (reach, word): (Reach, Option<Word>)) -> bool {
    match (before.1, word) {
        (Some(before), Some(word)) => word.count > before.count,
        (None, Some(_)) => true,
        (_, None) => reach > before.0,
    }
}

impl Across {
    /// Sends news at once if `at_once`, else within [`PROGRESS_DELAY`].
    fn say(&mut self, now: Instant, (reach, word): (Reach, Option<Word>), at_once: bool) {
        if !is_news((self.ours, self.our_word), (reach, word)) {
            return;
        }
        self.ours = reach;
        self.our_word = word;
        if at_once || reach.finished {
            self.word_at = None;
            self.word.ask();
        } else if self.word_at.is_none() {
            self.word_at = Some(now + PROGRESS_DELAY);
        }
    }
    fn tick(&mut self, now: Instant) {
        self.word.tick(now);
        self.vtx.tick(now);
        self.answer.tick(now);
        if self.word_at.is_some_and(|at| at <= now) {
            self.word_at = None;
            self.word.ask();
        }
    }
    fn deadline(&self) -> Option<Instant> {
        earliest([self.word.deadline(), self.word_at, self.vtx.deadline(), self.answer.deadline()])
    }
    /// Whether one of its frames is to be written.
    fn is_due(&self) -> bool {
        self.word.due || self.vtx.due || self.answer.due
    }
    /// Both edges know that both directions were taken to their ends.
    fn is_settled(&self) -> bool {
        self.theirs.finished && self.ours.finished && self.word.arrived
    }
}

/// Which of the hop's rings, and whether its set of receipts, a flow is in: most changes to a flow change none of them.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) greeters: bool,
    pub(super) control: bool,
    pub(super) micro: bool,
    pub(super) bulk: bool,
    pub(super) held_back: bool,
    pub(super) receipts: bool,
}

/// One flow.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) state: State,
    pub(super) source: SocketAddr,
    pub(super) target: SocketAddr,
    pub(super) passage: Option<Passage>,
    /// What the answerer says, if relays lie between.
    pub(super) answered: Option<Answered>,
    /// Set once it is known that relays lie between the edges.
    pub(super) across: Option<Box<Across>>,
    pub(super) open: Sure,
    pub(super) open_again_at: Option<Instant>,
    pub(super) answer: Sure,
    pub(super) refusal: Option<Reason>,
    pub(super) reset: Sure,
    pub(super) reason: Reason,
    /// The peer's owner reset it: the reason, and whether it had ended its direction before. Our owner reads what was written
    /// until then.
    pub(super) ended_by_peer: Option<(Reason, bool)>,
    pub(super) last_word: LastWord,
    pub(super) out: Outgoing,
    pub(super) inc: Incoming,
    /// The owner waits for a readable event.
    pub(super) reader_waits: bool,
    /// When its bytes last moved, and when to check that.
    pub(super) moved_at: Instant,
    idle_at: Option<Instant>,
    /// Deficit round robin's account.
    pub(super) deficit: i64,
    /// Its timer in the hop's table.
    pub(super) timer: Option<Instant>,
    pub(super) listed: Listed,
    /// Whether it is in the hop's `unheard` set, and in the two of `offers`.
    pub(super) unheard: bool,
    pub(super) quiet: bool,
    pub(super) offering: bool,
    /// What the hop's totals count for this flow.
    pub(super) counted: Held,
}

impl Flow {
    pub(super) fn new(state: State, source: SocketAddr, target: SocketAddr, passage: Option<Passage>) -> Self {
        Self {
            state,
            source,
            target,
            passage,
            answered: None,
            across: None,
            open: Sure::default(),
            open_again_at: None,
            answer: Sure::default(),
            refusal: None,
            reset: Sure::default(),
            reason: Reason::Aborted,
            ended_by_peer: None,
            last_word: LastWord::Receipt,
            out: Outgoing::default(),
            inc: Incoming::default(),
            reader_waits: true,
            moved_at: Instant::ZERO,
            idle_at: None,
            deficit: 0,
            timer: None,
            listed: Listed::default(),
            unheard: false,
            quiet: false,
            offering: false,
            counted: Held::default(),
        }
    }

    /// Whether an Open or Answer is to be written.
    pub(super) fn wants_greeting(&self) -> bool {
        match self.state {
            State::Opening => self.open.due,
            State::Open | State::Ending => self.answer.due,
            State::Done => self.last_word == LastWord::Answer && self.answer.due,
            State::Asked | State::Gone => false,
        }
    }
    /// Whether another small frame is to be written now.
    pub(super) fn wants_control(&self) -> bool {
        match self.state {
            State::Opening => self.inc.receipt_now,
            State::Open => {
                self.inc.receipt_now
                    || self.out.finish_due()
                    || self.out.query.due
                    || self.across.as_ref().is_some_and(|across| across.is_due())
            }
            State::Ending => self.reset.due || self.out.query.due,
            State::Done => match self.last_word {
                LastWord::Receipt => self.inc.receipt_now,
                LastWord::Answer => false,
                LastWord::Reset => self.reset.due,
            },
            State::Asked | State::Gone => false,
        }
    }
    /// Whether bytes are to be written now.
    pub(super) fn wants_data(&self) -> bool {
        self.is_sending() && self.out.has_data()
    }
    /// Whether written bytes are being delivered.
    pub(super) fn is_sending(&self) -> bool {
        matches!(self.state, State::Open | State::Ending)
    }
    /// Whether bytes may still be written: not if they would not be read.
    pub(super) fn takes_bytes(&self) -> bool {
        matches!(self.state, State::Opening | State::Open) && self.out.fin.is_none() && self.ended_by_peer.is_none()
    }
    /// Whether the flow is over for our owner.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Ending | State::Done)
    }
    /// Whether the last word arrived.
    pub(super) fn is_gone(&self) -> bool {
        match self.state {
            // An opener without the answer cannot take what was written.
            State::Ending => {
                let answered = !self.answer.due && !self.answer.flying();
                answered && self.reset.arrived && self.out.is_drained()
            }
            State::Done => match self.last_word {
                LastWord::Receipt => self.inc.complete_arrived,
                LastWord::Answer => self.answer.arrived,
                LastWord::Reset => self.reset.arrived,
            },
            State::Opening | State::Asked | State::Open | State::Gone => false,
        }
    }
    /// Whether to tell the owner that there is something to read; true once until it has read all.
    pub(super) fn wakes_reader(&mut self) -> bool {
        let wakes = self.state == State::Open && self.reader_waits && self.inc.readable();
        self.reader_waits &= !wakes;
        wakes
    }
    /// Whether both directions ended.
    pub(super) fn has_ended(&self) -> bool {
        self.state == State::Open
            && self.out.complete
            && self.inc.end_read
            && self.across.as_ref().is_none_or(|across| across.is_settled())
    }
    /// Why the peer's owner reset it, once our owner has read everything before the reset.
    pub(super) fn was_ended_by_peer(&self) -> Option<Reason> {
        let all_read = self.state == State::Open && self.inc.end_read;
        self.ended_by_peer.filter(|_| all_read).map(|(reason, _)| reason)
    }
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Opening => earliest([self.open.deadline(), self.open_again_at, self.inc.receipt_at]),
            State::Open => {
                let word = self.across.as_ref().and_then(|across| across.deadline());
                let (receipt, pass) = (self.inc.receipt_at, self.inc.pass_at);
                earliest([self.answer.deadline(), receipt, pass, self.out.deadline(), word, self.idle_at])
            }
            State::Ending => {
                earliest([self.answer.deadline(), self.reset.deadline(), self.out.deadline(), self.idle_at])
            }
            State::Done => earliest([self.answer.deadline(), self.reset.deadline(), self.inc.receipt_at]),
            State::Asked | State::Gone => None,
        }
    }
    /// Time has passed. Returns whether a question became due.
    pub(super) fn tick(&mut self, now: Instant) -> bool {
        self.open.tick(now);
        self.answer.tick(now);
        self.reset.tick(now);
        self.inc.tick(now);
        if let Some(across) = &mut self.across {
            across.tick(now);
        }
        if self.open_again_at.is_some_and(|at| at <= now) {
            self.open_again_at = None;
            self.open.ask();
        }
        self.is_sending() && self.out.tick(now)
    }
    /// Bytes of it move.
    pub(super) fn moves(&mut self, now: Instant, moves: bool) {
        if moves {
            self.moved_at = now;
        }
    }
    /// Arms or disarms the idle check.
    pub(super) fn watch_idle(&mut self, idle: Option<Span>) {
        if !self.is_sending() || idle.is_none() {
            self.idle_at = None;
        } else if self.idle_at.is_none() {
            self.idle_at = idle.map(|idle| self.moved_at + idle);
        }
    }
    /// Time has passed. Returns whether nothing moved for `idle`.
    pub(super) fn tick_idle(&mut self, now: Instant, idle: Option<Span>) -> bool {
        if self.idle_at.is_none_or(|at| at > now) {
            return false;
        }
        // Set again when the flow settles.
        self.idle_at = None;
        let over = idle.is_some_and(|idle| self.moved_at + idle <= now);
        if over {
            self.moved_at = now;
        }
        over
    }
    /// Says to the other edge how far its bytes were taken. Nothing happens without relays.
    pub(super) fn say(&mut self, now: Instant, said: (Reach, Option<Word>), at_once: bool) {
        if let Some(across) = &mut self.across {
            across.say(now, said, at_once);
        }
    }
    /// What it holds now.
    pub(super) fn holds(&self) -> Held {
        let unsent = self.out.unsent();
        Held {
            to_send: self.out.buffered() + self.out.again.octets(),
            unsent,
            waiting: u64::from(unsent > 0),
            unread: self.inc.buffered(),
            unproven: u64::from(self.state != State::Done && self.inc.is_unproven()),
        }
    }
    /// The credit to grant now.
    pub(super) fn promise(&mut self, now: Instant, path: &PathView, room: UnreadRoom) {
        let target = self.inc.credit_target(now, &round(path), room);
        self.inc.promise(target);
    }
    /// A receipt goes now if the credit moved enough.
    pub(super) fn consider_credit(&mut self, now: Instant, path: &PathView, room: UnreadRoom) {
        let target = self.inc.credit_target(now, &round(path), room);
        // Where receipts are to be rare, one already scheduled will carry the credit.
        let told = path.told_apart > RECEIPT_DELAY && self.inc.receipt_at.is_some();
        if self.state == State::Open && !told && self.inc.credit_moved(target) {
            self.inc.receipt_now = true;
        }
    }
}

/// The path as credit sees it: with rare receipts, their interval adds to the RTT.
pub(super) fn round(path: &PathView) -> PathView {
    let rare = if path.told_apart > RECEIPT_DELAY { path.told_apart } else { Span::ZERO };
    PathView { rtt: path.rtt + rare, ..*path }
}
