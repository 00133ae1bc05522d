//! Scripted packets: one connection, and a peer that is this test.

use super::*;
use wavelane_base::Ecn;
use wavelane_wire::tcp::{Flags, Options, SackBlocks, TcpHeader, TcpPacket, Timestamps};

pub(super) const ISS: u32 = 0xffff_ff00;
/// What the connection counts from.
pub(super) const NUMBERS: Numbers = Numbers { iss: ISS, stamps: 0x0102_0304, dice: 7 };
pub(super) const PEER: u32 = 0x7fff_fff0;
pub(super) const MSS: usize = 1_000;

pub(super) const F: Flags = Flags::FIN;
pub(super) const S: Flags = Flags::SYN;
pub(super) const R: Flags = Flags::RST;
pub(super) const P: Flags = Flags::PSH;
pub(super) const A: Flags = Flags::ACK;

/// What the connection sent, relative to both initial sequence numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Out {
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: Flags,
    pub(super) window: u16,
    pub(super) options: Options,
    pub(super) ecn: Ecn,
    pub(super) payload: Vec<u8>,
}

pub(super) struct Script {
    pub(super) tcp: Connection,
    pub(super) now: Instant,
}

/// A plain configuration: fixed segment size, no options that change it, every acknowledgement delayed.
pub(super) fn plain() -> Config {
    Config {
        mss: MSS as u16,
        timestamps: false,
        window_scale: false,
        quick_acks: 0,
        receive_window_initial: None,
        receive_buffer: 10_000,
        slow_start_exit: SlowStartExit::Loss,
        nagle: false,
        congestion: CongestionControl::NewReno,
        ..Config::default()
    }
}

pub(super) fn ours() -> std::net::SocketAddr {
    "192.0.2.1:40000".parse().unwrap()
}
pub(super) fn theirs() -> std::net::SocketAddr {
    "192.0.2.2:80".parse().unwrap()
}

/// A peer's header; numbers are relative to the initial ones.
pub(super) fn header(flags: Flags, seq: u32, ack: u32) -> TcpHeader {
    let ack = if flags.has(A) { ISS.wrapping_add(ack) } else { 0 };
    TcpHeader { seq: PEER.wrapping_add(seq), ack, flags, window: 60_000, ..TcpHeader::default() }
}

pub(super) fn syn_options() -> Options {
    Options { mss: Some(MSS as u16), sack_permitted: true, ..Options::default() }
}

pub(super) fn sacks(blocks: &[(u32, u32)]) -> Options {
    let mut sack = SackBlocks::default();
    blocks.iter().for_each(|(l, r)| assert!(sack.push(ISS.wrapping_add(*l), ISS.wrapping_add(*r))));
    Options { sack, ..Options::default() }
}

pub(super) fn stamps(value: u32, echo: u32) -> Options {
    Options { timestamps: Some(Timestamps { value, echo }), ..Options::default() }
}

impl Script {
    /// Active open; the SYN is not drained yet.
    pub(super) fn connect(config: Config) -> Self {
        let now = ms(1_000);
        Self { tcp: Connection::connect(now, &config, ours(), theirs(), NUMBERS), now }
    }
    /// Passive open by a SYN with `options`.
    pub(super) fn accept(config: Config, options: Options) -> Self {
        let syn = TcpHeader { options, ..header(S, 0, 0) };
        let packet = TcpPacket { source: theirs(), target: ours(), ecn: Ecn::NotEct, header: syn, payload: &[] };
        let now = ms(1_000);
        Self { tcp: Connection::accept(now, &config, &packet, NUMBERS), now }
    }
    /// Passive open by a SYN with more bits set.
    pub(super) fn accept_with_bits(config: Config, bits: Flags) -> Self {
        let syn = TcpHeader { options: syn_options(), ..header(S.with(bits), 0, 0) };
        let packet = TcpPacket { source: theirs(), target: ours(), ecn: Ecn::NotEct, header: syn, payload: &[] };
        let now = ms(1_000);
        Self { tcp: Connection::accept(now, &config, &packet, NUMBERS), now }
    }
    /// An established connection, 100 ms of round trip measured, nothing to be sent.
    pub(super) fn established(config: Config) -> Self {
        Self::established_with(config, syn_options())
    }
    pub(super) fn established_with(config: Config, options: Options) -> Self {
        let mut this = Self::connect(config);
        assert_eq!(this.drain()[0].flags.without(Flags::ECE).without(Flags::CWR), S);
        this.wait(100);
        this.give_header(TcpHeader { options, ..header(S.with(A), 0, 1) }, b"");
        let answer = this.drain();
        assert_eq!((answer.len(), answer[0].seq, answer[0].ack, answer[0].flags), (1, 1, 1, A));
        assert_eq!(this.events(), [TcpEvent::Connected]);
        this
    }
    pub(super) fn give_header(&mut self, header: TcpHeader, payload: &[u8]) {
        self.give_marked(header, payload, Ecn::NotEct);
    }
    pub(super) fn give_marked(&mut self, header: TcpHeader, payload: &[u8], ecn: Ecn) {
        let packet = TcpPacket { source: theirs(), target: ours(), ecn, header, payload };
        let mut buf = vec![0; PACKET_ROOM];
        let len = packet.emit(&mut buf).unwrap();
        self.tcp.handle_segment(self.now, &TcpPacket::parse(&buf[..len]).unwrap());
    }
    pub(super) fn give(&mut self, flags: Flags, seq: u32, ack: u32, payload: &[u8]) {
        self.give_header(header(flags, seq, ack), payload);
    }
    /// An acknowledgement without anything else.
    pub(super) fn ack(&mut self, ack: u32) {
        self.give(A, 1, ack, b"");
    }
    pub(super) fn sack(&mut self, ack: u32, blocks: &[(u32, u32)]) {
        self.give_header(TcpHeader { options: sacks(blocks), ..header(A, 1, ack) }, b"");
    }
    pub(super) fn drain(&mut self) -> Vec<Out> {
        let mut out = Vec::new();
        let mut buf = vec![0; PACKET_ROOM];
        while let Some(sent) = self.tcp.poll_transmit(self.now, &mut buf) {
            let packet = TcpPacket::parse(&buf[..sent.len]).unwrap();
            assert_eq!((packet.source, packet.target), (ours(), theirs()));
            let h = packet.header;
            out.push(Out {
                seq: h.seq.wrapping_sub(ISS),
                ack: if h.flags.has(A) { h.ack.wrapping_sub(PEER) } else { 0 },
                flags: h.flags,
                window: h.window,
                options: h.options,
                ecn: packet.ecn,
                payload: packet.payload.to_vec(),
            });
            assert!(out.len() < 10_000, "the drain does not end");
        }
        out
    }
    /// (sequence number, bytes) of everything sent that holds data.
    pub(super) fn data(&mut self) -> Vec<(u32, usize)> {
        self.drain().into_iter().filter(|o| !o.payload.is_empty()).map(|o| (o.seq, o.payload.len())).collect()
    }
    /// The connection sends nothing now.
    pub(super) fn quiet(&mut self) {
        let out = self.drain();
        assert!(out.is_empty(), "nothing should be sent, but {out:?}");
    }
    /// Exactly one segment goes.
    pub(super) fn one(&mut self) -> Out {
        let mut out = self.drain();
        assert_eq!(out.len(), 1, "{out:?}");
        out.remove(0)
    }
    pub(super) fn events(&mut self) -> Vec<TcpEvent> {
        std::iter::from_fn(|| self.tcp.poll_event()).collect()
    }
    /// Time passes; deadlines in between are met, and nothing is drained: no deadline may be the pacer's.
    pub(super) fn wait(&mut self, millis: u64) {
        self.pass(millis, false);
    }
    /// Time passes; deadlines in between are met and what they let go is drained.
    pub(super) fn run(&mut self, millis: u64) {
        self.pass(millis, true);
    }
    fn pass(&mut self, millis: u64, drain: bool) {
        let until = self.now + Span::from_millis(millis);
        while let Some(wakeup) = self.tcp.poll_timeout().filter(|wakeup| wakeup.at <= until) {
            self.now = wakeup.at.max(self.now);
            self.tcp.handle_timeout(self.now);
            if drain {
                self.drain();
            }
            let next = self.tcp.poll_timeout();
            assert!(next.is_none_or(|next| next.at > self.now), "stale deadline for {next:?} at {:?}", self.now);
        }
        self.now = until;
    }
    /// Time passes until the next deadline, which is met; returns its cause and how long it took.
    pub(super) fn deadline(&mut self) -> (&'static str, Span) {
        let wakeup = self.tcp.poll_timeout().expect("a deadline");
        let wait = wakeup.at.since(self.now);
        self.now = wakeup.at;
        self.tcp.handle_timeout(self.now);
        (wakeup.cause, wait)
    }
    pub(super) fn write(&mut self, n: usize) {
        assert_eq!(self.tcp.write(self.now, &vec![b'x'; n]), n);
    }
    pub(super) fn state(&self) -> ConnectionState {
        self.tcp.state()
    }
    pub(super) fn counters(&self) -> Counters {
        self.tcp.status().counters
    }
}

/// Ten segments of 1,000 bytes in flight after 100 ms of round trip.
pub(super) fn ten(config: Config) -> Script {
    let mut tcp = Script::established(config);
    tcp.write(10_000);
    assert_eq!(tcp.data().len(), 10);
    tcp.write(40_000);
    tcp.quiet();
    tcp.wait(100);
    tcp
}
