//! `wavelane`: argument parsing and glue. Every command's work lives in the room that owns it.
#![forbid(unsafe_code)]
#![cfg_attr(not(feature = "full"), allow(dead_code, reason = "what only the commands of the whole program use"))]

/// `eprintln!` without the panic, and without what text of others may do to a terminal.
macro_rules! say {
    ($($part:tt)*) => {
        crate::tell(format_args!($($part)*))
    };
}

mod channel;
mod check;
#[cfg(feature = "full")]
mod cluster;
#[cfg(feature = "full")]
mod compare_probes;
#[cfg(feature = "full")]
mod cure;
#[cfg(feature = "full")]
mod import;
mod interrupt;
mod manuals;
mod over;
mod ping;
#[cfg(feature = "full")]
mod probe;
#[cfg(feature = "full")]
mod probe_record;
#[cfg(feature = "full")]
mod probe_screen;
mod progress;
mod record_place;
mod report;
mod run;
#[cfg(feature = "full")]
mod study;
#[cfg(feature = "full")]
mod study_show;
#[cfg(feature = "full")]
mod sweep;
#[cfg(feature = "full")]
mod top;
#[cfg(feature = "full")]
mod trace;

#[cfg(feature = "full")]
use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use wavelane_base::text;
use wavelane_base::text::ShownPath;
use wavelane_daemon::commands;
use wavelane_run::Verdict;

/// A check failed.
const EXIT_FAIL: u8 = 1;
/// Usage, or something this program refuses or cannot do.
const EXIT_REFUSED: u8 = 2;
/// The run proves nothing.
const EXIT_INCONCLUSIVE: u8 = 3;
/// Ctrl-C (128 + SIGINT, as shells count).
const EXIT_INTERRUPTED: u8 = 130;

#[cfg(not(feature = "full"))]
const EXAMPLES: &str = "\
This is the small edition, without the instruments of the laboratory; `make install` builds the one with every command.

Exit codes: 0 pass, 1 a check failed, 2 usage or refused, 3 inconclusive, 130 Ctrl-C.";

#[cfg(feature = "full")]
const EXAMPLES: &str = include_str!("examples/main.txt");

/// Makes TCP/IP work over bad links: run scenarios, judge them, set up gateways.
#[derive(Parser)]
#[command(name = "wavelane", version = wavelane_daemon::arguments::version(env!("WAVELANE_VERSION")), after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a scenario and write its record: figures, series, captures and report.html.
    Run(run::RunArgs),
    /// Run any program over a scenario's link, without root: the lab's channels in the place of the network.
    Over(over::OverArgs),
    /// Carry UDP datagrams over a scenario's channel: a bad link between programs anywhere, without privileges.
    Channel(channel::ChannelArgs),
    /// Repeat a published experiment and judge it.
    #[cfg(feature = "full")]
    Study(study::StudyArgs),
    /// Check a scenario or a gateway's configuration (told apart by their tables) without running it.
    Check(check::CheckArgs),
    /// Draw the report of a record or a study again: report.html and plots/.
    Report(report::ReportArgs),
    /// Run a scenario at many values of some of its keys: one table, a picture per metric.
    #[cfg(feature = "full")]
    Sweep(sweep::SweepArgs),
    /// Compare records: differences and ratios with intervals, and overlaid pictures.
    Compare(report::CompareArgs),
    /// Analyse a capture file: connections, retransmissions and their causes, round trips, hosts.
    #[cfg(feature = "full")]
    Trace(trace::TraceArgs),
    /// Measure latency under load to a machine where `wavelane probe serve` runs.
    #[cfg(feature = "full")]
    Probe(Box<probe::ProbeArgs>),
    /// Read a result file of flent, iperf3 or irtt into a record with a report.
    #[cfg(feature = "full")]
    Import(import::ImportArgs),
    /// Keep the queue of a slow link short: measure, propose a shaper, set it up, take it back.
    #[cfg(feature = "full")]
    Cure(cure::CureArgs),
    /// Make a gateway's key pair.
    Keygen(commands::KeygenArgs),
    /// Write a gateway's configuration.
    Init(Box<commands::InitArgs>),
    /// Show the running gateway's links and flows, and a counter and reason for every drop.
    Status(commands::StatusArgs),
    /// Watch the running gateway or proxy: peers, lanes, flows or connections, what was received and sent, rates both ways.
    #[cfg(feature = "full")]
    Top(top::TopArgs),
    /// Say of each peer and lane whether it is in order, and what to do if it is not.
    Netcheck(commands::NetcheckArgs),
    /// Measure round trip and loss of each lane to a peer of the running gateway.
    Ping(commands::PingArgs),
    /// Have the running gateway read its configuration again, on trial if wanted.
    Reload(commands::ReloadArgs),
    /// Print a shell's completions.
    Completions(manuals::CompletionsArgs),
    /// Write manual pages, one per command.
    Manuals(manuals::ManualsArgs),
}

/// Why a command ended early: one line and an exit code.
pub(crate) struct Failure {
    line: String,
    code: u8,
}

impl Failure {
    /// Something that cannot be done, with its one-line cause and remedy.
    pub(crate) fn refused(cause: impl std::fmt::Display) -> Self {
        Self { line: cause.to_string(), code: EXIT_REFUSED }
    }
    /// Ctrl-C.
    pub(crate) fn interrupted(cause: impl std::fmt::Display) -> Self {
        Self { line: cause.to_string(), code: EXIT_INTERRUPTED }
    }
}

/// Most characters of one message on standard error: a file of others may have a name of a megabyte.
const MESSAGE_MAX: usize = 16_384;

/// Writes a message to standard error; one that is closed or full must not change a command's exit code.
pub(crate) fn tell(message: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{}", text::lines(&message.to_string(), MESSAGE_MAX));
}

/// What a command returns: its exit code.
pub(crate) type Outcome = Result<u8, Failure>;

/// The exit code of a verdict.
pub(crate) fn exit_of(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Pass | Verdict::Info => 0,
        Verdict::Fail => EXIT_FAIL,
        Verdict::Inconclusive => EXIT_INCONCLUSIVE,
    }
}

/// Writes to standard output. A reader that went away (`| head`) is no error; a full disk is.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_while_read(text).map(drop)
}

/// The same for what goes on for long: returns whether the reader is there.
pub(crate) fn print_while_read(text: &str) -> Result<bool, Failure> {
    closed()?;
    let mut out = std::io::stdout().lock();
    // What files of others hold, such as a scenario's title, moves no cursor.
    let text = if out.is_terminal() { text::lines(text, usize::MAX) } else { text.into() };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(unwritable(&e)),
    }
}

/// Refuses a standard output that was closed (`>&-`), in whose place the standard library opens /dev/null.
pub(crate) fn closed() -> Result<(), Failure> {
    match commands::stdout_was_closed() {
        true => {
            Err(Failure::refused("cannot write to standard output: it is closed; send it to a file or to /dev/null"))
        }
        false => Ok(()),
    }
}

/// Writes a file whole or not at all.
pub(crate) fn write_whole(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    wavelane_run::write_whole(path, content).map_err(|e| {
        let path = path.shown();
        Failure::refused(format!("cannot write {path}: {e}; use --out with a writable folder that has free space"))
    })
}

/// That standard output takes no more.
pub(crate) fn unwritable(why: &std::io::Error) -> Failure {
    Failure::refused(format!("cannot write to standard output: {why}; free space or send it elsewhere"))
}

fn daemon(text: Result<String, commands::CommandError>) -> Outcome {
    let text = text.map_err(Failure::refused)?;
    print(&text)?;
    if !text.ends_with('\n') {
        print("\n")?;
    }
    Ok(0)
}

fn init(args: &commands::InitArgs) -> Outcome {
    let made = commands::init(args).map_err(Failure::refused)?;
    print(&made.to_string())?;
    Ok(0)
}

/// Prints help or version, or why the arguments cannot be read. clap itself ignores that standard output takes no more.
fn unparsed(error: &clap::Error) -> Outcome {
    if error.use_stderr() {
        // As any message: clap repeats the arguments as they are, and these may come from others.
        tell(error.render().to_string().trim_end());
        return Ok(commands::EXIT_REFUSED);
    }
    #[cfg(feature = "full")]
    if let Some(about) = study::asked(std::env::args_os()).filter(|_| error.kind() == ErrorKind::DisplayHelp) {
        print(&format!("{about}\n"))?;
    }
    match error.print().and_then(|()| std::io::stdout().flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(unwritable(&e)),
        _ => Ok(0),
    }
}

fn command(command: Command) -> Outcome {
    // What takes long, or makes something, says so before and not after.
    #[cfg(feature = "full")]
    let long = matches!(command, Command::Run(_) | Command::Study(_) | Command::Sweep(_) | Command::Init(_));
    #[cfg(not(feature = "full"))]
    let long = matches!(command, Command::Run(_) | Command::Init(_));
    if long {
        closed()?;
    }
    match command {
        Command::Run(args) => run::run(&args),
        Command::Over(args) => over::over(&args),
        Command::Channel(args) => channel::channel(&args),
        #[cfg(feature = "full")]
        Command::Study(args) => study::study(&args),
        Command::Check(args) => check::check(&args),
        Command::Report(args) => report::report(&args),
        #[cfg(feature = "full")]
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Compare(args) => report::compare(&args),
        #[cfg(feature = "full")]
        Command::Trace(args) => trace::trace(&args),
        #[cfg(feature = "full")]
        Command::Probe(args) => probe::probe(&args),
        #[cfg(feature = "full")]
        Command::Cure(args) => cure::cure(&args),
        #[cfg(feature = "full")]
        Command::Import(args) => import::import(&args),
        Command::Keygen(args) => daemon(commands::keygen(&args)),
        Command::Init(args) => init(&args),
        #[cfg(feature = "full")]
        Command::Status(args) if args.watch => top::top(&args.control.into()),
        Command::Status(args) => daemon(commands::status(&args)),
        #[cfg(feature = "full")]
        Command::Top(args) => top::top(&args),
        Command::Netcheck(args) => {
            let found = commands::netcheck(&args).map_err(Failure::refused)?;
            print(&found.text)?;
            Ok(if found.sound { 0 } else { EXIT_FAIL })
        }
        Command::Ping(args) => ping::ping(&args),
        Command::Reload(args) => daemon(commands::reload(&args)),
        Command::Completions(args) => manuals::completions(&args),
        Command::Manuals(args) => manuals::manuals(&args),
    }
}

fn main() -> ExitCode {
    interrupt::ignore_file_size_signal();
    wavelane_run::built_of(env!("WAVELANE_COMMIT"));
    let outcome = match Cli::try_parse() {
        Ok(cli) => command(cli.command),
        Err(error) => unparsed(&error),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            say!("wavelane: {}", failure.line);
            ExitCode::from(failure.code)
        }
    }
}
