//! Scenarios of two gateways and what lies between them, as text.

use core::fmt::Write;

/// The bulk flow and the echo beside it.
pub(super) const BULK: &str = "up";
pub(super) const ECHO: &str = "echo";

/// One direction of a channel: its parameters as a scenario has them.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) bps: u64,
    /// One way.
    pub(super) delay_us: u64,
    /// As a scenario has it, such as `100 kB`.
    pub(super) queue: String,
    /// What else, such as `loss = { ... }`.
    pub(super) more: Vec<String>,
}

impl Way {
    pub(super) fn new(bps: u64, delay_ms: u64, queue: &str) -> Self {
        Self { bps, delay_us: delay_ms * 1_000, queue: queue.to_owned(), more: Vec::new() }
    }
    pub(super) fn with(mut self, more: &str) -> Self {
        self.more.push(more.to_owned());
        self
    }
    /// Random loss, in thousandths.
    pub(super) fn losing(self, thousandths: u32) -> Self {
        self.with(&format!("loss = {{ kind = \"random\", p = \"{thousandths}/1000\" }}"))
    }
    /// Everything is lost at these times: from, and for how long, in seconds.
    pub(super) fn without(self, outages: &[(u64, u64)]) -> Self {
        let list: Vec<String> =
            outages.iter().map(|(at, lasts)| format!("{{ at = \"{at} s\", for = \"{lasts} s\" }}")).collect();
        self.with(&format!("outages = [{}]", list.join(", ")))
    }
    fn table(&self) -> String {
        let mut words = vec![
            format!("rate = \"{} bit/s\"", self.bps),
            format!("delay = \"{} us\"", self.delay_us),
            format!("queue = \"{}\"", self.queue),
        ];
        words.extend(self.more.iter().cloned());
        format!("{{ {} }}", words.join(", "))
    }
}

/// A channel between the gateways.
#[derive(Clone, Debug)]
pub(super) enum Lane {
    /// The same each way.
    Both(Way),
    /// There, and back.
    Ways(Way, Way),
    /// There only.
    Out(Way),
    /// Back only.
    Back(Way),
}

/// Two gateways and their endpoints, with these channels between them.
pub(super) fn scenario(title: &str, seconds: u64, stacks: &[&str], lanes: &[(&str, Lane)]) -> String {
    let stacks: Vec<String> = stacks.iter().map(|stack| format!("\"{stack}\"")).collect();
    let mut text = format!(
        "title = \"{title}\"\nduration = \"{seconds} s\"\nstacks = [{}]\n[nodes]\nclient = \"endpoint\"\n\
         near = \"gateway\"\nfar = \"gateway\"\nserver = \"endpoint\"\n[channels.lan-client]\npreset = \"ethernet\"\n\
         between = [\"client\", \"near\"]\n[channels.lan-server]\npreset = \"ethernet\"\nbetween = [\"far\", \"server\"]\n",
        stacks.join(", "),
    );
    for (name, lane) in lanes {
        let (ends, forward, reverse) = match lane {
            Lane::Both(way) => (["near", "far"], way, "\"same\"".to_owned()),
            Lane::Ways(out, back) => (["near", "far"], out, back.table()),
            Lane::Out(way) => (["near", "far"], way, "\"none\"".to_owned()),
            Lane::Back(way) => (["far", "near"], way, "\"none\"".to_owned()),
        };
        let (from, to) = (ends[0], ends[1]);
        let _ = write!(
            text,
            "[channels.{name}]\nkind = \"cable\"\nbetween = [\"{from}\", \"{to}\"]\nforward = {}\nreverse = {reverse}\n",
            forward.table()
        );
    }
    text
}

/// An upload without end, or of a size.
pub(super) fn bulk(size: Option<&str>) -> String {
    let size = size.map(|size| format!("size = \"{size}\"\n")).unwrap_or_default();
    format!("[flows.{BULK}]\napp = \"upload\"\nfrom = \"client\"\nto = \"server\"\n{size}")
}

/// An echo.
pub(super) fn echo(octets: u32, every_ms: u64) -> String {
    format!(
        "[flows.{ECHO}]\napp = \"echo\"\nfrom = \"client\"\nto = \"server\"\nevery = \"{every_ms} ms\"\n\
         size = \"{octets} B\"\n"
    )
}

/// A change of one parameter of a channel.
pub(super) fn change(at_s: u64, key: &str, value: &str) -> String {
    format!("[[timeline]]\nat = \"{at_s} s\"\nset = \"{key}\"\nto = {value}\n")
}
