//! `wavelane reload`: the running gateway takes its file again, on trial if wanted.

use super::CommandError;
use super::ask::Asking;
use crate::request::{Answer, Ask};
use std::path::PathBuf;
use std::time::Duration;
use wavelane_base::{Quantity, Span};

/// The kernel's rules may take seconds.
const PATIENCE: Duration = Duration::from_secs(60);

const EXAMPLES: &str = "\
A gateway that is reached through its own link can lock its operator out. So try the new file first:
  wavelane check /etc/wavelane/wavelaned.toml
  wavelane reload --confirm 60s      in force for a minute, connections go on
  wavelane reload --keep             ... and for good; without this the former one comes back by itself

The daemon holds the timer, so a lost connection or a closed laptop changes nothing. It goes back in memory: the file stays as
it was edited, and a restart would take it. `wavelane status` says that a configuration is on trial, or that one went back.

Exit codes: 0 done, 2 refused (the configuration before stays in force).";

/// `wavelane reload`.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ReloadArgs {
    /// Go back to what was in force after this time, unless `wavelane reload --keep` comes: 1s to 24h.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with_all = ["keep", "back"])]
    pub confirm: Option<Span>,
    /// Confirm the configuration that is on trial.
    #[arg(long, conflicts_with = "back")]
    pub keep: bool,
    /// End the trial now.
    #[arg(long)]
    pub back: bool,
    /// The daemon's control socket; by default the only one in the usual place.
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
}

/// A time as on command lines, with or without the space before the unit.
pub(super) fn time(text: &str) -> Result<Span, String> {
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    Span::parse(&format!("{} {unit}", number.trim_end()))
        .map_err(|_| format!("'{text}' is no time such as 60s or 5min"))
}

/// Has the running daemon read its configuration again, or ends a trial. Returns what it says.
pub fn reload(args: &ReloadArgs) -> Result<String, CommandError> {
    let ask = match (args.keep, args.back) {
        (true, _) => Ask::Keep,
        (_, true) => Ask::Back,
        _ => Ask::Reload { confirm_ms: args.confirm.map(|span| span.as_nanos() / 1_000_000) },
    };
    let mut asking = Asking::begin(args.control.as_deref())?;
    asking.ask(&ask)?;
    match asking.hear(PATIENCE)? {
        Some(Answer::Done(text)) => Ok(text + "\n"),
        Some(Answer::Refused(why)) => Err(CommandError::Refused(why)),
        Some(Answer::Echo(_) | Answer::About(_)) => Err(asking.strange_answer()),
        None => Err(CommandError::Refused(format!(
            "wavelaned has not answered in {} s: `wavelane status` says what is in force",
            PATIENCE.as_secs()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_and_without_a_space() {
        assert_eq!(time("60s"), Ok(Span::from_secs(60)));
        assert_eq!(time("1.5 min"), Ok(Span::from_secs(90)));
        for wrong in ["60", "s", "-1s", "60 parsecs", ""] {
            assert!(time(wrong).is_err_and(|why| why.contains("no time such as 60s")), "{wrong}");
        }
    }
}
