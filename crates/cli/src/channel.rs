//! `wavelane channel`.

use crate::{Failure, Outcome, interrupt};
use clap::Args;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use wavelane_lab::{Crossed, Crossing, Unserved};
use wavelane_scenario::Setting;

const EXAMPLES: &str = include_str!("examples/channel.txt");

/// Arguments of `wavelane channel`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ChannelArgs {
    /// The scenario file with the channel.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The channel [default: the only one that is not the preset `ethernet`].
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Where datagrams come in.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Where they go.
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    /// The random seed, instead of the file's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Put VALUE in the place of the file's, such as air.forward.rate="5 Mbit/s"; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = Setting::read)]
    settings: Vec<Setting>,
}

/// Carries datagrams over a scenario's channel.
pub(crate) fn channel(args: &ChannelArgs) -> Outcome {
    let scenario = crate::run::loaded(&args.file, &args.settings, args.seed)?.with_moves();
    let found = args.to.to_socket_addrs().map_err(|e| {
        let named =
            args.to.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        let remedy = if named { "correct the name, or write its address" } else { "write HOST:PORT" };
        Failure::refused(format!("--to {}: {e}; {remedy}", args.to))
    })?;
    // A name with both kinds of address is reached by IPv4, which every program listens on.
    let to = found
        .min_by_key(SocketAddr::is_ipv6)
        .ok_or_else(|| Failure::refused(format!("--to {}: no address", args.to)))?;
    let crossing = Crossing { channel: args.channel.clone(), listen: args.listen, to };
    let cancelled = interrupt::flag()?;
    let ready = |name: &str, here| say!("{here} -> {to} over channel '{name}'; Ctrl-C ends it");
    let unserved = |of: &Unserved| {
        if let (_, Some(other)) = of.others {
            say!(
                "{other} calls as well and is not served: a channel stands between two programs; start another for it"
            );
        }
        if let (1.., len) = of.too_long {
            say!("a datagram of {len} octets has no way: a packet of 1,500 holds 1,472; lower the program's MTU");
        }
    };
    let crossed = wavelane_lab::carry(&scenario, &crossing, ready, unserved, || cancelled.load(Ordering::Relaxed));
    let Crossed { offered, lasted, unserved: Unserved { others, too_long } } = crossed.map_err(Failure::refused)?;
    let [forward, reverse] = offered.map(volume);
    say!("offered: forward {forward}, reverse {reverse}, in {:.1} s", lasted.as_secs_f64());
    for (count, why) in [(others.0, "of other callers"), (too_long.0, "of more than 1,472 octets")] {
        if count > 0 {
            say!("dropped datagrams {why}: {count}");
        }
    }
    Ok(0)
}

/// Octets, for people.
fn volume(octets: u64) -> String {
    match octets {
        0..1_000_000 => format!("{:.1} kB", octets as f64 / 1e3),
        _ => format!("{:.2} MB", octets as f64 / 1e6),
    }
}
