//! What each stack made of a draw, kept in a small file per draw, so that nothing is simulated twice.

use super::draw::Draw;
use super::text::ECHO;
use crate::StudyError;
use crate::observe::{short, simulate, unwritable};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use wavelane_base::Seed;
use wavelane_measure::WARM_UP;
use wavelane_run::RunError;
use wavelane_run::figures::{RunTotals, of_run, wire_bytes_per_delivered_byte};
use wavelane_scenario::{Scenario, Stack};

/// Format of the file.
const FORMAT: &str = "wavelane-draw/1";
/// A link on which every part of TCP that a result could depend on has work: its result stands for the simulator and
/// its TCP in the keys, so that a change of either invalidates what was stored before.
const CANARY: &str = include_str!("canary.toml");

/// The file of a draw.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct DrawFile {
    format: String,
    family: u64,
    draw: u64,
    /// What the draw is, for people.
    link: String,
    stacks: Vec<Seen>,
}

/// What one stack made of a draw.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(super) stack: String,
    /// The dice of the channel.
    pub(super) dice: u64,
    /// Of everything that the result depends on.
    pub(super) key: String,
    /// Of the body, or of that to the client and that to the server.
    pub(super) goodputs_bps: Vec<f64>,
    /// Mean over the bodies of goodput over the IP bits a second that can arrive: the link's mean rate, policers and outages
    /// counted, less what is lost and damaged.
    pub(super) share: f64,
    pub(super) rtt_p50_ms: Option<f64>,
    pub(super) rtt_p95_ms: Option<f64>,
    pub(super) wire_bytes_per_delivered_byte: Option<f64>,
    /// Echoes.
    pub(super) sent: u64,
    pub(super) lost: u64,
}

/// Where results are kept and looked up, and what stands for this program in their keys.
pub(super) struct Store {
    folder: PathBuf,
    /// Folders of other runs.
    others: Vec<PathBuf>,
    programs: Vec<(&'static str, String)>,
}

pub(super) fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().take(12).map(|octet| format!("{octet:02x}")).collect()
}

impl Store {
    /// Opens the folder, and finds out what stands for each stack of `stacks`.
    pub(super) fn open(
        folder: PathBuf,
        others: Vec<PathBuf>,
        stacks: &[&'static str],
        cancelled: &AtomicBool,
    ) -> Result<Self, StudyError> {
        std::fs::create_dir_all(&folder).map_err(unwritable(&folder))?;
        let scenario = Scenario::parse(CANARY, Path::new("."))?;
        let mut programs = Vec::new();
        for word in stacks {
            let program = match Stack::from_word(word) {
                Some(stack) if stack.is_plain_tcp() => {
                    let raw = simulate(&scenario, stack, cancelled)?;
                    format!("{:?} {:?}", raw.notes, of_run(&scenario, &raw, scenario.seed))
                }
                // The gateways' code changes often: for these only a result of the same build is valid.
                _ => crate::cells::fingerprint(),
            };
            programs.push((*word, program));
        }
        Ok(Self { folder, others, programs })
    }

    /// A member's scenario file, written for whoever wants to replay it.
    pub(super) fn write_scenario(&self, draw: &Draw, text: &str) -> Result<(), StudyError> {
        let path = self.folder.join(format!("draw-{:06}.toml", draw.number));
        Ok(std::fs::write(&path, text).map_err(unwritable(&path))?)
    }

    fn key(&self, text: &str, stack: &str, dice: u64) -> String {
        let program = self.programs.iter().find(|(word, _)| *word == stack).map_or("", |(_, program)| program);
        digest(&[FORMAT, text, stack, &dice.to_string(), program])
    }

    fn load(folder: &Path, draw: &Draw) -> Vec<Seen> {
        let path = folder.join(format!("draw-{:06}.json", draw.number));
        let file = std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice::<DrawFile>(&bytes).ok());
        let ours = |file: &DrawFile| file.format == FORMAT && (file.family, file.draw) == (draw.family.0, draw.number);
        file.filter(ours).map(|file| file.stacks).unwrap_or_default()
    }

    /// What is kept of this stack on this draw with these dice.
    pub(super) fn find(&self, draw: &Draw, text: &str, stack: &str, dice: u64) -> Option<Seen> {
        let key = self.key(text, stack, dice);
        let folders = std::iter::once(&self.folder).chain(&self.others);
        folders.flat_map(|folder| Self::load(folder, draw)).find(|seen| seen.key == key && seen.stack == stack)
    }

    /// Adds to the draw's file, whole or not at all. Each draw belongs to one thread at a time.
    pub(super) fn keep(&self, draw: &Draw, found: &[Seen]) -> Result<(), StudyError> {
        let same = |a: &Seen, b: &Seen| a.stack == b.stack && a.dice == b.dice;
        let mut stacks = Self::load(&self.folder, draw);
        stacks.retain(|old| !found.iter().any(|new| same(old, new)));
        stacks.extend_from_slice(found);
        stacks.sort_by(|a, b| (a.dice != draw.dice, a.dice, &a.stack).cmp(&(b.dice != draw.dice, b.dice, &b.stack)));
        let file =
            DrawFile { format: FORMAT.into(), family: draw.family.0, draw: draw.number, link: draw.words(), stacks };
        let text = serde_json::to_string_pretty(&file).unwrap_or_default() + "\n";
        let path = self.folder.join(format!("draw-{:06}.json", draw.number));
        Ok(wavelane_run::write_whole(&path, text).map_err(unwritable(&path))?)
    }

    /// A result with what tells it from those of other programs.
    pub(super) fn keyed(&self, seen: Seen, text: &str) -> Seen {
        Seen { key: self.key(text, &seen.stack, seen.dice), ..seen }
    }
}

impl Seen {
    /// Runs a stack on a draw.
    pub(super) fn simulate(
        draw: &Draw,
        text: &str,
        stack: &str,
        dice: u64,
        cancelled: &AtomicBool,
    ) -> Result<Self, StudyError> {
        let mut scenario = Scenario::parse(text, Path::new("."))?;
        scenario.seed = Seed(dice);
        let word = scenario.stacks.iter().copied().find(|known| known.word() == stack);
        let Some(word) = word else {
            return Err(RunError::Refused(format!("a draw has no stack '{stack}'")).into());
        };
        let raw = simulate(&scenario, word, cancelled)?;
        let figures = of_run(&scenario, &raw, scenario.seed);
        let of = |name: &str| figures.iter().find(|f| f.flow == name);
        let goodputs = draw.bodies().into_iter().zip(draw.loaded()).filter_map(|((_, name), way)| {
            let goodput = of(name).and_then(|f| f.goodput_bps).unwrap_or(0.0);
            // Of a radio what a lone frame's bits take, for no formula tells what a line in one cell carries.
            let link = match draw.radio {
                Some(line) => line.rate as f64,
                None => scenario.link_bps(scenario.flow(name)?, WARM_UP, scenario.duration)?,
            };
            Some((goodput, goodput / (link * (1.0 - way.lost()))))
        });
        let goodputs: Vec<(f64, f64)> = goodputs.collect();
        let echo = of(ECHO);
        Ok(Self {
            stack: stack.to_owned(),
            dice,
            key: String::new(),
            goodputs_bps: goodputs.iter().map(|(goodput, _)| short(*goodput)).collect(),
            share: short(goodputs.iter().map(|(_, share)| share).sum::<f64>() / goodputs.len() as f64),
            rtt_p50_ms: echo.and_then(|f| f.rtt_p50_ms).map(short),
            rtt_p95_ms: echo.and_then(|f| f.rtt_p95_ms).map(short),
            wire_bytes_per_delivered_byte: wire_bytes_per_delivered_byte(&[RunTotals::of(&raw, scenario.seed)])
                .map(short),
            sent: echo.and_then(|f| f.sent).unwrap_or(0),
            lost: echo.and_then(|f| f.lost).unwrap_or(0),
        })
    }
}
