//! The command line of `wavelaned`, from which its manual page is made too.

use clap::Parser;
use std::path::PathBuf;
use wavelane_wire::datagram::WIRE_VERSION;

const MORE: &str = "\
Signals:
  SIGHUP             read the configuration file again; if it is refused, what ran goes on (`wavelane status` says why)
  SIGTERM, SIGINT    reset open connections, remove every rule, route and socket, and end

Exit codes:
  0  ended by a signal
  1  ran and could not go on: it may work when started again
  2  the configuration or the machine does not allow the start: the message says what to do

Examples:
  wavelane init --name near --peer-name far --peer-key KEY    writes wavelaned.toml here
  wavelane check wavelaned.toml                               tests it without starting anything
  wavelaned --config wavelaned.toml
  wavelane status                                             peers, lanes and flows of the running gateway";

/// What `--version` says of a build: its commit, and the version on the wire, in which both gateways must be the same.
pub fn version(build: &str) -> &'static str {
    // Once for each command that is set up: clap takes no other text.
    format!("{build}, wire version {WIRE_VERSION}").leak()
}

/// Carries TCP, UDP and ICMP over bad links between gateways, or shapes interfaces.
#[derive(Parser)]
#[command(name = "wavelaned", version = version(env!("WAVELANE_VERSION")), after_help = MORE)]
pub struct Arguments {
    /// The configuration file (`wavelane init` writes one, `wavelane check` tests one).
    #[arg(long, value_name = "FILE", default_value = "/etc/wavelane/wavelaned.toml")]
    pub config: PathBuf,
    /// Append the data keys of every session to FILE, for `wavelane trace --keys` (they decrypt the traffic).
    #[arg(long, value_name = "FILE")]
    pub key_log: Option<PathBuf>,
    /// Append the datagrams of serial lanes to FILE, a pcapng capture: what other programs capture does not hold them.
    #[arg(long, value_name = "FILE")]
    pub line_capture: Option<PathBuf>,
    /// Append what is decided about peers, SYNs, rules and reloads to FILE, for a developer who replays it.
    #[arg(long, value_name = "FILE", hide = true)]
    pub decisions: Option<PathBuf>,
}

impl Arguments {
    /// What `program` (a shaper or a proxy, which have no sessions and no lanes) cannot do of what is asked for here.
    pub fn refused_by(&self, program: &str) -> Option<String> {
        let all =
            [(&self.key_log, "--key-log"), (&self.line_capture, "--line-capture"), (&self.decisions, "--decisions")];
        let mut asked = all.into_iter();
        let (_, name) = asked.find(|(path, _)| path.is_some())?;
        let file = self.config.display();
        Some(format!(
            "{name} is of gateways, and {file} is that of a {program}: leave it out (`wavelane trace` reads captures of tcpdump)"
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_only_gateways_can_do_is_refused_by_others() {
        let asked = |more: &[&str]| {
            let arguments = ["wavelaned", "--config", "home.toml"].iter().chain(more);
            Arguments::try_parse_from(arguments).unwrap().refused_by("shaper")
        };
        assert_eq!(asked(&[]), None);
        for name in ["--key-log", "--line-capture"] {
            let why = asked(&[name, "x"]).unwrap();
            assert!(why.starts_with(name) && why.contains("home.toml is that of a shaper"), "{why}");
        }
    }
}
