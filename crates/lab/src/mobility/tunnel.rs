//! Both ends of a mobile's tunnel (RFC 2003), in user space: the kernel may have none. Packets leave for it, and what comes out of it
//! arrives, by a TUN device; what the mobile sends goes its own way.

use super::agent::{HomeAgent, Mobile};
use super::registration::PORT;
use crate::LabError;
use crate::driver::MTU;
use crate::tools;
use crate::worker::Worker;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wavelane_base::{Instant, Span};
use wavelane_host::ipip::IpipSocket;
use wavelane_host::netns::Netns;
use wavelane_host::raw::RawSender;
use wavelane_host::realtime;
use wavelane_host::tun::Tun;
use wavelane_wire::ip::IPV4_HEADER_LEN;
use wavelane_wire::ipip::{open, wrap};

/// Longest wait, so that a stop request is noticed in time.
const GLANCE: Span = Span::from_millis(20);
/// Packets that are moved before messages have their turn again.
const BATCH: usize = 64;
/// Room for any packet.
const BUFFER: usize = 65_536;
/// What fits the tunnel; the kernel tells senders of more.
const INNER_MTU: usize = MTU - IPV4_HEADER_LEN;

/// A device of a tunnel in a node, which is up.
fn device(ns: &Netns, name: &str) -> Result<Tun, LabError> {
    let made = name.to_owned();
    let tun = ns.run(move || Tun::open(&made))??;
    tools::ip(ns, &[format!("link set {name} mtu {INNER_MTU} up")])?;
    Ok(tun)
}

/// The socket of messages at an address of a node.
pub(super) fn messages(ns: &Netns, at: SocketAddrV4) -> Result<UdpSocket, LabError> {
    let bound = move || {
        let socket = UdpSocket::bind(at)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    ns.run(bound)?.map_err(LabError::io(format!("cannot have messages of Mobile IP at {at} in node {}", ns.name())))
}

/// Starts the home agent at an address of its router, for the mobile with the address `home`.
pub(super) fn serve(
    ns: &Arc<Netns>,
    name: &str,
    [at, home]: [Ipv4Addr; 2],
    mut agent: HomeAgent,
) -> Result<Worker, LabError> {
    let (tun, socket) = (device(ns, name)?, messages(ns, SocketAddrV4::new(at, PORT))?);
    let raw = ns.run(|| RawSender::open(0))?.map_err(LabError::io("cannot send packets in packets"))?;
    let (ns, name) = (Arc::clone(ns), name.to_owned());
    let work = move |stop: &Arc<AtomicBool>| {
        let mut buffers = [vec![0; BUFFER], vec![0; BUFFER]];
        let mut led = None;
        while !stop.load(Ordering::Acquire) {
            let _ = realtime::wait(&[tun.as_fd(), socket.as_fd()], realtime::now() + GLANCE);
            let now = realtime::now();
            let [packet, outer] = &mut buffers;
            while let Ok((len, from)) = socket.recv_from(packet) {
                if let Some(reply) = agent.handle(now, &packet[..len]) {
                    // A reply that is lost is asked for again.
                    let _ = socket.send_to(&reply, from);
                }
            }
            let care_of = agent.care_of(now);
            if care_of.is_some() != led.is_some() {
                let what = if care_of.is_some() { "replace" } else { "del" };
                // Without the route nothing enters the tunnel, which the flow shows.
                let _ = tools::ip(&ns, &[format!("route {what} {home}/32 dev {name}")]);
            }
            led = care_of;
            for _ in 0..BATCH {
                let Ok(Some(len)) = tun.read(packet) else { break };
                let Some(care_of) = led else { continue };
                if let Ok(len) = wrap(&packet[..len], (at, care_of), outer) {
                    // As at any router, a full queue drops.
                    let _ = raw.send(&outer[..len], care_of.into());
                }
            }
        }
    };
    Worker::start("home-agent", work).map_err(LabError::io("cannot start a thread for a home agent"))
}

/// The mobile's end.
pub(super) struct FarEnd {
    tun: Tun,
    packets: IpipSocket,
    agent: Ipv4Addr,
}

impl FarEnd {
    pub(super) fn open(ns: &Netns, name: &str, agent: Ipv4Addr) -> Result<Self, LabError> {
        let packets = ns.run(IpipSocket::open)?.map_err(LabError::io("cannot receive packets in packets"))?;
        Ok(Self { tun: device(ns, name)?, packets, agent })
    }

    /// Registers and takes packets out of the tunnel until it is told to stop; `seen` is told what became of the registration.
    pub(super) fn work(
        &self,
        socket: &UdpSocket,
        mobile: &mut Mobile,
        stop: &AtomicBool,
        mut seen: impl FnMut(&Mobile, Instant),
    ) {
        let mut buffer = vec![0; BUFFER];
        let agent = SocketAddrV4::new(self.agent, PORT);
        while !stop.load(Ordering::Acquire) {
            let now = realtime::now();
            let wake = mobile.poll_timeout().map_or(now + GLANCE, |at| at.min(now + GLANCE));
            let _ = realtime::wait(&[self.packets.as_fd(), socket.as_fd()], wake);
            let now = realtime::now();
            while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                if from == agent.into() {
                    mobile.handle(now, &buffer[..len]);
                }
            }
            if let Some(request) = mobile.poll_transmit(now) {
                // One that is lost is sent again.
                let _ = socket.send_to(&request, agent);
            }
            seen(mobile, now);
            for _ in 0..BATCH {
                let Ok(Some((len, _))) = self.packets.receive(&mut buffer) else { break };
                // Only the home agent's.
                if let Ok(opened) = open(&mut buffer[..len])
                    && opened.peer == self.agent
                {
                    // A packet that its kernel refuses is lost.
                    let _ = self.tun.write(opened.packet);
                }
            }
        }
    }
}
