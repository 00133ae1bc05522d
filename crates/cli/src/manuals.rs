//! `wavelane completions` and `wavelane manuals`: what shells and `man` read, made from the commands themselves.

use crate::{Cli, Failure, Outcome, print};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use std::path::{Path, PathBuf};
use wavelane_base::text::ShownPath;
use wavelane_daemon::arguments::Arguments;

const INSTALL: &str = "\
Examples:
  source <(wavelane completions bash)                                        for this shell
  wavelane completions bash > ~/.local/share/bash-completion/completions/wavelane
  wavelane completions fish > ~/.config/fish/completions/wavelane.fish
  wavelane completions zsh > \"${fpath[1]}/_wavelane\"

`make install` puts those of bash, zsh and fish in their places.";

/// What every page of ours has at its beginning.
const OURS: &[u8] = b"\n.TH wavelane";

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

/// Writes a page per command, and the daemon's; nothing if another's file has the name of one.
pub(crate) fn manuals(args: &ManualsArgs) -> Outcome {
    let unwritable = |path: &Path, e: std::io::Error| {
        let path = path.shown();
        Failure::refused(format!("cannot write the manual page {path}: {e}; remove it, or name another folder"))
    };
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut made = vec![clap_mangen::Man::new(Arguments::command()).section("8")];
    add(&command, &mut made);
    let mut pages = Vec::new();
    for page in made {
        let (path, mut text) = (args.dir.join(page.get_filename()), Vec::new());
        page.render(&mut text).map_err(|e| unwritable(&path, e))?;
        pages.push((path, text));
    }
    std::fs::create_dir_all(&args.dir).map_err(|e| unwritable(&args.dir, e))?;
    let is_ours = |head: &[u8]| head.windows(OURS.len()).any(|part| part == OURS);
    for (path, _) in &pages {
        wavelane_run::check_own(path, is_ours).map_err(|e| unwritable(path, e))?;
    }
    for (path, text) in &pages {
        wavelane_run::write_whole(path, text).map_err(|e| unwritable(path, e))?;
    }
    Ok(0)
}

/// Adds the pages of a command that was built, and of those below it.
fn add(command: &Command, pages: &mut Vec<clap_mangen::Man>) {
    command.get_subcommands().filter(|of| !of.is_hide_set()).for_each(|of| add(of, pages));
    pages.push(clap_mangen::Man::new(command.clone()));
}
