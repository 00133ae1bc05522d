//! Tunnels of IPv4 in IPv4 (RFC 2003) whose other ends send the packets of the networks behind them here, and get those back that go there.
//!
//! What comes out of one arrives by a device, like packets that arrive by any other, and is split or forwarded; what the kernel leads to
//! those networks it gives to that device. So fragments, hop counts and word of packets that are too large are the kernel's: each network's
//! route says what the tunnel takes.

use super::beside::{Told, Work};
use super::config::Settings;
use super::places::Tunnel;
use super::status;
use crate::config::marks::MARK_OWN;
use crate::config::prefix_text;
use crate::start::StartError;
use crate::system::interface::{TUNNEL_DEVICE, lead_into_tunnel, make_for_tunnels};
use crate::system::rules::RulesError;
use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use wavelane_base::{Instant, Span};
use wavelane_host::interface_name;
use wavelane_host::ipip::{IpipSocket, path_mtu};
use wavelane_host::poller::{Poller, Watch};
use wavelane_host::raw::RawSender;
use wavelane_host::tun::OffloadTun;
use wavelane_wire::ip::IPV4_HEADER_LEN;
use wavelane_wire::ipip::{Refused, open, unmerge, wrap};

/// Packets of either way that are taken before the other's turn.
const PACKETS_PER_TURN: usize = 64;
/// How often it is asked what the ways to the other ends take, and which interfaces have which names.
const LOOK_EVERY: Span = Span::from_secs(1);
/// What a way takes of which nothing is known yet, and the least that is believed: Linux takes no less from routers (`min_pmtu`).
const MTU_USUAL: u32 = 1_500;
const MTU_MIN: u32 = 552;

/// See the module's description.
pub(super) struct Tunnels {
    socket: IpipSocket,
    tun: OffloadTun,
    raw: RawSender,
    tunnels: Vec<Tunnel>,
    /// Where packets may come from.
    interfaces: Vec<String>,
    /// Whether the interface of an index is one of these.
    known: BTreeMap<u32, bool>,
    /// What fits each tunnel, as its routes say.
    mtus: Vec<u32>,
    look_at: Instant,
    buffer: Vec<u8>,
    outer: Vec<u8>,
}

/// What fits the tunnel to a peer.
fn mtu_to(peer: Ipv4Addr) -> Option<u32> {
    path_mtu(peer).ok().map(|mtu| mtu.max(MTU_MIN) - IPV4_HEADER_LEN as u32)
}

impl Tunnels {
    pub(super) fn open(settings: &Settings) -> Result<Self, StartError> {
        let socket = IpipSocket::open().map_err(RulesError::Listener)?;
        let raw = RawSender::open(MARK_OWN).map_err(RulesError::Listener)?;
        let tun = make_for_tunnels()?;
        let mut mtus = Vec::new();
        for tunnel in &settings.tunnels {
            let mtu = mtu_to(tunnel.peer).unwrap_or(MTU_USUAL - IPV4_HEADER_LEN as u32);
            for network in &tunnel.networks {
                lead_into_tunnel(network, mtu, false).map_err(RulesError::Tool)?;
            }
            mtus.push(mtu);
        }
        Ok(Self {
            socket,
            tun,
            raw,
            tunnels: settings.tunnels.clone(),
            interfaces: settings.interfaces.clone(),
            known: BTreeMap::new(),
            mtus,
            look_at: Instant::ZERO,
            buffer: vec![0; usize::from(u16::MAX)],
            outer: vec![0; usize::from(u16::MAX)],
        })
    }

    /// Takes packets out of tunnels.
    fn take_out(&mut self, told: &mut Told) -> io::Result<()> {
        let Self { socket, tun, tunnels, interfaces, known, buffer, .. } = self;
        for _ in 0..PACKETS_PER_TURN {
            let Some((len, by)) = socket.receive(buffer)? else {
                tun.flush();
                return Ok(());
            };
            let is_listed =
                *known.entry(by).or_insert_with(|| interface_name(by).is_some_and(|name| interfaces.contains(&name)));
            let opened = match open(&mut buffer[..len]) {
                Ok(opened) => opened,
                Err(why) => {
                    told.one(match why {
                        Refused::Malformed => "dropped_tunnel_malformed",
                        Refused::Nested => "dropped_tunnel_nested",
                        Refused::Congested => "dropped_tunnel_congested",
                    });
                    continue;
                }
            };
            let place = tunnels.iter().position(|tunnel| is_listed && tunnel.peer == opened.peer);
            match place {
                None => told.one("dropped_tunnel_stranger"),
                Some(place) if !tunnels[place].holds(opened.source) => told.one("dropped_tunnel_source"),
                Some(place) => {
                    told.tunnels[place].in_packets += 1;
                    if unmerge(opened.packet, |packet| tun.queue(packet)) {
                        told.one("tunnel_packets_cut");
                    }
                }
            }
        }
        tun.flush();
        Ok(())
    }

    /// Puts packets into tunnels.
    fn put_in(&mut self, told: &mut Told) -> io::Result<()> {
        let Self { tun, raw, tunnels, outer, .. } = self;
        let drained = tun.receive(PACKETS_PER_TURN, |packet| {
            if packet.first().is_none_or(|first| first >> 4 != 4) {
                // What the kernel says to IPv6's groups on every device.
                return;
            }
            let to = packet.get(16..).and_then(|rest| rest.first_chunk::<4>()).map(|octets| Ipv4Addr::from(*octets));
            let Some(place) = to.and_then(|to| tunnels.iter().position(|tunnel| tunnel.holds(to))) else {
                return told.one("dropped_tunnel_no_peer");
            };
            let peer = tunnels[place].peer;
            let sent = wrap(packet, (Ipv4Addr::UNSPECIFIED, peer), outer)
                .is_ok_and(|len| raw.send(&outer[..len], peer.into()).is_ok());
            match sent {
                true => told.tunnels[place].out_packets += 1,
                false => told.one("dropped_tunnel_unsent"),
            }
        });
        let gone = |e| {
            io::Error::other(format!(
                "the device {TUNNEL_DEVICE} cannot be read ({e}): another program took it away; start wavelaned again"
            ))
        };
        drained.map_err(gone).map(drop)
    }
}

impl Work for Tunnels {
    fn watch(&self, poller: &Poller) -> io::Result<()> {
        poller.add(&self.socket, 0, Watch::Readable)?;
        poller.add(&self.tun, 1, Watch::Readable)
    }
    fn prepare(&mut self, now: Instant, _: &Poller) {
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        self.known.clear();
        for (tunnel, mtu) in self.tunnels.iter().zip(&mut self.mtus) {
            let Some(new) = mtu_to(tunnel.peer).filter(|new| new != mtu) else { continue };
            // One that is refused is tried again a second later.
            if tunnel.networks.iter().all(|network| lead_into_tunnel(network, new, true).is_ok()) {
                *mtu = new;
            }
        }
    }
    fn turn(&mut self, _: Instant, told: &mut Told) -> io::Result<()> {
        if told.tunnels.is_empty() {
            let of = |tunnel: &Tunnel| status::Tunnel {
                peer: tunnel.peer.to_string(),
                networks: tunnel.networks.iter().map(prefix_text).collect(),
                ..status::Tunnel::default()
            };
            told.tunnels = self.tunnels.iter().map(of).collect();
        }
        told.tunnels.iter_mut().zip(&self.mtus).for_each(|(tunnel, mtu)| tunnel.mtu = *mtu);
        self.take_out(told)?;
        self.put_in(told)
    }
    fn deadline(&self) -> Instant {
        self.look_at
    }
    /// What was sent last, such as resets, is in the device already.
    fn end(&mut self, now: Instant, told: &mut Told) {
        let _ = self.turn(now, told);
    }
}
