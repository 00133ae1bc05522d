//! The fates of what datagrams carried.

use super::Hop;
use super::flow::{OPEN_AGAIN, State};
use super::types::{Carried, Item};
use wavelane_base::Instant;

impl Hop {
    /// A lane ack showed that this arrived.
    pub fn delivered(&mut self, now: Instant, carried: Carried) {
        self.fate(now, carried, true);
    }

    /// This was lost, or its lane or session died before its arrival was known. May be wrong.
    pub fn lost(&mut self, now: Instant, carried: Carried) {
        self.fate(now, carried, false);
    }

    fn fate(&mut self, now: Instant, carried: Carried, arrived: bool) {
        let Carried { flow: name, item, serial } = carried;
        if serial < self.serial_floor {
            return;
        }
        if item == Item::Forget {
            return self.forget.fate(serial, arrived);
        }
        let path = self.path;
        let Some(flow) = self.flows.get_mut(&name) else { return };
        match (item, arrived) {
            (Item::Data { offset, len }, true) => flow.out.delivered(now, offset, offset + u64::from(len), &path),
            (Item::Data { offset, len }, false) => flow.out.lost(offset, offset + u64::from(len), serial),
            (Item::Again { offset }, _) => flow.out.again.fate(offset, serial, arrived),
            (Item::Vtx | Item::AlreadyHave, _) => {
                if let Some(across) = &mut flow.across {
                    let word = if item == Item::Vtx { &mut across.vtx } else { &mut across.answer };
                    word.fate(serial, arrived);
                }
            }
            (Item::Receipt, true) => flow.inc.receipt_delivered(serial),
            (Item::Receipt, false) => flow.inc.receipt_lost(serial),
            (Item::Open, _) => {
                flow.open.fate(serial, arrived);
                if arrived && flow.state == State::Opening {
                    flow.open_again_at = Some(now + OPEN_AGAIN);
                }
            }
            (Item::Answer, _) => flow.answer.fate(serial, arrived),
            (Item::Finish, _) => {
                flow.out.finish.fate(serial, arrived);
                flow.out.watch(now, &path);
            }
            (Item::Reset, _) => flow.reset.fate(serial, arrived),
            (Item::Progress, _) => {
                if let Some(across) = &mut flow.across {
                    across.word.fate(serial, arrived);
                }
                self.conclude(name);
            }
            (Item::Offer, _) => {
                flow.out.query.fate(serial, arrived);
                flow.out.watch(now, &path);
            }
            (Item::Forget, _) => {}
        }
        self.settle(name);
    }
}
