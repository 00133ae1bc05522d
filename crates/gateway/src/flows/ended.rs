//! Flows across relays that ended here, and how: the other edge may have missed the last word, and asks again.

use std::collections::{BTreeMap, VecDeque};
use wavelane_wire::frame::Answered;

/// Most that are remembered; beyond it the one that ended first is forgotten.
const ENDED_MAX: usize = 4096;

/// See the module. Indexed by token, because any neighbour's request is looked up here.
#[derive(Debug, Default)]
pub(super) struct Ended {
    ends: BTreeMap<[u8; 16], Option<Answered>>,
    /// The same tokens, in the order in which their flows ended.
    order: VecDeque<[u8; 16]>,
}

impl Ended {
    /// A flow ended: well, with this edge's last word, or not. The first end counts.
    pub(super) fn insert(&mut self, token: [u8; 16], end: Option<Answered>) {
        if self.ends.contains_key(&token) {
            return;
        }
        self.ends.insert(token, end);
        self.order.push_back(token);
        if self.order.len() > ENDED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ends.remove(&oldest);
        }
    }
    /// How the flow ended, if it did and is remembered.
    pub(super) fn find(&self, token: &[u8; 16]) -> Option<Option<Answered>> {
        self.ends.get(token).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flow_that_ended_first_is_forgotten_first() {
        let token = |n: usize| (n as u128).to_be_bytes();
        let end = |received| Some(Answered { received, seal: None });
        let mut ended = Ended::default();
        for n in 0..ENDED_MAX {
            ended.insert(token(n), (n % 2 == 0).then_some(end(n as u64)).flatten());
        }
        ended.insert(token(0), None);
        assert_eq!((ended.find(&token(0)), ended.find(&token(1))), (Some(end(0)), Some(None)));
        ended.insert(token(ENDED_MAX), end(1));
        assert_eq!((ended.find(&token(0)), ended.find(&token(1))), (None, Some(None)));
        assert_eq!((ended.ends.len(), ended.order.len()), (ENDED_MAX, ENDED_MAX));
    }
}
