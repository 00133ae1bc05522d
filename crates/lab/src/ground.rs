//! A scenario's nodes and channels without the lab's own traffic, for a study's own instruments.

use crate::program::{self, Ending, Program};
use crate::topology::Plan;
use crate::world::{Recording, Veth, World};
use crate::{LATENESS_BOUND, LabError, review, sockets, tools};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use wavelane_base::{Seed, Span};
use wavelane_host::{clock, realtime};
use wavelane_run::{BackendError, Review};
use wavelane_scenario::{Scenario, Stack};

/// Whether `scenario` can be built on this machine with the programs named; if not, the remedy.
pub fn can_build(scenario: &Scenario, programs: &[(&str, &str)]) -> Result<(), String> {
    let mut found = Review::default();
    review::machine(scenario, &mut found);
    if let Some((_, why)) = found.refusal() {
        return Err(why.to_owned());
    }
    match programs.iter().find(|(program, _)| tools::find(program).is_none()) {
        Some((program, remedy)) => Err(format!("the program {program} is missing: {remedy}")),
        None => Ok(()),
    }
}

/// A built topology. Dropping it ends its programs and removes it.
pub struct Ground {
    scenario: Scenario,
    programs: Vec<Program>,
    logs: PathBuf,
    // Dropped after the programs have ended.
    world: World,
}

impl Ground {
    /// Builds the topology; the run's clock starts at once. Program logs go below `out`.
    pub fn build(scenario: Scenario, seed: Seed, stack: Stack, out: &Path) -> Result<Self, BackendError> {
        let controls = review::controls(&scenario, stack).map_err(LabError::Topology)?;
        let no_capture = Recording { file: &|_, _| PathBuf::new(), whole: false, logs: None };
        let (plan, never) = (Plan::of(&scenario)?, AtomicBool::new(false));
        let world = World::build(&scenario, plan, seed, &controls, Veth::Packets, &no_capture, &never)?;
        world.begin(realtime::now());
        let logs = program::logs(out)?;
        Ok(Self { scenario, programs: Vec::new(), logs, world })
    }

    fn place(&self, node: &str) -> Result<usize, LabError> {
        let found = self.scenario.nodes.iter().position(|n| n.name == node);
        found.ok_or_else(|| LabError::Topology(format!("the scenario has no node '{node}'")))
    }

    /// The address of `node`.
    pub fn address(&self, node: &str) -> Result<Ipv4Addr, BackendError> {
        let place = self.place(node)?;
        let address = self.world.plan.address_of(place);
        Ok(address.ok_or_else(|| LabError::Topology(format!("node '{node}' has no channel")))?)
    }

    /// Runs `work` in the network namespace of `node`; threads that it starts stay in that namespace.
    pub fn inside<T: Send + 'static>(
        &self,
        node: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, BackendError> {
        Ok(self.world.nodes[self.place(node)?].run(work).map_err(LabError::from)?)
    }

    /// Starts a program on `node` that runs until [`stop`](Self::stop); a signal may end it.
    pub fn start(
        &mut self,
        node: &str,
        program: &str,
        arguments: &[&str],
        remedy: &'static str,
    ) -> Result<(), BackendError> {
        let ns = &self.world.nodes[self.place(node)?];
        let mut command = tools::command(program);
        command.args(arguments);
        let log = self.logs.join(format!("{node}-{program}.log"));
        let name = format!("{program} on {node}");
        self.programs.push(Program::start(ns, name, command, log, Ending::BySignal, remedy)?);
        Ok(())
    }

    /// Waits until the last started program has ended successfully, and reads the file that it wrote, at most `most` bytes.
    pub fn collect(
        &mut self,
        within: Span,
        file: &Path,
        most: u64,
        cancelled: &AtomicBool,
    ) -> Result<String, BackendError> {
        let Some(mut program) = self.programs.pop() else {
            return Err(LabError::Topology("no program was started".into()).into());
        };
        let deadline = realtime::now() + within;
        while program.running()? {
            let stopped = || cancelled.load(Ordering::Relaxed);
            if stopped() || realtime::now() >= deadline {
                let name = program.name().to_owned();
                program::end(vec![program]);
                let late = LabError::Late(format!("{name} did not end within {within} of when it should have"));
                return Err(if stopped() { LabError::Cancelled } else { late }.into());
            }
            sockets::rest_until(realtime::now() + program::GLANCE, stopped);
        }
        let text = wavelane_scenario::read_bounded(file, most);
        Ok(text.map_err(|error| LabError::Late(format!("{} left no result: {error}", program.name())))?)
    }

    /// Offset of the time of day from the time since boot.
    pub fn unix_less_boot_ns(&self) -> i128 {
        i128::from(clock::wall_nanos()) - i128::from(clock::since_boot().as_nanos())
    }

    /// Ends the programs and the channels. Returns why the measurements are invalid, if they are.
    pub fn stop(mut self) -> Result<Option<String>, BackendError> {
        for program in &mut self.programs {
            program.check()?;
        }
        let notes = program::end(std::mem::take(&mut self.programs));
        if let Some(fault) = self.world.fault() {
            return Err(BackendError::Failed(fault));
        }
        let late = self.world.finish()?.outcome.lateness.per_mille(990);
        if late > LATENESS_BOUND {
            let late = late.as_nanos() / 1_000;
            return Ok(Some(format!(
                "1 % of packets were delivered {late} us late or more, bound {LATENESS_BOUND}: the host is too busy"
            )));
        }
        Ok(if notes.is_empty() { None } else { Some(notes.join("; ")) })
    }
}
