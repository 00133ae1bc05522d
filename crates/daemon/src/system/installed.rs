//! What is installed in the kernel, and how it is changed as a whole.

use super::device::Ways;
use super::part::Part;
use super::rules::{self, Down, Rules};
use crate::config::Config;
use wavelane_host::nft::ToolError;

/// What is installed. Dropping it removes it, except for the rules that refuse connections and packets while no gateway runs.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) rules: Rules,
    pub(crate) ways: Option<Ways>,
}

impl Installed {
    /// Puts `new` in force in place of `old`, or leaves everything as it was. Returns also whether one of the two was done.
    pub(super) fn lead(&mut self, change: Change, new: &Wanted, old: &Wanted) -> (Result<(), ToolError>, bool) {
        let done = self.try_lead(change, new);
        // What the kernel accepted already is undone; it accepted the old state before, so this fails only if the tools do.
        let whole = done.is_ok() || self.try_lead(change, old).is_ok();
        (done, whole)
    }
    pub(super) fn try_lead(&mut self, change: Change, wanted: &Wanted) -> Result<(), ToolError> {
        let (config, down) = (&wanted.config, &wanted.down);
        match change {
            Change::Config => self.rules.replace(config, down)?,
            Change::Down => self.rules.take(config, down)?,
            Change::Gone => return self.rules.take(config, down),
            Change::Back(part) => return self.put_back(part, wanted),
        }
        self.ways.as_mut().map_or(Ok(()), |ways| ways.lead(config, down))
    }
    /// Takes what others put into our tables out of them, if they hold more than they should.
    pub(super) fn purge(&self, routes: usize) -> bool {
        let wanted = self.rules.routes() + self.ways.as_ref().map_or(0, Ways::routes);
        let more = routes > wanted;
        if more {
            self.rules.purge();
            self.ways.iter().for_each(Ways::purge);
        }
        more
    }
    /// Makes anew what another program took away.
    pub(super) fn put_back(&mut self, part: Part, wanted: &Wanted) -> Result<(), ToolError> {
        match part {
            Part::PolicyRules | Part::Routes | Part::Device | Part::ReversePath => {
                let home = self.rules.lead_home();
                self.rules.purge();
                self.ways.as_mut().map_or(Ok(()), |ways| ways.renew(&wanted.config, &wanted.down)).and(home)
            }
            Part::ClosedTable => rules::close(&wanted.config),
            Part::HeldSyns => self.rules.hold_anew(&wanted.config),
            Part::OrphansTable => rules::raise_orphans(&wanted.config).map(drop),
        }
    }
}

/// What the kernel's rules and routes are to say.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) config: Box<Config>,
    pub(super) down: Down,
}

/// What is to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// The configuration.
    Config,
    /// Whose networks are given back.
    Down,
    /// Nothing: what had vanished is made anew.
    Gone,
    /// Nothing: another program took this part away, and it is put back.
    Back(Part),
}
