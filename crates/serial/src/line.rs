//! IP packets over a line: framing, header compression and, with PPP, the link that must be up first.

use crate::counters::{Counters, Fault};
use crate::deframer::{Deframer, FIELDS_MAX, LEAD_AFTER, Rules};
use crate::framer::{FRAME_MAX_LIMIT, IDLE_DEFAULT};
use crate::framing::Framing;
use crate::ppp::{Agreed, Ppp, PppEvent};
use crate::vj::{Compressor, Decompressor, VjKind};
use crate::{idle_at, ppp};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use wavelane_base::{Entropy, Instant, Rate, Wakeup};
use wavelane_wire::serial::hdlc::{self, Style};
use wavelane_wire::serial::ppp::protocol;
use wavelane_wire::serial::{kiss, slip, vj};

/// What a line carries IP with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineConfig {
    /// The framing.
    pub framing: Framing,
    /// The largest packet either way; with PPP the other end may want smaller ones.
    pub mtu: u16,
    /// The line's rate, if it is known: how long silence is, for [`Framing::Slip1998`].
    pub rate: Option<Rate>,
    /// The port of a packet-radio modem.
    pub kiss_port: u8,
    /// Slots of compressed headers, for [`Framing::Cslip`].
    pub slots: usize,
    /// Name a compressed header's slot in each packet with data, for an octet: slirp 1.0.17 on 64 bits loses such packets otherwise.
    pub names_slot: bool,
    /// What PPP negotiates about; the `mru` is `mtu`.
    pub ppp: ppp::Config,
}

impl LineConfig {
    /// The defaults of a framing.
    pub fn new(framing: Framing) -> Self {
        Self {
            framing,
            mtu: 1500,
            rate: None,
            kiss_port: 0,
            slots: vj::SLOTS_DEFAULT,
            names_slot: false,
            ppp: ppp::Config::default(),
        }
    }
}

/// Why a packet was not written to the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unsent {
    /// The link is not up.
    #[error("the PPP link is not up")]
    Down,
    /// The packet is larger than the other end takes.
    #[error("the packet is larger than the line's MTU")]
    TooLong,
    /// PPP has IPv4 only here.
    #[error("the link carries IPv4 only")]
    NotIpv4,
}

/// One end of a line that carries IP.
#[derive(Debug)]
pub struct Line {
    config: LineConfig,
    deframer: Deframer,
    inner: Inner,
    last_sent: Option<Instant>,
}

/// What is behind the deframer, so that it can be called from there.
#[derive(Debug)]
struct Inner {
    framing: Framing,
    mtu: usize,
    kiss_port: u8,
    names_slot: bool,
    compressor: Option<Compressor>,
    decompressor: Option<Decompressor>,
    ppp: Option<Ppp>,
    agreed: Option<Agreed>,
    events: VecDeque<PppEvent>,
    /// The packet that a compressed one stands for.
    whole: Vec<u8>,
    /// Faults of the deframer that the decompressor was told of.
    faults: u64,
}

impl Line {
    /// A line that is not there yet, for PPP; without PPP packets pass at once.
    pub fn new(config: &LineConfig, dice: Entropy) -> Self {
        let framing = config.framing;
        let rules = match framing {
            Framing::Slip1998 => Rules::Doubled,
            Framing::Slip | Framing::Cslip | Framing::Kiss => Rules::Slip,
            Framing::Ppp => Rules::Hdlc,
        };
        let idle = config.rate.map_or(IDLE_DEFAULT, idle_at);
        let mtu = usize::from(config.mtu).min(FRAME_MAX_LIMIT);
        let ppp = ppp::Config { mru: config.mtu, ..config.ppp.clone() };
        // Negotiation needs the default MRU, whatever is negotiated (RFC 1661, section 6.1).
        let frame_max = if framing == Framing::Ppp { mtu.max(1500) } else { mtu };
        let mut deframer = Deframer::new(rules, frame_max + FIELDS_MAX, idle);
        deframer.accm = if framing == Framing::Ppp { ppp.accm } else { 0 };
        let slots = (framing == Framing::Cslip).then_some(config.slots);
        let inner = Inner {
            framing,
            mtu,
            kiss_port: config.kiss_port & 0xf,
            names_slot: config.names_slot,
            compressor: slots.map(|slots| Compressor::new(slots, true, !config.names_slot)),
            decompressor: slots.map(Decompressor::new),
            ppp: (framing == Framing::Ppp).then(|| Ppp::new(&ppp, dice)),
            agreed: None,
            events: VecDeque::new(),
            whole: Vec::new(),
            faults: 0,
        };
        Self { config: config.clone(), deframer, inner, last_sent: None }
    }

    /// The framing.
    pub fn framing(&self) -> Framing {
        self.config.framing
    }
    /// The largest packet that may be sent now.
    pub fn mtu(&self) -> usize {
        self.inner.agreed.map_or(self.inner.mtu, |agreed| usize::from(agreed.mtu))
    }
    /// Whether packets pass.
    pub fn is_up(&self) -> bool {
        self.inner.ppp.as_ref().is_none_or(Ppp::is_up)
    }
    /// What PPP agreed on, while the link is up.
    pub fn agreed(&self) -> Option<Agreed> {
        self.inner.agreed
    }
    /// Our address, if PPP agreed on it.
    pub fn local(&self) -> Option<Ipv4Addr> {
        self.inner.agreed.map(|agreed| agreed.local)
    }

    /// The device is there, or there is carrier: PPP begins.
    pub fn line_up(&mut self, now: Instant) {
        self.deframer.reset();
        if let Some(ppp) = &mut self.inner.ppp {
            ppp.line_up(now);
        }
    }
    /// The device or its carrier is gone. Half frames are forgotten, and so are the other end's headers.
    pub fn line_down(&mut self, now: Instant) {
        self.deframer.reset();
        self.last_sent = None;
        if let Some(ppp) = &mut self.inner.ppp {
            ppp.line_down(now);
        } else if self.config.framing == Framing::Cslip {
            self.inner.compressor = Some(Compressor::new(self.config.slots, true, !self.config.names_slot));
            self.inner.decompressor = Some(Decompressor::new(self.config.slots));
        }
        self.inner.take_events();
    }
    /// Wants a PPP link again after [`Self::close`].
    pub fn open(&mut self, now: Instant) {
        if let Some(ppp) = &mut self.inner.ppp {
            ppp.open(now);
        }
    }
    /// Whether a PPP link is over, after [`Self::close`].
    pub fn is_closed(&self) -> bool {
        self.inner.ppp.as_ref().is_none_or(Ppp::is_closed)
    }
    /// Ends a PPP link with a word to the other end.
    pub fn close(&mut self, now: Instant) {
        if let Some(ppp) = &mut self.inner.ppp {
            ppp.close(now);
        }
        self.inner.take_events();
    }

    /// When the other end is told our name and secret again that it has refused too often.
    pub fn not_before(&self, now: Instant) -> Option<Instant> {
        self.inner.ppp.as_ref().and_then(|ppp| ppp.not_before(now))
    }

    fn lead(&mut self, now: Instant, mark: u8, out: &mut Vec<u8>) {
        let leads = self.last_sent.is_none_or(|at| now.since(at) > LEAD_AFTER);
        self.last_sent = Some(now);
        out.extend(leads.then_some(mark));
    }

    /// Appends one IP packet's octets to `out`.
    ///
    /// # Errors
    /// [`Unsent`], and nothing is appended.
    pub fn send(&mut self, now: Instant, packet: &[u8], out: &mut Vec<u8>) -> Result<(), Unsent> {
        let before = out.len();
        if !self.is_up() {
            return Err(Unsent::Down);
        }
        if packet.len() > self.mtu() {
            return Err(Unsent::TooLong);
        }
        if self.config.framing == Framing::Ppp && packet.first().is_none_or(|first| first >> 4 != 4) {
            return Err(Unsent::NotIpv4);
        }
        match self.config.framing {
            Framing::Slip1998 => slip::put_doubled(packet, out),
            Framing::Kiss => kiss::put(self.inner.kiss_port, packet, out),
            Framing::Slip | Framing::Cslip => {
                self.lead(now, slip::END, out);
                self.inner.put_slip(packet, out);
            }
            Framing::Ppp => {
                self.lead(now, hdlc::FLAG, out);
                self.inner.put_ppp(packet, out);
            }
        }
        self.deframer.counters.count_sent(out.len() - before);
        Ok(())
    }

    /// Appends the octets of PPP's own packets, of which there are a few.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) {
        let style = self.inner.agreed.map_or(Style::UNNEGOTIATED, |agreed| agreed.style);
        while let Some((number, packet)) = self.inner.ppp.as_mut().and_then(Ppp::poll_transmit) {
            let style = if number == protocol::LCP { Style::UNNEGOTIATED } else { style };
            self.lead(now, hdlc::FLAG, out);
            hdlc::put(style, number, &packet, out);
        }
    }

    /// Takes octets from the line; `take` is called with each IP packet.
    pub fn push(&mut self, now: Instant, octets: &[u8], mut take: impl FnMut(&mut [u8])) {
        let Self { deframer, inner, .. } = self;
        deframer.push(now, octets, &mut |counters, frame| inner.frame(now, counters, frame, &mut take));
        inner.take_events();
    }

    /// Tells that time has passed.
    pub fn handle_timeout(&mut self, now: Instant, mut take: impl FnMut(&mut [u8])) {
        let Self { deframer, inner, .. } = self;
        deframer.handle_timeout(now, &mut |counters, frame| inner.frame(now, counters, frame, &mut take));
        if let Some(ppp) = &mut inner.ppp {
            ppp.handle_timeout(now);
        }
        inner.take_events();
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        let frame = self.deframer.poll_timeout().map(|at| Wakeup { at, cause: "end of a frame" });
        Wakeup::earliest(frame, self.inner.ppp.as_ref().and_then(Ppp::poll_timeout))
    }

    /// The next report of PPP, oldest first.
    pub fn poll_event(&mut self) -> Option<PppEvent> {
        self.inner.events.pop_front()
    }

    /// What the line carried and spoilt.
    pub fn counters(&self) -> Counters {
        self.deframer.counters
    }
}

impl Inner {
    fn put_slip(&mut self, packet: &[u8], out: &mut Vec<u8>) {
        let Some(compressor) = &mut self.compressor else { return slip::put(packet, out) };
        self.whole.clear();
        match compressor.compress(packet, &mut self.whole) {
            VjKind::Ip => {}
            VjKind::Full => self.whole[0] |= vj::SLIP_FULL,
            VjKind::Compressed => self.whole[0] |= vj::SLIP_COMPRESSED,
        }
        slip::put(&self.whole, out);
    }

    fn put_ppp(&mut self, packet: &[u8], out: &mut Vec<u8>) {
        let style = self.agreed.map_or(Style::UNNEGOTIATED, |agreed| agreed.style);
        let Some(compressor) = &mut self.compressor else { return hdlc::put(style, protocol::IPV4, packet, out) };
        self.whole.clear();
        let number = match compressor.compress(packet, &mut self.whole) {
            VjKind::Ip => protocol::IPV4,
            VjKind::Full => protocol::VJ_FULL,
            VjKind::Compressed => protocol::VJ_COMPRESSED,
        };
        hdlc::put(style, number, &self.whole, out);
    }

    fn frame(&mut self, now: Instant, counters: &mut Counters, frame: &mut [u8], take: &mut impl FnMut(&mut [u8])) {
        let faults = counters.bad_total();
        if faults != self.faults {
            self.faults = faults;
            self.decompressor.iter_mut().for_each(Decompressor::line_error);
        }
        let fault = match self.framing {
            Framing::Slip1998 | Framing::Slip => self.packet(counters, frame, take),
            Framing::Cslip => self.cslip(counters, frame, take),
            Framing::Kiss => match kiss::command(frame[0]) {
                (port, kiss::DATA) if port == self.kiss_port => self.packet(counters, &mut frame[1..], take),
                _ => Err(Fault::Command),
            },
            Framing::Ppp => self.ppp(now, counters, frame, take),
        };
        if let Err(fault) = fault {
            counters.count_bad(fault);
            // Not noise of the line: the decompressor knows what it refused.
            self.faults += 1;
        }
    }

    fn packet(
        &self,
        counters: &mut Counters,
        packet: &mut [u8],
        take: &mut impl FnMut(&mut [u8]),
    ) -> Result<(), Fault> {
        // Noise between frames is no packet, and a packet cut short by noise shall not go on.
        if !is_ip(packet) {
            return Err(Fault::Packet);
        }
        if packet.len() > self.mtu.max(self.agreed.map_or(0, |_| 1500)) {
            return Err(Fault::Long);
        }
        counters.count_frame();
        take(packet);
        Ok(())
    }

    fn cslip(
        &mut self,
        counters: &mut Counters,
        frame: &mut [u8],
        take: &mut impl FnMut(&mut [u8]),
    ) -> Result<(), Fault> {
        match frame[0] {
            first if first & vj::SLIP_COMPRESSED != 0 => self.vj_compressed(counters, frame, take),
            first if first >= vj::SLIP_FULL => {
                // The version is IPv4's: that is all that the bits took.
                frame[0] = first & 0x4f;
                self.vj_full(counters, frame, take)
            }
            _ => self.packet(counters, frame, take),
        }
    }

    fn vj_full(
        &mut self,
        counters: &mut Counters,
        frame: &mut [u8],
        take: &mut impl FnMut(&mut [u8]),
    ) -> Result<(), Fault> {
        let kept = self.decompressor.as_mut().is_some_and(|decompressor| decompressor.full(frame));
        if kept { self.packet(counters, frame, take) } else { Err(Fault::Header) }
    }

    fn vj_compressed(
        &mut self,
        counters: &mut Counters,
        frame: &[u8],
        take: &mut impl FnMut(&mut [u8]),
    ) -> Result<(), Fault> {
        let mut whole = core::mem::take(&mut self.whole);
        whole.clear();
        let restored =
            self.decompressor.as_mut().is_some_and(|decompressor| decompressor.compressed(frame, &mut whole));
        let result = if restored { self.packet(counters, &mut whole, take) } else { Err(Fault::Header) };
        self.whole = whole;
        result
    }

    fn ppp(
        &mut self,
        now: Instant,
        counters: &mut Counters,
        frame: &mut [u8],
        take: &mut impl FnMut(&mut [u8]),
    ) -> Result<(), Fault> {
        let (number, start) = hdlc::protocol(frame).map_err(|_| Fault::Protocol)?;
        let Some(ppp) = &mut self.ppp else { return Err(Fault::Protocol) };
        let packet = &mut frame[start..];
        if matches!(number, protocol::IPV4 | protocol::VJ_FULL | protocol::VJ_COMPRESSED) {
            if !ppp.is_up() {
                return Err(Fault::Protocol);
            }
            ppp.heard(now);
        }
        match number {
            protocol::IPV4 => self.packet(counters, packet, take),
            protocol::VJ_FULL if self.decompressor.is_some() => self.vj_full(counters, packet, take),
            protocol::VJ_COMPRESSED if self.decompressor.is_some() => self.vj_compressed(counters, packet, take),
            _ => {
                let known = ppp.handle(now, number, packet);
                self.take_events();
                counters.octets_since_frame = 0;
                if known { Ok(()) } else { Err(Fault::Protocol) }
            }
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.ppp.as_mut().and_then(Ppp::poll_event) {
            match event {
                PppEvent::Up(agreed) => {
                    let slots = |vj: wavelane_wire::serial::ppp::Vj| usize::from(vj.slot_max) + 1;
                    self.compressor =
                        agreed.vj_out.map(|vj| Compressor::new(slots(vj), vj.omits_slot, !self.names_slot));
                    self.decompressor = agreed.vj_in.map(|vj| Decompressor::new(slots(vj)));
                    self.agreed = Some(agreed);
                }
                PppEvent::Down(_) => (self.agreed, self.compressor, self.decompressor) = (None, None, None),
                PppEvent::Uncompressed => self.compressor = None,
            }
            if self.events.len() < EVENTS_MAX {
                self.events.push_back(event);
            }
        }
    }
}

/// Reports that wait for the owner; further ones are dropped.
const EVENTS_MAX: usize = 16;

/// An IP packet of either version, of the length that it claims, with the header checksum of the first.
fn is_ip(packet: &[u8]) -> bool {
    let total = |at: usize| packet.get(at..at + 2).map_or(0, |len| usize::from(u16::from_be_bytes([len[0], len[1]])));
    match packet.first().map(|first| first >> 4) {
        Some(4) => {
            let header = packet.get(..usize::from(packet[0] & 0xf) * 4);
            let sound = |header: &[u8]| header.len() >= 20 && wavelane_wire::ip::checksum(&[header]) == 0;
            total(2) == packet.len() && header.is_some_and(sound)
        }
        Some(6) => packet.len() >= 40 && total(4) + 40 == packet.len(),
        _ => false,
    }
}
