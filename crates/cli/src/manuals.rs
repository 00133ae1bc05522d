//! `wavelane completions` and `wavelane manuals`: what shells and `man` read, made from the commands themselves.

use crate::{Cli, Failure, Outcome, print};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::path::PathBuf;
use wavelane_daemon::arguments::Arguments;

const INSTALL: &str = "\
Examples:
  source <(wavelane completions bash)                                        for this shell
  wavelane completions bash > ~/.local/share/bash-completion/completions/wavelane
  wavelane completions fish > ~/.config/fish/completions/wavelane.fish
  wavelane completions zsh > \"${fpath[1]}/_wavelane\"

`make install` puts those of bash, zsh and fish in their places.";

/// Arguments of `wavelane completions`.
#[derive(Args)]
#[command(after_help = INSTALL)]
pub(crate) struct CompletionsArgs {
    /// For which shell.
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Arguments of `wavelane manuals`.
#[derive(Args)]
pub(crate) struct ManualsArgs {
    /// Where the pages go; it is made if need be.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Prints a shell's completions.
pub(crate) fn completions(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "wavelane", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

/// Writes a page per command, and the daemon's.
pub(crate) fn manuals(args: &ManualsArgs) -> Outcome {
    let command = Cli::command().disable_help_subcommand(true);
    let written = std::fs::create_dir_all(&args.dir)
        .and_then(|()| clap_mangen::generate_to(command, &args.dir))
        .and_then(|()| clap_mangen::Man::new(Arguments::command()).section("8").generate_to(&args.dir).map(drop));
    written.map_err(|e| Failure::refused(format!("cannot write manual pages to {}: {e}", args.dir.display())))?;
    Ok(0)
}
