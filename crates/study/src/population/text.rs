//! A draw as an ordinary scenario file, and in words.

use super::draw::{Draw, Load, Loss, Moving, RadioLine, Way};
use core::fmt::Write;

/// Names of the flows. A body that goes up has a flow of its own.
pub(super) const DOWN: &str = "down";
pub(super) const UP: &str = "up";
pub(super) const ECHO: &str = "echo";

impl Draw {
    /// The scenario, for `wavelane run`.
    pub(super) fn scenario(&self, stacks: &[&str]) -> String {
        let gateways: Vec<String> = match &self.radio {
            Some(line) => (1..=line.gateways).map(|n| format!("g{n}")).collect(),
            None => vec!["a".into(), "b".into()],
        };
        let (near, far) = (&gateways[0], &gateways[gateways.len() - 1]);
        let stacks: Vec<String> = stacks.iter().map(|stack| format!("\"{stack}\"")).collect();
        let mut text = format!(
            "title = \"link-population, family {}, draw {}: {}\"\nseed = {}\nduration = \"{} ms\"\nstacks = [{}]\n\
             [nodes]\nclient = \"endpoint\"\n{}server = \"endpoint\"\n\
             [channels.lan_client]\npreset = \"ethernet\"\nbetween = [\"client\", \"{near}\"]\n\
             [channels.lan_server]\npreset = \"ethernet\"\nbetween = [\"{far}\", \"server\"]\n\
             [channels.air]\n",
            self.family.0,
            self.number,
            self.words(),
            self.dice,
            self.lasts_ms,
            stacks.join(", "),
            gateways.iter().map(|name| format!("{name} = \"gateway\"\n")).collect::<String>(),
        );
        match &self.radio {
            Some(line) => text += &line.keys(&gateways),
            None => _ = write!(text, "kind = \"cable\"\nbetween = [\"{near}\", \"{far}\"]\n"),
        }
        for (name, way) in [("forward", &self.up), ("reverse", &self.down)].iter().filter(|_| self.radio.is_none()) {
            text += &format!("[channels.air.{name}]\n{}", way.keys());
        }
        let buffer = self.buffer() / 1_000_000;
        let _ = write!(text, "[tcp]\nwindow = \"{buffer} MB\"\nsend-buffer = \"{buffer} MB\"\n");
        for (app, flow) in self.bodies() {
            let _ = write!(text, "[flows.{flow}]\napp = \"{app}\"\nfrom = \"client\"\nto = \"server\"\n");
        }
        let _ = write!(
            text,
            "[flows.{ECHO}]\napp = \"echo\"\nfrom = \"client\"\nto = \"server\"\nevery = \"{} ms\"\nwhile = \"{}\"\n",
            self.echo_ms,
            self.bodies()[0].1,
        );
        for (name, way) in [("forward", &self.up), ("reverse", &self.down)] {
            for (ms, key, value) in way.changes(self.lasts_ms) {
                let _ = write!(text, "[[timeline]]\nat = \"{ms} ms\"\nset = \"air.{name}.{key}\"\nto = \"{value}\"\n");
            }
        }
        text
    }

    /// Application and name of each flow with a body.
    pub(super) fn bodies(&self) -> Vec<(&'static str, &'static str)> {
        let (down, up) = (("download", DOWN), ("upload", UP));
        match self.load {
            Load::Download => vec![down],
            Load::Upload => vec![up],
            Load::Both => vec![down, up],
        }
    }

    /// What it is, in a line.
    pub(super) fn words(&self) -> String {
        let load = match self.load {
            Load::Download => "download",
            Load::Upload => "upload",
            Load::Both => "both ways",
        };
        let moving = match self.moving {
            Moving::No => "",
            Moving::Steps => ", steps of rate",
            Moving::Walk => ", rate walks",
            Moving::Handover => ", handovers",
            Moving::Falls => ", falls of the rate",
        };
        if let Some(line) = &self.radio {
            return format!("{load} over {}", line.words());
        }
        let rtt = self.rtt_ms.round();
        format!("{load}, {rtt} ms{moving}; down {}; up {}", self.down.words(self.rtt_ms), self.up.words(self.rtt_ms))
    }
}

/// A rate for people.
fn mbit(bps: u64) -> String {
    format!("{} Mbit/s", bps as f64 / 1e6)
}

/// Parts in a million for people.
fn percent(ppm: u32) -> String {
    format!("{:.2} %", f64::from(ppm) / 1e4)
}

impl RadioLine {
    fn words(&self) -> String {
        let loss =
            if self.loss_ppm > 0 { format!(", {} of the frames lost", percent(self.loss_ppm)) } else { String::new() };
        let Self { gateways, phy, queue, .. } = self;
        format!("{gateways} gateways in one cell of {phy} at {}, queues of {queue} packets{loss}", mbit(self.rate))
    }

    /// The cell: a frame goes from one gateway to the next, and all others sense it.
    fn keys(&self, gateways: &[String]) -> String {
        let names: Vec<String> = gateways.iter().map(|name| format!("\"{name}\"")).collect();
        let mut text = format!(
            "kind = \"wifi\"\nnodes = [{}]\nphy = \"{}\"\nrate = \"{} bit/s\"\nqueue = \"{} packets\"\nreach = \"none\"\npairs = [\n",
            names.join(", "),
            self.phy,
            self.rate,
            self.queue,
        );
        for (n, one) in names.iter().enumerate() {
            for (m, other) in names.iter().enumerate().skip(n + 1) {
                let hear = if m > n + 1 { "\"sense\"".into() } else { self.decode() };
                let _ = writeln!(text, "  {{ between = [{one}, {other}], hear = {hear} }},");
            }
        }
        text + "]\n"
    }

    fn decode(&self) -> String {
        let loss = if self.loss_ppm > 0 { format!(", loss = \"{}/1000000\"", self.loss_ppm) } else { String::new() };
        format!("\"decode\"{loss}")
    }
}

impl Way {
    fn words(&self, rtt_ms: f64) -> String {
        let bdp = self.queue as f64 * 8e3 / (self.rate as f64 * rtt_ms);
        let mut words = format!("{} queue {bdp:.2} BDP", mbit(self.rate));
        match self.loss {
            Loss::None => {}
            Loss::Repeated => {
                let mean = self.spikes.iter().map(|(_, us)| us).sum::<u64>() as f64 / 1e3;
                let _ =
                    write!(words, " {} spikes of {:.0} ms", self.spikes.len(), mean / self.spikes.len().max(1) as f64);
            }
            Loss::Random { ppm } => _ = write!(words, " loss {}", percent(ppm)),
            Loss::Bursts { good_us, bad_us, in_bad_ppm } => {
                let (good, bad) = (good_us as f64 / 1e3, bad_us as f64 / 1e3);
                let _ = write!(words, " bursts {bad:.0}/{good:.0} ms of {:.0} %", f64::from(in_bad_ppm) / 1e4);
            }
        }
        if self.jitter_us > 0 {
            let _ = write!(words, " jitter {:.1} ms", self.jitter_us as f64 / 1e3);
        }
        if self.reorder.0 > 0 {
            let _ = write!(words, " late {} by {:.1} ms", percent(self.reorder.0), self.reorder.1 as f64 / 1e3);
        }
        if self.duplicate_ppm > 0 {
            let _ = write!(words, " twice {}", percent(self.duplicate_ppm));
        }
        if self.corrupt_ppm > 0 {
            let _ = write!(words, " damaged {}", percent(self.corrupt_ppm));
        }
        if let Some((rate, burst)) = self.policer {
            let _ = write!(words, " policer {} and {} kB", mbit(rate), burst as f64 / 1e3);
        }
        words
    }

    pub(super) fn keys(&self) -> String {
        let ratio = |ppm: u32| format!("\"{ppm}/1000000\"");
        let mut text =
            format!("rate = \"{} bit/s\"\ndelay = \"{} us\"\nqueue = \"{} B\"\n", self.rate, self.delay_us, self.queue);
        match self.loss {
            Loss::None | Loss::Repeated => {}
            Loss::Random { ppm } => {
                let _ = writeln!(text, "loss = {{ kind = \"random\", p = {} }}", ratio(ppm));
            }
            Loss::Bursts { good_us, bad_us, in_bad_ppm } => {
                let _ = writeln!(
                    text,
                    "loss = {{ kind = \"gilbert-elliott\", good = \"{good_us} us\", bad = \"{bad_us} us\", in_good = \"0\", \
                     in_bad = {}, per = \"packet\" }}",
                    ratio(in_bad_ppm)
                );
            }
        }
        if self.jitter_us > 0 {
            let _ = writeln!(text, "jitter = \"{} us\"", self.jitter_us);
        }
        if self.reorder.0 > 0 {
            let _ = writeln!(text, "reorder = {{ p = {}, extra = \"{} us\" }}", ratio(self.reorder.0), self.reorder.1);
        }
        for (key, ppm) in [("duplicate", self.duplicate_ppm), ("corrupt", self.corrupt_ppm)] {
            if ppm > 0 {
                let _ = writeln!(text, "{key} = {}", ratio(ppm));
            }
        }
        if let Some((rate, burst)) = self.policer {
            let _ = writeln!(text, "policer = {{ rate = \"{rate} bit/s\", burst = \"{burst} B\" }}");
        }
        if !self.outages.is_empty() {
            let list = self.outages.iter().map(|(at, ms)| format!("{{ at = \"{at} ms\", for = \"{ms} ms\" }}"));
            let _ = writeln!(text, "outages = [{}]", list.collect::<Vec<_>>().join(", "));
        }
        text
    }

    /// The timeline: when, which key, and what to.
    pub(super) fn changes(&self, lasts_ms: u64) -> Vec<(u64, &'static str, String)> {
        let mut changes: Vec<(u64, &'static str, String)> =
            self.rates.iter().map(|(ms, rate)| (*ms, "rate", format!("{rate} bit/s"))).collect();
        let base = |ms: u64| self.delays.iter().rev().find(|(at, _)| *at <= ms).map_or(self.delay_us, |(_, us)| *us);
        let mut delays: Vec<(u64, u64)> = self.delays.clone();
        for (ms, late) in &self.spikes {
            delays.push((*ms, base(*ms) + late));
            let over = ms + self.spike_lasts_ms();
            delays.push((over, base(over)));
        }
        changes.extend(delays.into_iter().map(|(ms, us)| (ms, "delay", format!("{us} us"))));
        changes.retain(|(ms, _, _)| *ms < lasts_ms);
        changes.sort_by_key(|(ms, _, _)| *ms);
        changes
    }
}
