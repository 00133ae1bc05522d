//! A home: a laptop on its radio link to the router, a server behind that, and a second machine; one copy fills the link,
//! and pings show what others feel of it.

mod seen;

pub(crate) use seen::{Seen, seen};

use std::fmt::Write;

/// When the copy begins; before that the link is idle.
pub(crate) const COPY_AT_S: u64 = 5;
/// The copy, and the pings: from the laptop, from the second machine, and from the server back to the laptop.
pub(crate) const COPY: &str = "copy";
pub(crate) const PING: &str = "ping";
pub(crate) const SECOND: &str = "ping2";
pub(crate) const BACK: &str = "pingback";
/// Bits of a full packet.
pub(crate) const PACKET_BITS: f64 = 12_000.0;
/// Both ways of the radio link without load, beside the packets' own time.
pub(crate) const DELAY_US: u64 = 500;

/// The laptop's radio link.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Air {
    /// A cable at the rate that TCP gets of the radio, counting IP bytes, with a queue each way: from the laptop, and to
    /// it. Runs in the laboratory too.
    Cable { kbit: u32, up: String, down: String },
    /// An 802.11g cell at a signalling rate, and how many packets each station holds.
    Cell { mbit: u32, packets: u32 },
}

/// What is run.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Home {
    pub(crate) title: String,
    pub(crate) air: Air,
    /// `upload` or `download`.
    pub(crate) copy: &'static str,
    pub(crate) control: &'static str,
    pub(crate) seconds: u64,
    /// Starts of small downloads by the laptop, in seconds, and their size.
    pub(crate) pages: Vec<u64>,
    /// The queue of an interface on the way to the laptop that is faster than its radio, if there is one.
    pub(crate) bridge: Option<String>,
}

/// Bytes of a small download: with an initial window of ten it takes three rounds after the connection's own.
pub(crate) const PAGE: &str = "64 kB";

/// `txqueuelen` and a driver's ring.
pub(crate) fn two_stage(txqueuelen: u32, ring: u32) -> String {
    format!("{{ kind = \"two-stage\", txqueuelen = \"{txqueuelen} packets\", ring = \"{ring} packets\" }}")
}

/// A FIFO.
pub(crate) fn fifo(packets: u32) -> String {
    format!("\"{packets} packets\"")
}

/// A discipline by its word, with its defaults.
pub(crate) fn named(kind: &str) -> String {
    format!("{{ kind = \"{kind}\" }}")
}

impl Home {
    /// A home whose laptop uploads.
    pub(crate) fn new(title: impl Into<String>, air: Air, seconds: u64) -> Self {
        let (copy, control) = ("upload", "cubic");
        Self { title: title.into(), air, copy, control, seconds, pages: Vec::new(), bridge: None }
    }

    /// The scenario file.
    pub(crate) fn text(&self) -> String {
        let Self { title, seconds, control, copy, .. } = self;
        let mut text =
            format!("title = \"{title}\"\nduration = \"{seconds} s\"\nstacks = [\"tcp-{control}\"]\n[nodes]\n");
        text += "laptop = \"endpoint\"\nrouter = \"router\"\nserver = \"endpoint\"\nsecond = \"endpoint\"\n";
        if self.bridge.is_some() {
            text += "port = \"router\"\n";
        }
        match &self.air {
            Air::Cable { kbit, up, down } => {
                // What the host and the radio add to each packet's delay makes runs of different seeds differ.
                let way = |queue: &str| {
                    format!(
                        "{{ rate = \"{kbit} kbit/s\", delay = \"{DELAY_US} us\", jitter = \"200 us\", queue = {queue} }}"
                    )
                };
                let _ = writeln!(text, "[channels.air]\nkind = \"cable\"\nbetween = [\"laptop\", \"router\"]");
                let _ = writeln!(text, "forward = {}\nreverse = {}", way(up), way(down));
                text += "[channels.desk]\npreset = \"ethernet\"\nbetween = [\"second\", \"router\"]\n";
            }
            Air::Cell { mbit, packets } => {
                let _ = writeln!(text, "[channels.air]\nkind = \"wifi\"\nnodes = [\"router\", \"laptop\", \"second\"]");
                let _ = writeln!(
                    text,
                    "phy = \"802.11g\"\nslot = \"short\"\nrate = \"{mbit} Mbit/s\"\nqueue = \"{packets} packets\""
                );
            }
        }
        let lan = match &self.bridge {
            None => "[channels.lan]\npreset = \"ethernet\"\nbetween = [\"router\", \"server\"]\n".to_owned(),
            Some(queue) => format!(
                "[channels.lan]\npreset = \"ethernet\"\nbetween = [\"port\", \"server\"]\n\
                 [channels.bridge]\nkind = \"cable\"\nbetween = [\"port\", \"router\"]\n\
                 forward = {{ rate = \"100 Mbit/s\", queue = {queue} }}\nreverse = {{ rate = \"100 Mbit/s\" }}\n"
            ),
        };
        text += &lan;
        let mut flow = |name: &str, app: &str, from: &str, to: &str, more: &str| {
            let _ = writeln!(text, "[flows.{name}]\napp = \"{app}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{more}");
        };
        flow(COPY, copy, "laptop", "server", &format!("start = \"{COPY_AT_S} s\""));
        flow(PING, "ping", "laptop", "server", "every = \"100 ms\"");
        flow(SECOND, "ping", "second", "server", "every = \"100 ms\"\nstart = \"30 ms\"");
        if *copy == "download" {
            flow(BACK, "ping", "server", "laptop", "every = \"20 ms\"\nstart = \"60 ms\"");
        }
        for (i, start) in self.pages.iter().enumerate() {
            let more = format!("size = \"{PAGE}\"\nstart = \"{start} s\"");
            flow(&format!("page{i}"), "download", "laptop", "server", &more);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use wavelane_scenario::Scenario;

    #[test]
    fn every_home_is_a_scenario() {
        let cable = |up: String, down: String| Air::Cable { kbit: 4_900, up, down };
        let mut home = Home::new("a", cable(two_stage(1_000, 256), named("fq-codel")), 20);
        let airs = [home.air.clone(), Air::Cell { mbit: 54, packets: 1_256 }, cable(named("pie"), fifo(9))];
        for air in airs {
            for copy in ["upload", "download"] {
                home = Home { air: air.clone(), copy, pages: vec![1, 12], bridge: Some(two_stage(0, 8)), ..home };
                let scenario = Scenario::parse(&home.text(), std::path::Path::new(".")).unwrap();
                assert_eq!(scenario.flows.len(), if copy == "download" { 6 } else { 5 });
            }
        }
    }
}
