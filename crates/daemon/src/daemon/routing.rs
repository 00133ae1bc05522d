//! Which peer a target is taken through: by the peers' order, or by the kernel's routing table.

use super::Daemon;
use crate::status;
use crate::system::routes::Routes;
use std::net::IpAddr;

impl Daemon {
    /// The peer that `target` is taken through now.
    pub(super) fn route(&self, target: IpAddr) -> Option<usize> {
        match self.routes {
            Some(_) => self.gateway.peer_towards(self.now, target).map(|peer| peer.0),
            None => self.config.route(target, |peer| self.is_down(peer)),
        }
    }

    /// Whether peers' routes cover `target`, but the kernel has no route to it by any of them.
    pub(super) fn has_no_way(&self, target: IpAddr) -> bool {
        self.routes.is_some() && self.route(target).is_none() && self.config.route(target, |_| false).is_some()
    }

    /// The kernel's routing table may have changed.
    pub(super) fn hear_of_routes(&mut self) {
        match self.routes.as_mut().and_then(Routes::take) {
            None => {}
            Some(Ok(table)) => {
                if std::mem::take(&mut self.routes_unread) {
                    self.say("the kernel's routing table is read again");
                }
                // A target that has become ours is not passed on.
                self.own_read = None;
                self.know_own_addresses();
                if self.gateway.set_table(self.now, table) {
                    self.counters.one("routing_changes");
                }
            }
            Some(Err(why)) if !self.routes_unread => {
                self.routes_unread = true;
                self.warn(&format!("the kernel's routing table cannot be read, its last state counts: {why}"));
            }
            Some(Err(_)) => {}
        }
    }

    /// What `status` says of it.
    pub(super) fn routing(&self) -> Option<status::Routing> {
        let table = self.config.routing_table?;
        let (routes, to_peers) = self.gateway.table_counts();
        Some(status::Routing { table, routes, to_peers })
    }
}
