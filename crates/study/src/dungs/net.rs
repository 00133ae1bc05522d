//! Scenarios of a server, a proxy and mobiles, as text.

use core::fmt::Write;

/// The flow that is judged.
pub(super) const BULK: &str = "bulk";
/// The proxy, which is a plain router under stacks that split nothing.
const PROXY: &str = "p";

/// What leads from the proxy to the mobiles.
#[derive(Clone)]
pub(super) enum Access {
    /// An access point of 802.11b behind a cable, at a position of the source's.
    Wlan(u8),
    /// One channel, as a scenario has it, without its ends; the network's is the first.
    Channel(String),
}

/// The path, and what differs on it.
#[derive(Clone)]
pub(super) struct Path {
    pub(super) seconds: u32,
    /// Wired, one way.
    pub(super) wire_us: u64,
    pub(super) wire_rate: &'static str,
    pub(super) wire_queue: &'static str,
    pub(super) access: Access,
    pub(super) mobiles: usize,
    /// `[tcp]` of all, and keys of the proxy.
    pub(super) tcp: String,
    pub(super) knobs: String,
    pub(super) flows: String,
}

impl Path {
    /// One mobile at position 1, a wire of 2 ms there and back.
    pub(super) fn wlan() -> Self {
        Self {
            seconds: 11,
            wire_us: 1_000,
            wire_rate: "100 Mbit/s",
            wire_queue: "1 MB",
            access: Access::Wlan(1),
            mobiles: 1,
            tcp: String::new(),
            knobs: String::new(),
            flows: tcp("download"),
        }
    }
    /// One mobile behind a channel.
    pub(super) fn over(channel: &str) -> Self {
        Self { access: Access::Channel(channel.into()), ..Self::wlan() }
    }

    /// Where segments are captured: both ends, both sides of the proxy.
    pub(super) fn points(&self) -> [&'static str; 4] {
        match self.access {
            Access::Wlan(_) => ["server-wire", "p-wire", "p-lan", "mobile1-bus1"],
            Access::Channel(_) => ["server-wire", "p-wire", "p-air", "mobile1-air"],
        }
    }

    /// The file.
    pub(super) fn text(&self, stack: &str) -> String {
        let mobiles = 1..=self.mobiles;
        let mut text = format!(
            "title = \"A transfer to a mobile\"\nduration = \"{} s\"\nstacks = [\"{stack}\"]\n[nodes]\nserver = \"endpoint\"\n{PROXY} = \"gateway\"\n",
            self.seconds
        );
        mobiles.clone().for_each(|n| text += &format!("mobile{n} = \"endpoint\"\n"));
        let wire = format!(
            "[channels.wire]\nkind = \"cable\"\nbetween = [\"server\", \"{PROXY}\"]\nforward = {{ rate = \"{}\", delay = \"{} us\", queue = \"{}\" }}\nreverse = \"same\"\n",
            self.wire_rate, self.wire_us, self.wire_queue
        );
        match &self.access {
            Access::Wlan(position) => {
                text += "ap = \"router\"\n";
                mobiles.clone().for_each(|n| text += &format!("card{n} = \"router\"\n"));
                text += &wire;
                text += &format!(
                    "[channels.lan]\nkind = \"cable\"\nbetween = [\"{PROXY}\", \"ap\"]\nforward = {{ rate = \"100 Mbit/s\", queue = \"1 MB\" }}\nreverse = \"same\"\n"
                );
                let cards: Vec<String> = mobiles.clone().map(|n| format!("\"card{n}\"")).collect();
                let _ = writeln!(
                    text,
                    "[channels.air]\nkind = \"wifi\"\nnodes = [\"ap\", {}]\npreset = \"wlan-position-{position}\"\nqueue = \"100 packets\"",
                    cards.join(", ")
                );
                for n in mobiles {
                    text += &format!(
                        "[channels.bus{n}]\nkind = \"cable\"\nbetween = [\"card{n}\", \"mobile{n}\"]\nforward = {{ rate = \"1 Gbit/s\", queue = \"1 MB\" }}\nreverse = \"same\"\n"
                    );
                }
            }
            Access::Channel(channel) => {
                text += &wire;
                for n in mobiles {
                    let name = if n == 1 { "air".to_owned() } else { format!("air{n}") };
                    text += &format!("[channels.{name}]\nbetween = [\"{PROXY}\", \"mobile{n}\"]\n{channel}\n");
                }
            }
        }
        text += &self.flows;
        if !self.tcp.is_empty() {
            let _ = write!(text, "[tcp]\n{}\n", self.tcp);
        }
        if !self.knobs.is_empty() {
            let _ = write!(text, "[gateways.{PROXY}]\n{}\n", self.knobs);
        }
        text
    }
}

/// What the first mobile fetches or sends, without end.
pub(super) fn tcp(app: &str) -> String {
    format!("[flows.{BULK}]\napp = \"{app}\"\nfrom = \"mobile1\"\nto = \"server\"\n")
}

/// Datagrams of that many bytes to the first mobile.
pub(super) fn udp(size: u32, every_us: u64) -> String {
    format!(
        "[flows.{BULK}]\napp = \"cbr\"\nfrom = \"server\"\nto = \"mobile1\"\nsize = \"{size} B\"\nevery = \"{every_us} us\"\n"
    )
}
