//! The scenarios: two flows, one bottleneck.

use super::{OTHER, OURS};
use std::fmt::Write;

/// The bottleneck and the times.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Bottleneck {
    pub(super) mbit: u32,
    /// Round trip.
    pub(super) rtt_ms: u32,
    /// Octets of queue.
    pub(super) queue: u64,
    /// Extra delay of each packet on the path to the queue, up to this many microseconds.
    pub(super) jitter_us: u32,
    /// Length of the run, in seconds.
    pub(super) seconds: u32,
    /// When our flow and the other begin, in seconds.
    pub(super) starts: [u32; 2],
}

impl Bottleneck {
    /// Nodes and channels up to and beyond the bottleneck, the same in every cell, and our flow.
    fn shared(&self, title: &str, stacks: &str, nodes: &str) -> String {
        let Self { mbit, rtt_ms, queue, seconds, starts: [start, _], .. } = *self;
        let delay = rtt_ms * 500;
        let mut text = format!(
            r#"title = "{title}"
duration = "{seconds} s"
stacks = [{stacks}]
[nodes]
client = "endpoint"
a = "gateway"
b = "gateway"
server = "endpoint"
here = "router"
there = "router"
{nodes}
[channels.narrow]
kind = "cable"
between = ["here", "there"]
forward = {{ rate = "{mbit} Mbit/s", delay = "{delay} us", queue = "{queue} B" }}
reverse = "same"
[flows.{OURS}]
app = "download"
from = "client"
to = "server"
start = "{start} s"
"#
        );
        veths(&mut text, &[("lan_a", "client", "a"), ("a_here", "a", "here"), ("lan_b", "b", "server")]);
        self.feed(&mut text, "there_b", "b");
        text
    }
    /// The channel by which a flow's packets come to the queue.
    fn feed(&self, text: &mut String, name: &str, node: &str) {
        veths(text, &[(name, "there", node)]);
        if self.jitter_us > 0 {
            let _ = writeln!(text, "reverse = {{ jitter = \"{} us\" }}", self.jitter_us);
        }
    }
    fn other(&self) -> String {
        let start = self.starts[1];
        format!("[flows.{OTHER}]\napp = \"download\"\nfrom = \"sink\"\nto = \"source\"\nstart = \"{start} s\"\n")
    }

    /// Our link beside a plain flow; under a plain stack both are plain.
    pub(super) fn beside_tcp(&self, title: &str, stacks: &[&str], rival: &str) -> String {
        let stacks: Vec<String> = stacks.iter().map(|stack| format!("\"{stack}\"")).collect();
        let mut text = self.shared(title, &stacks.join(", "), "sink = \"endpoint\"\nsource = \"endpoint\"");
        veths(&mut text, &[("sink_here", "sink", "here")]);
        self.feed(&mut text, "there_src", "source");
        text + &self.other() + &format!("control = \"{rival}\"\n")
    }

    /// Two links of ours.
    pub(super) fn beside_ours(&self, title: &str) -> String {
        let nodes = "sink = \"endpoint\"\nsource = \"endpoint\"\nc = \"gateway\"\nd = \"gateway\"";
        let mut text = self.shared(title, "\"wavelane\"", nodes);
        veths(&mut text, &[("lan_c", "sink", "c"), ("c_here", "c", "here"), ("lan_d", "d", "source")]);
        self.feed(&mut text, "there_d", "d");
        text + &self.other()
    }
}

fn veths(text: &mut String, list: &[(&str, &str, &str)]) {
    for (name, a, b) in list {
        let _ = write!(text, "[channels.{name}]\npreset = \"ethernet\"\nbetween = [\"{a}\", \"{b}\"]\n");
    }
}
