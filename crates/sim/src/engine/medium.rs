//! Channels as the engine sees them: something that takes packets at ports and hands them out at ports.

use super::NodeId;
use super::serial::SerialLink;
use wavelane_base::{Ecn, FrameMeta, Instant, Machine, PortId, Wakeup};
use wavelane_channel::bluetooth::Bluetooth;
use wavelane_channel::cable::Cable;
use wavelane_channel::cellular::Cellular;
use wavelane_channel::wifi::{CATEGORIES, Category, Cause, Handling, STATIONS_BOUND, Wifi, WifiEvent, port};
use wavelane_wire::packet::{mark_congestion, queue_meta};

/// What a channel is.
pub(super) enum Medium {
    /// Ports 0 and 1 are its ends.
    Cable(Box<Cable>),
    /// Its ports are those of [`port`].
    Wifi(Box<Wifi>),
    /// Port 0 is the master's.
    Bluetooth(Box<Bluetooth>),
    /// Port 0 is the network's.
    Cellular(Box<Cellular>),
    /// Ports 0 and 1 are its ends.
    Serial(Box<SerialLink>),
}

/// A channel and what it is plugged into.
pub(super) struct ChannelSlot {
    pub(super) medium: Medium,
    /// Its place on the agenda.
    pub(super) actor: usize,
    /// The node at each end or station, and by the far end or station: the node's port towards it.
    pub(super) ends: Vec<(NodeId, Vec<usize>)>,
    /// The exchanges that keep a station's queues filled, by station and category; without EDCA all in one.
    pub(super) sources: Vec<[Option<usize>; CATEGORIES]>,
}

impl Medium {
    /// The port of end or station `at` towards `far`.
    pub(super) fn port(&self, at: usize, far: usize) -> PortId {
        match self {
            Self::Wifi(_) => port(at, far),
            _ => PortId(at as u16),
        }
    }
    /// The end or station of a port, and the one it leads to.
    pub(super) fn places(&self, port: PortId) -> (usize, usize) {
        let port = usize::from(port.0);
        match self {
            Self::Wifi(_) => (port / STATIONS_BOUND, port % STATIONS_BOUND),
            _ => (port, 1 - port),
        }
    }
    /// Takes a packet; `handling` says how a radio frame of it is to be sent. Neither medium reads headers: what its queue
    /// looks at is read here. A cell copies the packet, whose memory goes to `spare`.
    pub(super) fn hand_in(
        &mut self,
        now: Instant,
        port: PortId,
        packet: Vec<u8>,
        handling: Handling,
        spare: &mut Vec<Vec<u8>>,
    ) {
        let looks = match self {
            Self::Cable(cable) => cable.looks_at_flows(port),
            Self::Wifi(wifi) => wifi.looks_at_flows(usize::from(port.0) / STATIONS_BOUND),
            Self::Bluetooth(_) | Self::Cellular(_) | Self::Serial(_) => false,
        };
        let read = if looks { queue_meta(&packet) } else { FrameMeta::default() };
        let meta = FrameMeta { rx_time: now, ..read };
        match self {
            Self::Cable(cable) => cable.hand_in(now, port, packet, &meta),
            Self::Wifi(wifi) => {
                wifi.hand_in(now, port, &packet, meta, handling);
                spare.push(packet);
            }
            Self::Bluetooth(link) => link.hand_in(now, port, packet, &meta),
            Self::Cellular(bearer) => bearer.hand_in(now, port, packet, &meta),
            Self::Serial(line) => {
                line.hand_in(now, port, &packet);
                spare.push(packet);
            }
        }
    }
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Cable(cable) => cable.handle_timeout(now),
            Self::Wifi(wifi) => wifi.handle_timeout(now),
            Self::Bluetooth(link) => link.handle_timeout(now),
            Self::Cellular(bearer) => bearer.handle_timeout(now),
            Self::Serial(line) => line.handle_timeout(now),
        }
    }
    /// The next packet that comes out, and its port. A cell copies it into memory from `spare`.
    pub(super) fn next_out(&mut self, now: Instant, spare: &mut Vec<Vec<u8>>) -> Option<(PortId, Vec<u8>)> {
        let (port, ecn, mut packet) = match self {
            Self::Cable(cable) => cable.take_ready(now)?,
            Self::Bluetooth(link) => link.take_ready(now)?,
            Self::Cellular(bearer) => bearer.take_ready(now)?,
            // A mark is in the packet's own header.
            Self::Serial(line) => return line.next_out(now),
            Self::Wifi(wifi) => {
                wifi.next_ready()?;
                let mut packet = spare.pop().unwrap_or_default();
                let (port, ecn) = wifi.take_ready(now, &mut packet)?;
                (port, ecn, packet)
            }
        };
        if ecn == Ecn::Ce {
            mark_congestion(&mut packet);
        }
        Some((port, packet))
    }
    /// How many frames of bulk a station takes from a gateway that keeps its queue short.
    pub(super) fn bulk_room(&self, station: usize) -> usize {
        match self {
            Self::Cable(_) | Self::Bluetooth(_) | Self::Cellular(_) | Self::Serial(_) => 0,
            Self::Wifi(wifi) => {
                let waiting = wifi.waiting_in(station, Category::BestEffort);
                wifi.burst_within(station, super::radio::ROOM).max(super::radio::BACKLOG).saturating_sub(waiting)
            }
        }
    }
    /// The next station whose queue has become shorter by a frame; cables have none.
    pub(super) fn next_departure(&mut self) -> Option<usize> {
        match self {
            Self::Cable(cable) => {
                while cable.poll_event().is_some() {}
                None
            }
            Self::Bluetooth(_) | Self::Cellular(_) | Self::Serial(_) => None,
            Self::Wifi(wifi) => loop {
                match wifi.poll_event()? {
                    WifiEvent::Acknowledged { from, .. } | WifiEvent::Sent { from, .. } => return Some(from),
                    WifiEvent::Dropped { from, cause: Cause::RetryLimit | Cause::Delay, .. } => return Some(from),
                    _ => {}
                }
            },
        }
    }
    /// The place in [`ChannelSlot::sources`] of what is sent in a category.
    pub(super) fn queue_of(&self, category: Category) -> usize {
        match self {
            Self::Wifi(wifi) if wifi.has_categories() => category as usize,
            _ => 0,
        }
    }
    pub(super) fn poll_timeout(&self) -> Option<Wakeup> {
        match self {
            Self::Cable(cable) => cable.poll_timeout(),
            Self::Wifi(wifi) => wifi.poll_timeout(),
            Self::Bluetooth(link) => link.poll_timeout(),
            Self::Cellular(bearer) => bearer.poll_timeout(),
            Self::Serial(line) => line.poll_timeout(),
        }
    }
}
