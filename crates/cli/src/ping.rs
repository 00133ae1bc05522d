//! `wavelane ping`: the loop until Ctrl-C, and what it prints.

use crate::{EXIT_FAIL, Failure, Outcome, interrupt, print};
use std::sync::atomic::Ordering;
use wavelane_daemon::commands::{self, CommandError, PingArgs};

/// Pings a peer. The exit code is ping's: 0 if anything was answered.
pub(crate) fn ping(args: &PingArgs) -> Outcome {
    let stop = interrupt::flag()?;
    let mut unprinted = None;
    let line = |text: &str| {
        if args.json {
            return Ok(());
        }
        print(&format!("{text}\n")).map_err(|why| {
            let line = why.line.clone();
            unprinted = Some(why);
            CommandError::Refused(line)
        })
    };
    let pings = commands::ping(args, || stop.load(Ordering::Relaxed), line);
    if let Some(why) = unprinted {
        return Err(why);
    }
    let pings = pings.map_err(Failure::refused)?;
    if args.json {
        print(&(serde_json::to_string(&pings).unwrap_or_default() + "\n"))?;
    } else {
        print(&pings.to_string())?;
    }
    Ok(if pings.any() { 0 } else { EXIT_FAIL })
}
