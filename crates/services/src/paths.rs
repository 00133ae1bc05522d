//! Several paths as services see them: one with the capacity of all and the delay of the slowest.

use wavelane_base::{Octets, Rate, Span};
use wavelane_transport::PathView;

/// All `paths` combined. Blocks and packets go over all of them and are reordered at the far end, so credit and hold times have
/// to follow the slowest. `None` without any.
pub(crate) fn together(paths: &[PathView]) -> Option<PathView> {
    let [first, rest @ ..] = paths else { return None };
    Some(rest.iter().fold(*first, |sum, path| {
        let slower = if path.rtt > sum.rtt { path } else { &sum };
        PathView {
            lane: sum.lane,
            rtt: slower.rtt,
            rtt_var: slower.rtt_var,
            rate: Rate::from_bps(sum.rate.as_bps().saturating_add(path.rate.as_bps())),
            told_apart: sum.told_apart.max(path.told_apart),
            ack_delay: sum.ack_delay.max(path.ack_delay),
            packet_time: sum.packet_time.min(path.packet_time),
            path_mtu: sum.path_mtu.min(path.path_mtu),
            window: Octets::new(sum.window.get().saturating_add(path.window.get())),
            loss: sum.loss.max(path.loss),
            loss_outward: sum.loss_outward.max(path.loss_outward),
            burst: sum.burst.max(path.burst),
            symbols: Span::max(sum.symbols, path.symbols),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_paths_carry_their_sum_in_the_slower_time() {
        let fast = PathView { rtt: Span::from_millis(20), rate: Rate::from_bps(20_000_000), ..PathView::default() };
        let slow = PathView { rtt: Span::from_millis(300), rate: Rate::from_bps(5_000_000), lane: 1, ..fast };
        assert_eq!((together(&[]), together(&[slow])), (None, Some(slow)));
        let both = together(&[fast, slow]).expect("two paths");
        assert_eq!((both.rtt, both.rate, both.lane), (slow.rtt, Rate::from_bps(25_000_000), 0));
    }
}
