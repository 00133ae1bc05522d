//! Two TCP stacks over one emulated link, in real time. Each side is the Linux kernel, in a namespace behind a TUN device, or an end host
//! of ours ([`EndHost`]), whose packets enter the same link without a kernel.
//!
//! The first side sends, the second receives: bulk flows of known content. The link is a [`wavelane_channel::Cable`],
//! so a run in which the sides swap roles meets the same losses, frame by frame.

mod ahead;
mod behind;
mod host;
mod kernel;
mod link;

pub use host::{EndHost, HostNews};

use crate::LabError;
use crate::content::{Content, Digested, Received};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use wavelane_base::{Seed, Span};
use wavelane_channel::CableConfig;

/// The sender's and the receiver's address.
const IPV4: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 78, 0, 1), Ipv4Addr::new(10, 78, 0, 2)];
const IPV6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0x78, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xfd00, 0x78, 0, 0, 0, 0, 0, 2)];
/// Port of the first flow's receiver; each further flow uses the next port.
const PORT: u16 = 5_001;
/// Source port of a host's first flow; each further flow uses the next port.
const HOST_PORT: u16 = 40_001;
/// Maximum number of flows in one duel.
pub const FLOWS_MAX: usize = 64;

/// Duration of the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// Until each has carried this many bytes.
    Octets(u64),
    /// For this long.
    Time(Span),
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Duel {
    /// For messages, and for naming the link's random streams.
    pub name: String,
    /// The run's number.
    pub seed: Seed,
    /// The link; forward is from the sender to the receiver.
    pub cable: CableConfig,
    /// Number of concurrent flows, at most [`FLOWS_MAX`].
    pub flows: usize,
    /// Duration of the flows.
    pub load: Load,
    /// Time limit, after which the duel is abandoned.
    pub limit: Span,
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// Largest window that the kernel's receivers advertise; if `None`, as much as the kernel allows.
    pub window: Option<u32>,
    /// File for a full capture of the packets at the sender's end, if wanted.
    pub capture: Option<PathBuf>,
}

/// One end of the link.
#[derive(Debug)]
pub enum Side<G> {
    /// The Linux kernel with this congestion control, set per socket.
    Kernel(&'static str),
    /// A host of ours.
    EndHost(G),
}

/// Result of one flow.
#[derive(Clone, Debug, Default)]
pub struct FlowEnd {
    /// Bytes that its receiver read.
    pub octets: u64,
    /// When the receiver read the first and the latest byte, in nanoseconds since the run's start.
    pub first_ns: Option<u64>,
    /// See `first_ns`.
    pub last_ns: Option<u64>,
    /// Bytes read, by time.
    pub arrivals: Vec<(u64, u64)>,
    /// Whether all bytes arrived as sent; `None` if the flow had no end of its own.
    pub intact: Option<bool>,
}

/// Result of a duel.
#[derive(Debug)]
pub struct DuelEnd<G> {
    /// Per flow.
    pub flows: Vec<FlowEnd>,
    /// The hosts in their final state.
    pub hosts: [Option<G>; 2],
    /// A kernel's counters by the names that `nstat` prints, from a namespace without other traffic.
    pub kernel: [Option<BTreeMap<String, u64>>; 2],
    /// The link's counters, forward first.
    pub link: [wavelane_channel::Counters; 2],
    /// 99th percentile of the link's delivery lateness.
    pub late: Span,
    /// Why the machine was too busy for a conclusive run, if it was.
    pub inconclusive: Option<String>,
}

/// What the receiver of one flow has seen so far, shared with all readers.
#[derive(Default)]
struct Inbox {
    received: Received,
    ended: bool,
}

/// An [`Inbox`] that a thread fills.
type Shared = Arc<Mutex<Inbox>>;

fn lock(inbox: &Shared) -> std::sync::MutexGuard<'_, Inbox> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Duel {
    fn ip(&self, end: usize) -> IpAddr {
        if self.ipv6 { IPV6[end].into() } else { IPV4[end].into() }
    }
    /// Where the receiver of flow `i` listens.
    fn target(&self, i: usize) -> SocketAddr {
        SocketAddr::new(self.ip(1), PORT + i as u16)
    }
    /// The bytes of flow `i`.
    fn content(&self, i: usize) -> Content {
        let octets = if let Load::Octets(octets) = self.load { octets } else { crate::bulk::ENDLESS };
        Content::new(self.seed, &format!("{} {i}", self.name), octets)
    }
}

/// Runs the duel. Blocks until the flows are over or `cancelled` is set.
///
/// # Errors
/// Something cannot be built, the link fails, or flows of a fixed size are not over at the limit.
pub fn run<G: EndHost>(duel: &Duel, sides: [Side<G>; 2], cancelled: &AtomicBool) -> Result<DuelEnd<G>, LabError> {
    if !(1..=FLOWS_MAX).contains(&duel.flows) {
        return Err(LabError::Topology(format!("a duel has 1 to {FLOWS_MAX} flows, not {}", duel.flows)));
    }
    let inboxes: Vec<Shared> = (0..duel.flows).map(|_| Shared::default()).collect();
    let bodies: Vec<Content> = (0..duel.flows).map(|i| duel.content(i)).collect();
    let digests: Vec<Digested> = bodies.iter().map(Content::digest).collect();
    let mut end = link::Link::build(duel, sides)?.run(duel, bodies, &inboxes, cancelled)?;
    for (inbox, digest) in inboxes.iter().zip(digests) {
        let Inbox { received, .. } = &*lock(inbox);
        let sum = *digest.lock().unwrap_or_else(PoisonError::into_inner);
        end.flows.push(FlowEnd {
            octets: received.octets,
            first_ns: received.first_ns,
            last_ns: received.last_ns,
            arrivals: received.arrivals.clone(),
            intact: matches!(duel.load, Load::Octets(_)).then(|| sum == Some(received.hash())),
        });
    }
    Ok(end)
}
