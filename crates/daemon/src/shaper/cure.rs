//! `wavelane cure`: from what a measurement found to a shaper that runs, and back.

use super::config::DelayDirection;
use super::reflector::Reflector;
pub use super::reflector::Target;
use super::{ShaperError, clear, config, means};
use crate::commands::CommandError;
use crate::config::has_table;
use crate::log;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use wavelane_base::{Rate, Span};
use wavelane_host::caps;
use wavelane_host::files;
use wavelane_host::netns::Netns;
use wavelane_host::nft::{ToolError, run};
use wavelane_host::realtime;

/// A rise below this is no trouble: an A on the scale of DSLReports.
pub const GOOD_MS: f64 = 30.0;
/// The shaper's share of what was measured: less than all, so that the queue is its own.
const SHARE: (u64, u64) = (9, 10);
/// IP bytes of a full segment over its application bytes, with timestamps.
const IP_PER_BYTE: (u64, u64) = (1_500, 1_448);
/// Bounds of a rate that moves, and where it begins, over what was measured.
const MOVING: [(u64, u64); 3] = [(1, 5), (3, 5), (2, 1)];
/// How long the daemon may take to begin: its rules wait for other programs' locks, and a small router is busy.
const BEGINS_WITHIN: Span = Span::from_secs(120);
/// How often it is told that it has not begun.
const TOLD_EVERY: Span = Span::from_secs(5);
/// How long it may take to end.
const PATIENCE: Span = Span::from_secs(10);
/// ICMP timestamps that have not come back after this time do not come.
const STAMPS_WITHIN: Span = Span::from_secs(2);
/// The longest time that the kernel takes to close what a killed process held.
const CLOSING: Span = Span::from_secs(1);
const LOOK_EVERY: Span = Span::from_millis(20);
/// A longer log is not looked into, and stays.
const LOG_MAX: u64 = 16 << 20;
/// A longer note of a process is none.
const NOTE_MAX: u64 = 64;
/// How a file that was made here begins: another's shaper is not taken back, however alike.
const MADE: &str = "# Made by `wavelane cure`;";
/// The variable that may name the program `wavelaned`.
const PROGRAM: &str = "WAVELANED";

/// What was measured of one direction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// How far the mean round trip rises above the idle median.
    pub rise_ms: f64,
    /// What the load carried, application bytes.
    pub goodput_bps: f64,
}

/// A direction and the interface by which this machine can shape it.
#[derive(Clone, PartialEq, Debug)]
pub struct Wish {
    /// The interface.
    pub interface: String,
    /// Whether it leads into the house, so that downloads leave by it.
    pub inwards: bool,
    /// What was measured.
    pub found: Measured,
}

/// One interface to shape.
#[derive(Clone, PartialEq, Debug)]
pub struct Proposed {
    /// The interface.
    pub interface: String,
    /// The direction: `up` or `down`.
    pub direction: &'static str,
    /// The rate, of IP bytes.
    pub rate: Rate,
}

/// What to shape: the directions whose delay rises.
pub fn propose(wishes: &[Wish]) -> Vec<Proposed> {
    let one = |wish: &Wish| {
        let ip = Rate::from_bps(wish.found.goodput_bps as u64).scale(IP_PER_BYTE.0, IP_PER_BYTE.1);
        // To a hundredth of a Mbit/s: more digits would claim too much precision.
        let rate = Rate::from_bps(ip.scale(SHARE.0, SHARE.1).as_bps().max(100_000) / 10_000 * 10_000);
        Proposed { interface: wish.interface.clone(), direction: ["up", "down"][usize::from(wish.inwards)], rate }
    };
    wishes.iter().filter(|wish| wish.found.rise_ms >= GOOD_MS).map(one).collect()
}

/// The proposed file. With a reflector the rates follow the link.
pub fn file_text(all: &[Proposed], reflector: Option<Target>) -> String {
    let mut text = format!("{MADE} `wavelane cure --undo` takes it back.\n");
    let words = |rate: Rate| format!("{} kbit/s", rate.as_bps() / 1_000);
    for one in all {
        let _ = writeln!(text, "\n[[shaper]]\ninterface = \"{}\"", one.interface);
        let Some(reflector) = reflector else {
            let _ = writeln!(text, "rate = \"{}\"", words(one.rate));
            continue;
        };
        let [least, middle, most] = MOVING.map(|(n, d)| words(one.rate.scale(n, d)));
        let _ = writeln!(
            text,
            "rate = \"auto\"\nrate_min = \"{least}\"\nrate_idle = \"{middle}\"\nrate_max = \"{most}\"\n\
             reflector = \"{reflector}\"\ndirection = \"{}\"",
            one.direction
        );
    }
    text
}

/// Whom a shaper asks that moves with the link to the probe server at `server`: the machine by ICMP, if its timestamps come back to here
/// (through a carrier's NAT none do), else the server, which then has to go on. Without the privilege to ask it is ICMP.
pub fn reflector_at(server: SocketAddrV4) -> Target {
    let icmp = Target::Icmp(*server.ip());
    let start = realtime::now();
    let Ok(mut reflector) = Reflector::open(start, icmp, DelayDirection::Up, std::process::id() as u16) else {
        return icmp;
    };
    let mut ask_at = start;
    while realtime::now() < start + STAMPS_WITHIN {
        if realtime::now() >= ask_at {
            reflector.ask(realtime::now());
            ask_at += STAMPS_WITHIN.scale(1, 4);
        }
        let _ = realtime::wait(&[reflector.as_fd()], ask_at);
        if reflector.answers(realtime::now).is_ok_and(|delays| !delays.is_empty()) {
            return icmp;
        }
    }
    Target::Probe(server)
}

/// The interface by which this machine reaches `target`.
pub fn interface_towards(target: IpAddr) -> Result<String, CommandError> {
    let said = run("ip", &["route", "get", &target.to_string()], "").map_err(failed)?;
    let device = said.split_whitespace().skip_while(|word| *word != "dev").nth(1).map(str::to_owned);
    device.ok_or_else(|| CommandError::Cure(format!("no interface leads to {target}: name one with --interface")))
}

/// By what an interface would be shaped here, found out in a network namespace of its own; `None` without the privilege.
pub fn means_here() -> Option<String> {
    let of = config::parse("[[shaper]]\ninterface = \"lo\"\nrate = \"1 Mbit/s\"\n", "cure").ok()?.pop()?;
    let found = move || means(&of, super::path::NUMBER, 0).ok().map(|(_, how)| how.word().to_owned());
    Netns::new("wavelane-cure").ok()?.run(found).ok()?
}

fn failed(why: ToolError) -> CommandError {
    CommandError::Cure(why.to_string())
}

fn beside(file: &Path, extension: &str) -> PathBuf {
    file.with_extension(extension)
}

/// The program `wavelaned`: named by the environment, or beside this one or one folder up, or in PATH.
fn program() -> PathBuf {
    let this = std::env::current_exe().unwrap_or_default();
    let near = this.ancestors().skip(1).take(2).map(|folder| folder.join("wavelaned"));
    let mut found = std::env::var_os(PROGRAM).map(PathBuf::from).into_iter().chain(near.filter(|path| path.exists()));
    found.next().unwrap_or_else(|| "wavelaned".into())
}

/// Refuses what [`apply`] would refuse, before anything is measured for it.
pub fn refuse_taken(file: &Path) -> Result<(), CommandError> {
    // A link that leads nowhere is there as well.
    let there = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
    if let Some(file) = [file.to_owned(), beside(file, "pid"), beside(file, "log")].iter().find(|path| there(path)) {
        let file = file.display();
        return Err(CommandError::Cure(format!(
            "{file} is there already: take it back with `wavelane cure --undo`, or name another with --file"
        )));
    }
    if super::is_running() {
        return Err(CommandError::Cure(ShaperError::Taken.to_string()));
    }
    if !caps::has(caps::NET_ADMIN) {
        return Err(CommandError::Cure(
            "setting up takes root: run this as root, or without --yes to see what it would be".into(),
        ));
    }
    Ok(())
}

/// Refuses what is no interface here, before anything is measured for it.
pub fn refuse_unknown(interface: &str) -> Result<(), CommandError> {
    match wavelane_host::interface_exists(interface) {
        true => Ok(()),
        false => Err(CommandError::Cure(ShaperError::NoInterface(interface.to_owned()).to_string())),
    }
}

/// Writes `text` to `file` and starts a daemon with it, which outlives this process. Nothing is left if it does not start.
/// Gives what the daemon said; `tell` is told how it goes where that takes long.
pub fn apply(file: &Path, text: &str, tell: &dyn Fn(&str)) -> Result<String, CommandError> {
    refuse_taken(file)?;
    let unwritable = |path: &Path| {
        let path = path.to_owned();
        move |source| CommandError::Unwritable { path, source }
    };
    let file = std::path::absolute(file).map_err(unwritable(file))?;
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(unwritable(folder))?;
    }
    write_new(&file, text).map_err(unwritable(&file))?;
    let started = start(&file, tell);
    if started.is_err() {
        remove_files(&file);
        let _ = fs::remove_file(&file);
    }
    started
}

fn start(file: &Path, tell: &dyn Fn(&str)) -> Result<String, CommandError> {
    let (program, log) = (program(), beside(file, "log"));
    let cannot = |what: &Path, source: io::Error| {
        CommandError::Cure(format!("cannot start {}: {source}; install it beside wavelane", what.display()))
    };
    let written = File::create_new(&log).map_err(|source| CommandError::Unwritable { path: log.clone(), source })?;
    let mut command = Command::new(&program);
    // A process group of its own: Ctrl-C in this terminal does not reach it.
    command.arg("--config").arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(written).process_group(0);
    let mut child = command.spawn().map_err(|source| cannot(&program, source))?;
    let said = await_start(&mut child, &log, tell);
    let pid = beside(file, "pid");
    let noted = said.and_then(|said| match write_new(&pid, &format!("{}\n", child.id())) {
        Ok(()) => Ok(said),
        Err(source) => Err(CommandError::Unwritable { path: pid, source }),
    });
    if noted.is_err() {
        let _ = wavelane_host::netns::terminate(&child);
        let _ = child.wait();
    }
    noted
}

fn await_start(child: &mut Child, log: &Path, tell: &dyn Fn(&str)) -> Result<String, CommandError> {
    let begun = realtime::now();
    let mut tell_at = begun + TOLD_EVERY;
    loop {
        let said = fs::read_to_string(log).unwrap_or_default();
        let (ended, now) = (child.try_wait().ok().flatten().is_some(), realtime::now());
        let last = said.lines().last().map(|line| log::said(line).to_owned());
        if ended {
            let why =
                last.unwrap_or_else(|| "wavelaned ended and said nothing: start it by hand to see why".to_owned());
            return Err(CommandError::Cure(why));
        }
        if now >= begun + BEGINS_WITHIN {
            let (last, within) = (last.unwrap_or_else(|| "nothing".to_owned()), BEGINS_WITHIN.as_secs_f64());
            return Err(CommandError::Cure(format!(
                "wavelaned did not shape within {within} s and was stopped (the last that it said: {last}): try again once this machine is less busy"
            )));
        }
        if now >= tell_at {
            tell_at += TOLD_EVERY;
            tell(&format!("wavelaned is starting, for {:.0} s now", now.since(begun).as_secs_f64()));
        }
        // It logs a line once everything is in place; that may be half written.
        if said.contains("shaped by") && said.ends_with('\n') {
            return Ok(said.lines().map(|line| format!("{}\n", log::said(line))).collect());
        }
        rest();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a command has nothing else to do, and there is no event for another process's end"
)]
fn rest() {
    std::thread::sleep(Duration::from_nanos(LOOK_EVERY.as_nanos()));
}

/// Writes a file that was not there, neither through a link.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    io::Write::write_all(&mut File::create_new(path)?, text.as_bytes())
}

/// Removes the files of a shaper that was started here: those beside the configuration only if they hold what we write.
fn remove_files(file: &Path) {
    let holds = |path: &Path, ours: &dyn Fn(&str) -> bool| {
        files::is_own(path, fs::FileType::is_file)
            && files::read_small(path, LOG_MAX).is_ok_and(|octets| ours(&String::from_utf8_lossy(&octets)))
    };
    let (pid, log) = (beside(file, "pid"), beside(file, "log"));
    for (path, ours) in [
        (file, &was_made as &dyn Fn(&str) -> bool),
        (&pid, &|text: &str| text.trim().parse::<u32>().is_ok()),
        (&log, &log::is_log),
    ] {
        if holds(path, ours) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Whether a file was made here. One that was edited has its first line still.
fn was_made(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(MADE))
}

/// Whether process `pid` is the daemon of `file` here. A process that has ended has no command line.
fn is_ours(pid: u32, file: &Path) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|octet| *octet == 0);
    let is_daemon = words.next().is_some_and(|program| program.ends_with(b"wavelaned"));
    is_daemon && words.any(|word| word == file.as_os_str().as_encoded_bytes()) && is_here(pid, file)
}

/// Whether `file` is the same file to process `pid` as to us, and its network namespace ours: a container's processes are seen
/// from the host, with command lines of the container. Mount namespaces are not compared, since `ip netns exec` makes one each
/// time.
fn is_here(pid: u32, file: &Path) -> bool {
    let same = |theirs: PathBuf, ours: &Path| match (fs::metadata(theirs), fs::metadata(ours)) {
        (Ok(theirs), Ok(ours)) => (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino()),
        // What another user's process sees is hidden; that process cannot be stopped either, and that is reported.
        (Err(why), _) => why.kind() == io::ErrorKind::PermissionDenied,
        _ => false,
    };
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    same(format!("/proc/{pid}/ns/net").into(), Path::new("/proc/thread-self/ns/net"))
        && same(root.join(file.strip_prefix("/").unwrap_or(file)), file)
}

/// The daemon of `file`: the one that was noted, or, if its starter was killed before the note, the one found among all
/// processes.
fn daemon_of(file: &Path) -> Option<u32> {
    let note = files::read_small(&beside(file, "pid"), NOTE_MAX).unwrap_or_default();
    let noted = std::str::from_utf8(&note).ok().and_then(|text| text.trim().parse().ok());
    let all = || fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids = noted.into_iter().chain(all().filter_map(|entry| entry.file_name().to_str()?.parse().ok()));
    pids.find(|pid| is_ours(*pid, file))
}

/// Whether a shaper keeps running here. A killed one has no command line any more while its sockets are being closed.
fn stays_running() -> bool {
    let deadline = realtime::now() + CLOSING;
    while super::is_running() {
        if realtime::now() >= deadline {
            return true;
        }
        rest();
    }
    false
}

/// Stops the daemon of `file`, removes what it set, if it died before, and the files.
pub fn undo(file: &Path) -> Result<(), CommandError> {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    if file.symlink_metadata().is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
        let file = file.display();
        return Err(CommandError::Cure(format!(
            "there is nothing to take back: {file} does not exist; name with --file the one that was set up"
        )));
    }
    // One that was edited and is wrong now is to be taken back all the same.
    let is_shaper = |text: &str| config::is_shaper(text) && !has_table(text, "gateway") && !has_table(text, "proxy");
    let text = crate::load::read_text(&file).unwrap_or_default();
    if !is_shaper(&text) {
        let file = file.display();
        return Err(CommandError::Cure(format!("there is nothing to take back: {file} is no file of a shaper")));
    }
    if !was_made(&text) {
        let file = file.display();
        return Err(CommandError::Cure(format!(
            "{file} was not made by `wavelane cure`, for the line '{MADE} ...' is missing: end its wavelaned and remove it yourself"
        )));
    }
    if let Some(pid) = daemon_of(&file) {
        let refused = |e| CommandError::Cure(format!("cannot stop process {pid}: {e}; run this as root"));
        wavelane_host::netns::terminate_process(pid).map_err(refused)?;
        let deadline = realtime::now() + PATIENCE;
        while is_ours(pid, &file) {
            if realtime::now() >= deadline {
                return Err(CommandError::Cure(format!(
                    "process {pid} does not end: stop it (`kill -9 {pid}`), then again"
                )));
            }
            rest();
        }
    } else if stays_running() {
        return Err(CommandError::Cure(
            "another wavelaned shapes here, which this file did not start: stop that one first".into(),
        ));
    } else if caps::has(caps::NET_ADMIN) {
        clear();
    } else {
        return Err(CommandError::Cure(format!(
            "cannot see whether something is shaped still: {}",
            ShaperError::Capability
        )));
    }
    remove_files(&file);
    match fs::symlink_metadata(&file) {
        Ok(_) => {
            Err(CommandError::Cure(format!("nothing is shaped any more, but {} stays: remove it", file.display())))
        }
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(rise_ms: f64, goodput_bps: f64, inwards: bool) -> Wish {
        Wish {
            interface: if inwards { "lan0" } else { "wan0" }.into(),
            inwards,
            found: Measured { rise_ms, goodput_bps },
        }
    }

    #[test]
    fn only_directions_with_bloat_are_shaped_at_nine_tenths() {
        // 9.65 Mbit/s of application bytes are 10 Mbit/s of IP's.
        let all = propose(&[wish(250.0, 9.6534e6, false), wish(29.9, 50e6, true)]);
        let expected = Proposed { interface: "wan0".into(), direction: "up", rate: Rate::from_bps(9_000_000) };
        assert_eq!(all, [expected]);
        assert!(propose(&[wish(5.0, 1e6, false), wish(0.0, 1e6, true)]).is_empty());
        assert_eq!(propose(&[wish(900.0, 0.0, false)])[0].rate, Rate::from_bps(100_000));
    }

    #[test]
    fn the_proposed_file_is_valid() {
        let all = propose(&[wish(250.0, 5e6, false), wish(60.0, 20e6, true)]);
        for reflector in [None, Some(Target::Icmp([192, 0, 2, 7].into())), "192.0.2.7:4783".parse().ok()] {
            let text = file_text(&all, reflector);
            let read = config::parse(&text, "cure").expect("in order");
            assert_eq!(read.len(), 2);
            assert_eq!(text.matches("auto").count(), if reflector.is_some() { 2 } else { 0 });
            assert_eq!(read[1].name, "lan0");
        }
        assert!(file_text(&all, Some(Target::Icmp([127, 0, 0, 1].into()))).contains("direction = \"down\""));
    }

    #[test]
    fn undo_removes_only_our_own_shaper() {
        let folder = std::env::temp_dir().join(format!("wavelane-cure-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("other.toml");
        assert!(undo(&file).is_err_and(|why| why.to_string().contains("does not exist")));
        fs::write(&file, "[gateway]\nname = \"x\"\n").expect("a file");
        assert!(undo(&file).is_err() && file.exists());
        // Beside a gateway's table it is none of ours, whatever is wrong with it.
        fs::write(&file, "[[shaper]]\n[gateway]\nname = \"x\"\n").expect("a file");
        assert!(undo(&file).is_err() && file.exists());
        assert!(apply(&file, "", &|_| ()).is_err_and(|e| e.to_string().contains("--undo")));
        // An operator's own is not taken back, neither its note nor its process.
        let pid = folder.join("other.pid");
        fs::write(&file, "# by hand\n[[shaper]]\ninterface = \"eth0\"\n")
            .and_then(|()| fs::write(&pid, "1\n"))
            .expect("files");
        assert!(undo(&file).is_err_and(|why| why.to_string().contains("was not made by")));
        assert!(file.exists() && pid.exists());
        fs::remove_dir_all(&folder).expect("the folder");
    }

    #[test]
    fn files_of_others_are_neither_overwritten_nor_removed() {
        let folder = std::env::temp_dir().join(format!("wavelane-beside-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let (file, log, pid) = (folder.join("s.toml"), folder.join("s.log"), folder.join("s.pid"));
        let foreign = folder.join("foreign");
        for taken in [&file, &log, &pid] {
            std::os::unix::fs::symlink(&foreign, taken).expect("a link that leads nowhere");
            assert!(apply(&file, "[[shaper]]\n", &|_| ()).is_err_and(|e| e.to_string().contains("is there already")));
            assert!(!foreign.exists());
            fs::remove_file(taken).expect("the link");
        }
        let made = file_text(&propose(&[wish(300.0, 5e6, false)]), None);
        fs::write(&file, made).and_then(|()| fs::write(&log, "a diary")).expect("files");
        fs::write(&pid, "7\n").expect("a file");
        remove_files(&file);
        assert_eq!([&file, &log, &pid].map(|path| path.exists()), [false, true, false], "a diary is not ours");
        fs::remove_dir_all(&folder).expect("the folder");
    }

    /// A container's daemon has the same command line, but other interfaces or another file.
    #[test]
    fn a_daemon_elsewhere_is_not_ours() {
        if !wavelane_host::netns::may_administer_network() {
            return eprintln!("SKIPPED (1 test): namespaces need root");
        }
        let folder = std::env::temp_dir().join(format!("wavelane-elsewhere-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let (file, other, program) = (folder.join("s.toml"), folder.join("other.toml"), folder.join("wavelaned"));
        fs::write(&file, "").and_then(|()| fs::write(&other, "")).expect("files");
        std::os::unix::fs::symlink("/bin/sh", &program).expect("a link");
        // Each says that it has begun, and ends with its input.
        let begun = |before: &[&str], script: &str| {
            let mut words: Vec<&std::ffi::OsStr> = before.iter().map(std::ffi::OsStr::new).collect();
            words.push(program.as_os_str());
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).arg("-c").arg(format!("{script}echo; read end")).arg(&file).arg(&other);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
            let said = io::Read::read(child.stdout.as_mut().expect("a pipe"), &mut [0]).expect("its word");
            assert_eq!(said, 1, "{before:?} {script}");
            child
        };
        let is = |mut child: Child| {
            let ours = is_ours(child.id(), &file);
            drop(child.stdin.take());
            child.wait().expect("its end");
            assert!(!is_ours(child.id(), &file), "it has ended");
            ours
        };
        assert!(is(begun(&[], "")), "here");
        assert!(is(begun(&["unshare", "-m"], "")), "a mount namespace of its own, and the same file");
        assert!(!is(begun(&["unshare", "-n"], "")), "other interfaces");
        assert!(!is(begun(&["unshare", "-m"], "mount --bind \"$1\" \"$0\"; ")), "another file of that name");
        fs::remove_dir_all(&folder).expect("the folder");
    }
}
