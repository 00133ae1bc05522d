//! What `check` says of block switching's mechanisms.

use super::Config;
use core::fmt::Write as _;
use wavelane_settings::{Backpressure, Preset};

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
        let of = &self.knobs;
        if of.preset == Some(Preset::Hop2009) && of.withhold.is_none() {
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
