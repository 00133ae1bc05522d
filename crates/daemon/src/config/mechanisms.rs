//! The keys of block switching's mechanisms, and what `check` says of them.

use super::{Config, ConfigError, value};
use core::fmt::Write as _;
use serde::Deserialize;
use wavelane_base::{Octets, Quantity};
use wavelane_gateway::{Backpressure, Mechanisms};

/// Sizes of blocks.
const BLOCK: core::ops::RangeInclusive<Octets> = Octets::new(4 << 10)..=Octets::new(64 << 20);

/// A preset, in the file's words.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum PresetWord {
    #[serde(rename = "hop-2009")]
    Hop2009,
}

/// How much of a connection is accepted before the next gateway has it, in the file's words.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum BackpressureWord {
    #[serde(rename = "adaptive")]
    Adaptive,
    #[serde(rename = "limit-1")]
    One,
    #[serde(rename = "limit-2")]
    Two,
    #[serde(rename = "off")]
    Off,
}

impl From<BackpressureWord> for Backpressure {
    fn from(word: BackpressureWord) -> Self {
        match word {
            BackpressureWord::Adaptive => Self::Adaptive,
            BackpressureWord::One => Self::Blocks(1),
            BackpressureWord::Two => Self::Blocks(2),
            BackpressureWord::Off => Self::Off,
        }
    }
}

/// The keys of `[gateway]`, as the file has them.
pub(super) struct MechanismKeys<'a> {
    pub(super) preset: Option<PresetWord>,
    pub(super) backpressure: Option<BackpressureWord>,
    pub(super) micro_blocks: Option<bool>,
    pub(super) block: Option<&'a str>,
    pub(super) rounds: Option<bool>,
    pub(super) withhold: Option<u64>,
    pub(super) cache: Option<&'a str>,
}

pub(super) fn read(keys: &MechanismKeys<'_>) -> Result<Mechanisms, ConfigError> {
    let size = |key: &str, text: Option<&str>| {
        text.map(|text| Octets::parse(text).map_err(|why| value(key, why.to_string()))).transpose()
    };
    let block = size("gateway.block", keys.block)?;
    if block.is_some_and(|size| !BLOCK.contains(&size)) {
        return Err(value("gateway.block", "must lie between \"4 KiB\" and \"64 MiB\", such as \"1 MB\""));
    }
    let withhold = keys.withhold.map(|most| {
        let wrong = || format!("must lie between 0 (off) and {}, not {most}", u8::MAX);
        u8::try_from(most).map_err(|_| value("gateway.withhold", wrong()))
    });
    Ok(Mechanisms {
        is_2009: keys.preset == Some(PresetWord::Hop2009),
        backpressure: keys.backpressure.map(Into::into),
        micro_blocks: keys.micro_blocks,
        block,
        rounds: keys.rounds,
        withhold: withhold.transpose()?,
        cache: size("gateway.cache", keys.cache)?,
    })
}

impl Config {
    /// What differs from the usual way of sending, in one line.
    pub(crate) fn mechanisms_text(&self) -> Option<String> {
        let (used, usual) = (self.to_gateway(&[]), wavelane_gateway::Config::default());
        let mut text = String::new();
        if let Some(block) = used.block {
            let _ = write!(text, ", blocks of {} bytes", block.get());
        }
        if used.rounds {
            text += ", losses repaired once a block was sent";
        }
        if used.backpressure != usual.backpressure {
            let _ = match used.backpressure {
                Backpressure::Blocks(most) => {
                    write!(text, ", at most {most} relayed {} ahead", if most == 1 { "block" } else { "blocks" })
                }
                Backpressure::Off => write!(text, ", relayed data as the pool has room"),
                Backpressure::Adaptive => Ok(()),
            };
        }
        if let Some(of) = used.withhold.filter(|of| of.everywhere) {
            let _ = write!(text, ", large blocks received at once: {} per port", of.at_once);
        }
        if !used.micro_blocks {
            text += ", small exchanges not ahead of bulk";
        }
        let text = text.strip_prefix(", ")?;
        Some(format!("experimental: {text}"))
    }

    /// What may not be meant.
    pub(crate) fn mechanisms_notes(&self) -> Option<String> {
        let of = &self.mechanisms;
        if of.is_2009 && of.withhold.is_none() {
            return Some(
                "preset \"hop-2009\" withholds on radios alone, and no lane here is one: gateway.withhold = 1 has senders wait on UDP and Ethernet too".into(),
            );
        }
        let withholds = of.withhold.is_some_and(|most| most > 0);
        withholds.then(|| {
            "gateway.withhold: set it at the peers, too; one that does not withhold asks for no turn, and its large transfers get a sixteenth of this side's rate".into()
        })
    }
}
