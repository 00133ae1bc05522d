//! Members with two and three lanes: each lane is the link of a draw of its own, and together they are never much slower than the
//! best of them alone.

use super::draw::{Draw, Load, PACKET_BITS, draw};
use super::judge::claim;
use super::store::digest;
use super::{ID, OURS, Task};
use crate::cells::{Aim, fingerprint, sorted};
use crate::document::{Edition, Row};
use crate::elsewhere::{Travel, read};
use crate::observe::{short, simulate};
use crate::runner::Runner;
use crate::{StudyError, StudyOptions};
use core::fmt::Write;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use wavelane_base::Seed;
use wavelane_measure::percentile;
use wavelane_run::figures::of_run;
use wavelane_run::{RunError, RunHooks};
use wavelane_scenario::{Scenario, Stack};

/// Format of what is kept.
const FORMAT: &str = "wavelane-lanes/1";
/// How many lanes a member has.
const LANES: [usize; 2] = [2, 3];
/// A member's further lanes are the links of draws this much further on, which nothing else runs.
const APART: u64 = 10_000_000;
/// Dice of each member.
const SEEDS: u64 = 3;
/// Members by edition, unless they are named.
const QUICK: RangeInclusive<u64> = 1_001..=1_020;
const FULL: RangeInclusive<u64> = 1_001..=1_300;
/// All lanes together carry at least this much of what the best carries alone, in this share of the members.
const OF_BEST: f64 = 0.95;
const SHARE_AIM: f64 = 0.95;
/// The least that a run holds of the fastest lane's packets, of time and of the longest round trips.
const PACKETS: f64 = 20_000.0;
const LEAST_MS: f64 = 12_000.0;
const RTTS: f64 = 30.0;
const FLOW: &str = "body";

/// A member: its lanes' draws, the first of which says which way the body goes.
struct Group {
    draws: Vec<Draw>,
}

/// The result of one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Outcome {
    format: String,
    key: String,
    /// Bits per second per dice: of all lanes together.
    together: Vec<f64>,
    /// Of each lane alone.
    alone: Vec<Vec<f64>>,
}

impl Group {
    fn new(family: Seed, number: u64, lanes: usize) -> Self {
        Self { draws: (0..lanes as u64).map(|lane| draw(family, number + lane * APART)).collect() }
    }

    fn number(&self) -> u64 {
        self.draws[0].number
    }

    fn is_upload(&self) -> bool {
        self.draws[0].load == Load::Upload
    }

    /// The rate of a lane the way that the body goes.
    fn rate(&self, draw: &Draw) -> f64 {
        if self.is_upload() { draw.up.steady() } else { draw.down.steady() }
    }

    /// So long that the fastest lane, which sets the best result and the cost, carries enough, and every lane has enough round trips;
    /// but no longer than the fastest is run alone elsewhere, for each of these runs is one of many.
    fn lasts_ms(&self) -> u64 {
        let fastest = self.draws.iter().max_by(|a, b| self.rate(a).total_cmp(&self.rate(b)));
        let Some(fastest) = fastest else { return 0 };
        let rtt_ms = self.draws.iter().map(|draw| draw.rtt_ms).fold(0.0, f64::max);
        let packets_ms = PACKETS * PACKET_BITS / self.rate(fastest) * 1e3;
        let least_ms = LEAST_MS.max(RTTS * rtt_ms);
        (packets_ms.max(least_ms).ceil() as u64).min(fastest.lasts_ms)
    }

    fn cost(&self) -> f64 {
        self.draws.iter().map(|draw| self.rate(draw)).sum::<f64>() * self.lasts_ms() as f64
    }

    /// The scenario over some of its lanes.
    fn scenario(&self, lanes: &[usize]) -> String {
        let lasts_ms = self.lasts_ms();
        let named: Vec<String> = lanes.iter().map(|lane| (lane + 1).to_string()).collect();
        let mut text = format!(
            "title = \"link-population, family {}, draw {}: lanes {} of {}\"\nduration = \"{lasts_ms} ms\"\nstacks = [\"{OURS}\"]\n\
             [nodes]\nclient = \"endpoint\"\na = \"gateway\"\nb = \"gateway\"\nserver = \"endpoint\"\n\
             [channels.lan_client]\npreset = \"ethernet\"\nbetween = [\"client\", \"a\"]\n\
             [channels.lan_server]\npreset = \"ethernet\"\nbetween = [\"b\", \"server\"]\n",
            self.draws[0].family.0,
            self.number(),
            named.join(" and "),
            self.draws.len(),
        );
        let ways = |lane: usize| [("forward", &self.draws[lane].up), ("reverse", &self.draws[lane].down)];
        for lane in lanes {
            let _ = write!(text, "[channels.lane{lane}]\nkind = \"cable\"\nbetween = [\"a\", \"b\"]\n");
            for (name, way) in ways(*lane) {
                let _ = write!(text, "[channels.lane{lane}.{name}]\n{}", way.keys());
            }
        }
        let app = if self.is_upload() { "upload" } else { "download" };
        let _ = write!(text, "[flows.{FLOW}]\napp = \"{app}\"\nfrom = \"client\"\nto = \"server\"\n");
        for lane in lanes {
            for (name, way) in ways(*lane) {
                for (ms, key, value) in way.changes(lasts_ms) {
                    let _ = write!(
                        text,
                        "[[timeline]]\nat = \"{ms} ms\"\nset = \"lane{lane}.{name}.{key}\"\nto = \"{value}\"\n"
                    );
                }
            }
        }
        text
    }

    /// Runs it: together, then each lane alone, with each dice.
    fn run(&self, cancelled: &AtomicBool) -> Result<Vec<Vec<f64>>, StudyError> {
        let each = |text: &String| {
            (0..SEEDS).map(|seed| goodput(text, self.draws[0].dice + seed, cancelled)).collect::<Result<_, _>>()
        };
        self.scenarios().iter().map(each).collect()
    }

    /// Together, then each alone.
    fn scenarios(&self) -> Vec<String> {
        let all: Vec<usize> = (0..self.draws.len()).collect();
        std::iter::once(self.scenario(&all)).chain(all.iter().map(|lane| self.scenario(&[*lane]))).collect()
    }

    fn words(&self) -> String {
        let each: Vec<String> = self.draws.iter().map(Draw::words).collect();
        each.join(" | ")
    }
}

impl Outcome {
    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len().max(1) as f64
    }

    fn best(&self) -> f64 {
        self.alone.iter().map(|values| Self::mean(values)).fold(0.0, f64::max)
    }

    /// Of the means over the dice; nothing if no lane carries anything alone.
    fn ratio(&self) -> Option<f64> {
        let best = self.best();
        (best > 0.0).then(|| Self::mean(&self.together) / best)
    }
}

/// Where members are kept.
struct Shelf {
    folder: PathBuf,
    others: Vec<PathBuf>,
}

impl Shelf {
    fn name(group: &Group, end: &str) -> String {
        format!("lanes{}-{:06}{end}", group.draws.len(), group.number())
    }

    fn key(texts: &[String]) -> String {
        let parts: Vec<&str> = texts.iter().map(String::as_str).collect();
        digest(&[&[FORMAT, &fingerprint()][..], &parts].concat())
    }

    fn find(&self, group: &Group) -> Option<Outcome> {
        let key = Self::key(&group.scenarios());
        let folders = std::iter::once(&self.folder).chain(&self.others);
        let read = |folder: &PathBuf| -> Option<Outcome> {
            serde_json::from_slice(&std::fs::read(folder.join(Self::name(group, ".json"))).ok()?).ok()
        };
        folders.filter_map(read).find(|found| found.format == FORMAT && found.key == key)
    }

    /// Keeps what a member gave: together, then each lane alone.
    fn keep(&self, group: &Group, mut found: Vec<Vec<f64>>) -> Result<Outcome, StudyError> {
        let texts = group.scenarios();
        let write = |end: &str, text: &str| {
            let path = self.folder.join(Self::name(group, end));
            std::fs::write(&path, text).map_err(|e| RunError::Unwritable { path, why: e.to_string() })
        };
        write(".toml", &texts[0])?;
        if found.len() != texts.len() {
            let why = format!("{} results of {} scenarios of {}", found.len(), texts.len(), Self::name(group, ""));
            return Err(RunError::Refused(why).into());
        }
        let together = found.remove(0);
        let outcome = Outcome { format: FORMAT.into(), key: Self::key(&texts), together, alone: found };
        write(".json", &(serde_json::to_string_pretty(&outcome).unwrap_or_default() + "\n"))?;
        Ok(outcome)
    }
}

fn goodput(text: &str, dice: u64, cancelled: &AtomicBool) -> Result<f64, StudyError> {
    let mut scenario = Scenario::parse(text, Path::new("."))?;
    scenario.seed = Seed(dice);
    let raw = simulate(&scenario, Stack::WAVELANE, cancelled)?;
    let figures = of_run(&scenario, &raw, scenario.seed);
    Ok(short(figures.iter().find_map(|f| f.goodput_bps).unwrap_or(0.0)))
}

fn row(group: &Group, outcome: &Outcome) -> Option<Row> {
    let (number, lanes) = (group.number(), group.draws.len());
    let mut row = Row::new(ID, "sim", OURS, "goodput_of_best_lane", "ratio");
    row.case =
        [("lanes".to_owned(), json!(lanes)), (super::judge::DRAW.to_owned(), json!(number))].into_iter().collect();
    row.value = Some(outcome.ratio()?);
    row.n = SEEDS;
    let mbit = |values: &[f64]| format!("{:.3}", Outcome::mean(values) / 1e6);
    let alone: Vec<String> = outcome.alone.iter().map(|values| mbit(values)).collect();
    row.why = format!(
        "{} Mbit/s beside {} alone; {}; wavelane study run {ID} --part lanes --seed {} --draws {number}..{number}",
        mbit(&outcome.together),
        alone.join(" and "),
        group.words(),
        group.draws[0].family.0,
    );
    Some(row)
}

fn claims(groups: &[Group], outcomes: &[Outcome]) -> Vec<Row> {
    let mut rows = Vec::new();
    for lanes in LANES {
        let these = groups.iter().zip(outcomes).filter(|(group, _)| group.draws.len() == lanes);
        let ratios = sorted(these.filter_map(|(_, outcome)| outcome.ratio()));
        let held = ratios.iter().filter(|ratio| **ratio >= OF_BEST).count();
        let share = (!ratios.is_empty()).then(|| held as f64 / ratios.len() as f64);
        let metric = format!("lanes_{lanes}_share");
        let mut row = claim(&metric, "share", share, ratios.len(), Some(1.0), Aim::AtLeast(SHARE_AIM));
        let (median, worst) =
            (percentile(&ratios, 50).unwrap_or(f64::NAN), ratios.first().copied().unwrap_or(f64::NAN));
        row.why = format!(
            "{}; {held} of {} draws carry at least {OF_BEST} of their best lane; median {median:.3}, worst {worst:.3}",
            row.why,
            ratios.len(),
        );
        rows.push(row);
    }
    rows
}

/// Runs a member on a worker.
pub(super) fn work(
    family: Seed,
    number: u64,
    lanes: usize,
    cancelled: &AtomicBool,
) -> Result<Vec<Vec<f64>>, StudyError> {
    if !LANES.contains(&lanes) {
        return Err(RunError::Refused(format!("no member has {lanes} lanes")).into());
    }
    Group::new(family, number, lanes).run(cancelled)
}

/// Runs the members and judges them.
pub(super) fn run(options: &StudyOptions, hooks: &RunHooks<'_>) -> Result<Vec<Row>, StudyError> {
    let numbers = options.draws.clone().unwrap_or(if options.edition == Edition::Full { FULL } else { QUICK });
    let folder = |out: &Path| out.join(ID);
    let shelf = Shelf { folder: folder(&options.out), others: options.reuse.iter().map(|out| folder(out)).collect() };
    std::fs::create_dir_all(&shelf.folder)
        .map_err(|e| RunError::Unwritable { path: shelf.folder.clone(), why: e.to_string() })?;
    let groups = |lanes: usize| numbers.clone().map(move |number| Group::new(options.seed, number, lanes));
    let groups: Vec<Group> = LANES.into_iter().flat_map(groups).collect();
    let tell = |group: &Group, outcome: &Outcome| row(group, outcome).iter().for_each(options.row);
    let runner = Runner { what: "links", workers: options.workers(), hooks };
    let found = |group: &Group| shelf.find(group).inspect(|outcome| tell(group, outcome));
    let told = |group: &Group, ran| {
        let outcome = shelf.keep(group, ran)?;
        tell(group, &outcome);
        Ok(outcome)
    };
    let work = |group: &Group| told(group, group.run(hooks.cancelled)?);
    let travel = Travel {
        study: ID,
        batch: 1,
        pack: &|group: &Group| {
            json!(Task::Lanes { family: options.seed.0, draw: group.number(), lanes: group.draws.len() })
        },
        unpack: &|group, value| told(group, read(value)?),
    };
    let outcomes = runner.run_anywhere(options.elsewhere.as_ref(), &groups, Group::cost, found, work, &travel)?;
    let mut rows = claims(&groups, &outcomes);
    rows.iter().for_each(options.row);
    rows.extend(groups.iter().zip(&outcomes).filter_map(|(group, outcome)| row(group, outcome)));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn every_member_is_a_scenario_over_all_its_lanes_and_over_each() {
        for lanes in LANES {
            for number in 1..=60 {
                let group = Group::new(Seed(1), number, lanes);
                let texts = group.scenarios();
                assert_eq!(texts.len(), lanes + 1);
                for (n, text) in texts.iter().enumerate() {
                    let scenario = Scenario::parse(text, Path::new(".")).expect(text);
                    assert_eq!(scenario.channels.len() - 2, if n == 0 { lanes } else { 1 });
                    assert_eq!(Scenario::parse(&scenario.to_toml(), Path::new(".")), Ok(scenario));
                }
                assert!(group.draws.windows(2).all(|two| two[0].down != two[1].down), "lanes of their own");
                assert_eq!(texts, Group::new(Seed(1), number, lanes).scenarios());
            }
        }
    }

    #[test]
    fn a_claim_counts_members_whose_mean_reaches_the_best_lane() {
        let group = || Group::new(Seed(1), 7, 2);
        let outcome = |together: [f64; 2]| Outcome {
            format: FORMAT.into(),
            key: String::new(),
            together: together.into(),
            alone: vec![vec![10.0, 6.0], vec![1.0, 13.0]],
        };
        // The best is the first lane with 8 in the mean, not the best of each dice.
        let outcomes = [outcome([8.0, 8.0]), outcome([8.0, 7.2]), outcome([8.0, 7.1])];
        assert_eq!(outcomes[0].ratio(), Some(1.0));
        let rows = claims(&[group(), group(), group()], &outcomes);
        assert_eq!(rows[0].value, Some(2.0 / 3.0));
        assert!(rows[0].why.contains("2 of 3") && rows[1].value.is_none(), "{}", rows[0].why);
    }
}
