//! When programs act by the clock: they connect, ask, write at a limited rate, resume reading and give up.

use super::{Engine, Node, NodeId};
use crate::traffic::{Datagrams, FlowEnd, FlowIndex, Work};
use crate::{connection, datagrams};
use wavelane_base::{Instant, Span};

/// How often a program with a limited source looks whether it may write more.
const SOURCE_TICK: Span = Span::from_millis(10);
impl Engine {
    /// Ends an exchange now: an echo or ping asks no more and waits for its answers, any other gives up.
    pub fn stop(&mut self, flow: FlowIndex) {
        self.flows[flow.0].spec.stop = Some(self.now);
        self.tick(flow.0);
        self.settle();
    }

    /// Lets the programs of an exchange act, and notes when they want to act again.
    pub(super) fn tick(&mut self, index: usize) {
        let (now, flow) = (self.now, FlowIndex(index));
        let client_node = self.flows[index].spec.node.0;
        if let Work::Web(_) = self.flows[index].spec.work {
            return self.tick_reader(index);
        }
        if datagrams::is_one(&self.flows, flow) {
            return self.tick_datagrams(index, client_node);
        }
        if self.flows[index].log.connected.is_none() {
            let id = self.at_resident(client_node, |gateway, moment| {
                let id = gateway.open(moment, flow);
                gateway.service(moment);
                id
            });
            self.flows[index].client = id.map(|id| (NodeId(client_node), id));
        }
        let during_over = match self.flows[index].spec.work {
            Work::Echo { during: Some(other), .. } => self.flows[other.0].log.end.is_some(),
            _ => false,
        };
        let this = &mut self.flows[index];
        let is_echo = matches!(this.spec.work, Work::Echo { .. });
        let next_question = connection::ask(this, now, during_over);
        let stops = this.spec.stop.is_some_and(|stop| now >= stop) && !is_echo && this.log.end.is_none();
        if stops {
            this.finish(now, FlowEnd::Stopped);
            if let Some((node, id)) = this.client.take() {
                self.at_resident(node.0, |gateway, moment| {
                    gateway.abandon(moment, id);
                    gateway.service(moment);
                });
            }
            return;
        }
        self.pump_both(flow);
        let next = self.next_tick(index, next_question);
        self.agenda.set(self.flow_actors[index], next);
    }

    fn tick_datagrams(&mut self, index: usize, node: usize) {
        let begins = self.flows[index].log.connected.is_none();
        let next = self.at_node(node, |node, moment| match node {
            Node::Host(host) => datagrams::tick(host, moment, index),
            other => panic!("node {}: datagrams come from hosts", other.name()),
        });
        let ended = self.flows[index].log.end.is_some();
        let saturates = matches!(self.flows[index].spec.work, Work::Datagrams(Datagrams::Saturate { .. }));
        if saturates && (begins || ended) {
            self.saturate(index, !ended);
        }
        self.agenda.set(self.flow_actors[index], next);
    }

    fn pump_both(&mut self, flow: FlowIndex) {
        for node in 0..self.nodes.len() {
            let resident = self.nodes[node].resident();
            let client = self.flows[flow.0].client.filter(|(at, _)| at.0 == node).map(|(_, id)| id);
            let ids = [client, resident.server_of(flow)];
            for id in ids.into_iter().flatten() {
                self.at_resident(node, |gateway, moment| {
                    if gateway.pump(moment, id) {
                        gateway.service(moment);
                    }
                });
            }
        }
    }

    fn next_tick(&self, index: usize, next_question: Option<Instant>) -> Option<Instant> {
        let (flow, now) = (&self.flows[index], self.now);
        if flow.log.end.is_some() {
            return None;
        }
        let pause = flow.spec.reader_pause.map(|(_, to)| to);
        // A paced source, and an echo that still waits for its connection, look again soon.
        let waits = flow.spec.source_rate.is_some() || matches!(flow.spec.work, Work::Echo { .. });
        let soon = (waits && next_question.is_none()).then(|| now + SOURCE_TICK);
        let stop = flow.spec.stop;
        [next_question, pause, soon, stop].into_iter().flatten().filter(|at| *at > now).min()
    }
}
