//! `wavelane over`.

use crate::{EXIT_INTERRUPTED, Failure, Outcome, interrupt};
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use wavelane_lab::{Order, OverBackend};
use wavelane_run::{CaptureExtent, RunDocument, RunHooks, RunOptions, host_facts, scenario_name, shell};
use wavelane_scenario::{Scenario, Setting, Stack};

/// What shells add to the number of the signal that ended a program.
const BY_SIGNAL: i32 = 128;

const EXAMPLES: &str = include_str!("examples/over.txt");

/// Arguments of `wavelane over`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OverArgs {
    /// The scenario file with the link.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A further program, given to the shell of a node, that is started before and ended after; may be repeated.
    #[arg(long, num_args = 2, value_names = ["NODE", "CMD2"], action = clap::ArgAction::Append)]
    at: Vec<String>,
    /// The node on which the program runs [default: where the scenario's first flow begins].
    #[arg(long, value_name = "NODE")]
    from: Option<String>,
    /// The stack, such as tcp-bbr [default: the first of the scenario's that starts with tcp-, else tcp-cubic].
    #[arg(long, value_name = "STACK")]
    stack: Option<String>,
    /// The random seed, instead of the file's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Put VALUE in the place of the file's, such as air.forward.rate="5 Mbit/s"; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = Setting::read)]
    settings: Vec<Setting>,
    /// The record's directory; an earlier record there is replaced.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs a program over a scenario's link.
pub(crate) fn over(args: &OverArgs) -> Outcome {
    let mut scenario = crate::run::loaded(&args.file, &args.settings, args.seed)?;
    scenario.stacks = vec![stack(args, &scenario)?];
    let order = order(args, &scenario)?;
    scenario.flows.clear();
    scenario.checks.clear();
    let name = scenario_name(&args.file);
    let out = args.out.clone().unwrap_or_else(|| format!("records/{name}-over-{}", scenario.seed.0).into());
    wavelane_run::check_writable(&out).map_err(Failure::refused)?;
    wavelane_lab::seclude(&scenario).map_err(Failure::refused)?;

    let cancelled = interrupt::flag()?;
    let status = Arc::new(OnceLock::new());
    let options = RunOptions { captures: CaptureExtent::Headers, name, repeat: 1, jobs: 1, out, rerun: rerun() };
    let hooks = RunHooks {
        progress: &|_| (),
        count: &|_| (),
        cancelled: &cancelled,
        environment: &host_facts,
        render: &crate::run::render,
    };
    let make = || -> Box<dyn wavelane_run::Backend> { Box::new(OverBackend::new(order.clone(), Arc::clone(&status))) };
    let result = wavelane_run::run(&make, &scenario, &options, &hooks);
    let ended = status.get().copied();
    match result {
        Ok(document) => tell(&document),
        // The program has had the same Ctrl-C; its own end is the answer if there was one.
        Err(error) if ended.is_none() => return Err(crate::run::failure(&error)),
        Err(error) => say!("{error}"),
    }
    let code = ended.and_then(|status| status.code().or(status.signal().map(|signal| BY_SIGNAL + signal)));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(EXIT_INTERRUPTED))
}

/// What crossed, in a line.
fn tell(document: &RunDocument) {
    let ways = document.stacks.iter().flat_map(|stack| &stack.ways);
    // A cell has no ways, but counters of its radios.
    let cells = document.stacks.iter().flat_map(|stack| &stack.radios).map(|cell| {
        let delivered: f64 = cell.categories.iter().map(|category| category.delivered_bps).sum();
        let delivered =
            if delivered > 0.0 { format!(" ({:.2} Mbit/s delivered)", delivered / 1e6) } else { String::new() };
        format!("{} {:.1} data frames/s{delivered}", cell.channel, cell.data_per_s)
    });
    let crossed: Vec<String> = ways
        .map(|way| format!("{} {} {:.2} MB", way.channel, way.way, way.offered_bytes as f64 / 1e6))
        .chain(cells)
        .collect();
    let crossed = if crossed.is_empty() { "nothing was counted".to_owned() } else { crossed.join(", ") };
    say!("crossed: {crossed}; record {}", document.record);
    for why in document.stacks.iter().filter_map(|stack| stack.inconclusive.as_ref()) {
        say!("inconclusive: {why}");
    }
}

/// The stack to run.
fn stack(args: &OverArgs, scenario: &Scenario) -> Result<Stack, Failure> {
    match &args.stack {
        Some(word) => Stack::from_word(word).ok_or_else(|| {
            Failure::refused(format!(
                "--stack {word}: there is no such stack; use tcp-reno, tcp-cubic or tcp-bbr, with +split, +snoop or +mirror for proxies, or wavelane"
            ))
        }),
        None => {
            let plain = scenario.stacks.iter().find(|stack| stack.is_plain_tcp());
            plain.copied().map_or_else(
                || Stack::from_word("tcp-cubic").ok_or_else(|| Failure::refused("there is no tcp-cubic")),
                Ok,
            )
        }
    }
}

fn order(args: &OverArgs, scenario: &Scenario) -> Result<Order, Failure> {
    let first = || scenario.flows.first().map(|flow| flow.from.clone());
    let node = args.from.clone().or_else(first);
    let node = node
        .ok_or_else(|| Failure::refused("the scenario has no flow: say with --from on which node the program runs"))?;
    let beside = args.at.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    Ok(Order { command: args.command.clone(), node, beside, tell: |line| say!("{line}") })
}

/// The command that repeats the run.
fn rerun() -> String {
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| shell(&word.to_string_lossy())).collect();
    format!("wavelane {}", words.join(" "))
}
