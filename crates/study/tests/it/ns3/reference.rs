//! The reference values of ns-3 3.44, read from `benches/ns3/ns3-reference.csv`.

use std::fmt::Write;
use wavelane_study::ns3::cases::{Case, Noise, Saturated};

/// Before anything is measured, in ns-3's programs and ours.
pub(super) const WARM_UP_S: u64 = 5;

/// The file; `benches/ns3/README.md` says where it comes from.
const CSV: &str = include_str!("../../../../../benches/ns3/ns3-reference.csv");

/// One figure of ns-3.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Figure {
    /// Its name in the file.
    pub(super) metric: String,
    /// Its unit.
    pub(super) unit: String,
    /// Mean over the runs.
    pub(super) mean: f64,
    /// Half width of the 95 % interval over the runs.
    pub(super) ci95: f64,
    /// How many runs.
    pub(super) runs: u32,
}

impl Figure {
    /// For a rate of rare events, of which a run may see none: the seconds of a run in which ns-3's program counted, if it
    /// measured for `measured_s`. `dcf_sat.cc` leaves the warm-up out.
    pub(super) fn counted_s(&self, measured_s: f64) -> Option<f64> {
        match self.metric.as_str() {
            "mac_drops_per_s" => Some(measured_s + WARM_UP_S as f64),
            "retry_drops_per_s" => Some(measured_s),
            _ => None,
        }
    }
}

/// One cell with its traffic.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Cell {
    /// One whose speed is measured, too.
    Of(Case),
    /// `ampdu.cc`: aggregates at a fixed rate.
    Aggregates(Aggregates),
}

impl Cell {
    /// Its scenario, which lasts `seconds`.
    pub(super) fn text(&self, seconds: u64) -> String {
        match self {
            Self::Of(case) => case.text(seconds),
            Self::Aggregates(of) => of.text(seconds),
        }
    }
}

/// Aggregates from stations with always a datagram of 1472 bytes for one sink, or of one TCP flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Aggregates {
    /// 802.11ac instead of 802.11n.
    pub(super) ac: bool,
    /// In MHz.
    width: u64,
    /// Spatial streams.
    streams: u64,
    /// Of every data frame.
    mcs: u64,
    senders: usize,
    /// One TCP flow instead of datagrams.
    pub(super) tcp: bool,
}

impl Aggregates {
    fn text(&self, seconds: u64) -> String {
        let Self { ac, width, streams, mcs, senders, tcp } = *self;
        let stack = if tcp { "tcp-reno" } else { "udp" };
        let mut out = format!("title = \"ns-3's cell\"\nduration = \"{seconds} s\"\nstacks = [\"{stack}\"]\n");
        if tcp {
            out += "[tcp]\nprofile = \"ns3-3.44\"\nsegment = \"1448 B\"\nwindow = \"579200 B\"\ninitial-window = 10\n\
                    rto-min = \"1000 ms\"\nwindow-scale = true\n";
        }
        let phy = match ac {
            true => format!("phy = \"802.11ac\"\nwidth = \"{width} MHz\"\nstreams = {streams}"),
            false => "phy = \"802.11n\"".into(),
        };
        let names: Vec<String> = (1..=senders).map(|s| format!("\"s{s}\"")).collect();
        out += "[nodes]\nsink = \"endpoint\"\n";
        for name in &names {
            let _ = writeln!(out, "{name} = \"endpoint\"");
        }
        // ns-3 has no TXOP limit for best effort.
        let _ = writeln!(
            out,
            "[channels.air]\nkind = \"wifi\"\nnodes = [\"sink\", {}]\n{phy}\nmcs = {mcs}\naggregate = {{}}\n\
             edca = {{ best-effort = {{ txop = \"0 s\" }} }}\nrules = \"ns3-3.44\"\nqueue = \"1000 packets\"",
            names.join(", ")
        );
        for name in names {
            let app = if tcp { "app = \"upload\"" } else { "app = \"saturate\"\nsize = \"1472 B\"" };
            let _ = writeln!(out, "[flows.{}]\n{app}\nfrom = {name}\nto = \"sink\"", name.trim_matches('"'));
        }
        out
    }
}

/// One cell and its figures.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Reference {
    /// The file's words for it.
    pub(super) scenario: String,
    /// The file's words for its parameters.
    pub(super) params: String,
    /// The same as a scenario.
    pub(super) case: Cell,
    /// How long a run was measured, after [`WARM_UP_S`].
    pub(super) measured_s: f64,
    /// What ns-3 gave.
    pub(super) figures: Vec<Figure>,
}

/// All cells of the file, in its order; a line that cannot be read is an error.
pub(super) fn all() -> Result<Vec<Reference>, String> {
    read(CSV)
}

fn read(csv: &str) -> Result<Vec<Reference>, String> {
    let mut cells: Vec<Reference> = Vec::new();
    for (number, line) in csv.lines().enumerate().skip(1) {
        let wrong = || format!("line {}: '{line}'", number + 1);
        let fields: Vec<&str> = line.split(',').collect();
        let [scenario, params, metric, mean, ci95, unit, runs] = fields.as_slice() else { return Err(wrong()) };
        let (Ok(mean), Ok(ci95), Ok(runs)) = (mean.parse(), ci95.parse(), runs.parse()) else { return Err(wrong()) };
        let figure = Figure { metric: (*metric).into(), unit: (*unit).into(), mean, ci95, runs };
        let known = cells.iter_mut().find(|cell| cell.scenario == *scenario && cell.params == *params);
        match known {
            Some(cell) => cell.figures.push(figure),
            None => {
                let case = case(scenario, params).ok_or_else(wrong)?;
                let measured_s = measured_s(params).ok_or_else(wrong)?;
                let (scenario, params) = ((*scenario).into(), (*params).into());
                cells.push(Reference { scenario, params, case, measured_s, figures: vec![figure] });
            }
        }
    }
    Ok(cells)
}

/// `N=5 seg=1000 win=5 NR ge=link minrto=1 retry=7 T=100s` and the like.
fn case(scenario: &str, params: &str) -> Option<Cell> {
    let words: Vec<&str> = params.split(' ').collect();
    let value = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let number = |key: &str| value(key)?.parse::<usize>().ok();
    match scenario {
        "bulk-dsss2" => Some(Cell::Of(Case::Bulk {
            stations: number("N")?,
            segment: number("seg")?,
            window: number("win")?,
            rts: words.contains(&"R"),
            noise: match value("ge")? {
                "none" => Noise::None,
                "link" => Noise::Link,
                "rx" => Noise::Receiver,
                "common" => Noise::Common,
                _ => return None,
            },
            rto_min_ms: (value("minrto")?.parse::<f64>().ok()? * 1e3).round() as u64,
            retry: number("retry")? as u32,
        })),
        "chain-tcp" => {
            let hops = number("hops")?;
            Some(Cell::Of(Case::Chain {
                nodes: hops + 1,
                hops,
                sense: number("cs")?,
                mbit: mbit(&words)?,
                window: number("win")?,
                segment: number("seg")?,
                rts: number("rts").unwrap_or(0) > 0,
            }))
        }
        "dcf-sat" => {
            let phy = match *words.first()? {
                "802.11a" => Saturated::A,
                "802.11b" => Saturated::B,
                "802.11g" => Saturated::G,
                _ => return None,
            };
            Some(Cell::Of(Case::Saturation { phy, senders: number("N")?, rts: number("rts")? > 0 }))
        }
        "ampdu-sat" | "ampdu-tcp" => Some(Cell::Aggregates(Aggregates {
            ac: match *words.first()? {
                "802.11ac" => true,
                "802.11n" => false,
                _ => return None,
            },
            width: number("width")? as u64,
            streams: number("streams")? as u64,
            mcs: number("mcs")? as u64,
            senders: number("N")?,
            tcp: scenario == "ampdu-tcp",
        })),
        _ => None,
    }
}

/// The seconds of `T=8s`.
fn measured_s(params: &str) -> Option<f64> {
    params.split(' ').find_map(|word| word.strip_prefix("T=")?.strip_suffix('s')?.parse().ok())
}

/// The rate of `OfdmRate54Mbps`.
fn mbit(words: &[&str]) -> Option<u64> {
    words.iter().find_map(|word| word.strip_prefix("OfdmRate")?.strip_suffix("Mbps")?.parse().ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_file_reads_and_every_cell_is_a_scenario() {
        let cells = all().unwrap();
        assert_eq!(cells.iter().map(|c| c.figures.len()).sum::<usize>(), CSV.lines().count() - 1);
        for cell in &cells {
            let text = cell.case.text(10);
            let scenario = wavelane_scenario::Scenario::parse(&text, std::path::Path::new("."));
            let scenario = scenario.unwrap_or_else(|why| panic!("{}: {why}\n{text}", cell.params));
            let again = wavelane_scenario::Scenario::parse(&scenario.to_toml(), std::path::Path::new(".")).unwrap();
            assert_eq!(again, scenario, "the resolved file says the same");
        }
        assert!(read("head\nbulk-dsss2,N=5,total_kbps,1,1,kbit/s,5").is_err());
    }
}
