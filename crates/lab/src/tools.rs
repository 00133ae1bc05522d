//! The programs the lab runs, and where they are.

use crate::LabError;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
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

/// How `ip` names the line of a batch at which it stopped.
const STOPPED_AT: &str = "Command failed -:";

/// Runs one `ip` with several commands inside `ns`, one per line, up to the first that fails.
pub(crate) fn ip(ns: &Netns, lines: &[String]) -> Result<(), LabError> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut command = command("ip");
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let batch = lines.join("\n") + "\n";
    let output = ns.run(move || {
        let mut child = command.spawn()?;
        // It reads everything before it can have said more than a pipe holds; one that ended early says why.
        let given = child.stdin.take().map(|mut stdin| stdin.write_all(batch.as_bytes()));
        let output = child.wait_with_output()?;
        if output.status.success() { given.unwrap_or(Ok(())).map(|()| output) } else { Ok(output) }
    })?;
    let output = output.map_err(|error| LabError::Program { program: "ip".into(), error, remedy: INSTALL_IP })?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let number = text.lines().find_map(|line| line.strip_prefix(STOPPED_AT)?.trim().parse::<usize>().ok());
    let line = number.and_then(|number| lines.get(number.checked_sub(1)?)).map_or("-batch", |line| line.trim());
    let said = text.lines().rfind(|l| !l.trim().is_empty() && !l.starts_with(STOPPED_AT));
    let said = said.unwrap_or("(it said nothing)").trim().to_owned();
    Err(LabError::Failed { program: format!("'ip {line}' for node {}", ns.name()), said })
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
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn the_line_at_which_ip_stops_is_named() {
        let Ok(ns) = Netns::new(&format!("{}-batch", std::process::id())) else {
            return eprintln!("SKIPPED (a network namespace needs root)");
        };
        let lines = ["link set lo up", "addr add 10.9.9.1/32 dev lo", "link set nothing up", "link set lo down"];
        let why = ip(&ns, &lines.map(str::to_owned)).unwrap_err().to_string();
        assert!(why.contains("'ip link set nothing up' for node") && why.contains("nothing\""), "{why}");
        let mut show = command("ip");
        show.args(["addr", "show", "lo"]);
        let text = String::from_utf8(output(&ns, show, INSTALL_IP).unwrap().stdout).unwrap();
        assert!(
            text.contains("10.9.9.1") && text.contains("UP"),
            "what stands before is done, what follows is not: {text}"
        );
    }

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
