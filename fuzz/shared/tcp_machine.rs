//! A whole connection at the mercy of its peer, its owner and the time. What is read must be what the peer sent at that
//! place, what is sent must be what the owner wrote there, and nothing that was announced is taken back.

use std::net::SocketAddr;
use wavelane_base::{Ecn, Instant, ReadOutcome, Span};
use wavelane_tcp::{
    Config, CongestionControl, Connection, ConnectionState, Numbers, PACKET_ROOM, Quirks, SlowStartExit,
};
use wavelane_wire::icmp::TooBig;
use wavelane_wire::tcp::{Flags, Options, SackBlocks, TcpHeader, TcpPacket, Timestamps};

/// Near the wrap of both number spaces.
const ISS: u32 = 0xffff_fe00;
const PEER: u32 = 0xffff_ff00;
/// Bytes of input per step.
const STEP: usize = 16;
/// Most packets in one drain.
const DRAIN_MAX: usize = 10_000;

/// The byte that either side sends at a place of its stream.
fn byte(place: u32, salt: u32) -> u8 {
    (place.wrapping_mul(31) ^ place >> 8 ^ salt) as u8
}
fn bytes(from: u32, len: usize, salt: u32) -> Vec<u8> {
    (0..len as u32).map(|at| byte(from.wrapping_add(at), salt)).collect()
}

struct Driver {
    tcp: Connection,
    now: Instant,
    local: SocketAddr,
    remote: SocketAddr,
    irs: u32,
    written: u32,
    read: u32,
    /// The highest number sent, the latest acknowledgement and the right edge announced.
    high: u32,
    acked: Option<u32>,
    edge: Option<u32>,
    shift: u8,
    clock: u32,
}

fn config(first: u8, second: u8) -> Config {
    use CongestionControl::{Bbr, Cubic, NewReno, Reno};
    let bit = |byte: u8, at: u8| byte >> at & 1 == 1;
    Config {
        congestion: [Reno, NewReno, Cubic, Bbr][usize::from(first & 3)],
        sack: bit(first, 2),
        timestamps: bit(first, 3),
        window_scale: bit(first, 4),
        ecn: bit(first, 5),
        nagle: bit(first, 6),
        pacing: bit(first, 7),
        rack_tlp: !bit(second, 1),
        prr: !bit(second, 2),
        undo: !bit(second, 3),
        slow_start_exit: if bit(second, 4) { SlowStartExit::HyStart } else { SlowStartExit::HyStartPlusPlus },
        quirks: Quirks { guess_arrivals: bit(second, 5), ..Quirks::default() },
        mss: if bit(second, 6) { 100 } else { 1_000 },
        receive_window_initial: bit(second, 7).then_some(3_000),
        receive_buffer: 100_000,
        send_buffer: 30_000,
        quick_acks: 1,
        ..Config::default()
    }
}

impl Driver {
    fn new(first: u8, second: u8) -> Self {
        let [local, remote]: [SocketAddr; 2] = if second >> 5 & 1 == 1 {
            ["[2001:db8::1]:80", "[2001:db8::2]:90"].map(|a| a.parse().expect("an address"))
        } else {
            ["192.0.2.1:80", "192.0.2.2:90"].map(|a| a.parse().expect("an address"))
        };
        let (config, now) = (config(first, second), Instant::from_secs(1));
        let numbers = Numbers { iss: ISS, stamps: 5, dice: 3 };
        let tcp = if second & 1 == 0 {
            Connection::connect(now, &config, local, remote, numbers)
        } else {
            let options = Options {
                mss: Some(1_000),
                window_scale: Some(2),
                sack_permitted: true,
                timestamps: Some(Timestamps { value: 1_000, echo: 0 }),
                ..Options::default()
            };
            let flags = Flags::SYN.with(Flags::ECE).with(Flags::CWR);
            let header = TcpHeader { seq: PEER, flags, window: 9_000, options, ..TcpHeader::default() };
            let syn = TcpPacket { source: remote, target: local, ecn: Ecn::NotEct, header, payload: &[] };
            Connection::accept(now, &config, &syn, numbers)
        };
        Self {
            tcp,
            now,
            local,
            remote,
            irs: PEER,
            written: 0,
            read: 0,
            high: ISS,
            acked: None,
            edge: None,
            shift: 0,
            clock: 1_000,
        }
    }

    /// Sends what is due and judges it.
    fn drain(&mut self) {
        let mut buf = [0; PACKET_ROOM];
        for sent in 0.. {
            assert!(sent < DRAIN_MAX, "the drain does not end");
            let Some(sent) = self.tcp.poll_transmit(self.now, &mut buf) else { break };
            let packet = TcpPacket::parse(&buf[..sent.len]).expect("what is sent can be read");
            self.judge(&packet);
        }
        if let Some(wakeup) = self.tcp.poll_timeout() {
            assert!(wakeup.at > self.now, "stale deadline for {}", wakeup.cause);
        }
        while self.tcp.poll_event().is_some() {}
    }

    fn judge(&mut self, packet: &TcpPacket<'_>) {
        let header = &packet.header;
        let place = header.seq.wrapping_sub(ISS).wrapping_sub(1);
        if !packet.payload.is_empty() {
            assert!(place <= self.written && place + packet.payload.len() as u32 <= self.written, "nobody wrote that");
            assert!(packet.payload == bytes(place, packet.payload.len(), 1), "not what was written at {place}");
        }
        let fin = u32::from(header.flags.has(Flags::FIN) || header.flags.has(Flags::SYN));
        let end = header.seq.wrapping_add(packet.payload.len() as u32 + fin);
        if (end.wrapping_sub(self.high) as i32) > 0 {
            self.high = end;
        }
        if header.flags.has(Flags::SYN) {
            self.shift = header.options.window_scale.unwrap_or(0);
        }
        if !header.flags.has(Flags::ACK) || header.flags.has(Flags::RST) {
            return;
        }
        let back = |now: u32, before: Option<u32>| before.is_some_and(|before| (now.wrapping_sub(before) as i32) < 0);
        assert!(!back(header.ack, self.acked), "an acknowledgement taken back");
        self.acked = Some(header.ack);
        if header.flags.has(Flags::SYN) {
            // A repeated SYN cannot say more than 16 bits, whatever was said meanwhile.
            self.edge = self.edge.or(Some(header.ack.wrapping_add(u32::from(header.window))));
            return;
        }
        // What is cut off by scaling is announced again later (RFC 7323, section 2.4).
        let cut = (1 << self.shift) - 1;
        let edge = header.ack.wrapping_add(u32::from(header.window) << self.shift);
        assert!(!back(edge.wrapping_add(cut), self.edge), "a window taken back");
        self.edge = Some(edge);
        let blocks = header.options.sack.as_slice();
        assert!(blocks.iter().all(|(left, right)| (right.wrapping_sub(*left) as i32) > 0), "an empty block");
    }

    /// A segment near what either side expects.
    fn segment(&mut self, step: &[u8]) {
        let word = |at: usize| u16::from_be_bytes([step[at], step[at + 1]]);
        let near = |base: u32, at: usize| base.wrapping_add(i32::from(word(at) as i16) as u32);
        let flags = match step[0] >> 4 & 3 {
            0 | 1 => Flags::ACK,
            2 => Flags::ACK.with(Flags(step[1] & 0xc9)),
            _ => Flags(step[1]),
        };
        let opening = self.tcp.state() == ConnectionState::SynSent;
        let expected = self.acked.filter(|_| !opening).unwrap_or(PEER);
        let (seq, ack) = (near(expected, 2), near(self.high, 4));
        let mut sack = SackBlocks::default();
        for pair in step[10..14].chunks_exact(2).filter(|pair| pair[1] > 0) {
            let left = ack.wrapping_add(u32::from(pair[0]) * 100);
            sack.push(left, left.wrapping_add(u32::from(pair[1]) * 50));
        }
        self.clock = self.clock.wrapping_add(u32::from(step[14] & 0x3f));
        let value = if step[14] & 0x40 == 0 { self.clock } else { self.clock.wrapping_sub(50) };
        let timestamps = (step[14] & 0x80 == 0).then_some(Timestamps { value, echo: u32::from(step[15]) << 4 });
        let syn = flags.has(Flags::SYN);
        let options = Options {
            mss: syn.then_some(word(8)),
            window_scale: (syn && step[8] & 1 == 1).then_some(step[9] & 15),
            sack_permitted: syn && step[9] & 16 != 0,
            timestamps,
            sack: if syn { SackBlocks::default() } else { sack },
        };
        let header = TcpHeader { seq, ack, flags, window: word(6), urgent: 0, options };
        let len = usize::from(word(8) & 0x7ff).min(1_400);
        let payload = bytes(seq.wrapping_sub(self.irs).wrapping_sub(1), len, 2);
        let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][usize::from(step[15] & 3)];
        let packet = TcpPacket { source: self.remote, target: self.local, ecn, header, payload: &payload };
        let mut buf = [0; 2_048];
        let Ok(len) = packet.emit(&mut buf) else { return };
        self.tcp.handle_segment(self.now, &TcpPacket::parse(&buf[..len]).expect("what was written can be read"));
        if opening && self.tcp.state() != ConnectionState::SynSent {
            self.irs = seq;
            // Scaled only if both sides offered it.
            self.shift *= u8::from(options.window_scale.is_some());
        }
    }

    fn take(&mut self, len: usize) {
        let mut buf = vec![0; len];
        if let ReadOutcome::Data(n) = self.tcp.read(self.now, &mut buf) {
            assert!(buf[..n] == bytes(self.read, n, 2), "not what was sent at {}", self.read);
            self.read += n as u32;
        }
    }

    fn wait(&mut self, span: Span) {
        let until = self.now + span;
        for round in 0.. {
            assert!(round < DRAIN_MAX, "deadlines without end");
            let Some(at) = self.tcp.poll_timeout().map(|wakeup| wakeup.at).filter(|at| *at <= until) else { break };
            self.now = at;
            self.tcp.handle_timeout(at);
            self.drain();
        }
        self.now = until;
    }

    fn step(&mut self, step: &[u8]) {
        let number = usize::from(u16::from_be_bytes([step[2], step[3]]));
        match step[0] % 16 {
            0..=8 => self.segment(step),
            9 | 10 => {
                let n = self.tcp.write(self.now, &bytes(self.written, number % 8_192, 1));
                self.written += n as u32;
            }
            11 => self.take(number % 8_192),
            12 => self.wait(Span::from_millis(number as u64 % 5_000)),
            13 => self.wait(Span::from_micros(number as u64)),
            14 => {
                let seq = self.high.wrapping_sub(u32::from(step[1]) << 4);
                let (router, mtu) = (self.remote.ip(), u32::from(step[4]) << 4);
                let message = TooBig { router, mtu, source: self.local, target: self.remote, seq };
                self.tcp.handle_too_big(self.now, &message);
            }
            _ if step[1] & 7 == 0 => self.tcp.reset(),
            _ => self.tcp.shutdown(self.now),
        }
    }
}

/// Interprets `input` as two bytes of configuration and steps of 16 bytes.
pub(crate) fn drive(input: &[u8]) {
    let Some((head, rest)) = input.split_first_chunk::<2>() else { return };
    let mut driver = Driver::new(head[0], head[1]);
    driver.drain();
    for step in rest.chunks_exact(STEP) {
        driver.step(step);
        // Several segments may come before anything is sent.
        if step[0] & 0x80 == 0 {
            driver.drain();
        }
    }
    driver.drain();
    driver.wait(Span::from_secs(2));
    driver.take(200_000);
}
