//! What is done by the clock: SYNs held too long, connects given up, listeners that had no descriptor, silent peers.

use super::{Daemon, TOKEN_TPROXY, TOKEN_TPROXY_LAST};
use crate::config::Source;
use crate::decisions::Event;

impl Daemon {
    pub(super) fn tick(&mut self) {
        self.ticked = self.now;
        self.door.tick(self.now, &mut self.gateway);
        if std::mem::take(&mut self.retry_listeners) {
            for listener in 0..=(TOKEN_TPROXY_LAST - TOKEN_TPROXY) as usize {
                self.accept_transparent(listener);
            }
            for i in 0..self.forwards.len() {
                self.accept_forward(i);
            }
        }
        // Where sources are checked, no peer may use our own addresses.
        if self.packet_door.is_some() || self.config.source == Source::Keep {
            self.know_own_addresses();
        }
        self.decide(Event::Tick);
        self.doubt_silent_peers();
        self.look_at_lanes();
        self.look_at_devices();
        self.tell_of_lanes();
        self.tell_of_peers();
        self.names.tick(self.now);
        self.give_up_echoes();
        self.give_up_talks();
        self.note_peer_addresses();
        self.tell_where_peers_are();
        if let Some(remark) = self.epoch_keeper.tick(self.now) {
            self.say(&remark);
        }
    }
}
