//! `wavelaned --config FILE`: the gateway daemon.
#![forbid(unsafe_code)]

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use wavelane_daemon::commands::EXIT_REFUSED;
use wavelane_daemon::config::Config;
use wavelane_daemon::daemon::Daemon;
use wavelane_daemon::log::Pen;
use wavelane_daemon::start::StartError;

/// Carries TCP, UDP and ICMP over bad links between gateways.
#[derive(Parser)]
#[command(name = "wavelaned", version)]
struct Arguments {
    /// The configuration file (`wavelane init` writes one, `wavelane check` tests one).
    #[arg(long, value_name = "FILE", default_value = "/etc/wavelane/wavelaned.toml")]
    config: PathBuf,
}

/// Exit code of a gateway that ran and could not go on. Unlike a refused start it may work when tried again.
const EXIT_FAILED: u8 = 1;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let started = Config::load(&arguments.config)
        .map_err(StartError::from)
        .and_then(|config| Daemon::start(config, &arguments.config));
    let ended = match started {
        Ok(daemon) => {
            daemon.run().map_err(|source| (StartError::System { what: "waiting for events", source }, EXIT_FAILED))
        }
        Err(e) => Err((e, EXIT_REFUSED)),
    };
    let Err((why, code)) = ended else { return ExitCode::SUCCESS };
    if let Ok(pen) = Pen::open() {
        pen.put(&why.to_string());
        pen.flush();
    }
    ExitCode::from(code)
}
