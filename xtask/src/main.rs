//! Tasks of the workspace: `cargo xtask tidy`, `cargo xtask tally LOG CODE`, `cargo xtask results`.
#![forbid(unsafe_code)]

mod render;
mod results;
mod tally;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy            checks the house rules; exit 1 if one is broken
       cargo xtask tally LOG CODE  counts the tests of a suite that printed LOG and ended with CODE
       cargo xtask results [--check] [FILE...]  takes studies' ID.json into docs/results and renders the tables of README and guide";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => match tidy::run(&root()) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => failed("tidy", &error),
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
        ["results", "--check"] => match results::stale(&root()) {
            Ok(stale) if stale.is_empty() => ExitCode::SUCCESS,
            Ok(stale) => {
                stale.iter().for_each(|(path, _)| eprintln!("results: {path} differs; {}", results::REMEDY));
                ExitCode::FAILURE
            }
            Err(error) => failed("results", &error),
        },
        ["results", files @ ..] if files.iter().all(|file| !file.starts_with('-')) => {
            let taken: Result<Vec<_>, String> =
                files.iter().map(|file| results::take(&root(), Path::new(file))).collect();
            match taken.and_then(|_| results::write(&root())) {
                Ok(written) => {
                    written.iter().for_each(|path| println!("results: {path} written"));
                    ExitCode::SUCCESS
                }
                Err(error) => failed("results", &error),
            }
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn failed(task: &str, error: &str) -> ExitCode {
    eprintln!("{task}: {error}");
    ExitCode::from(2)
}

/// The workspace's root: the folder above this package.
fn root() -> std::path::PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}
