//! The experiments: what is run for each.

use super::{LAB, Task, judge};
use crate::document::Edition;

/// Seconds that flows without a size run.
pub(super) const SECONDS: u64 = 25;
/// The shared link of the forked topology, and the slow branch, in Mbit/s.
pub(super) const SHARED_MBIT: u32 = 10;
pub(super) const SLOW_MBIT: u32 = 1;
/// Hops and chance of losing an accepted block, in tenths.
pub(super) const LOSSES: [u32; 3] = [1, 2, 3];
pub(super) const CHAINS: [u32; 3] = [3, 4, 6];
/// Bulk flows beside the micro-blocks.
pub(super) const CROWDS: [u32; 2] = [1, 30];
/// Hops that the micro-blocks cross.
pub(super) const KEYS_HOPS: u32 = 2;
/// Hops of the clean chain.
pub(super) const CLEAN_HOPS: u32 = 4;

/// Flows across relays are sealed.
const SEALED: &str = "seal = \"end-to-end\"";

/// A scenario of gateways in which every gateway has the same knobs.
struct Net {
    text: String,
    gateways: Vec<String>,
}

impl Net {
    fn new(title: &str, duration: &str, endpoints: &[&str], gateways: &[&str]) -> Self {
        let mut text = format!("title = \"{title}\"\nduration = \"{duration}\"\nstacks = [\"wavelane\"]\n[nodes]\n");
        endpoints.iter().for_each(|name| text += &format!("{name} = \"endpoint\"\n"));
        gateways.iter().for_each(|name| text += &format!("{name} = \"gateway\"\n"));
        Self { text, gateways: gateways.iter().map(|name| (*name).to_owned()).collect() }
    }
    /// A cable of 2 ms each way with a queue of 100 kB.
    fn hop(&mut self, one: &str, other: &str, mbit: u32) {
        self.text += &format!(
            "[channels.{one}-{other}]\nkind = \"cable\"\nbetween = [\"{one}\", \"{other}\"]\nreverse = \"same\"\n\
             forward = {{ rate = \"{mbit} Mbit/s\", delay = \"2 ms\", queue = \"100 kB\" }}\n"
        );
    }
    fn plug(&mut self, endpoint: &str, gateway: &str) {
        self.text +=
            &format!("[channels.lan-{endpoint}]\npreset = \"ethernet\"\nbetween = [\"{endpoint}\", \"{gateway}\"]\n");
    }
    fn flow(&mut self, name: &str, body: &str) {
        self.text += &format!("[flows.{name}]\n{body}\n");
    }
    fn with(mut self, knobs: &str) -> String {
        for gateway in self.gateways {
            self.text += &format!("[gateways.{gateway}]\n{knobs}\n");
        }
        self.text
    }
}

/// A-B-C, then D-E with 20 Mbit/s and F-G with 1 Mbit/s behind F; B-C is shared.
fn forked(knobs: &str, slow_too: bool) -> String {
    let title = "Two flows share a link; one of them ends behind a slow one";
    let gateways = ["a", "b", "c", "d", "e", "f", "g"];
    let mut net = Net::new(title, &format!("{SECONDS} s"), &["client", "fast", "slow"], &gateways);
    let links = [("a", "b", 20), ("b", "c", SHARED_MBIT), ("c", "d", 20), ("d", "e", 20), ("c", "f", 20)];
    links.iter().for_each(|(one, other, mbit)| net.hop(one, other, *mbit));
    net.hop("f", "g", SLOW_MBIT);
    [("client", "a"), ("fast", "e"), ("slow", "g")].iter().for_each(|(endpoint, gateway)| net.plug(endpoint, gateway));
    net.flow("to-fast", "app = \"upload\"\nfrom = \"client\"\nto = \"fast\"");
    if slow_too {
        net.flow("to-slow", "app = \"upload\"\nfrom = \"client\"\nto = \"slow\"");
    }
    net.with(knobs)
}

fn chain(title: &str, duration: &str, hops: u32, mbit: u32) -> Net {
    let names: Vec<String> = (0..=hops).map(|n| format!("g{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut net = Net::new(title, duration, &["client", "server"], &names);
    names.windows(2).for_each(|pair| net.hop(pair[0], pair[1], mbit));
    net.plug("client", "g0");
    net.plug("server", names[names.len() - 1]);
    net
}

fn lossy(hops: u32, tenths: u32, knobs: &str, (duration, size): (&str, &str)) -> String {
    let mut net = chain("Nodes lose whole blocks that they have receipted", duration, hops, 20);
    net.flow("file", &format!("app = \"upload\"\nfrom = \"client\"\nto = \"server\"\nsize = \"{size}\""));
    net.with(&format!("block-loss = \"{tenths}/10\"\n{knobs}"))
}

fn typing(crowd: u32, knobs: &str) -> String {
    let mut net = chain("Keys of 64 bytes beside downloads over two hops", &format!("{SECONDS} s"), KEYS_HOPS, 10);
    for n in 0..crowd {
        net.flow(&format!("bulk{n}"), "app = \"download\"\nfrom = \"client\"\nto = \"server\"");
    }
    net.flow(
        "keys",
        "app = \"echo\"\nfrom = \"client\"\nto = \"server\"\nstart = \"5 s\"\nevery = \"100 ms\"\nsize = \"64 B\"",
    );
    net.with(knobs)
}

fn clean(hops: u32, knobs: &str) -> String {
    let mut net = chain("A clean chain of cables", &format!("{SECONDS} s"), hops, 20);
    net.flow("file", "app = \"download\"\nfrom = \"client\"\nto = \"server\"");
    net.with(knobs)
}

/// Relays change one bit of a stretch in five hundred.
fn corrupt(knobs: &str) -> String {
    let mut net = chain("Relays change what they pass on", "2 min", 3, 20);
    net.flow("file", "app = \"upload\"\nfrom = \"client\"\nto = \"server\"\nsize = \"12 MB\"");
    net.with(&format!("corruption = \"1/500\"\n{knobs}"))
}

/// The experiments of an edition.
pub(super) fn all(edition: Edition) -> Vec<Task> {
    let mut tasks = Vec::new();
    let limits = ["off", "limit-1", "limit-2", "adaptive"];
    let mut runs = vec![("fork-alone".to_owned(), forked("", false))];
    runs.extend(
        limits.iter().map(|kind| (format!("fork-{kind}"), forked(&format!("backpressure = \"{kind}\""), true))),
    );
    tasks.push(Task::new("backpressure", runs, move |found| judge::backpressure(&limits, found)));
    let size = if edition == Edition::Full { "32 MB" } else { "12 MB" };
    for hops in CHAINS {
        for tenths in LOSSES {
            tasks.push(Task::new(
                "vtx",
                vec![(format!("vtx-{hops}-{tenths}"), lossy(hops, tenths, "", ("4 h", size)))],
                move |found| judge::transmissions(hops, tenths, found),
            ));
        }
    }
    tasks.push(Task::new(
        "vtx",
        vec![("vtx-none".into(), lossy(4, 2, "cache = \"0 B\"", ("2 min", "12 MB")))],
        judge::without_vtx,
    ));
    for crowd in CROWDS {
        let of = |on: bool| (format!("keys-{crowd}-{on}"), typing(crowd, &format!("micro-blocks = {on}")));
        tasks.push(Task::new("micro-blocks", vec![of(true), of(false)], move |found| judge::keys(crowd, found)));
    }
    tasks.push(Task::new(
        "chain",
        [1, CLEAN_HOPS].map(|hops| (format!("clean-{hops}"), clean(hops, ""))).into(),
        judge::clean,
    ));
    let seals = ["", SEALED];
    tasks.push(Task::new(
        "sealed",
        seals.map(|knobs| (format!("seal-{}", !knobs.is_empty()), clean(CLEAN_HOPS, knobs))).into(),
        judge::sealed,
    ));
    tasks.push(Task::new(
        "sealed",
        seals.map(|knobs| (format!("corrupt-{}", !knobs.is_empty()), corrupt(knobs))).into(),
        judge::corrupted,
    ));
    tasks.extend(super::radio::all());
    tasks.extend(super::overhearing::all());
    tasks
}

/// Those that run between kernels, which have no faults of relays.
pub(super) fn lab() -> Vec<Task> {
    let limits = ["off", "limit-1"];
    let mut runs = vec![("lab-fork-alone".to_owned(), forked("", false))];
    let limited = |kind: &&str| (format!("lab-fork-{kind}"), forked(&format!("backpressure = \"{kind}\""), true));
    runs.extend(limits.iter().map(limited));
    let crowd = CROWDS[1];
    let keys = [true, false].map(|on| (format!("lab-keys-{on}"), typing(crowd, &format!("micro-blocks = {on}"))));
    let chains = [1, CLEAN_HOPS].map(|hops| (format!("lab-clean-{hops}"), clean(hops, "")));
    vec![
        Task::new(LAB, runs, move |found| judge::backpressure(&limits, found)),
        Task::new(LAB, keys.into(), move |found| judge::keys(crowd, found)),
        Task::new(LAB, chains.into(), judge::clean),
    ]
}
