//! One connection: its owner's commands, and the segments it sends.

use super::config::{Config, Keepalive};
use super::numbers::Numbers;
use super::receive::Receiver;
use super::send::{Counters, Phase, Sender};
use super::state::ConnectionState;
use std::net::SocketAddr;
use wavelane_base::{Instant, ReadOutcome, Span, Wakeup};
use wavelane_settings::Freeze;

/// A send buffer holds so many times what is on its way, or ...
const SEND_WINDOWS: usize = 4;
/// ... so much: policy.
const SEND_FIRST: usize = 64 << 10;
/// Challenge acknowledgements in any [`CHALLENGE_TIME`] (RFC 5961, section 7).
const CHALLENGES_MAX: u32 = 10;
const CHALLENGE_TIME: Span = Span::from_secs(5);

/// Duplicates of an acknowledgement that tell of a loss (RFC 5681, section 3.2).
const DUPLICATES: u32 = 3;
/// How much longer IPv6's header is than IPv4's.
const IPV6_LONGER: u16 = 20;

/// What a connection reports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TcpEvent {
    /// Both directions are open.
    Connected,
    /// There is data to read, or the end of the peer's direction.
    Readable,
    /// There is room after a write that was accepted only in part.
    Writable,
    /// Both directions ended in an orderly way and nothing is left to do.
    Closed,
    /// The peer refused the connection.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// The peer did not answer for too long.
    TimedOut,
}

/// A connection's view of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// State.
    pub state: ConnectionState,
    /// Congestion window, in bytes.
    pub cwnd: u64,
    /// Slow start threshold in bytes; `None` if the algorithm has none.
    pub ssthresh: Option<u64>,
    /// Bytes believed to be in the network.
    pub pipe: u64,
    /// Smoothed round trip.
    pub rtt: Option<Span>,
    /// Current retransmission timeout.
    pub rto: Span,
    /// Whether a loss recovery is under way.
    pub repairing: bool,
    /// Payload bytes per segment as agreed.
    pub mss: u64,
    /// Counters.
    pub counters: Counters,
}

/// A TCP connection as a sans-IO machine. Segments come in through [`Connection::handle_segment`].
#[derive(Debug)]
pub struct Connection {
    pub(super) config: Config,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) state: ConnectionState,
    pub(super) passive: bool,
    /// Initial sequence numbers, ours and theirs.
    pub(super) iss: u32,
    pub(super) irs: u32,
    /// Offset of our timestamp clock from the time.
    pub(super) stamp_offset: u32,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// The peer's window shift.
    pub(super) peer_shift: u8,
    /// The position and acknowledgement of the segment that last set the window (RFC 9293's SND.WL1, SND.WL2).
    pub(super) window_from: (u64, u64),
    /// Timestamps in use; the latest of the peer's, and when it arrived.
    pub(super) stamps: bool,
    pub(super) recent_stamp: (u32, Instant),
    /// The acknowledgement last sent (RFC 7323's Last.ACK.sent).
    pub(super) last_ack: u64,
    /// Congestion marks in use.
    pub(super) marks: bool,
    /// Echo a congestion mark until the peer says that it reduced.
    pub(super) echo_mark: bool,
    pub(super) challenges: (Instant, u32),
    /// A reset is sent next.
    pub(super) reset_due: bool,
    pub(super) linger_at: Option<Instant>,
    /// Keepalive: the next probe, and how many went unanswered.
    pub(super) keepalive: Option<(Instant, u32)>,
    pub(super) keepalive_due: bool,
    pub(super) writer_waits: bool,
    /// Closed, and unread data is discarded.
    pub(super) discarded: bool,
    /// The owner has seen the end of the peer's direction.
    pub(super) end_seen: bool,
    /// Events not yet taken, by [`TcpEvent`]'s order.
    pub(super) events: [bool; 7],
}

impl Connection {
    /// A connection that begins with our SYN.
    pub fn connect(now: Instant, config: &Config, local: SocketAddr, remote: SocketAddr, numbers: Numbers) -> Self {
        let mut this = Self::new(now, config, local, remote, numbers, ConnectionState::SynSent);
        this.send_syn(now);
        this
    }

    pub(super) fn new(
        now: Instant,
        config: &Config,
        local: SocketAddr,
        remote: SocketAddr,
        numbers: Numbers,
        state: ConnectionState,
    ) -> Self {
        let mut config = config.clone();
        if remote.is_ipv6() {
            config.mss = config.mss.saturating_sub(IPV6_LONGER);
        }
        let config = &config;
        Self {
            config: config.clone(),
            local,
            remote,
            state,
            passive: false,
            iss: numbers.iss,
            irs: 0,
            stamp_offset: numbers.stamps,
            sender: Sender::new(config, now, numbers.dice),
            receiver: Receiver::new(config, now),
            peer_shift: 0,
            window_from: (0, 0),
            stamps: config.timestamps,
            recent_stamp: (0, now),
            last_ack: 0,
            marks: config.ecn,
            echo_mark: false,
            challenges: (now, 0),
            reset_due: false,
            linger_at: None,
            keepalive: None,
            keepalive_due: false,
            writer_waits: false,
            discarded: false,
            end_seen: false,
            events: [false; 7],
        }
    }

    /// Our SYN is due; it is in the scoreboard as a lost segment until it is sent.
    pub(super) fn send_syn(&mut self, now: Instant) {
        let sender = &mut self.sender;
        let stamp = sender.delivery.stamp(now, 0, 1);
        sender.board.push(0, 1, stamp, false);
        sender.board.mark_lost(0);
        sender.next = 1;
    }

    /// The state.
    pub fn state(&self) -> ConnectionState {
        self.state
    }
    /// (ours, theirs).
    pub fn addresses(&self) -> (SocketAddr, SocketAddr) {
        (self.local, self.remote)
    }
    /// Its view of itself.
    pub fn status(&self) -> Status {
        let sender = &self.sender;
        Status {
            state: self.state,
            cwnd: sender.controller.cwnd(),
            ssthresh: sender.controller.ssthresh(),
            pipe: sender.board.pipe(),
            rtt: sender.rtt.smoothed(),
            rto: sender.rtt.rto(),
            repairing: sender.phase != Phase::Open,
            mss: sender.mss,
            counters: sender.counters,
        }
    }

    /// Whether it waits for an answer beyond its timeout, in an outage that its configuration knows of.
    pub(super) fn is_silent(&self) -> bool {
        let counts = self.config.probe.is_some() && self.sender.una > 0 && self.state != ConnectionState::Closed;
        counts && self.sender.retries > 0
    }
    /// Whether it waits for the answer to its SYN, and that had this sequence number.
    pub fn is_opening_with(&self, seq: u32) -> bool {
        self.state == ConnectionState::SynSent && self.iss == seq
    }
    /// If data or our FIN is unacknowledged, how far the peer has acknowledged.
    pub fn undelivered(&self) -> Option<u64> {
        let over = self.state == ConnectionState::Closed;
        let waits = !self.sender.board.is_empty() || self.sender.data_end() > self.sender.una;
        (waits && !over).then_some(self.sender.una)
    }
    /// Bytes that wait to be read, holes included, and the round trip measured by the receiver.
    pub fn receiving(&self) -> (usize, Option<Span>) {
        (self.receiver.held(), self.receiver.round_trip().0.or(self.sender.rtt.smoothed()))
    }
    /// Bytes that may wait here to be read, and to be sent. What is to be sent is some windows of what is on its way, no more:
    /// a reader that stopped has nothing on its way, and would take from all others what it never reads.
    pub(super) fn set_spare(&mut self, [to_read, to_send]: [usize; 2]) {
        let useful = (self.sender.on_its_way() * SEND_WINDOWS).max(SEND_FIRST);
        self.receiver.spare = to_read;
        self.sender.spare = to_send.min(useful);
    }
    /// Bytes that wait to be read or may come, and those that wait to be sent or acknowledged.
    pub(super) fn committed(&self) -> [usize; 2] {
        let receiver = &self.receiver;
        [
            if self.state.receives() || self.state.opens() { receiver.committed() } else { receiver.held() },
            self.sender.data.len(),
        ]
    }
    /// Bytes in its buffers.
    pub(super) fn held(&self) -> usize {
        self.receiver.held() + self.sender.data.len()
    }
    /// See [`super::Host::set_receive_buffer`].
    pub fn set_receive_buffer(&mut self, octets: usize) {
        self.receiver.resize(octets);
    }

    /// A gap is near: see [`Config::freeze`].
    pub(super) fn freeze(&mut self) {
        if self.config.freeze.is_some() && self.state.receives() && !self.receiver.frozen {
            self.receiver.frozen = true;
            self.receiver.owe();
        }
    }
    /// It is over.
    pub(super) fn thaw(&mut self) {
        if std::mem::take(&mut self.receiver.frozen) && self.state.receives() {
            let more = if self.config.freeze == Some(Freeze::Three) { DUPLICATES } else { 0 };
            (0..=more).for_each(|_| self.receiver.owe());
        }
    }

    /// Accepts as many bytes as there is room for; fewer than all means wait for [`TcpEvent::Writable`].
    pub fn write(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let open = matches!(
            self.state,
            ConnectionState::SynSent
                | ConnectionState::SynReceived
                | ConnectionState::Established
                | ConnectionState::CloseWait
        );
        if !open {
            return 0;
        }
        let n = self.sender.write(bytes);
        self.writer_waits |= n < bytes.len();
        self.sender.arm_persist(now);
        n
    }

    /// Reads into `buf`.
    pub fn read(&mut self, now: Instant, buf: &mut [u8]) -> ReadOutcome {
        let rtt = self.sender.rtt.smoothed();
        match self.receiver.read(now, rtt, buf) {
            0 if self.receiver.is_at_end() => {
                self.end_seen = true;
                ReadOutcome::End
            }
            0 if self.state == ConnectionState::Closed => ReadOutcome::Reset,
            0 => ReadOutcome::Blocked,
            n => ReadOutcome::Data(n),
        }
    }

    /// Ends our direction after everything written. The other direction goes on.
    pub fn shutdown(&mut self, now: Instant) {
        if self.sender.closing {
            return;
        }
        match self.state {
            ConnectionState::Established => self.enter(ConnectionState::FinWait1),
            ConnectionState::CloseWait => self.enter(ConnectionState::LastAck),
            ConnectionState::SynSent | ConnectionState::SynReceived => {}
            _ => return,
        }
        self.sender.closing = true;
        self.sender.arm_persist(now);
    }

    /// Abandons both directions; the peer is told by a reset.
    pub fn reset(&mut self) {
        self.reset_due =
            !matches!(self.state, ConnectionState::SynSent | ConnectionState::TimeWait | ConnectionState::Closed);
        self.discarded = true;
        self.finish(None);
    }

    /// Whether nothing more will be sent, reported or read: the owner may drop it. After an orderly close this requires a
    /// read that returned [`ReadOutcome::End`].
    pub fn is_done(&self) -> bool {
        let read = self.discarded || self.end_seen;
        self.state == ConnectionState::Closed && !self.reset_due && read && self.events == [false; 7]
    }

    pub(super) fn enter(&mut self, to: ConnectionState) {
        assert!(self.state.may_become(to), "no way leads from {:?} to {to:?}", self.state);
        self.state = to;
    }

    pub(super) fn finish(&mut self, event: Option<TcpEvent>) {
        if self.state != ConnectionState::Closed {
            self.enter(ConnectionState::Closed);
            self.events[TcpEvent::Writable as usize] = false;
            self.linger_at = None;
            self.keepalive = None;
            self.receiver.owed = 0;
            self.receiver.ack_at = None;
            self.receiver.compression.told();
            self.discarded |= event != Some(TcpEvent::Closed);
            event.into_iter().for_each(|event| self.report(event));
        }
    }

    pub(super) fn report(&mut self, event: TcpEvent) {
        self.events[event as usize] = true;
    }

    /// The next report.
    pub fn poll_event(&mut self) -> Option<TcpEvent> {
        const ORDER: [TcpEvent; 7] = [
            TcpEvent::Connected,
            TcpEvent::Readable,
            TcpEvent::Writable,
            TcpEvent::Closed,
            TcpEvent::Refused,
            TcpEvent::Reset,
            TcpEvent::TimedOut,
        ];
        ORDER.into_iter().find(|event| std::mem::take(&mut self.events[*event as usize]))
    }

    /// The next deadline.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        if self.state == ConnectionState::Closed {
            return None;
        }
        let at = |at: Option<Instant>, cause| at.map(|at| Wakeup { at, cause });
        let mut next = at(self.receiver.ack_at, "delayed acknowledgement");
        for other in [
            at(self.receiver.compression.at, "compressed acknowledgement"),
            at(self.linger_at, "end of TIME-WAIT"),
            at(self.keepalive.map(|(at, _)| at), "keepalive"),
            if self.state == ConnectionState::TimeWait { None } else { self.sender.deadline() },
        ] {
            next = Wakeup::earliest(next, other);
        }
        next
    }

    /// Tells the connection that time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.state == ConnectionState::Closed {
            return;
        }
        self.receiver.on_timeout(now);
        if self.linger_at.is_some_and(|at| at <= now) {
            return self.finish(Some(TcpEvent::Closed));
        }
        if self.sender.on_timeout(now) {
            self.reset_due = self.state.is_synchronised();
            return self.finish(Some(TcpEvent::TimedOut));
        }
        if let (Some((at, unanswered)), Some(Keepalive { interval, probes, .. })) =
            (self.keepalive, self.config.keepalive)
            && at <= now
        {
            if !self.sender.is_idle() {
                // The retransmission and persist timers probe now, and give up (RFC 9293, MUST-26).
                self.note_alive(now);
            } else if unanswered >= probes {
                self.reset_due = true;
                return self.finish(Some(TcpEvent::TimedOut));
            } else {
                self.keepalive = Some((now + interval, unanswered + 1));
                self.keepalive_due = true;
            }
        }
        self.sender.arm_persist(now);
    }

    /// The peer sent a segment: keepalive starts anew.
    pub(super) fn note_alive(&mut self, now: Instant) {
        let counts =
            matches!(self.state, ConnectionState::Established | ConnectionState::CloseWait | ConnectionState::FinWait2);
        self.keepalive = self.config.keepalive.filter(|_| counts).map(|keepalive| (now + keepalive.idle, 0));
    }

    /// Our timestamp clock: milliseconds, with an offset per pair of addresses (RFC 7323, section 5.4).
    pub(super) fn clock(&self, now: Instant) -> u32 {
        ((now.as_nanos() / 1_000_000) as u32).wrapping_add(self.stamp_offset)
    }

    /// RFC 5961: a possibly forged segment is answered with a rate-limited challenge ACK.
    pub(super) fn challenge(&mut self, now: Instant) {
        if now.since(self.challenges.0) >= CHALLENGE_TIME {
            self.challenges = (now, 0);
        }
        if self.challenges.1 < CHALLENGES_MAX {
            self.challenges.1 += 1;
            self.sender.counters.challenges += 1;
            self.receiver.owe();
        }
    }
}

/// The peer does not scale its window.
pub(super) const NO_SHIFT: u8 = u8::MAX;
