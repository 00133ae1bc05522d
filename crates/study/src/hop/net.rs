//! Scenarios of radio cells as text.

/// 802.11b at 11 Mbit/s with the long preamble.
pub(super) const B11: &str = "phy = \"802.11b\"\nrate = \"11 Mbit/s\"";
/// A TXOP limit of 8 ms, which holds six full frames of [`B11`].
pub(super) const TXOP: &str = "edca = { best-effort = { txop = \"8 ms\" } }";
/// What one endless burst without link ACKs carries there, less the lane acks (see the decision on the study).
pub(super) const BURSTS_BPS: f64 = 8.31e6;

/// Gateways in one cell, with a cable to an endpoint at some of them.
#[derive(Clone)]
pub(super) struct Net {
    pub(super) title: &'static str,
    pub(super) seconds: u32,
    pub(super) stations: usize,
    /// `reach` and `pairs`.
    pub(super) reach: String,
    /// Endpoints: the station that each is behind.
    pub(super) ends: Vec<usize>,
    pub(super) flows: String,
    pub(super) knobs: String,
}

/// What stations two hops apart make of each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Apart {
    /// All stations of the chain sense each other and disturb each other.
    Cell,
    /// Those two hops apart sense each other.
    Sensed,
    /// Those two hops apart disturb each other unheard.
    Hidden,
}

impl Apart {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Cell => "one cell",
            Self::Sensed => "next but one sensed",
            Self::Hidden => "next but one hidden",
        }
    }
}

pub(super) fn station(number: usize) -> String {
    format!("g{number}")
}

fn pair(a: usize, b: usize, hear: &str) -> String {
    format!("{{ between = [\"g{a}\", \"g{b}\"], hear = \"{hear}\" }},\n")
}

/// A flow of `app` between two endpoints, by the numbers of their stations.
pub(super) fn flow(name: &str, app: &str, from: usize, to: usize, more: &str) -> String {
    format!("[flows.{name}]\napp = \"{app}\"\nfrom = \"e{from}\"\nto = \"e{to}\"\n{more}\n")
}

impl Net {
    /// A line of stations with an endpoint at either end, in which each link loses `loss`.
    pub(super) fn chain(hops: usize, apart: Apart, loss: f64, flows: String) -> Self {
        let mut pairs = String::new();
        for a in 0..=hops {
            for b in a + 1..=hops {
                pairs += &match (b - a, apart) {
                    (1, _) => format!("{{ between = [\"g{a}\", \"g{b}\"], hear = \"decode\", loss = \"{loss}\" }},\n"),
                    (_, Apart::Cell) => pair(a, b, "sense+interfere"),
                    (2, Apart::Sensed) => pair(a, b, "sense"),
                    (2, Apart::Hidden) => pair(a, b, "interfere"),
                    _ => continue,
                };
            }
        }
        Self {
            title: "A transfer over a line of stations",
            seconds: 20,
            stations: hops + 1,
            reach: format!("reach = \"none\"\npairs = [\n{pairs}]"),
            ends: vec![0, hops],
            flows,
            knobs: String::new(),
        }
    }

    /// Stations around station 0; `hidden` says of two of them whether they disturb each other unheard.
    pub(super) fn star(around: usize, hidden: impl Fn(usize, usize) -> bool, flows: String) -> Self {
        let mut pairs: String = (1..=around).map(|at| pair(0, at, "decode")).collect();
        for a in 1..=around {
            for b in a + 1..=around {
                pairs += &pair(a, b, if hidden(a, b) { "interfere" } else { "sense+interfere" });
            }
        }
        Self {
            title: "Stations around one that leads to a server",
            seconds: 20,
            stations: around + 1,
            reach: format!("reach = \"none\"\npairs = [\n{pairs}]"),
            ends: (0..=around).collect(),
            flows,
            knobs: String::new(),
        }
    }

    /// The file, for one stack and a cell of that kind.
    pub(super) fn text(&self, phy: &str, stack: &str) -> String {
        let names: Vec<String> = (0..self.stations).map(|n| format!("\"g{n}\"")).collect();
        let mut text = format!(
            "title = \"{}\"\nduration = \"{} s\"\nstacks = [\"{stack}\"]\nrouting = \"etx\"\n[nodes]\n",
            self.title, self.seconds
        );
        (0..self.stations).for_each(|n| text += &format!("g{n} = \"gateway\"\n"));
        self.ends.iter().for_each(|n| text += &format!("e{n} = \"endpoint\"\n"));
        text += &format!(
            "[channels.air]\nkind = \"wifi\"\nnodes = [{}]\n{phy}\nqueue = \"50 packets\"\n{}\n",
            names.join(", "),
            self.reach
        );
        for n in &self.ends {
            text += &format!("[channels.lan{n}]\npreset = \"ethernet\"\nbetween = [\"e{n}\", \"g{n}\"]\n");
        }
        text += &self.flows;
        if !self.knobs.is_empty() {
            (0..self.stations).for_each(|n| text += &format!("[gateways.g{n}]\n{}\n", self.knobs));
        }
        text
    }
}
