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
use crate::config::{prefix_text, value};
use crate::start::StartError;
use crate::system::interface::{TUNNEL_DEVICE, into_tunnel, make_for_tunnels, tunnel_lacks};
use crate::system::kernel::Failing;
use crate::system::rules::RulesError;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use wavelane_base::{Instant, Span};
use wavelane_host::clock::NodeClock;
use wavelane_host::ipip::{IpipSocket, path_mtu};
use wavelane_host::nft::{ToolError, run};
use wavelane_host::poller::{Poller, Watch};
use wavelane_host::raw::RawSender;
use wavelane_host::routes::networks_by;
use wavelane_host::tun::OffloadTun;
use wavelane_host::{interface_index, interface_name};
use wavelane_wire::ip::IPV4_HEADER_LEN;
use wavelane_wire::ipip::{Refused, open, unmerge, wrap};

/// Packets of either way that are taken before the other's turn.
const PACKETS_PER_TURN: usize = 64;
/// How often it is asked what the ways to the other ends take, which interfaces have which names, and what of ours stands.
const LOOK_EVERY: Span = Span::from_secs(1);
/// At most a twentieth of the time goes to it, however many routes this host has.
const REST_PER_LOOK: u64 = 19;
/// What a way takes of which nothing is known yet, and the least that is believed: a segment of the least that every host takes, 536 octets
/// (RFC 9293, section 3.7.1), fits with its options and both headers. Anybody can forge the word of a narrower way.
const MTU_USUAL: u32 = 1_500;
const MTU_MIN: u32 = 640;

/// What another program may take away, and what usually does.
const LOST: (&str, &str) = (
    "the device wavelane-tunnel, its MTU or the routes into it",
    "`ip link` or `ip route flush` takes them, or a network manager that restarts; systemd-networkd spares routes with ManageForeignRoutes=no",
);

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
    /// The kernel's number of the device.
    index: Option<u32>,
    /// What was refused when it was put back.
    failing: Option<Failing>,
    /// What is to be told of that.
    news: Vec<Result<(), String>>,
    look_at: Instant,
    buffer: Vec<u8>,
    outer: Vec<u8>,
}

/// What fits the tunnel to a peer.
fn mtu_to(peer: Ipv4Addr) -> Option<u32> {
    path_mtu(peer).ok().map(|mtu| mtu.max(MTU_MIN) - IPV4_HEADER_LEN as u32)
}

/// The networks that the kernel reaches by the device.
fn routes_there(index: Option<u32>) -> BTreeSet<(IpAddr, u8)> {
    let there = index.and_then(|index| networks_by(index).ok()).unwrap_or_default();
    there.into_iter().map(|network| (network.address, network.bits)).collect()
}

impl Tunnels {
    pub(super) fn open(settings: &Settings) -> Result<Self, StartError> {
        let socket = IpipSocket::open().map_err(RulesError::Listener)?;
        let raw = RawSender::open(MARK_OWN).map_err(RulesError::Listener)?;
        let tun = make_for_tunnels()?;
        let of = |tunnel: &Tunnel| mtu_to(tunnel.peer).unwrap_or(MTU_USUAL - IPV4_HEADER_LEN as u32);
        let mtus: Vec<u32> = settings.tunnels.iter().map(of).collect();
        let each = settings.tunnels.iter().zip(&mtus);
        let lines = each.flat_map(|(tunnel, mtu)| tunnel.networks.iter().map(|one| into_tunnel(one, *mtu, false)));
        let index = interface_index(TUNNEL_DEVICE);
        if let Err(e) = run("ip", &["-batch", "-"], &lines.collect::<String>()) {
            // It stopped at the first that was refused.
            let there = routes_there(index);
            let refused = settings
                .tunnels
                .iter()
                .flat_map(|tunnel| &tunnel.networks)
                .find(|one| !there.contains(&(one.address, one.bits)));
            let Some((ToolError::Refused { .. }, one)) = Some(&e).zip(refused) else {
                return Err(RulesError::Tool(e).into());
            };
            let text = prefix_text(one);
            let why = format!(
                "{text} cannot be led into the tunnel ({e}): remove the route that stands (`ip route show {text}`), or take the network out"
            );
            return Err(value("proxy.tunnel.networks", why).into());
        }
        Ok(Self {
            socket,
            tun,
            raw,
            tunnels: settings.tunnels.clone(),
            interfaces: settings.interfaces.clone(),
            known: BTreeMap::new(),
            mtus,
            index,
            failing: None,
            news: Vec::new(),
            look_at: Instant::ZERO,
            buffer: vec![0; usize::from(u16::MAX)],
            outer: vec![0; usize::from(u16::MAX)],
        })
    }

    /// What `ip` is told so that all stands; how many of these lines put back what was there; and what the tunnels take.
    fn lacks(&self) -> (Vec<String>, usize, Vec<u32>) {
        let mut lines = tunnel_lacks(self.index);
        let there = routes_there(self.index);
        let (mut changes, mut mtus) = (Vec::new(), Vec::new());
        for (tunnel, mtu) in self.tunnels.iter().zip(&self.mtus) {
            let new = mtu_to(tunnel.peer).unwrap_or(*mtu);
            for network in &tunnel.networks {
                match there.contains(&(network.address, network.bits)) {
                    false => lines.push(into_tunnel(network, new, false)),
                    true if new != *mtu => changes.push(into_tunnel(network, new, true)),
                    true => {}
                }
            }
            mtus.push(new);
        }
        let lost = lines.len();
        lines.extend(changes);
        (lines, lost, mtus)
    }

    /// Puts back what another program took away, and has the routes say what the tunnels take now.
    fn look(&mut self, now: Instant) {
        let (lines, lost, mtus) = self.lacks();
        if lines.is_empty() {
            self.mtus = mtus;
            self.failing = None;
            return;
        }
        let marks = |lines: &[String]| lines.iter().map(|line| line.clone().into_bytes()).collect::<Vec<_>>();
        if self.failing.as_ref().is_some_and(|failing| failing.rests(now, &marks(&lines))) {
            return;
        }
        // All that can be had, at once.
        let done = run("ip", &["-force", "-batch", "-"], &lines.concat());
        if matches!(done, Ok(_) | Err(ToolError::Refused { .. })) {
            self.mtus = mtus;
        }
        let (left, still, _) = self.lacks();
        if still < lost {
            self.news.push(Ok(()));
        }
        let before = self.failing.take();
        if !left.is_empty() {
            let why =
                || done.as_ref().map_or_else(ToString::to_string, |_| format!("`ip` does not keep {}", left[0].trim()));
            self.news.extend((before.is_none() && still > 0).then(|| Err(why())));
            self.failing = Some(Failing::again(now, before, marks(&left)));
        }
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
        self.known.clear();
        self.look(now);
        let end = NodeClock.now();
        self.look_at = end + LOOK_EVERY.max(end.since(now).times(REST_PER_LOOK).min(LOOK_EVERY.times(2)));
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
        let lost = |result| ((LOST.0.into(), LOST.1.into()), result);
        told.lost.extend(self.news.drain(..).map(lost));
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
