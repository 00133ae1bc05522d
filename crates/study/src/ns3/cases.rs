//! The radio cells of the reference values, as scenarios: what ns-3's programs in `benches/ns3` build, in our words.

use core::fmt::Write;

/// Who shares a Gilbert-Elliott process of bit errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Noise {
    /// Nobody: no errors.
    None,
    /// A station and the base station, on their link.
    Link,
    /// Each receiver has its own.
    Receiver,
    /// Everybody.
    Common,
}

/// The PHY of a saturated cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Saturated {
    /// 802.11a at 54 Mbit/s.
    A,
    /// 802.11b at 11 Mbit/s.
    B,
    /// 802.11g at 54 Mbit/s with the long slot.
    G,
}

/// One cell with its traffic.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Case {
    /// `seed_bulk.cc`: a host behind a wire, a base station, one TCP flow to each station, 2 Mbit/s DSSS.
    Bulk {
        /// How many stations.
        stations: usize,
        /// Bytes of a segment.
        segment: usize,
        /// Segments of a window.
        window: usize,
        /// An RTS before every data frame.
        rts: bool,
        /// Bit errors.
        noise: Noise,
        /// Least retransmission timeout.
        rto_min_ms: u64,
        /// Tries of a frame.
        retry: u32,
    },
    /// `chain_tcp.cc`: stations in a line, one TCP flow over the first hops.
    Chain {
        /// Stations; at least one more than hops.
        nodes: usize,
        /// Hops of the flow.
        hops: usize,
        /// How many hops away a station is sensed.
        sense: usize,
        /// Data rate in Mbit/s.
        mbit: u64,
        /// Segments of 1460 bytes of a window.
        window: usize,
        /// Bytes of a segment.
        segment: usize,
        /// An RTS before every data frame.
        rts: bool,
    },
    /// `chain_tcp.cc`: a grid, first a flow along each row, then along each column.
    Grid {
        /// Columns.
        columns: usize,
        /// Rows.
        rows: usize,
        /// Flows.
        flows: usize,
        /// How many hops away a station is sensed.
        sense: usize,
    },
    /// `dcf_sat.cc`: stations with always a datagram of 1472 bytes for one sink.
    Saturation {
        /// The PHY.
        phy: Saturated,
        /// How many senders.
        senders: usize,
        /// An RTS before every data frame.
        rts: bool,
    },
}

/// Mean dwell times and bit error rates of the noise (Petrovic and Aboelaze 2003): 0.1 s, 1/30 s, 1e-6, 1e-2.
const ERRORS: &str = "good = \"100 ms\", bad = \"33333333 ns\", in_good = \"0.000001\", in_bad = \"0.01\"";

impl Case {
    /// The stack to run it with.
    pub fn stack(&self) -> &'static str {
        match self {
            Self::Bulk { rts: true, .. } | Self::Chain { rts: true, .. } => "tcp-reno+rts",
            Self::Bulk { .. } | Self::Chain { .. } | Self::Grid { .. } => "tcp-reno",
            Self::Saturation { .. } => "udp",
        }
    }

    /// Its scenario, which lasts `seconds`.
    pub fn text(&self, seconds: u64) -> String {
        let head = format!("title = \"ns-3's cell\"\nduration = \"{seconds} s\"\nstacks = [\"{}\"]\n", self.stack());
        head + &match *self {
            Self::Bulk { .. } => self.bulk(),
            Self::Chain { nodes, hops, sense, mbit, window, segment, .. } => {
                let place = |i: usize| (i, 0);
                let tcp = tcp(segment, segment * window, 2, 1_000);
                mesh(nodes.max(hops + 1), &place, sense, mbit, &[(0, hops)], &tcp)
            }
            Self::Grid { columns, rows, flows, sense } => {
                let place = |i: usize| (i % columns, i / columns);
                let ends = |f: usize| match f {
                    f if f >= rows => (f - rows, f - rows + columns * (rows - 1)),
                    f => (f * columns, f * columns + columns - 1),
                };
                let ends: Vec<_> = (0..flows).map(ends).collect();
                mesh(columns * rows, &place, sense, 54, &ends, &tcp(1460, 1460 * 32, 2, 1_000))
            }
            Self::Saturation { phy, senders, rts } => saturation(phy, senders, rts),
        }
    }

    fn bulk(&self) -> String {
        let Self::Bulk { stations, segment, window, noise, rto_min_ms, retry, .. } = *self else {
            return String::new();
        };
        let mut out = tcp(segment, segment * window, 1, rto_min_ms);
        out += "[nodes]\nhost = \"endpoint\"\nap = \"router\"\n";
        for s in 1..=stations {
            let _ = writeln!(out, "s{s} = \"endpoint\"");
        }
        out += "[channels.wire]\nkind = \"cable\"\nbetween = [\"host\", \"ap\"]\nreverse = \"same\"\n\
                forward = { rate = \"5 Mbit/s\", delay = \"2 ms\", queue = \"1000 packets\" }\n";
        let names: Vec<String> = (1..=stations).map(|s| format!("\"s{s}\"")).collect();
        let _ = writeln!(
            out,
            "[channels.air]\nkind = \"wifi\"\nnodes = [\"ap\", {}]\nphy = \"802.11b\"\nrate = \"2 Mbit/s\"\n\
             rules = \"ns3-3.44\"\nretry = {retry}\nqueue = \"50 packets\"",
            names.join(", ")
        );
        match noise {
            Noise::None => {}
            Noise::Link => drop(writeln!(out, "errors = {{ {ERRORS}, per = \"station\", hub = \"ap\" }}")),
            Noise::Receiver => drop(writeln!(out, "errors = {{ {ERRORS}, per = \"receiver\" }}")),
            Noise::Common => drop(writeln!(out, "errors = {{ {ERRORS}, per = \"cell\" }}")),
        }
        for s in 1..=stations {
            let start = 100 * (s - 1) / stations;
            let _ =
                writeln!(out, "[flows.f{s}]\napp = \"upload\"\nfrom = \"host\"\nto = \"s{s}\"\nstart = \"{start} ms\"");
        }
        out
    }
}

fn tcp(segment: usize, window: usize, initial_window: u32, rto_min_ms: u64) -> String {
    format!(
        "[tcp]\nprofile = \"ns3-3.44\"\nsegment = \"{segment} B\"\nwindow = \"{window} B\"\n\
         initial-window = {initial_window}\nrto-min = \"{rto_min_ms} ms\"\n"
    )
}

/// Stations at places of a lattice: neighbours decode each other, those `sense` or fewer hops away sense each other.
fn mesh(
    nodes: usize,
    place: &dyn Fn(usize) -> (usize, usize),
    sense: usize,
    mbit: u64,
    flows: &[(usize, usize)],
    tcp: &str,
) -> String {
    let mut out = format!("{tcp}[nodes]\n");
    for n in 0..nodes {
        let ends = flows.iter().any(|(a, b)| *a == n || *b == n);
        // A station at the end of one flow may be on the path of another: it then forwards as well.
        let kind = if ends && flows.len() == 1 {
            "endpoint"
        } else if ends {
            "gateway"
        } else {
            "router"
        };
        let _ = writeln!(out, "n{n} = \"{kind}\"");
    }
    let names: Vec<String> = (0..nodes).map(|n| format!("\"n{n}\"")).collect();
    let _ = write!(
        out,
        "[channels.air]\nkind = \"wifi\"\nnodes = [{}]\nphy = \"802.11a\"\nrate = \"{mbit} Mbit/s\"\n\
         rules = \"ns3-3.44\"\nqueue = \"50 packets\"\nreach = \"none\"\npairs = [\n",
        names.join(", ")
    );
    for a in 0..nodes {
        for b in a + 1..nodes {
            let ((ax, ay), (bx, by)) = (place(a), place(b));
            let hear = match ax.abs_diff(bx) + ay.abs_diff(by) {
                1 => "decode",
                far if far <= sense => "sense",
                _ => continue,
            };
            let _ = writeln!(out, "  {{ between = [\"n{a}\", \"n{b}\"], hear = \"{hear}\" }},");
        }
    }
    out += "]\n";
    for (f, (a, b)) in flows.iter().enumerate() {
        let start = 100 * f / flows.len();
        let _ = writeln!(out, "[flows.f{f}]\napp = \"upload\"\nfrom = \"n{a}\"\nto = \"n{b}\"\nstart = \"{start} ms\"");
    }
    out
}

fn saturation(phy: Saturated, senders: usize, rts: bool) -> String {
    let mut out = String::from("[nodes]\nsink = \"endpoint\"\n");
    for s in 1..=senders {
        let _ = writeln!(out, "s{s} = \"endpoint\"");
    }
    let names: Vec<String> = (1..=senders).map(|s| format!("\"s{s}\"")).collect();
    let (word, mbit, rts_rate) = match phy {
        Saturated::A => ("802.11a", 54, 6),
        Saturated::B => ("802.11b", 11, 1),
        Saturated::G => ("802.11g", 54, 6),
    };
    let threshold = if rts { "0 B" } else { "never" };
    let _ = writeln!(
        out,
        "[channels.air]\nkind = \"wifi\"\nnodes = [\"sink\", {}]\nphy = \"{word}\"\nrate = \"{mbit} Mbit/s\"\n\
         rts-rate = \"{rts_rate} Mbit/s\"\nrts-threshold = \"{threshold}\"\nrules = \"ns3-3.44\"",
        names.join(", ")
    );
    for s in 1..=senders {
        let _ = writeln!(out, "[flows.f{s}]\napp = \"saturate\"\nfrom = \"s{s}\"\nto = \"sink\"\nsize = \"1472 B\"");
    }
    out
}
