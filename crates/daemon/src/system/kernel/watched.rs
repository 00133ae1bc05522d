//! What of ours stands in the kernel and is put back when it goes, and the networks that this host is attached to.

use super::pace::Failing;
use crate::config::Config;
use crate::system::installed::{Change, Installed, Wanted};
use crate::system::part::Part;
use crate::system::rules::{self, Attachment, Bridged};
use crate::system::standing::Standing;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wavelane_base::{Instant, IpPrefix};
use wavelane_host::nft::ToolError;

/// What stood when it was last put right, what stands, and the networks that this host is attached to.
#[derive(Debug)]
pub(super) struct Watched {
    whole: Standing,
    pub(super) last: Standing,
    around: Around,
    /// What could not be put back, and was told.
    failing: BTreeMap<Part, Failing>,
    /// The networks around could not be followed, or what is to stand not be led.
    unfollowed: Option<Failing>,
    half_led: bool,
    /// Lines for the log.
    pub(super) notes: Vec<String>,
}

impl Watched {
    pub(super) fn new(installed: &Installed, stands: &Wanted) -> Self {
        let mut whole = Standing::read(&stands.config, installed, &Standing::default());
        if installed.purge(whole.routes()) {
            whole = Standing::read(&stands.config, installed, &Standing::default());
        }
        let around = Around::read(&stands.config).unwrap_or_default();
        let notes = around.news(&Around::default());
        Self { last: whole.clone(), whole, around, failing: BTreeMap::new(), unfollowed: None, half_led: false, notes }
    }
    /// Something was changed by us. What vanished meanwhile and does not follow from the change is put back, not forgotten.
    pub(super) fn note(&mut self, installed: &mut Installed, stands: &Wanted) {
        self.read(installed, stands);
        if installed.purge(self.last.routes()) {
            self.read(installed, stands);
        }
        // What cannot be put back is missing at the next look.
        let mut lost = Vec::new();
        for part in self.whole.missing(&self.last) {
            let again = match part {
                Part::PolicyRules | Part::Device | Part::ReversePath => true,
                Part::HeldSyns => self.last.holds_nothing(),
                Part::Routes | Part::ClosedTable | Part::OrphansTable => false,
            };
            if again {
                lost.extend(installed.put_back(part, stands).is_err().then_some(part));
                self.read(installed, stands);
            }
        }
        let before = std::mem::replace(&mut self.whole, self.last.clone());
        lost.into_iter().for_each(|part| self.whole.take(part, &before));
    }
    fn read(&mut self, installed: &Installed, stands: &Wanted) {
        self.last = Standing::read(&stands.config, installed, &self.last);
    }
    /// Puts back what is missing. Returns what is to be told.
    pub(super) fn look(
        &mut self,
        now: Instant,
        installed: &mut Installed,
        stands: &Wanted,
    ) -> Vec<(Change, Result<(), ToolError>)> {
        let had_six = self.last.six;
        self.read(installed, stands);
        match (had_six, self.last.six) {
            (true, false) => self.notes.push(SIX_OFF.into()),
            (false, true) => {
                self.notes.push(SIX_ON.into());
                // All that we have of it went with it, and what was to stand may have changed since.
                if installed.put_back(Part::Routes, stands).is_ok() {
                    self.note(installed, stands);
                }
                self.failing.clear();
            }
            _ => {}
        }
        let mut told = Vec::new();
        for part in self.whole.missing(&self.last) {
            let lacking = self.whole.lacking(part, &self.last);
            if self.failing.get(&part).is_some_and(|failing| failing.rests(now, &lacking)) {
                continue;
            }
            let (mut left, mut done) = (lacking.clone(), Ok(()));
            // What puts back one part may have put back another. Who takes away several pieces may have been at it still: once more.
            for _ in 0..2 {
                if !left.is_empty() && done.is_ok() {
                    done = installed.put_back(part, stands);
                    self.read(installed, stands);
                    left = self.whole.lacking(part, &self.last);
                }
            }
            if left.is_empty() || left.len() < lacking.len() {
                told.push((Change::Back(part), Ok(())));
            }
            let failing = self.failing.remove(&part);
            if !left.is_empty() {
                // Until the part is whole again it is told once, whatever more of it is lost.
                if failing.is_none() {
                    let said = "it is gone again at once: another program takes it away".into();
                    let why = done.err().unwrap_or(ToolError::Refused { tool: "the kernel".into(), said });
                    told.push((Change::Back(part), Err(why)));
                }
                let same = failing.filter(|failing| failing.lacking == left);
                self.failing.insert(part, Failing::again(now, same, left));
            }
        }
        told
    }
    /// A change failed half-way and could not be undone: what is to stand is led again.
    pub(super) fn half_led(&mut self, now: Instant) {
        self.half_led = true;
        self.unfollowed = Some(Failing::again(now, self.unfollowed.take(), Vec::new()));
    }
    /// Leaves alone the networks that this host is attached to now, if these are others than before.
    pub(super) fn follow(&mut self, now: Instant, changed: bool, installed: &mut Installed, stands: &Wanted) {
        let rests = self.unfollowed.as_ref().map_or(!changed, |failing| failing.rests(now, &[]));
        if rests {
            return;
        }
        let led = Around::read(&stands.config).and_then(|around| {
            let other = (around != self.around || self.half_led).then_some(around);
            if other.is_some() {
                installed.try_lead(Change::Config, stands)?;
            }
            Ok(other)
        });
        match led {
            Ok(other) => {
                self.unfollowed = None;
                self.half_led = false;
                if let Some(around) = other {
                    self.notes.extend(around.news(&self.around));
                    self.around = around;
                    self.note(installed, stands);
                }
            }
            Err(e) => {
                let known = self.unfollowed.take();
                if known.is_none() {
                    self.notes.push(format!("warning: the networks that this host is attached to have changed, and the rules cannot follow (tried again, at longer and longer intervals): {e}"));
                }
                self.unfollowed = Some(Failing::again(now, known, Vec::new()));
            }
        }
    }
}

const SIX_OFF: &str =
    "IPv6 is switched off on this host: nothing is taken by it until it is on again; IPv4 is not touched";
const SIX_ON: &str = "IPv6 is switched on again on this host: what we have of it is made anew";

/// The networks that this host is attached to under a wider one of a peer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Around {
    /// Those that are left alone.
    left: Vec<Attachment>,
    /// Those that are not.
    kept: Vec<Attachment>,
    /// The bridges whose frames our rules see.
    bridged: Bridged,
}

impl Around {
    fn read(config: &Config) -> Result<Self, ToolError> {
        let bridged = Bridged::read(config);
        // A proxy has no peers, and the networks that it leaves alone stand in its file.
        if config.intercept.as_ref().is_none_or(|i| i.proxy.is_some()) {
            return Ok(Self { bridged, ..Self::default() });
        }
        let networks: Vec<IpPrefix> = config.peers.iter().flat_map(|peer| peer.routes.iter().copied()).collect();
        let all = rules::attachments(config)?;
        let attached: Vec<IpPrefix> = all.iter().map(|a| a.network).collect();
        let covered: BTreeSet<(IpAddr, u8)> =
            rules::excepted(&networks, &attached).map(|n| (n.address, n.bits)).collect();
        let all = all.into_iter().filter(|a| covered.contains(&(a.network.address, a.network.bits)));
        let (left, kept) = all.partition(|a| a.is_left_alone(config));
        Ok(Self { left, kept, bridged })
    }
    /// What is new since `before`, for the log.
    fn news(&self, before: &Self) -> Vec<String> {
        let new = |now: &[Attachment], then: &[Attachment], words: &str| {
            let names: Vec<String> = now.iter().filter(|a| !then.contains(a)).map(Attachment::to_string).collect();
            (!names.is_empty()).then(|| words.replacen("{}", &names.join(", "), 1))
        };
        let all = [
            new(
                &self.left,
                &before.left,
                "this host is attached to {}: what goes there goes plainly, although a peer's route covers it",
            ),
            new(
                &self.kept,
                &before.kept,
                "warning: this host is attached to {}, and what goes there goes to a peer all the same, whose route covers it, so that hosts there are not reached directly; if they are to be, set gateway.attached = \"all\", or list the network in gateway.serves if it is ours",
            ),
            new(
                &before.left,
                &self.left,
                "what goes to {} is not left alone any more: it goes to a peer, whose route covers it",
            ),
        ];
        all.into_iter().chain([self.bridged.news(&before.bridged)]).flatten().collect()
    }
}
