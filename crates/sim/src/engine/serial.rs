//! A serial line that carries IP: the channel of octets, and at each end the machine that frames packets for it.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use wavelane_base::{Instant, Machine, PortId, Rate, Seed, Wakeup};
use wavelane_channel::cable::Direction;
use wavelane_channel::{Serial, SerialError};
use wavelane_run::LineTally;
use wavelane_scenario::{SerialChannel, SerialFraming};
use wavelane_serial::{Framing, Line, LineConfig, Unsent, ppp};

/// See the module.
pub(super) struct SerialLink {
    serial: Serial,
    ends: [Line; 2],
    /// By the end that sends.
    tallies: [LineTally; 2],
    /// Packets that have come off the line.
    ready: VecDeque<(PortId, Vec<u8>)>,
    /// The octets of one frame.
    frame: Vec<u8>,
}

const PORTS: [PortId; 2] = [PortId(0), PortId(1)];
/// The addresses that the ends of a PPP link tell each other; nothing is sent to them (RFC 5737).
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];

impl SerialLink {
    pub(super) fn new(now: Instant, seed: Seed, name: &str, config: &SerialChannel) -> Result<Self, SerialError> {
        let line = &config.line;
        // What arrives at an end is sent at the other's rate.
        let end = |end: usize, arrives: Rate| {
            let config = line_config(config, end, arrives);
            Line::new(&config, seed.entropy(&format!("{name} / ppp {end}")))
        };
        let ends = [end(0, line.reverse.octet_rate()), end(1, line.forward.octet_rate())];
        let serial = Serial::new(seed, name, line)?;
        let mut link = Self { serial, ends, tallies: Default::default(), ready: VecDeque::new(), frame: Vec::new() };
        link.ends.iter_mut().for_each(|end| end.line_up(now));
        PORTS.into_iter().for_each(|port| link.speak(now, port));
        Ok(link)
    }

    pub(super) fn hand_in(&mut self, now: Instant, port: PortId, packet: &[u8]) {
        self.advance(now);
        let tally = &mut self.tallies[usize::from(port.0)];
        tally.packets += 1;
        tally.packet_octets += packet.len() as u64;
        // Asked before headers are compressed: of what the queue drops then, the far end would miss the state. Any octet may need an escape.
        if !self.serial.has_room(now, port, 2 * packet.len()) {
            tally.full += 1;
            return self.serial.refuse(port);
        }
        self.frame.clear();
        match self.ends[usize::from(port.0)].send(now, packet, &mut self.frame) {
            Ok(()) => {
                tally.sent += 1;
                tally.sent_octets += self.frame.len() as u64;
                self.serial.handle_frame(now, port, &mut self.frame, Default::default());
            }
            Err(Unsent::TooLong) => tally.too_long += 1,
            Err(Unsent::Down | Unsent::NotIpv4) => tally.down += 1,
        }
    }

    /// Sends PPP's own packets.
    fn speak(&mut self, now: Instant, port: PortId) {
        self.frame.clear();
        let end = &mut self.ends[usize::from(port.0)];
        end.poll_transmit(now, &mut self.frame);
        while end.poll_event().is_some() {}
        if !self.frame.is_empty() {
            self.serial.handle_frame(now, port, &mut self.frame, Default::default());
        }
    }

    /// Brings both ends to `now`.
    fn advance(&mut self, now: Instant) {
        self.serial.handle_timeout(now);
        while let Some((port, octets)) = self.serial.take_ready(now) {
            let ready = &mut self.ready;
            self.ends[usize::from(port.0)].push(now, &octets, |packet| ready.push_back((port, packet.to_vec())));
            self.speak(now, port);
        }
        for port in PORTS {
            let end = &mut self.ends[usize::from(port.0)];
            if end.poll_timeout().is_some_and(|wakeup| wakeup.at <= now) {
                let ready = &mut self.ready;
                end.handle_timeout(now, |packet| ready.push_back((port, packet.to_vec())));
                self.speak(now, port);
            }
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
    }

    pub(super) fn next_out(&mut self, now: Instant) -> Option<(PortId, Vec<u8>)> {
        self.advance(now);
        self.ready.pop_front()
    }

    pub(super) fn poll_timeout(&self) -> Option<Wakeup> {
        let ends = self.ends.iter().filter_map(Line::poll_timeout).min_by_key(|wakeup| wakeup.at);
        Wakeup::earliest(self.serial.poll_timeout(), ends)
    }

    pub(super) fn tally(&self, direction: Direction) -> LineTally {
        let (from, to) = (direction as usize, 1 - direction as usize);
        let (far, receiver) = (self.ends[to].counters(), self.serial.receiver(direction));
        LineTally {
            received: far.frames,
            bad: far.bad_total(),
            noise: receiver.damaged + receiver.framing,
            overrun: receiver.overrun,
            ..self.tallies[from]
        }
    }
}

/// One end's machine.
fn line_config(config: &SerialChannel, end: usize, arrives: Rate) -> LineConfig {
    let framing = match config.framing {
        SerialFraming::Slip => Framing::Slip,
        SerialFraming::Slip1998 => Framing::Slip1998,
        SerialFraming::Cslip => Framing::Cslip,
        SerialFraming::Ppp | SerialFraming::PppVj => Framing::Ppp,
        SerialFraming::Kiss => Framing::Kiss,
    };
    let plain = LineConfig::new(framing);
    let slots = if config.framing == SerialFraming::PppVj { plain.ppp.vj_slots } else { None };
    let (local, remote) = (Some(ADDRESSES[end]), Some(ADDRESSES[1 - end]));
    let ppp = ppp::Config { local, remote, vj_slots: slots, ..plain.ppp };
    LineConfig { mtu: config.mtu, rate: Some(arrives), ppp, ..plain }
}
