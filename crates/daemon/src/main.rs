//! `wavelaned --config FILE`: the gateway daemon, a shaper of interfaces, or a split proxy.
#![forbid(unsafe_code)]

use clap::Parser;
use std::io::Write;
use std::process::ExitCode;
use wavelane_daemon::arguments::Arguments;
use wavelane_daemon::commands::EXIT_REFUSED;
use wavelane_daemon::config::Config;
use wavelane_daemon::daemon::Daemon;
use wavelane_daemon::log::{ERROR, Pen};
use wavelane_daemon::start::StartError;
use wavelane_daemon::{proxy, shaper};

/// Exit code of a gateway that ran and could not go on, or found a port taken. Unlike a refused start it may work when tried again.
const EXIT_FAILED: u8 = 1;

/// Most characters of what is wrong with the arguments.
const ARGUMENTS_SHOWN: usize = 16_384;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            // clap repeats the arguments as they are.
            let text = error.render().to_string();
            let _ = writeln!(std::io::stderr(), "{}", wavelane_base::text::lines(text.trim_end(), ARGUMENTS_SHOWN));
            return ExitCode::from(EXIT_REFUSED);
        }
        Err(error) => error.exit(),
    };
    if shaper::is_shaper_file(&arguments.config) {
        if let Some(why) = arguments.refused_by("shaper") {
            return say(&why, EXIT_REFUSED);
        }
        return match shaper::run(&arguments.config) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why @ shaper::ShaperError::System { .. }) => say(&why, EXIT_FAILED),
            Err(why) => say(&why, EXIT_REFUSED),
        };
    }
    if proxy::is_proxy_file(&arguments.config) {
        if let Some(why) = arguments.refused_by("proxy") {
            return say(&why, EXIT_REFUSED);
        }
        return match proxy::run(&arguments.config) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why @ (proxy::ProxyError::System { .. } | proxy::ProxyError::Ended(_))) => say(&why, EXIT_FAILED),
            Err(why) => say(&why, EXIT_REFUSED),
        };
    }
    let started =
        Config::load(&arguments.config).map_err(StartError::from).and_then(|config| Daemon::start(config, &arguments));
    let ended = match started {
        Ok(daemon) => {
            daemon.run().map_err(|source| (StartError::System { what: "waiting for events", source }, EXIT_FAILED))
        }
        Err(why) if why.may_pass() => Err((why, EXIT_FAILED)),
        Err(why) => Err((why, EXIT_REFUSED)),
    };
    ended.map_or_else(|(why, code)| say(&why, code), |()| ExitCode::SUCCESS)
}

/// Last words.
fn say(why: &dyn std::fmt::Display, code: u8) -> ExitCode {
    if let Ok(pen) = Pen::open() {
        pen.put(&format!("{ERROR}{why}"));
        pen.flush();
    }
    ExitCode::from(code)
}
