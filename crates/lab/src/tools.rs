//! The programs the lab runs, and where they are.

use crate::LabError;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use wavelane_host::netns::Netns;

/// What to do when `ip` is missing.
pub(crate) const INSTALL_IP: &str = "install iproute2 (apt install iproute2)";
/// What to do when `curl` is missing.
pub(crate) const INSTALL_CURL: &str = "install curl (apt install curl)";
/// What to do when `nft` is missing.
pub(crate) const INSTALL_NFT: &str = "install nftables (apt install nftables)";

/// The folders of PATH, then the usual system folders: root by `su` keeps a PATH without `/usr/sbin`, where nft is. Finally the folders
/// where `cargo install` and `go install` put programs.
fn folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    let installed = [("CARGO_HOME", ".cargo"), ("GOPATH", "go")].map(|(variable, usual)| {
        let named = std::env::var_os(variable).map(PathBuf::from);
        named.or_else(|| std::env::home_dir().map(|home| home.join(usual))).map(|folder| folder.join("bin"))
    });
    std::env::split_paths(&path).chain(system).chain(installed.into_iter().flatten()).collect()
}

/// Finds `program` in PATH or the usual system folders.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    folders().into_iter().map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// A command whose programs, and their child programs, are found where [`find`] looks.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    if let Ok(path) = std::env::join_paths(folders()) {
        command.env("PATH", path);
    }
    command
}

/// One of our own programs: named by `variable`, else next to the running program, else one or two folders above (test programs are in
/// `target/PROFILE/deps`), else in PATH.
pub(crate) fn find_own(program: &str, variable: &str) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(variable) {
        return Some(PathBuf::from(named)).filter(|file| file.is_file());
    }
    let exe = std::env::current_exe().ok()?;
    let near = exe.ancestors().skip(1).take(3).map(|folder: &Path| folder.join(program)).find(|file| file.is_file());
    near.or_else(|| find(program))
}

/// Runs `command` inside `ns` to its end. Only for programs that exit at once.
pub(crate) fn output(ns: &Netns, mut command: Command, remedy: &'static str) -> Result<Output, LabError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = ns.run(move || command.output())?;
    let output = output.map_err(|error| LabError::Program { program: program.clone(), error, remedy })?;
    if output.status.success() {
        return Ok(output);
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let said = text.lines().rfind(|l| !l.trim().is_empty()).unwrap_or("(it said nothing)").trim().to_owned();
    Err(LabError::Failed { program, said })
}

/// Runs `ip` with several commands at once inside `ns`, one per line.
pub(crate) fn ip(ns: &Netns, lines: &[String]) -> Result<(), LabError> {
    for line in lines {
        let mut command = command("ip");
        command.args(line.split_whitespace());
        output(ns, command, INSTALL_IP).map_err(|error| match error {
            LabError::Failed { said, .. } => {
                LabError::Failed { program: format!("'ip {line}' for node {}", ns.name()), said }
            }
            other => other,
        })?;
    }
    Ok(())
}

/// Ticks per second in `/proc`: USER_HZ, which is 100 on every Linux architecture that Rust's tier 1 covers.
pub(crate) const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time of the whole machine since its boot, in seconds: busy (softirq included) and total.
pub(crate) fn processor_seconds() -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    // proc(5): user nice system idle iowait irq softirq steal; guest times are already included in user.
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line.split_whitespace().take(8).filter_map(|n| n.parse().ok()).collect();
    let [_, _, _, idle, waiting, ..] = ticks[..] else { return None };
    let all: f64 = ticks.iter().sum();
    Some(((all - idle - waiting) / TICKS_PER_SECOND, all / TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_the_path_or_not_at_all() {
        assert!(find("sh").is_some());
        let out = command("env").output().expect("env runs");
        let path = String::from_utf8_lossy(&out.stdout);
        assert!(path.lines().any(|l| l.starts_with("PATH=") && l.contains("/usr/sbin")), "{path}");
        assert!(find("no-such-program-here").is_none());
        assert!(find_own("no-such-program-here", "WAVELANE_NO_SUCH_VARIABLE").is_none());
    }
}
