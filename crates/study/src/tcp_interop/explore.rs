#![allow(clippy::unwrap_used)]
use super::*;
use std::sync::atomic::AtomicBool;
use wavelane_lab::duel::Load;
use wavelane_protocol::tcp::{Config, CongestionControl};
#[test]
fn explore() {
    let args: Vec<String> = std::env::var("DUEL").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    if args.is_empty() {
        return;
    }
    let get =
        |k: &str, d: f64| args.iter().find_map(|a| a.strip_prefix(&format!("{k}="))).map_or(d, |v| v.parse().unwrap());
    let word =
        |k: &str, d: &'static str| args.iter().find_map(|a| a.strip_prefix(&format!("{k}="))).unwrap_or(d).to_owned();
    let cc = word("cc", "cubic");
    let (kc, oc) = match cc.as_str() {
        "reno" => ("reno", CongestionControl::NewReno),
        "bbr" => ("bbr", CongestionControl::Bbr),
        _ => ("cubic", CongestionControl::Cubic),
    };
    let way = |loss: f64, reorder: f64| DirectionConfig {
        rate: Some(Rate::from_bps((get("mbit", 1000.0) * 1e6) as u64)),
        delay: Span::from_micros((get("rtt", 2.0) * 500.0) as u64),
        queue: QueueLimit::Octets(Octets::new(get("queue", 250_000.0) as u64)),
        loss: if loss > 0.0 {
            LossConfig::Random { p: Ratio::new((loss * 1e6) as u32, 1_000_000).unwrap() }
        } else {
            LossConfig::None
        },
        reorder: wavelane_channel::Reorder {
            p: Ratio::new((reorder * 1e6) as u32, 1_000_000).unwrap(),
            extra: Span::from_micros((get("extra", 1.0) * 1e3) as u64),
        },
        ..DirectionConfig::default()
    };
    let cable = CableConfig { forward: way(get("loss", 0.0), get("reorder", 0.0)), reverse: way(0.0, 0.0) };
    let seed = Seed(get("seed", 1.0) as u64);
    let load = if get("time", 0.0) > 0.0 {
        Load::Time(Span::from_millis((get("time", 0.0) * 1e3) as u64))
    } else {
        Load::Octets((get("mb", 10.0) * 1e6) as u64)
    };
    let capture = args.iter().find_map(|a| a.strip_prefix("cap=")).map(Into::into);
    let duel = Duel {
        name: "x".into(),
        seed,
        cable,
        flows: get("flows", 1.0) as usize,
        load,
        limit: Span::from_secs(120),
        ipv6: get("v6", 0.0) > 0.0,
        capture,
    };
    let who = word("who", "ok");
    let side = |c: char, n: &str| {
        if c == 'k' {
            Side::Kernel(kc)
        } else {
            Side::Guest(Ours::new(Config { nagle: false, ..Config::linux(oc) }, seed, n))
        }
    };
    let mut w = who.chars();
    let end = duel::run(&duel, [side(w.next().unwrap(), "a"), side(w.next().unwrap(), "b")], &AtomicBool::new(false))
        .unwrap();
    for f in &end.flows {
        let s = (f.last_ns.unwrap_or(0) - f.first_ns.unwrap_or(0)) as f64 / 1e9;
        println!("{} {who}: {:.2} Mbit/s, {:.2} s, intact {:?}", cc, f.octets as f64 * 8.0 / s / 1e6, s, f.intact);
    }
    println!("late {} inconclusive {:?}", end.late, end.inconclusive);
    for (k, c) in end.kernel.iter().flatten().enumerate() {
        let names = [
            "TcpRetransSegs",
            "TcpExtTCPTimeouts",
            "TcpExtTCPLossProbes",
            "TcpExtTCPSpuriousRTOs",
            "TcpExtTCPDSACKUndo",
            "TcpExtTCPFullUndo",
            "TcpExtTCPPartialUndo",
            "TcpExtTCPLossUndo",
            "TcpExtTCPSackRecovery",
            "TcpExtTCPDSACKRecv",
            "TcpExtTCPSACKReorder",
            "TcpExtTCPTSReorder",
            "TcpOutSegs",
            "TcpInSegs",
            "TcpInCsumErrors",
            "TcpExtTCPLostRetransmit",
            "TcpExtTCPSlowStartRetrans",
            "TcpExtDelayedACKs",
            "TcpExtTCPHystartTrainDetect",
            "TcpExtTCPHystartDelayDetect",
        ];
        println!(
            "kernel {k}: {}",
            names.iter().map(|n| format!("{n}={} ", c.get(*n).copied().unwrap_or(0))).collect::<String>()
        );
    }
    for g in end.guests.iter().flatten() {
        for c in g.0.statuses() {
            println!("ours: {c:?}");
        }
    }
    println!(
        "link loss {} queue {}",
        end.link[0].dropped(wavelane_channel::Cause::Loss).frames,
        end.link[0].dropped(wavelane_channel::Cause::Queue).frames
    );
}
