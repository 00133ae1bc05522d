//! What is run for each part.

use super::net::{Apart, B11, BURSTS_BPS, Net, TXOP, flow, station};
use super::population::{Mesh, far_pairs, link_losses};
use crate::document::Edition;
use serde_json::{Value, json};

/// The stacks on a cell as drivers set it up: no TXOP.
const SHIPPED: [&str; 3] = ["tcp-cubic", "tcp-bbr", "tcp-2001"];
/// Those on a cell with a TXOP limit.
const TUNED: [&str; 5] = [super::OURS, super::PRESET, "tcp-cubic", "tcp-bbr", "tcp-cubic+rts"];
/// Members of a cell.
const CELLS: [usize; 3] = [2, 3, 5];
/// Sizes of a transfer beside four uploads, and when it begins, in seconds.
pub(super) const SIZES: [&str; 4] = ["1 kB", "10 kB", "100 kB", "1 MB"];
const STARTS: [u32; 5] = [4, 7, 10, 13, 16];

/// For how many seconds a link of the path is broken.
pub(super) const BREAKS_S: [u32; 2] = [5, 60];

/// A run: which cell, and its file.
pub(super) struct Run {
    /// `shipped` or `tuned`.
    pub(super) cell: &'static str,
    pub(super) stack: &'static str,
    pub(super) text: String,
    pub(super) seed: u64,
}

/// Runs that are judged together.
pub(super) struct Scene {
    pub(super) part: &'static str,
    pub(super) case: Vec<(&'static str, Value)>,
    /// What the air carries at most, in bit/s.
    pub(super) bound: Option<f64>,
    pub(super) runs: Vec<Run>,
}

fn scene(part: &'static str, case: Vec<(&'static str, Value)>, bound: Option<f64>) -> Scene {
    Scene { part, case, bound, runs: Vec::new() }
}

impl Scene {
    fn with(mut self, net: &Net, phy: &str, (cell, stacks): (&'static str, &[&'static str]), seeds: u64) -> Self {
        for stack in stacks {
            let text = net.text(phy, stack);
            self.runs.extend((0..seeds).map(|seed| Run { cell, stack, text: text.clone(), seed }));
        }
        self
    }
    /// The same with TCP split at every station.
    fn and_split(self, net: &Net, seeds: u64) -> Self {
        self.with(net, &format!("{B11}\n{TXOP}"), ("tuned", &[super::SPLIT]), seeds)
    }
    /// On both kinds of 802.11b cell.
    fn on_b(self, net: &Net, seeds: u64) -> Self {
        self.on(net, &SHIPPED, &TUNED, seeds)
    }
    /// The same with these stacks on each.
    fn on(self, net: &Net, shipped: &[&'static str], tuned: &[&'static str], seeds: u64) -> Self {
        let phy = format!("{B11}\n{TXOP}");
        self.with(net, B11, ("shipped", shipped), seeds).with(net, &phy, ("tuned", tuned), seeds)
    }
}

fn upload(from: usize, to: usize) -> String {
    flow("up", "upload", from, to, "")
}

/// Every scene of the edition.
pub(super) fn all(edition: Edition, meshes: &[Mesh]) -> Vec<Scene> {
    let full = edition == Edition::Full;
    let few = |quick: usize, many: usize| if full { many } else { quick };
    let seeds = few(1, 5) as u64;
    let mut all = Vec::new();
    all.extend(links(meshes, few(16, 100)));
    all.extend(mesh_pairs(meshes, few(14, 100)));
    all.extend(chains(full, few(2, 5) as u64));
    all.extend(degradation(seeds));
    all.extend(crowds(meshes, few(1, 10)));
    all.extend(wlans(few(2, 10) as u64));
    all.extend(delays(seeds));
    all.extend(cells(seeds));
    all.extend(both_ways(few(2, 5) as u64));
    all.extend(beside(few(2, 5) as u64));
    all.extend(phys(seeds));
    all.extend(breaks(seeds));
    all
}

/// S2-E2: one hop at the losses of the population.
fn links(meshes: &[Mesh], most: usize) -> Vec<Scene> {
    let of = |loss: f64| {
        let loss = (loss * 1e6).round() / 1e6;
        let net = Net::chain(1, Apart::Cell, loss, upload(0, 1));
        scene("links", vec![("loss", json!(loss))], Some(BURSTS_BPS * (1.0 - loss))).on_b(&net, 1)
    };
    link_losses(meshes, most).into_iter().map(of).collect()
}

fn mesh_net(mesh: &Mesh, ends: Vec<usize>, flows: String) -> Net {
    let reach = format!("capture = {{ margin = \"10 dB\" }}\nreach = \"none\"\npairs = [\n{}]", mesh.pairs(station));
    let title = "Transfers in a mesh of twenty stations";
    Net { title, seconds: 20, stations: super::population::STATIONS, reach, ends, flows, knobs: String::new() }
}

/// S2-E3: transfers over several hops of the meshes.
fn mesh_pairs(meshes: &[Mesh], most: usize) -> Vec<Scene> {
    let of = |(number, from, to): (usize, usize, usize)| {
        let mesh = &meshes[number];
        let path = mesh.path(from, to);
        let net = mesh_net(mesh, vec![from, to], upload(from, to));
        let case = vec![("mesh", json!(mesh.seed)), ("path", json!(path))];
        scene("mesh", case, Some(BURSTS_BPS / mesh.clique(&path))).on_b(&net, 1).and_split(&net, 1)
    };
    far_pairs(meshes, most).into_iter().map(of).collect()
}

/// S2-E3: chains of known shape.
fn chains(full: bool, seeds: u64) -> Vec<Scene> {
    let mut all = Vec::new();
    for (apart, hops) in [(Apart::Cell, 2..=5), (Apart::Sensed, 3..=5), (Apart::Hidden, 3..=5)]
        .into_iter()
        .flat_map(|(a, h)| h.map(move |h| (a, h)))
    {
        for loss in [0.0, 0.2] {
            if loss > 0.0 && !full && hops != 4 {
                continue;
            }
            // Stations further apart than two hops do not hear each other, but in one cell.
            let clique = if apart == Apart::Cell { hops } else { hops.min(3) };
            let net = Net::chain(hops, apart, loss, upload(0, hops));
            let case = vec![("stations", json!(apart.word())), ("hops", json!(hops)), ("loss", json!(loss))];
            all.push(
                scene("chains", case, Some(BURSTS_BPS * (1.0 - loss) / clique as f64))
                    .on_b(&net, seeds)
                    .and_split(&net, seeds),
            );
        }
    }
    all
}

/// S2-E4: goodput over loss on the air, and after the link ACK.
fn degradation(seeds: u64) -> Vec<Scene> {
    let mut all = Vec::new();
    for kind in ["loss", "drop"] {
        for percent in [0, 10, 20, 30, 40] {
            let share = f64::from(percent) / 100.0;
            let mut net = Net::chain(1, Apart::Cell, 0.0, upload(0, 1));
            net.reach = net.reach.replace("loss = \"0\"", &format!("{kind} = \"{share}\""));
            let case = vec![("lost", json!(kind)), ("share", json!(share))];
            let tuned = [super::OURS, super::PRESET, "tcp-bbr"];
            let scene = scene("degradation", case, Some(BURSTS_BPS * (1.0 - share)));
            all.push(scene.on(&net, &["tcp-2001", "tcp-cubic"], &tuned, seeds));
        }
    }
    all
}

/// S2-E5: thirty transfers at once.
fn crowds(meshes: &[Mesh], most: usize) -> Vec<Scene> {
    let of = |mesh: &Mesh| {
        let count = super::population::STATIONS;
        // Every pair of ends differs: 7 has no factor in common with the number of stations.
        let ends = (0..30)
            .map(|n| (n % count, (n * 7 + 3 + n / count) % count))
            .map(|(a, b)| (a, if a == b { (b + 1) % count } else { b }));
        let flows = ends.enumerate().map(|(n, (from, to))| flow(&format!("up{n}"), "upload", from, to, "")).collect();
        let net = Net { seconds: 60, ..mesh_net(mesh, (0..count).collect(), flows) };
        let tuned = [super::OURS, super::PRESET, "tcp-cubic", "tcp-bbr"];
        scene("flows", vec![("mesh", json!(mesh.seed))], None).on(&net, &["tcp-cubic", "tcp-bbr"], &tuned, 1)
    };
    meshes.iter().take(most).map(of).collect()
}

/// Whether two stations do not sense each other.
type Hides = fn(usize, usize) -> bool;

/// S2-E6: seven uploads to one station.
fn wlans(seeds: u64) -> Vec<Scene> {
    let kinds: [(&str, Hides); 3] = [("all", |_, _| true), ("halves", |a, b| a % 2 != b % 2), ("none", |_, _| false)];
    let of = |(word, hidden): (&'static str, Hides)| {
        let flows = (1..=7).map(|n| flow(&format!("up{n}"), "upload", n, 0, "")).collect();
        let net = Net::star(7, hidden, flows);
        let both = ["tcp-cubic", "tcp-2001", "tcp-cubic+rts", "tcp-2001+rts"];
        scene("wlan", vec![("hidden", json!(word))], Some(BURSTS_BPS)).on(&net, &both, &TUNED, seeds)
    };
    kinds.into_iter().map(of).collect()
}

/// S2-E7: transfers of several sizes beside four uploads.
fn delays(seeds: u64) -> Vec<Scene> {
    let of = |size: &'static str| {
        let mut flows: String = (1..=4).map(|n| flow(&format!("up{n}"), "upload", n, 0, "")).collect();
        for start in STARTS {
            flows +=
                &flow(&format!("small{start}"), "upload", 5, 0, &format!("start = \"{start} s\"\nsize = \"{size}\""));
        }
        scene("delay", vec![("size", json!(size))], None).on_b(&Net::star(5, |_, _| false, flows), seeds)
    };
    SIZES.into_iter().map(of).collect()
}

/// Gateways around one in a cell, with and without aggregates.
fn cells(seeds: u64) -> Vec<Scene> {
    const PHYS: [(&str, &str); 2] = [
        ("802.11g 54", "phy = \"802.11g\"\nrate = \"54 Mbit/s\""),
        ("802.11n 65", "phy = \"802.11n\"\nmcs = 7\naggregate = { frames = 64 }"),
    ];
    let mut all = Vec::new();
    for (word, phy) in PHYS {
        for around in CELLS {
            for (way, apps) in
                [("up", &["upload"][..]), ("down", &["download"][..]), ("both", &["upload", "download"][..])]
            {
                let mut flows = String::new();
                for n in 1..=around {
                    apps.iter().for_each(|app| flows += &flow(&format!("{app}{n}"), app, n, 0, ""));
                }
                flows += &flow("echo", "echo", 1, 0, "every = \"100 ms\"");
                let net = Net { seconds: 15, ..Net::star(around, |_, _| false, flows) };
                let case = vec![("phy", json!(word)), ("gateways", json!(around)), ("way", json!(way))];
                let stacks = [super::OURS, "tcp-cubic", "tcp-bbr"];
                all.push(scene("cells", case, None).with(&net, phy, ("shipped", &stacks), seeds));
            }
        }
    }
    all
}

/// A transfer each way over the same relays.
fn both_ways(seeds: u64) -> Vec<Scene> {
    let of = |(apart, hops): (Apart, usize)| {
        let flows = upload(0, hops) + &flow("down", "download", 0, hops, "");
        let case = vec![("stations", json!(apart.word())), ("hops", json!(hops))];
        scene("both-ways", case, None).on_b(&Net::chain(hops, apart, 0.0, flows), seeds)
    };
    [(Apart::Cell, 2), (Apart::Sensed, 3)].into_iter().map(of).collect()
}

/// A pair of endpoints with plain TCP of their own in the same cell as a transfer through gateways.
fn beside(seeds: u64) -> Vec<Scene> {
    let text = |stack: &str| {
        format!(
            "title = \"A transfer beside one of plain TCP in a cell\"\nduration = \"20 s\"\nstacks = [\"{stack}\"]\n[nodes]\n\
             a = \"gateway\"\nb = \"gateway\"\nea = \"endpoint\"\neb = \"endpoint\"\nx = \"endpoint\"\ny = \"endpoint\"\n\
             [channels.air]\nkind = \"wifi\"\nnodes = [\"a\", \"b\", \"x\", \"y\"]\n{B11}\n{TXOP}\nreach = \"none\"\npairs = [\n\
             {{ between = [\"a\", \"b\"], hear = \"decode\" }},\n{{ between = [\"x\", \"y\"], hear = \"decode\" }},\n\
             {{ between = [\"a\", \"x\"], hear = \"sense+interfere\" }},\n{{ between = [\"a\", \"y\"], hear = \"sense+interfere\" }},\n\
             {{ between = [\"b\", \"x\"], hear = \"sense+interfere\" }},\n{{ between = [\"b\", \"y\"], hear = \"sense+interfere\" }},\n]\n\
             [channels.lana]\npreset = \"ethernet\"\nbetween = [\"ea\", \"a\"]\n[channels.lanb]\npreset = \"ethernet\"\nbetween = [\"eb\", \"b\"]\n\
             [flows.ours]\napp = \"upload\"\nfrom = \"ea\"\nto = \"eb\"\n[flows.plain]\napp = \"upload\"\nfrom = \"x\"\nto = \"y\"\ncontrol = \"cubic\"\n"
        )
    };
    let mut scene = scene("beside", Vec::new(), None);
    for stack in [super::OURS, "tcp-cubic"] {
        let text = text(stack);
        scene.runs.extend((0..seeds).map(|seed| Run { cell: "tuned", stack, text: text.clone(), seed }));
    }
    vec![scene]
}

/// A transfer over three hops, the middle one of which decodes nothing for so many seconds.
pub(super) fn broken(seconds: u32) -> (Vec<(&'static str, Value)>, Net) {
    let mut net = Net::chain(3, Apart::Sensed, 0.0, flow("up", "upload", 0, 3, "size = \"3 MB\""));
    let middle = "\"g2\"], hear = \"decode\", loss = \"0\"";
    net.reach =
        net.reach.replacen(middle, &format!("{middle}, outages = [{{ at = \"4 s\", for = \"{seconds} s\" }}]"), 1);
    net.seconds = 30 + seconds;
    (vec![("broken_s", json!(seconds))], net)
}

/// S2-E13: a link of the path breaks.
fn breaks(seeds: u64) -> Vec<Scene> {
    let of = |seconds: u32| {
        let (case, net) = broken(seconds);
        let tuned = [super::OURS, super::PRESET, "tcp-cubic", "tcp-bbr"];
        scene("breaks", case, None).on(&net, &["tcp-cubic"], &tuned, seeds)
    };
    BREAKS_S.map(of).into()
}

/// Other physical layers: four hops, and one hop with aggregates.
fn phys(seeds: u64) -> Vec<Scene> {
    const TXOP_SHORT: &str = "edca = { best-effort = { txop = \"2528 us\" } }";
    let ofdm = |rate: u32| format!("phy = \"802.11a\"\nrate = \"{rate} Mbit/s\"");
    let n65 = || "phy = \"802.11n\"\nmcs = 7\naggregate = { frames = 64 }".to_owned();
    let cases = [
        ("802.11a 6", ofdm(6), 4),
        ("802.11a 24", ofdm(24), 4),
        ("802.11a 54", ofdm(54), 4),
        ("802.11n 65", n65(), 4),
        ("802.11n 65", n65(), 1),
    ];
    let of = |(word, phy, hops): (&'static str, String, usize)| {
        let net = Net::chain(hops, Apart::Sensed, 0.0, upload(0, hops));
        let case = vec![("phy", json!(word)), ("hops", json!(hops))];
        // Bursts of 6 Mbit/s frames need a longer limit, of aggregates none.
        let tuned = match word {
            "802.11a 6" => format!("{phy}\n{TXOP}"),
            "802.11n 65" => phy.clone(),
            _ => format!("{phy}\n{TXOP_SHORT}"),
        };
        let stacks = [super::OURS, super::PRESET, "tcp-cubic", "tcp-bbr", "tcp-cubic+rts"];
        scene("phys", case, None).with(&net, &phy, ("shipped", &["tcp-cubic", "tcp-bbr"]), seeds).with(
            &net,
            &tuned,
            ("tuned", &stacks),
            seeds,
        )
    };
    cases.into_iter().map(of).collect()
}
