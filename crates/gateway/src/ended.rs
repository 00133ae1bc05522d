//! Flows across relays that ended here, and how: the other edge may have missed the last word, and asks again.

use std::collections::{BTreeMap, VecDeque};

/// Most that are remembered; beyond it the one that ended first is forgotten.
const ENDED_MAX: usize = 4096;

/// See the module. Indexed by token, because any neighbour's request is looked up here.
#[derive(Debug, Default)]
pub(super) struct Ended {
    well: BTreeMap<[u8; 16], bool>,
    /// The same tokens, in the order in which their flows ended.
    order: VecDeque<[u8; 16]>,
}

impl Ended {
    /// A flow ended, `well` or not. The first end counts.
    pub(super) fn insert(&mut self, token: [u8; 16], well: bool) {
        if self.well.contains_key(&token) {
            return;
        }
        self.well.insert(token, well);
        self.order.push_back(token);
        if self.order.len() > ENDED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.well.remove(&oldest);
        }
    }
    /// Whether the flow ended well, if it ended and is remembered.
    pub(super) fn find(&self, token: &[u8; 16]) -> Option<bool> {
        self.well.get(token).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flow_that_ended_first_is_forgotten_first() {
        let token = |n: usize| (n as u128).to_be_bytes();
        let mut ended = Ended::default();
        for n in 0..ENDED_MAX {
            ended.insert(token(n), n % 2 == 0);
        }
        ended.insert(token(0), false);
        assert_eq!((ended.find(&token(0)), ended.find(&token(1))), (Some(true), Some(false)));
        ended.insert(token(ENDED_MAX), true);
        assert_eq!((ended.find(&token(0)), ended.find(&token(1))), (None, Some(false)));
        assert_eq!((ended.well.len(), ended.order.len()), (ENDED_MAX, ENDED_MAX));
    }
}
