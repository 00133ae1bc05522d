//! The document's chain of four as text: campus, desktop, laptop, home; what comes down crosses a radio or an Ethernet, what goes up a
//! serial line or the same medium.

use core::fmt::Write;

/// The download.
pub(super) const DOWN: &str = "down";
/// The document's rates of the line, in bit/s.
pub(super) const RATES: [u64; 11] =
    [1_200, 2_400, 4_800, 9_600, 14_400, 19_200, 28_800, 33_600, 38_400, 57_600, 115_200];
/// IP bits of full packets that Ethernet at 10 Mbit/s carries: 1,500 of 1,538 octets.
const ETHERNET: &str = "{ rate = \"9.753 Mbit/s\", delay = \"50 us\" }";

/// What data crosses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Down {
    Ethernet,
    WaveLan,
    /// A cable on which a full packet takes its time on the radio.
    RadioTime,
    /// A subscriber's line of 1.5 Mbit/s.
    Adsl,
}

/// IP bits of full packets that take 1,500 octets at 2 Mbit/s and 0.7 ms.
pub(super) const RADIO_TIME_BPS: f64 = 12_000.0 / 6.7e-3;

/// What acknowledgements cross.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Up {
    /// The medium of the data.
    Same,
    /// A line: its framing, and one direction of it.
    Line { framing: &'static str, way: String },
}

/// The chain.
#[derive(Clone)]
pub(super) struct Chain {
    pub(super) down: Down,
    pub(super) up: Up,
    /// Segments acknowledged together, and the window in segments.
    pub(super) together: u32,
    pub(super) window: u32,
    pub(super) seconds: u64,
}

/// A line without anything else.
pub(super) fn plain(framing: &'static str, bps: u64) -> Up {
    Up::Line { framing, way: format!("rate = \"{bps} bit/s\"") }
}

/// Long enough for this many acknowledgements of SLIP.
pub(super) fn seconds_for(acks: u64, bps: u64) -> u64 {
    (acks * 410 / bps).max(20)
}

/// Segments acknowledged together, and a window of segments without options, as NetBSD 1.1 has them.
pub(super) fn tcp(together: u32, window: u32) -> String {
    format!(
        "[tcp]\nsegment = \"1460 B\"\nwindow = \"{} B\"\nack-every = {together}\nquick-acks = 0\nack-delay = \"200 ms\"\n\
         timestamps = false\nsack = false\nwindow-scale = false\n",
        window * 1_460
    )
}

impl Chain {
    /// The document's radio with a line up.
    pub(super) fn radio(up: Up, together: u32) -> Self {
        Self { down: Down::WaveLan, up, together, window: 12, seconds: 20 }
    }

    pub(super) fn text(&self) -> String {
        let mut text = head_of(self.seconds);
        text += &match self.down {
            Down::Ethernet => format!(
                "[channels.air]\nbetween = [\"desktop\", \"laptop\"]\nforward = {ETHERNET}\nreverse = \"same\"\n"
            ),
            Down::WaveLan => cell("air", "\"desktop\", \"laptop\""),
            Down::RadioTime => one_way(&format!("{RADIO_TIME_BPS:.0} bit/s"), "50 us"),
            Down::Adsl => one_way("1.5 Mbit/s", "10 ms"),
        };
        if let Up::Line { framing, way } = &self.up {
            let _ = write!(
                text,
                "[channels.line]\nkind = \"serial\"\nbetween = [\"laptop\", \"desktop\"]\nframing = \"{framing}\"\n\
                 forward = {{ {way} }}\nreverse = \"same\"\n[routes]\n\"laptop -> desktop\" = \"line\"\n"
            );
        }
        // PPP is up by then.
        text + &tcp(self.together, self.window) + &download("home", "campus") + "start = \"2 s\"\n"
    }
}

/// A cable down alone.
fn one_way(rate: &str, delay: &str) -> String {
    format!(
        "[channels.air]\nbetween = [\"desktop\", \"laptop\"]\nforward = {{ rate = \"{rate}\", delay = \"{delay}\" }}\nreverse = \"none\"\n"
    )
}

/// One direction of a cable, 50 ms long.
pub(super) fn plain_way(bps: u64, queue: &str) -> String {
    format!("{{ rate = \"{bps} bit/s\", delay = \"50 ms\", queue = \"{queue}\" }}")
}

/// The four nodes, and the Ethernets at both ends.
pub(super) fn head_of(seconds: u64) -> String {
    let mut text = format!(
        "title = \"Data down, acknowledgements up\"\nduration = \"{seconds} s\"\nstacks = [\"tcp-reno\", \"tcp-2001\"]\n[nodes]\n\
         campus = \"endpoint\"\ndesktop = \"gateway\"\nlaptop = \"gateway\"\nhome = \"endpoint\"\n"
    );
    for (name, ends) in [("lan-campus", "\"campus\", \"desktop\""), ("lan-home", "\"laptop\", \"home\"")] {
        let _ = write!(text, "[channels.{name}]\nbetween = [{ends}]\nforward = {ETHERNET}\nreverse = \"same\"\n");
    }
    text
}

/// One way of 2 Mbit/s that loses so much in a hundred.
pub(super) fn lossy(delay_ms: u64, percent: u32, more: &str) -> String {
    let loss = format!(", loss = {{ kind = \"random\", p = \"{percent}/100\" }}");
    let loss = if percent > 0 { &loss } else { "" };
    format!("{{ rate = \"2 Mbit/s\", delay = \"{delay_ms} ms\", queue = \"50 packets\"{loss}{more} }}")
}

/// Two gateways with an endpoint behind each, and the rest.
pub(super) fn gateways(title: &str, seconds: u64, stacks: &[&str], [a, b, c, d]: [&str; 4], rest: &str) -> String {
    format!(
        "title = \"{title}\"\nduration = \"{seconds} s\"\nstacks = {stacks:?}\n[nodes]\n{a} = \"endpoint\"\n{b} = \"gateway\"\n\
         {c} = \"gateway\"\n{d} = \"endpoint\"\n[channels.lan-{a}]\npreset = \"ethernet\"\nbetween = [\"{a}\", \"{b}\"]\n\
         [channels.lan-{d}]\npreset = \"ethernet\"\nbetween = [\"{c}\", \"{d}\"]\n{rest}"
    )
}

/// WaveLAN at 2 Mbit/s with 0.7 ms a frame.
pub(super) fn cell(name: &str, nodes: &str) -> String {
    format!(
        "[channels.{name}]\nkind = \"wifi\"\nnodes = [{nodes}]\nphy = \"wavelan\"\nrate = \"2 Mbit/s\"\noverhead = \"700 us\"\n"
    )
}

pub(super) fn download(from: &str, to: &str) -> String {
    format!("[flows.{DOWN}]\napp = \"download\"\nfrom = \"{from}\"\nto = \"{to}\"\n")
}

/// Two endpoints and what lies between them.
pub(super) fn direct(title: &str, seconds: u64, channel: &str, flows: &str) -> String {
    format!(
        "title = \"{title}\"\nduration = \"{seconds} s\"\nstacks = [\"tcp-reno\", \"tcp-2001\", \"tcp-cubic\"]\n[nodes]\n\
         campus = \"endpoint\"\nhome = \"endpoint\"\n{channel}{flows}"
    )
}

/// What `acks` of `octets` each let through, in bit/s.
pub(super) fn bound(together: f64, bps: u64, octets: f64) -> f64 {
    together * super::SEGMENT * 8.0 * bps as f64 / (10.0 * octets)
}
