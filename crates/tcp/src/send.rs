//! The sending half: written data, data in flight, and what may be sent next.

use super::burst::{Paced, Train};
use super::config::{Config, CongestionControl};
use super::congestion::Algorithm;
use super::persist::Persist;
use super::rate::Delivery;
use super::recovery::{Prr, Rack};
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use super::undo::{Suspicion, Undo};
use super::usage::Usage;
use std::collections::VecDeque;
use wavelane_base::{Instant, Span};

/// Counters of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Segments sent, all kinds.
    pub segments: u64,
    /// Retransmitted segments with data, SYN or FIN, for whatever reason.
    pub retransmits: u64,
    /// Recoveries begun by acknowledgements.
    pub recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail loss probes.
    pub tail_probes: u64,
    /// Zero-window probes.
    pub window_probes: u64,
    /// Retransmissions reported as duplicates (D-SACK).
    pub needless: u64,
    /// Spurious reductions that were undone.
    pub undone: u64,
    /// Those of them that a timeout had caused.
    pub spurious_timeouts: u64,
    /// Reductions because of congestion marks.
    pub marks: u64,
    /// ICMP messages that reduced the segment size.
    pub mtu_reductions: u64,
    /// ICMP messages that quote nothing in flight.
    pub ignored_icmp: u64,
    /// Challenge acknowledgements sent.
    pub challenges: u64,
}

/// What is sent next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plan {
    /// A retransmission of the scoreboard entry at this index.
    Again(usize),
    /// This many new bytes of data, and perhaps our FIN.
    New { octets: u64, fin: bool },
}

/// State of loss recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Open,
    /// Fast recovery, or a reaction to a mark, until this is acknowledged.
    Recovery(u64),
    /// After a timeout, until this is acknowledged.
    Loss(u64),
}

/// A tail loss probe that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct TailProbe {
    pub(super) end: u64,
    pub(super) again: bool,
}

#[derive(Debug)]
pub(super) struct Sender {
    pub(super) config: Config,
    /// Data from `data_start` on; the bytes below `next` are in flight.
    pub(super) data: VecDeque<u8>,
    pub(super) data_start: u64,
    /// The first position not acknowledged.
    pub(super) una: u64,
    /// The next position never sent.
    pub(super) next: u64,
    /// Our FIN follows the last byte of data.
    pub(super) closing: bool,
    pub(super) fin_sent: bool,
    /// The peer's window, in bytes from `una`, and its maximum so far.
    pub(super) window: u64,
    pub(super) window_max: u64,
    pub(super) mss: u64,
    /// SACK was agreed.
    pub(super) sack: bool,
    pub(super) board: Scoreboard,
    pub(super) rack: Rack,
    pub(super) rtt: Rtt,
    pub(super) delivery: Delivery,
    pub(super) controller: Algorithm,
    pub(super) phase: Phase,
    pub(super) prr: Option<Prr>,
    pub(super) undo: Option<Undo>,
    pub(super) suspicion: Suspicion,
    pub(super) duplicates: usize,
    /// A recovery has begun, and its first retransmission is still to be sent.
    pub(super) repeat_due: bool,
    /// This recovery had a partial acknowledgement.
    pub(super) partial_seen: bool,
    pub(super) tail_probe: Option<TailProbe>,
    /// The next segment may exceed the congestion window.
    pub(super) tail_probe_due: bool,
    /// A window too small for full segments must be used now (SWS override).
    pub(super) force_small: bool,
    /// A zero-window probe is sent next.
    pub(super) window_probe_due: bool,
    pub(super) last_sent: Option<Instant>,
    pub(super) pace_next: Instant,
    pub(super) paced: Paced,
    pub(super) train: Train,
    pub(super) usage: Usage,
    pub(super) rto_at: Option<Instant>,
    pub(super) rack_at: Option<Instant>,
    pub(super) tail_at: Option<Instant>,
    pub(super) persist: Persist,
    /// Timeouts in a row without progress.
    pub(super) retries: u32,
    /// When the first of them was.
    pub(super) silent_since: Instant,
    /// See [`Config::probe`]: it is the one that tries, and the controller before the outage.
    pub(super) probes: bool,
    /// It was when its timeout last ran out.
    pub(super) tries: bool,
    pub(super) prior: Option<Algorithm>,
    /// Its side was silent and is heard again.
    pub(super) called_back: bool,
    /// Outages in a row that ended with the answer to a try, and nothing longer crossed since.
    pub(super) only_tries: u32,
    /// How often it was called in vain, and when last.
    pub(super) calls: (u32, Instant),
    /// What was written may go on: a small segment waits for the rest while an earlier small one, which ended there, is unacknowledged.
    pub(super) more: bool,
    pub(super) small_end: u64,
    /// Bytes that may be held.
    pub(super) spare: usize,
    /// Tell the peer that we reduced (CWR) with the next new data.
    pub(super) reduced_due: bool,
    pub(super) dice: u32,
    pub(super) counters: Counters,
}

/// Room at which a blocked writer is woken, as a share of the send buffer.
const WAKE_WRITER_SHARE: usize = 3;

impl Sender {
    pub(super) fn new(config: &Config, now: Instant, dice: u32) -> Self {
        let mss = u64::from(config.mss);
        Self {
            config: config.clone(),
            data: VecDeque::new(),
            data_start: 1,
            una: 0,
            next: 0,
            closing: false,
            fin_sent: false,
            window: 1,
            window_max: 0,
            mss,
            sack: false,
            board: Scoreboard::new(config.quirks.guess_arrivals),
            rack: Rack::default(),
            rtt: Rtt::new(config),
            delivery: Delivery::new(now),
            controller: Algorithm::new(config, now, mss, config.initial_window, config.sack, dice),
            phase: Phase::Open,
            prr: None,
            undo: None,
            suspicion: Suspicion::None,
            duplicates: 0,
            repeat_due: false,
            partial_seen: false,
            tail_probe: None,
            tail_probe_due: false,
            force_small: false,
            window_probe_due: false,
            last_sent: None,
            pace_next: Instant::ZERO,
            paced: Paced::default(),
            train: Train::default(),
            usage: Usage::default(),
            rto_at: None,
            rack_at: None,
            tail_at: None,
            persist: Persist::default(),
            retries: 0,
            silent_since: Instant::ZERO,
            probes: false,
            tries: false,
            prior: None,
            called_back: false,
            only_tries: 0,
            calls: (0, Instant::ZERO),
            more: false,
            small_end: 0,
            spare: usize::MAX,
            reduced_due: false,
            dice,
            counters: Counters::default(),
        }
    }

    /// Both sides' options are known: data may flow.
    pub(super) fn establish(&mut self, now: Instant, mss: u64, sack: bool) {
        self.mss = mss;
        self.sack = sack;
        self.controller = Algorithm::new(&self.config, now, mss, self.config.initial_window, sack, self.dice);
    }

    /// Our SYN is acknowledged; `lost` says whether it was retransmitted (RFC 5681, section 3.1: then the initial window is
    /// one segment, whichever side's SYN it was).
    pub(super) fn open(&mut self, now: Instant, lost: bool) {
        self.board.acknowledge(1, |_| {});
        self.una = 1;
        self.rto_at = None;
        self.rtt.progress();
        if lost {
            self.controller = Algorithm::new(&self.config, now, self.mss, 1, self.sack, self.dice);
            self.rtt.after_lost_syn();
        }
        self.phase = Phase::Open;
        self.retries = 0;
    }

    pub(super) fn note_syn_round_trip(&mut self, rtt: Span) {
        self.rtt.sample(rtt, self.una, self.next);
        self.rtt.note_min(rtt);
    }

    /// Whether nothing waits to be sent or acknowledged.
    pub(super) fn is_idle(&self) -> bool {
        self.board.is_empty() && self.data_end() <= self.next && (self.fin_sent || !self.closing)
    }

    /// The position behind the last byte written.
    pub(super) fn data_end(&self) -> u64 {
        self.data_start + self.data.len() as u64
    }
    fn unsent(&self) -> usize {
        self.data_end().saturating_sub(self.next.max(1)) as usize
    }
    /// Bytes sent and not acknowledged.
    pub(super) fn on_its_way(&self) -> usize {
        self.next.saturating_sub(self.una) as usize
    }
    pub(super) fn room(&self) -> usize {
        let room = self.config.send_buffer.min(self.spare).saturating_sub(self.data.len());
        self.config.unsent_low_water.map_or(room, |most| room.min(most.saturating_sub(self.unsent())))
    }
    /// Whether there is enough room to wake a blocked writer: a third of the buffer (Linux's `sk_stream_min_wspace`), and
    /// unsent bytes at half of their limit (its `tcp_stream_memory_free`).
    pub(super) fn has_worthy_room(&self) -> bool {
        let free = self.config.send_buffer.saturating_sub(self.data.len());
        let few = self.config.unsent_low_water.is_none_or(|most| 2 * self.unsent() <= most);
        few && free >= (self.config.send_buffer / WAKE_WRITER_SHARE).max(1)
    }
    pub(super) fn write(&mut self, bytes: &[u8]) -> usize {
        if self.closing {
            return 0;
        }
        let n = self.room().min(bytes.len());
        self.data.extend(&bytes[..n]);
        self.train.held = false;
        n
    }
    /// Bytes `start..end` of the stream, in the two pieces of the ring.
    pub(super) fn bytes(&self, start: u64, end: u64) -> [&[u8]; 2] {
        let (start, end) = (start.max(self.data_start), end.min(self.data_end()));
        if start >= end {
            return [&[], &[]];
        }
        let (from, to) = ((start - self.data_start) as usize, (end - self.data_start) as usize);
        let (head, tail) = self.data.as_slices();
        let cut = head.len();
        [&head[from.min(cut)..to.min(cut)], &tail[from.max(cut) - cut..to.max(cut) - cut]]
    }

    /// New data that the peer's window, Nagle and SWS avoidance allow to be sent (RFC 9293, section 3.8.6.2.1).
    pub(super) fn sendable(&self) -> Option<Plan> {
        // Before the handshake completes, only the SYN is sent.
        if self.una == 0 || self.fin_sent {
            return None;
        }
        let available = self.data_end() - self.next;
        let usable = (self.una + self.window).saturating_sub(self.next);
        let octets = available.min(self.mss).min(usable);
        let fin = self.closing && octets == available && octets < usable;
        if octets == 0 && !fin {
            return None;
        }
        let idle = self.board.is_empty();
        // Minshall's rule (RFC 896 as in Linux's `tcp_minshall_check`), for as long as the other half's sender fills its segments.
        let waits = self.more && self.small_end > self.una;
        let sensible = octets == self.mss
            || fin
            || (octets == available && (idle || !self.config.nagle && !waits))
            || (octets < available && 2 * octets >= self.window_max && self.window_max > 0)
            || self.force_small
            || self.tail_probe_due && octets == available;
        sensible.then_some(Plan::New { octets, fin })
    }

    /// What is sent next, ignoring pacing. Independent of the time.
    pub(super) fn plan(&self) -> Option<Plan> {
        if self.tail_probe_due {
            return self.sendable().or_else(|| self.board.len().checked_sub(1).map(Plan::Again));
        }
        let pipe = self.board.pipe();
        let room = self.controller.cwnd().saturating_sub(pipe);
        // During F-RTO, new data is more informative than a retransmission (RFC 5682, section 3.1, step 2.b).
        if self.suspicion == Suspicion::Trying
            && let Some(plan @ Plan::New { octets, .. }) = self.sendable()
        {
            return (pipe == 0 || octets <= room).then_some(plan);
        }
        if let Some(place) = self.board.first_lost() {
            let octets = self.board.get(place).map_or(0, |sent| sent.len());
            // Something must always be in flight, or the connection would stall. The first retransmission of a recovery is
            // sent whatever the window (RFC 6675, section 5, step 4.3); without SACK, so is the one that each partial
            // acknowledgement triggers (RFC 6582, section 3.2, step 4).
            let called_for = self.repeat_due || !self.sack && matches!(self.phase, Phase::Recovery(_));
            return (pipe == 0 || octets <= room || called_for).then_some(Plan::Again(place));
        }
        let plan = self.sendable().filter(|_| !self.train.held)?;
        let Plan::New { octets, .. } = plan else { return None };
        // A duplicate acknowledgement has reduced the pipe, so new data is sent (limited transmit, RFC 3042).
        (pipe == 0 || octets <= room).then_some(plan)
    }

    /// If only pacing holds back the next segment, until when.
    pub(super) fn paced(&self) -> Option<Instant> {
        (self.una > 0 && self.plan().is_some()).then_some(self.pace_next)
    }

    /// `plan` was sent; `pushed` says whether it had PSH.
    pub(super) fn sent(&mut self, now: Instant, plan: Plan, pushed: bool) {
        let in_flight = if self.board.is_empty() { 0 } else { self.board.pipe().max(1) };
        let octets = match plan {
            Plan::Again(place) => {
                // Only a segment that had left the pipe is added to it again.
                let added = self.board.get(place).filter(|sent| sent.lost).map_or(0, |sent| sent.len());
                let stamp = self.delivery.stamp(now, in_flight, added);
                self.board.sent_again(place, stamp);
                if place == 0 && self.sack && self.config.timer_from_repeat {
                    self.rto_at = None;
                }
                self.repeat_due = false;
                // Later segments are sent after it, and must not get an earlier send time.
                self.train = Train::default();
                self.note_repeat(now);
                self.counters.retransmits += 1;
                self.board.get(place).map_or(0, |sent| sent.len())
            }
            Plan::New { octets, fin } => {
                self.restart_after_idle(now);
                let end = self.next + octets + u64::from(fin);
                let stamp = self.delivery.stamp(self.train.begun(now), in_flight, end - self.next);
                self.board.push(self.next, end, stamp, pushed);
                self.next = end;
                self.fin_sent |= fin;
                if octets < self.mss {
                    self.small_end = end;
                }
                octets
            }
        };
        if let Some(prr) = &mut self.prr {
            prr.out += octets;
        }
        if std::mem::take(&mut self.tail_probe_due) {
            let again = matches!(plan, Plan::Again(_));
            self.tail_probe = self.board.back().map(|last| TailProbe { end: last.end, again });
        }
        self.force_small = false;
        self.usage.fresh = true;
        self.persist.at = None;
        self.last_sent = Some(now);
        if let Some(pace) = self.controller.pace(self.config.pacing, self.rtt.smoothed()) {
            self.note_paced(now, pace, octets);
        }
        if self.rto_at.is_none() {
            self.rto_at = Some(now + self.patience(now));
        }
        if matches!(plan, Plan::New { .. }) {
            self.arm_tail_probe(now);
        }
        self.note_app_limited();
    }

    fn restart_after_idle(&mut self, now: Instant) {
        let Some(last) = self.last_sent.filter(|_| self.board.is_empty()) else { return };
        if self.una > 0 && self.delivery.is_app_limited() && self.controller.on_restart(now) {
            self.delivery.note_restart();
        }
        let idle = now.since(last);
        if idle > self.rtt.rto() && self.una > 0 {
            self.controller.after_idle(idle, u64::from(self.config.initial_window) * self.mss);
        }
    }

    fn note_app_limited(&mut self) {
        let pipe = self.board.pipe();
        if self.data_end() <= self.next && self.board.lost() == 0 && pipe < self.controller.cwnd() {
            self.delivery.note_app_limited(pipe);
        }
    }

    pub(super) fn is_classic_reno(&self) -> bool {
        self.config.congestion == CongestionControl::Reno && !self.sack
    }
}
