//! The mechanisms of block switching as people choose them: a preset, and single settings that go before it.

use super::{Backpressure, Config, Withholding};
use wavelane_base::Octets;

/// Blocks of the preset: 1 MB, as in the work of 2009.
const BLOCK_2009: Octets = Octets::new(1_000_000);

/// Settings of a gateway's mechanisms; `None` keeps what the configuration has, or the preset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mechanisms {
    /// The preset `hop-2009`: block switching as it was published, with withholding on radios only.
    pub is_2009: bool,
    /// See [`Config::backpressure`].
    pub backpressure: Option<Backpressure>,
    /// See [`Config::micro_blocks`].
    pub micro_blocks: Option<bool>,
    /// See [`Config::block`].
    pub block: Option<Octets>,
    /// See [`Config::rounds`].
    pub rounds: Option<bool>,
    /// Large blocks received at once on every carrier, also where access is not contended for; zero for no limit.
    pub withhold: Option<u8>,
    /// See [`Config::cache`].
    pub cache: Option<Octets>,
}

impl Mechanisms {
    /// `config` with these settings.
    pub fn put_into(&self, config: Config) -> Config {
        let base = if self.is_2009 { of_2009(config) } else { config };
        Config {
            backpressure: self.backpressure.unwrap_or(base.backpressure),
            micro_blocks: self.micro_blocks.unwrap_or(base.micro_blocks),
            block: self.block.or(base.block),
            rounds: self.rounds.unwrap_or(base.rounds),
            withhold: match self.withhold {
                None => base.withhold,
                Some(0) => None,
                Some(at_once) => Some(Withholding { at_once, everywhere: true }),
            },
            cache: self.cache.unwrap_or(base.cache),
            ..base
        }
    }
}

/// Block switching as it was published in 2009.
fn of_2009(config: Config) -> Config {
    Config {
        block: Some(BLOCK_2009),
        rounds: true,
        backpressure: Backpressure::Blocks(1),
        withhold: Some(Withholding::ON_RADIOS),
        ..config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_settings_go_before_the_preset() {
        let of = |mechanisms: Mechanisms| {
            let Config { backpressure, block, rounds, withhold, micro_blocks, .. } =
                mechanisms.put_into(Config::default());
            (backpressure, block.map(Octets::get), rounds, withhold.map(|of| (of.at_once, of.everywhere)), micro_blocks)
        };
        assert_eq!(of(Mechanisms::default()), (Backpressure::Adaptive, None, false, None, true));
        let preset = Mechanisms { is_2009: true, ..Mechanisms::default() };
        assert_eq!(of(preset), (Backpressure::Blocks(1), Some(1_000_000), true, Some((1, false)), true));
        let other = Mechanisms {
            backpressure: Some(Backpressure::Off),
            block: Some(Octets::new(8_192)),
            rounds: Some(false),
            withhold: Some(3),
            micro_blocks: Some(false),
            ..preset
        };
        assert_eq!(of(other), (Backpressure::Off, Some(8_192), false, Some((3, true)), false));
        assert_eq!(of(Mechanisms { withhold: Some(0), ..preset }).3, None);
    }
}
