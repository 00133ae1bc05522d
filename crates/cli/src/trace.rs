//! `wavelane trace`.

use crate::{Failure, Outcome, interrupt, print};
use clap::Args;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use wavelane_probe::trace;

/// Arguments of `wavelane trace`.
#[derive(Args)]
pub(crate) struct TraceArgs {
    /// A pcap or pcapng file, also compressed with gzip or zstd.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// One JSON document.
    #[arg(long, conflicts_with_all = ["csv", "hosts", "long"])]
    json: bool,
    /// One line per connection, with the columns of `tcptrace --csv` first.
    #[arg(long, conflicts_with_all = ["hosts", "long"])]
    csv: bool,
    /// What each host sent and received.
    #[arg(long, conflicts_with = "long")]
    hosts: bool,
    /// Every figure of every connection, as `tcptrace -lr` lists them.
    #[arg(long)]
    long: bool,
}

/// Analyses a capture file.
pub(crate) fn trace(args: &TraceArgs) -> Outcome {
    let refused = |why: &dyn std::fmt::Display| Failure::refused(format!("{}: {why}", args.file.display()));
    let open = || File::open(&args.file).map_err(|e| refused(&e));
    let stop = interrupt::flag()?;
    let go_on = |_| !stop.load(Ordering::Relaxed);
    let analysed = trace::analyse(open()?, go_on).map_err(|e| refused(&e))?;
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::interrupted("interrupted"));
    }
    if let Some(damage) = &analysed.ending.damage {
        eprintln!(
            "wavelane: {}: {damage} after {} packets; what came before is analysed",
            args.file.display(),
            analysed.packets
        );
    }
    let name = args.file.display().to_string();
    print(&if args.json {
        format!("{}\n", trace::json(&analysed, &name))
    } else if args.csv {
        trace::csv(&analysed)
    } else if args.hosts {
        trace::hosts_table(&analysed)
    } else if args.long {
        trace::long_table(&analysed)
    } else {
        trace::table(&analysed)
    });
    Ok(0)
}
