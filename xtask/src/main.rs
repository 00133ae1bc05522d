//! Tasks of the workspace: `cargo xtask tidy`, `cargo xtask tally CODE FILE...`.
#![forbid(unsafe_code)]

mod render;
mod results;
mod settings;
mod tally;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy            checks the house rules; exit 1 if one is broken
       cargo xtask tally CODE FILE...  counts the tests of a suite that ended with CODE, by what it printed and its JUnit files";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["settings"] => settings::command(&root()),
        ["results", rest @ ..] => results::command(&root(), rest),
        ["tidy"] => match tidy::run(&root()) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("tidy: {error}");
                ExitCode::from(2)
            }
        },
        ["tally", code, files @ ..] => match code.parse::<u8>() {
            Ok(code) => {
                // A suite that ended early has not written all of them.
                let logs = files.iter().filter_map(|file| std::fs::read(file).ok());
                let text: Vec<String> = logs.map(|log| String::from_utf8_lossy(&log).into_owned()).collect();
                println!("{}", tally::Tally::of(&text, code));
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("tally: '{code}' is no exit code: {error}");
                ExitCode::from(2)
            }
        },
        _ => {
            eprintln!("{USAGE}");
            eprintln!("{}\n{}", results::USAGE, settings::USAGE);
            ExitCode::from(2)
        }
    }
}

/// The workspace's root: the folder above this package.
fn root() -> std::path::PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}
