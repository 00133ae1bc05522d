//! Our own queue in the packets' path: a firewall rule hands each packet that leaves by an interface to us (NFQUEUE), and
//! the kernel keeps it until the shaper lets it go.
//!
//! The rule bypasses a queue that nobody listens to, so packets pass unshaped as soon as we are gone, however that happened;
//! a rule that is left behind does nothing until the next start removes it.

use super::LOOK_EVERY;
use super::config::Interface;
use super::flow::{self, Look};
use crate::system::family::Family;
use crate::system::firewall::older;
use crate::system::rules::{XT_WAIT, remove_chain, remove_if_empty};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use wavelane_base::{Instant, Rate, Span};
use wavelane_host::nfqueue::{HeldPacket, NfQueue};
use wavelane_host::nft::{ToolError, run};
use wavelane_host::routes::ruleset_generation;
use wavelane_queue::{Limits, Queued, Shaper, Tins};

/// Our chain, in the table `mangle`: before addresses are translated, so that flows are the house's own.
const CHAIN: &str = "WAVELANE_SHAPER";
/// The number of the first interface's NFQUEUE.
pub(super) const NUMBER: u16 = 4_790;
/// What may wait: fewer than NFQUEUE's own 8,192, so that ours decides which is dropped; the kernel holds the octets.
const LIMITS: Limits = Limits { items: 4_096, octets: 16 << 20 };
/// CoDel's interval.
const ROUND_TRIP: Span = Span::from_millis(100);
/// Memory for packets that the kernel has told us of and we have not read, as it counts them.
const UNREAD: usize = 8 << 20;
/// How often it is told that the rules were taken away.
const TOLD_EVERY: Span = Span::from_secs(60);
/// Packets taken per round.
const BATCH: usize = 256;

/// A packet that the kernel holds.
#[derive(Debug)]
struct Packet {
    held: HeldPacket,
    look: Look,
}

impl Queued for Packet {
    fn octets(&self) -> usize {
        self.look.octets
    }
    fn flow(&self) -> u64 {
        self.look.flow
    }
    fn hosts(&self) -> (u64, u64) {
        self.look.hosts
    }
    fn dscp(&self) -> u8 {
        self.look.dscp
    }
    fn heeds_drops(&self) -> bool {
        true
    }
    fn mark(&mut self) -> bool {
        // The kernel holds the packet; only its head was copied to us.
        false
    }
}

/// One interface's queue.
#[derive(Debug)]
pub(super) struct QueueInPath {
    queue: NfQueue,
    shaper: Shaper<Packet>,
    key: u64,
    /// Octets let out.
    carried: u64,
}

impl QueueInPath {
    /// Binds queue `number`. Packets come once [`lead`] has set the rules.
    pub(super) fn open(of: &Interface, number: u16, key: u64) -> io::Result<Self> {
        let queue = NfQueue::bind(number)?;
        queue.set_room(UNREAD)?;
        let shaper = Shaper::new(of.pace.first(), of.framing, ROUND_TRIP, Tins::default(), LIMITS);
        Ok(Self { queue, shaper, key, carried: 0 })
    }
    /// Takes packets that came, and lets out what is due. True if more may wait to be taken.
    pub(super) fn serve(&mut self, now: Instant) -> io::Result<bool> {
        let Self { queue, shaper, key, carried } = self;
        let mut more = true;
        for _ in 0..BATCH {
            let Some(queued) = queue.receive()? else {
                more = false;
                break;
            };
            match flow::look(&queued.head, *key) {
                Some(look) => {
                    let packet = Packet { held: queued.held, look };
                    shaper.push(now, packet, &mut |packet, _| drop(queue.discard(packet.held)));
                }
                None => drop(queue.accept(queued.held)),
            }
        }
        while let Some(popped) = shaper.pop(now, &mut |packet, _| drop(queue.discard(packet.held))) {
            *carried += popped.item.look.octets as u64;
            // The kernel may have thrown it away with its interface; then there is nothing to let go.
            let _ = queue.accept(popped.item.held);
        }
        Ok(more)
    }
    /// When [`Self::serve`] has something to let out.
    pub(super) fn due(&self) -> Option<Instant> {
        self.shaper.due()
    }
    pub(super) fn set_rate(&mut self, rate: Rate) {
        if rate != self.shaper.rate() {
            self.shaper.set_rate(rate);
        }
    }
    pub(super) fn carried(&self) -> u64 {
        self.carried
    }
}

impl Drop for QueueInPath {
    /// Releases the packets that wait.
    fn drop(&mut self) {
        for packet in self.shaper.take_all() {
            let _ = self.queue.accept(packet.held);
        }
        while let Ok(Some(queued)) = self.queue.receive() {
            let _ = self.queue.accept(queued.held);
        }
    }
}

impl AsFd for QueueInPath {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

/// The rules that hand packets to us. Dropping it removes them.
#[derive(Debug)]
pub(super) struct Lead {
    /// What they say, for `iptables-restore`.
    text: String,
    /// Those that stood at first, as `iptables -S` lists them.
    whole: Vec<String>,
    /// Of nft's rulesets when they were last seen to stand: if it is the same, so are they.
    generation: Option<u32>,
    look_at: Instant,
    /// When their loss may be told again.
    tell_at: Instant,
    failing: bool,
}

/// Hands packets that leave by these interfaces to the queues of these numbers.
pub(super) fn lead(interfaces: Vec<(String, u16)>) -> Result<Lead, ToolError> {
    let queue = |(name, number): (String, u16)| {
        format!("-A {CHAIN} -o {name} -j NFQUEUE --queue-num {number} --queue-bypass\n")
    };
    let rules: String = interfaces.into_iter().map(queue).collect();
    let text = format!("*mangle\n:{CHAIN} - [0:0]\n{rules}-A POSTROUTING -j {CHAIN}\nCOMMIT\n");
    let [look_at, tell_at] = [Instant::ZERO; 2];
    let mut lead = Lead { text, whole: Vec::new(), generation: None, look_at, tell_at, failing: false };
    lead.set()?;
    lead.whole = standing().unwrap_or_default();
    Ok(lead)
}

impl Lead {
    fn set(&mut self) -> Result<(), ToolError> {
        for family in Family::here() {
            run(family.iptables_restore(), &["-n", XT_WAIT], &self.text)?;
        }
        // What others do from now on is seen at the next look.
        self.generation = None;
        Ok(())
    }
    /// Sets the rules again where another program took them away. Returns what is worth a line.
    pub(super) fn look(&mut self, now: Instant) -> Option<String> {
        if now < self.look_at {
            return None;
        }
        // The older iptables' changes have no number, and its listing takes time that packets wait.
        let has_older = Family::ALL.into_iter().any(older::has_tables);
        self.look_at = now + if has_older { older::READ_EVERY } else { LOOK_EVERY };
        let generation = ruleset_generation();
        if !has_older && generation.is_some() && generation == self.generation {
            return None;
        }
        let now_there = standing()?;
        if self.whole.iter().all(|rule| now_there.contains(rule)) {
            self.generation = generation;
            return None;
        }
        clear();
        match self.set() {
            Ok(()) => {
                let is_told = !self.failing && now < self.tell_at;
                self.failing = false;
                (!is_told).then(|| {
                    self.tell_at = now + TOLD_EVERY;
                    format!("the iptables chain {CHAIN} (mangle): another program took it away, and it is put back (`nft flush ruleset`, `iptables -F` or a reload of the firewall do so)")
                })
            }
            Err(why) => (!std::mem::replace(&mut self.failing, true)).then(|| {
                format!("nothing is shaped: the iptables chain {CHAIN} (mangle) is gone and cannot be put back: {why}")
            }),
        }
    }
}

/// Our rules in the kernel, of both IP versions; `None` if they cannot be read.
fn standing() -> Option<Vec<String>> {
    let mut found = Vec::new();
    for family in Family::here() {
        let listing = run(family.iptables(), &[XT_WAIT, "-t", "mangle", "-S"], "").ok()?;
        found.extend(listing.lines().filter(|line| line.contains(CHAIN)).map(|line| format!("{family:?} {line}")));
    }
    Some(found)
}

impl Drop for Lead {
    fn drop(&mut self) {
        clear();
    }
}

/// Removes our rules, those of earlier processes included, and the table if nothing else is in it.
pub(super) fn clear() {
    for family in Family::here() {
        remove_chain(family, "mangle", CHAIN);
        remove_if_empty(family, "mangle");
    }
}
