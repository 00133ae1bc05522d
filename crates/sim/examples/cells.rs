//! Temporary.
use std::path::Path;
use std::sync::atomic::AtomicBool;
use wavelane_base::Seed;
use wavelane_run::{Backend, RunContext};
use wavelane_scenario::{Scenario, Stack};
use wavelane_sim::SimBackend;

fn text(phy: &str, txop: u32, knobs: &str, other: &str) -> String {
    let mut t = format!(
        "title = \"t\"\nduration = \"32 s\"\nstacks = [\"hop-2009\"]\n[nodes]\na = \"gateway\"\nb = \"gateway\"\nc = \"gateway\"\nleft = \"endpoint\"\nright = \"endpoint\"\nserver = \"endpoint\"\n"
    );
    for (e, g) in [("left", "a"), ("right", "b"), ("server", "c")] {
        t += &format!("[channels.lan-{e}]\npreset = \"ethernet\"\nbetween = [\"{e}\", \"{g}\"]\n");
    }
    t += &format!(
        "[channels.air]\nkind = \"wifi\"\nnodes = [\"a\", \"b\", \"c\"]\n{phy}\nqueue = \"50 packets\"\nedca = {{ best-effort = {{ txop = \"{txop} ms\" }} }}\nreach = \"none\"\npairs = [{{ between = [\"a\", \"c\"], hear = \"decode\" }}, {{ between = [\"b\", \"c\"], hear = \"decode\" }}]\n"
    );
    t += "[flows.one]\napp = \"upload\"\nfrom = \"left\"\nto = \"server\"\n";
    t += &format!("[flows.other]\napp = \"upload\"\nfrom = \"right\"\nto = \"server\"\n{other}\n");
    for g in ["a", "b", "c"] {
        t += &format!("[gateways.{g}]\n{knobs}\n");
    }
    t
}

fn keys(hops: u32, on: bool) -> String {
    let names: Vec<String> = (0..=hops).map(|n| format!("g{n}")).collect();
    let mut text = String::from(
        "title = \"k\"\nduration = \"25 s\"\nstacks = [\"hop-2009\"]\n[nodes]\nclient = \"endpoint\"\nserver = \"endpoint\"\n",
    );
    names.iter().for_each(|name| text += &format!("{name} = \"gateway\"\n"));
    let list: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let pair = |apart: usize, hear: &str| {
        list.iter()
            .zip(list.iter().skip(apart))
            .map(|(a, b)| format!("{{ between = [{a}, {b}], hear = \"{hear}\" }}"))
            .collect::<Vec<_>>()
    };
    let pairs = [pair(1, "decode"), pair(2, "sense")].concat().join(", ");
    text += &format!(
        "[channels.air]\nkind = \"wifi\"\nnodes = [{}]\nphy = \"802.11b\"\npreamble = \"short\"\nrate = \"11 Mbit/s\"\nqueue = \"50 packets\"\nedca = {{ best-effort = {{ txop = \"8 ms\" }} }}\nreach = \"none\"\npairs = [{pairs}]\n",
        list.join(", ")
    );
    for (e, g) in [("client", &names[0]), ("server", &names[names.len() - 1])] {
        text += &format!("[channels.lan-{e}]\npreset = \"ethernet\"\nbetween = [\"{e}\", \"{g}\"]\n");
    }
    text += "[flows.bulk]\napp = \"upload\"\nfrom = \"client\"\nto = \"server\"\n[flows.keys]\napp = \"echo\"\nfrom = \"client\"\nto = \"server\"\nstart = \"5 s\"\nevery = \"100 ms\"\nsize = \"64 B\"\n";
    names.iter().for_each(|name| text += &format!("[gateways.{name}]\nmicro-blocks = {on}\n"));
    text
}

fn echo(seeds: u64) {
    for hops in [1, 2, 3] {
        for on in [true, false] {
            let scenario = Scenario::parse(&keys(hops, on), Path::new(".")).unwrap();
            let (mut medians, mut bulk) = (Vec::new(), 0.0);
            for seed in 1..=seeds {
                let mut context = RunContext {
                    out: Path::new("/tmp"),
                    label: "t".to_owned(),
                    captures: wavelane_run::CaptureExtent::Off,
                    progress: &mut |_| {},
                    cancelled: &AtomicBool::new(false),
                };
                let raw = SimBackend.run_stack(&scenario, Stack::Hop2009, Seed(seed), &mut context).unwrap();
                let text = format!("{:?}", raw.flows[1].probes.first());
                if seed == 1 && hops == 1 {
                    println!("{text}");
                }
                let mut rtts: Vec<u64> = raw.flows[1].probes.iter().filter_map(|p| p.rtt_ns).collect();
                rtts.sort_unstable();
                medians.push(rtts[rtts.len() / 2] as f64 / 2e6);
                bulk += raw.flows[0].octets as f64 * 8.0 / 25e6 / seeds as f64;
            }
            let mean = medians.iter().sum::<f64>() / seeds as f64;
            let sd = (medians.iter().map(|m| (m - mean) * (m - mean)).sum::<f64>() / (seeds as f64 - 1.0)).sqrt();
            println!("keys {hops} hops micro {on}: one way {mean:.2} ms sd {sd:.2} bulk {bulk:.3}");
        }
    }
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("keys") {
        return echo(10);
    }
    let args: Vec<String> = std::env::args().collect();
    let cell = args.get(1).map_or("all", |s| s.as_str());
    let seeds: u64 = args.get(2).map_or(3, |s| s.parse().unwrap());
    let other = args.get(3).cloned().unwrap_or_default();
    let knobs = args.get(4).cloned().unwrap_or_default();
    let from: f64 = args.get(5).map_or(4.0, |s| s.parse().unwrap());
    let cells = [
        ("11", "phy = \"802.11b\"\npreamble = \"short\"\nrate = \"11 Mbit/s\"", 8, 1223.0),
        ("54", "phy = \"802.11a\"\nrate = \"54 Mbit/s\"", 8, 264.0),
        ("6", "phy = \"802.11a\"\nrate = \"6 Mbit/s\"", 25, 2088.0),
        ("2", "phy = \"802.11b\"\npreamble = \"short\"\nrate = \"2 Mbit/s\"", 25, 6250.0),
    ];
    for (name, phy, txop, us) in cells {
        if cell != "all" && cell != name {
            continue;
        }
        let scenario = Scenario::parse(&text(phy, txop, &knobs, &other), Path::new(".")).unwrap();
        let (mut sum, mut jains) = (0.0, 0.0);
        for seed in 1..=seeds {
            let mut context = RunContext {
                out: Path::new("/tmp"),
                label: "t".to_owned(),
                captures: wavelane_run::CaptureExtent::Off,
                progress: &mut |_| {},
                cancelled: &AtomicBool::new(false),
            };
            let raw = SimBackend.run_stack(&scenario, Stack::Hop2009, Seed(seed), &mut context).unwrap();
            let of: Vec<f64> = raw
                .flows
                .iter()
                .map(|f| {
                    let all = f.arrivals.iter().filter(|(at, _)| (from..32.0).contains(&(*at as f64 / 1e9)));
                    all.map(|(_, n)| *n as f64 * 8.0).sum::<f64>() / (32.0 - from) / 1e6
                })
                .collect();
            if std::env::var("SHOW").is_ok() {
                for f in &raw.flows {
                    let mut bins = [0u64; 33];
                    f.arrivals.iter().for_each(|(at, n)| bins[(*at / 1_000_000_000).min(32) as usize] += *n);
                    println!("    {}: {:?}", f.flow, bins.map(|n| n / 1000));
                }
                println!("    {:?}", raw.notes);
                println!("    {:?}", raw.radios[0].categories);
            }
            let total: f64 = of.iter().sum();
            let jain = total * total / (2.0 * of.iter().map(|x| x * x).sum::<f64>());
            let miss: u64 = raw.radios[0].ack_missing;
            let ceiling = 1472.0 * 8.0 / us;
            println!(
                "{name:>3} seed {seed}: {:.2} + {:.2} = {total:.3}  {:.3} of ceiling  jain {jain:.3}  ack missing/s {:.0} repair {:?} {:?}",
                of[0],
                of[1],
                total / ceiling,
                miss as f64 / 32.0,
                raw.repair_octets,
                raw.notes.len()
            );
            sum += total / ceiling / seeds as f64;
            jains += jain / seeds as f64;
        }
        println!("{name:>3} mean {sum:.4} of ceiling, jain {jains:.3}");
    }
}
