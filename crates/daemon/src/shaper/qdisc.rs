//! The kernel's own shapers, set by `tc`. Ours are recognised by their handle.

use super::config::{How, Interface};
use wavelane_base::{Octets, Rate, Span};
use wavelane_host::nft::{ToolError, run};
use wavelane_host::routes::root_qdisc;
use wavelane_queue::{Cells, Framing};

/// The handle of everything that we set ("WL").
const HANDLE: &str = "574c:";
const HANDLE_NUMBER: u32 = 0x574c_0000;
const CLASS: &str = "574c:1";
/// The handle of what the kernel sets by itself.
const UNSET: &str = "0:";
/// What `tbf` lets wait: long enough for a sender's bursts, short enough for a call.
const TBF_LATENCY: &str = "20ms";
/// What `tbf` and `htb` let out at once: what comes due between two ticks of a kernel of 250 Hz, and two packets.
const TICK: Span = Span::from_millis(4);
const BURST_MIN: u64 = 3_200;
/// Ethernet's header, which the kernel counts in a packet's length and our overhead does not mean.
const ETHERNET: u16 = 14;

/// A qdisc of ours on an interface.
#[derive(Debug)]
pub(super) struct Qdisc {
    interface: String,
    how: How,
    framing: Framing,
    rate: Rate,
}

fn tc(arguments: &str) -> Result<String, ToolError> {
    run("tc", &arguments.split_whitespace().collect::<Vec<_>>(), "")
}

/// The root qdisc's kind and handle.
fn root(interface: &str) -> Result<Option<(String, String)>, ToolError> {
    let listing = tc(&format!("qdisc show dev {interface}"))?;
    Ok(listing.lines().find_map(parse_root))
}

fn parse_root(line: &str) -> Option<(String, String)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_root = words.first() == Some(&"qdisc") && words.contains(&"root");
    is_root.then(|| (words.get(1).copied().unwrap_or("").into(), words.get(2).copied().unwrap_or("").into()))
}

/// Why nothing can be set there, if something that we did not make stands there.
pub(super) fn taken(interface: &str) -> Result<Option<String>, ToolError> {
    let other = root(interface)?.filter(|(_, handle)| handle != UNSET && handle != HANDLE);
    Ok(other.map(|(kind, handle)| {
        format!(
            "{interface} has a queueing discipline of its own ({kind} {handle}): remove it (`tc qdisc del dev {interface} root`), or write how = \"path\""
        )
    }))
}

/// Removes what an earlier process set, on whichever interface.
pub(super) fn clear() {
    // `tc qdisc show` without an interface lists all of this network namespace.
    let listing = tc("qdisc show").unwrap_or_default();
    for line in listing.lines().filter(|l| parse_root(l).is_some_and(|(_, handle)| handle == HANDLE)) {
        if let Some(interface) = line.split_whitespace().skip_while(|word| *word != "dev").nth(1) {
            let _ = tc(&format!("qdisc del dev {interface} root"));
        }
    }
}

fn burst(rate: Rate) -> u64 {
    rate.octets_in(TICK).max(Octets::new(BURST_MIN)).get()
}

/// `cake`'s options for the link's framing.
fn cake(rate: Rate, framing: Framing) -> String {
    let cells = ["noatm", "atm", "ptm"][framing.cells as usize];
    format!("cake bandwidth {}bit overhead {} mpu {} {cells}", rate.as_bps(), framing.overhead, framing.least)
}

/// The same for `htb`, which has no PTM mode: its rate is lowered by a sixty-fifth instead.
fn htb(rate: Rate, framing: Framing) -> String {
    let (rate, layer) = match framing.cells {
        Cells::None => (rate, "ethernet"),
        Cells::Atm => (rate, "atm"),
        Cells::Ptm => (rate.scale(64, 65), "ethernet"),
    };
    let overhead = framing.overhead.saturating_sub(ETHERNET);
    let (bps, burst) = (rate.as_bps(), burst(rate));
    format!(
        "htb rate {bps}bit burst {burst} cburst {burst} overhead {overhead} mpu {} linklayer {layer}",
        framing.least
    )
}

fn tbf(rate: Rate) -> String {
    format!("tbf rate {}bit burst {} latency {TBF_LATENCY}", rate.as_bps(), burst(rate))
}

impl Qdisc {
    /// Sets it. Nothing is left if the kernel lacks a part.
    pub(super) fn set(of: &Interface, how: How) -> Result<Self, ToolError> {
        let rate = of.pace.first();
        let made = Self { interface: of.name.clone(), how, framing: of.framing, rate };
        // If a later step fails, dropping `made` undoes the earlier ones.
        made.make(rate)?;
        Ok(made)
    }
    fn make(&self, rate: Rate) -> Result<(), ToolError> {
        let (dev, framing) = (&self.interface, self.framing);
        let root = format!("qdisc add dev {dev} root handle {HANDLE}");
        match self.how {
            How::Cake => tc(&format!("{root} {}", cake(rate, framing)))?,
            How::FqCodel => {
                tc(&format!("{root} htb default 1"))?;
                tc(&format!("class add dev {dev} parent {HANDLE} classid {CLASS} {}", htb(rate, framing)))?;
                tc(&format!("qdisc add dev {dev} parent {CLASS} fq_codel"))?
            }
            _ => tc(&format!("{root} {}", tbf(rate)))?,
        };
        Ok(())
    }
    /// Whether it stands on the interface of this number; what cannot be asked is taken to.
    pub(super) fn stands(interface: u32) -> bool {
        root_qdisc(interface).map_or(true, |handle| handle == HANDLE_NUMBER)
    }
    /// Sets it on an interface that lost it, or was made anew. What others set there stays.
    pub(super) fn again(&self) -> Result<(), String> {
        if let Ok(Some(taken)) = taken(&self.interface) {
            return Err(taken);
        }
        self.make(self.rate).inspect_err(|_| self.remove()).map_err(|why| why.to_string())
    }
    /// Removes what is ours.
    fn remove(&self) {
        if root(&self.interface).is_ok_and(|found| found.is_some_and(|(_, handle)| handle == HANDLE)) {
            let _ = tc(&format!("qdisc del dev {} root", self.interface));
        }
    }
    /// Changes the rate.
    pub(super) fn set_rate(&mut self, rate: Rate) -> Result<(), ToolError> {
        let (dev, framing) = (&self.interface, self.framing);
        let root = format!("qdisc change dev {dev} root handle {HANDLE}");
        match self.how {
            How::Cake => tc(&format!("{root} {}", cake(rate, framing)))?,
            How::FqCodel => {
                tc(&format!("class change dev {dev} parent {HANDLE} classid {CLASS} {}", htb(rate, framing)))?
            }
            _ => tc(&format!("{root} {}", tbf(rate)))?,
        };
        self.rate = rate;
        Ok(())
    }
    pub(super) fn rate(&self) -> Rate {
        self.rate
    }
    /// Octets that the interface has sent.
    pub(super) fn carried(&self) -> Option<u64> {
        let listing = std::fs::read_to_string("/proc/thread-self/net/dev").ok()?;
        sent(&listing, &self.interface)
    }
}

impl Drop for Qdisc {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The ninth figure behind an interface's name (proc(5), `/proc/net/dev`).
fn sent(listing: &str, interface: &str) -> Option<u64> {
    let (_, figures) = listing.lines().filter_map(|l| l.trim().split_once(':')).find(|(name, _)| *name == interface)?;
    figures.split_whitespace().nth(8)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_known_by_its_line() {
        let root = |line: &str| parse_root(line).map(|(kind, handle)| format!("{kind} {handle}"));
        assert_eq!(root("qdisc tbf 574c: root refcnt 2 rate 6Mbit"), Some("tbf 574c:".into()));
        assert_eq!(root("qdisc noqueue 0: dev lo root refcnt 2"), Some("noqueue 0:".into()));
        assert_eq!(root("qdisc fq_codel 8001: parent 574c:1 limit 10240p"), None);
    }

    #[test]
    fn octets_sent_are_the_interfaces_own() {
        let listing = "Inter-|   Receive  |  Transmit\n face |bytes packets\n    lo: 1 2 3 4 5 6 7 8 9 10\n wan0:11 12 13 14 15 16 17 18 19 20\n";
        assert_eq!((sent(listing, "wan0"), sent(listing, "lo"), sent(listing, "an0")), (Some(19), Some(9), None));
    }

    /// What this kernel has is set, changed and removed; what it lacks fails in the kernel, not in `tc`'s grammar.
    #[test]
    fn the_kernel_and_tc_understand_us() {
        if !wavelane_host::netns::may_administer_network() {
            return eprintln!("SKIPPED (1 test): qdiscs need root");
        }
        let ns = wavelane_host::netns::Netns::new("t-qdisc").expect("a namespace");
        ns.run(|| {
            let of = |cells| Interface {
                name: "lo".into(),
                pace: super::super::config::Pace::Fixed(Rate::from_bps(6_500_000)),
                framing: Framing { overhead: 40, least: 64, cells },
                how: How::Auto,
            };
            for (cells, how) in [Cells::None, Cells::Atm, Cells::Ptm]
                .into_iter()
                .flat_map(|cells| [How::Cake, How::FqCodel, How::Tbf].map(|how| (cells, how)))
            {
                match Qdisc::set(&of(cells), how) {
                    Ok(mut qdisc) => {
                        qdisc.set_rate(Rate::from_bps(3_000_000)).expect("a change");
                        assert!(qdisc.carried().is_some() && root("lo").expect("tc").expect("one").1 == HANDLE);
                        assert!(taken("lo").expect("tc").is_none());
                    }
                    Err(why) => {
                        assert!(why.to_string().contains("kind is unknown") && how != How::Tbf, "{how:?}: {why}")
                    }
                }
                assert!(root("lo").expect("tc").is_none_or(|(_, handle)| handle == UNSET), "{how:?} left something");
            }
            let whole = Qdisc::set(&of(Cells::None), How::Tbf).expect("tbf");
            std::mem::forget(whole);
            clear();
            assert!(root("lo").expect("tc").is_none_or(|(_, handle)| handle == UNSET));
            tc("qdisc add dev lo root handle 1: pfifo").expect("pfifo");
            assert!(taken("lo").expect("tc").is_some_and(|why| why.contains("tc qdisc del dev lo root")));
            clear();
            assert!(root("lo").expect("tc").is_some_and(|(kind, _)| kind == "pfifo"), "another's stays");
        })
        .expect("the test's thread");
    }

    #[test]
    fn every_qdisc_gets_the_framing_options() {
        let rate = Rate::from_bps(6_500_000);
        let adsl = Framing { overhead: 40, least: 0, cells: Cells::Atm };
        assert_eq!(cake(rate, adsl), "cake bandwidth 6500000bit overhead 40 mpu 0 atm");
        assert_eq!(htb(rate, adsl), "htb rate 6500000bit burst 3250 cburst 3250 overhead 26 mpu 0 linklayer atm");
        let vdsl = Framing { cells: Cells::Ptm, ..Framing::default() };
        assert!(htb(rate, vdsl).starts_with("htb rate 6400000bit burst 3200 "));
        assert_eq!(tbf(rate), "tbf rate 6500000bit burst 3250 latency 20ms");
    }
}
