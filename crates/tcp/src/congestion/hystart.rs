//! HyStart++ (RFC 9406): slow start ends when the RTT grows, not when the queue overflows.

use super::Acked;
use wavelane_base::Span;

/// RFC 9406, section 4.3.
const MIN_RTT_THRESH: Span = Span::from_millis(4);
const MAX_RTT_THRESH: Span = Span::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;
/// L without pacing.
const LIMIT: u64 = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct HyStart {
    /// The round ends when this byte is acknowledged.
    round_end: u64,
    last_round_min: Option<Span>,
    round_min: Option<Span>,
    samples: u32,
    /// Conservative slow start: its baseline and the rounds it has lasted.
    css: Option<(Span, u32)>,
    done: bool,
}

impl HyStart {
    /// By how much the window grows for `octets` acknowledged.
    pub(super) fn growth(&self, octets: u64, mss: u64) -> u64 {
        let most = octets.min(LIMIT * mss);
        if self.css.is_some() { most / CSS_GROWTH_DIVISOR } else { most }
    }

    /// Returns whether slow start is over.
    pub(super) fn on_ack(&mut self, acked: &Acked) -> bool {
        if self.done {
            return false;
        }
        if acked.una >= self.round_end {
            self.round_end = acked.next;
            self.last_round_min = self.round_min.take();
            self.samples = 0;
            if let Some((_, rounds)) = &mut self.css {
                *rounds += 1;
                if *rounds >= CSS_ROUNDS {
                    self.done = true;
                    return true;
                }
            }
        }
        let Some(rtt) = acked.rtt else { return false };
        let round = self.round_min.map_or(rtt, |min| min.min(rtt));
        self.round_min = Some(round);
        self.samples += 1;
        if self.samples < N_RTT_SAMPLE {
            return false;
        }
        match (self.css, self.last_round_min) {
            // The RTT fell again: the increase was not caused by a queue.
            (Some((baseline, _)), _) if round < baseline => self.css = None,
            (None, Some(last)) => {
                let thresh = last.scale(1, MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if round >= last + thresh {
                    self.css = Some((round, 0));
                }
            }
            _ => {}
        }
        false
    }
}
