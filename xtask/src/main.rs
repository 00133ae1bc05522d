//! Tasks of the workspace: `cargo xtask tidy`, `cargo xtask tally LOG CODE`.
#![forbid(unsafe_code)]

mod render;
mod results;
mod tally;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy            checks the house rules; exit 1 if one is broken
       cargo xtask tally LOG CODE  counts the tests of a suite that printed LOG and ended with CODE";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["results", rest @ ..] => results::command(&root(), rest),
        ["tidy"] => match tidy::run(&root()) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("tidy: {error}");
                ExitCode::from(2)
            }
        },
        ["tally", log, code] => match (std::fs::read(log), code.parse::<u8>()) {
            (Ok(log), Ok(code)) => {
                println!("{}", tally::Tally::of(&String::from_utf8_lossy(&log), code));
                ExitCode::SUCCESS
            }
            (Err(error), _) => {
                eprintln!("tally: {log}: {error}");
                ExitCode::from(2)
            }
            (_, Err(error)) => {
                eprintln!("tally: '{code}' is no exit code: {error}");
                ExitCode::from(2)
            }
        },
        _ => {
            eprintln!("{USAGE}");
            eprintln!("{}", results::USAGE);
            ExitCode::from(2)
        }
    }
}

/// The workspace's root: the folder above this package.
fn root() -> std::path::PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}
