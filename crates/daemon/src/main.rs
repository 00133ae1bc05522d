//! `wavelaned --config FILE`: the gateway daemon.
#![forbid(unsafe_code)]

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use wavelane_daemon::commands::EXIT_REFUSED;
use wavelane_daemon::config::Config;
use wavelane_daemon::daemon::Daemon;
use wavelane_daemon::start::StartError;

/// Carries TCP over bad links between gateways.
#[derive(Parser)]
#[command(name = "wavelaned", version)]
struct Arguments {
    /// The configuration file (`wavelane init` writes one, `wavelane check` tests one).
    #[arg(long, value_name = "FILE", default_value = "/etc/wavelane/wavelaned.toml")]
    config: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let run = || -> Result<(), StartError> {
        let config = Config::load(&arguments.config)?;
        let system = |source| StartError::System { what: "waiting for events", source };
        Daemon::start(config, &arguments.config)?.run().map_err(system)
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("wavelaned: {e}");
            ExitCode::from(EXIT_REFUSED)
        }
    }
}
