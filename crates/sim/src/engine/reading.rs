//! Readers of pages: each object is an exchange of its own, which begins while the run goes on.

use super::Engine;
use crate::traffic::{Exchange, Flow, FlowEnd, FlowIndex, FlowSpec, Reading, Work};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use wavelane_run::schedule::{Reader, Step};

/// Exchanges of a run; a reader who wants one more is refused.
const FLOWS_BOUND: usize = 1 << 18;
/// Ports of the clients that fetch objects, taken in turn.
const OBJECT_PORTS: RangeInclusive<u16> = 41_000..=65_535;

/// Whether an object is there, or will never be.
fn is_over(flow: &Flow) -> bool {
    flow.log.end.is_some() || flow.body_size() == Some(flow.log.octets)
}

impl Engine {
    /// Lets a reader act.
    pub(super) fn tick_reader(&mut self, index: usize) {
        let now = self.now;
        let this = &mut self.flows[index];
        let Work::Web(pages) = this.spec.work else { return };
        if this.log.end.is_some() {
            return;
        }
        this.log.connected.get_or_insert(now);
        this.log.accepted.get_or_insert(now);
        let dice = || self.seed.chance(&format!("flow {index} / pages"));
        let begin = || Box::new(Reading { reader: Reader::new(now, pages, dice()), open: Vec::new() });
        let mut reading = this.reader.take().unwrap_or_else(begin);
        let Reading { reader, open } = &mut *reading;
        let stop = self.flows[index].spec.stop;
        open.retain(|(place, child)| !self.take_object(index, *place, *child));
        if stop.is_some_and(|stop| now >= stop) {
            for (_, child) in open {
                self.flows[*child].spec.stop = Some(now);
                self.tick(*child);
            }
            return self.flows[index].finish(now, FlowEnd::Stopped);
        }
        let next = loop {
            match reader.step(now, open.len()) {
                Step::Ask { .. } if self.flows.len() >= FLOWS_BOUND => {
                    return self.flows[index].finish(now, FlowEnd::Refused(None));
                }
                Step::Ask { page, size } => {
                    let place = self.flows[index].log.exchanges.len();
                    self.flows[index].log.exchanges.push(Exchange {
                        page,
                        connected: now,
                        first_byte: None,
                        last_byte: None,
                    });
                    let child = self.add_object(index, size);
                    open.push((place, child));
                    self.watched.push((child, index));
                }
                Step::Wait(until) => break until,
                Step::End => return self.flows[index].finish(now, FlowEnd::Complete),
            }
        };
        self.flows[index].reader = Some(reading);
        self.agenda.set(self.flow_actors[index], [next, stop].into_iter().flatten().min());
    }

    /// Notes what became of an object; whether anything has.
    fn take_object(&mut self, parent: usize, place: usize, child: usize) -> bool {
        if !is_over(&self.flows[child]) {
            return false;
        }
        let whole = self.flows[child].body_size() == Some(self.flows[child].log.octets);
        let log = &mut self.flows[child].log;
        let (first, last, octets, damage) = (log.first_byte, log.last_byte, log.octets, log.damage);
        // These are not asked for any more, and there may be many objects.
        log.arrivals = Default::default();
        log.ages = Default::default();
        let log = &mut self.flows[parent].log;
        let exchange = &mut log.exchanges[place];
        exchange.first_byte = first;
        exchange.last_byte = last.filter(|_| whole && damage.is_none());
        log.first_byte = log.first_byte.or(first);
        log.last_byte = log.last_byte.max(last);
        log.octets += octets;
        log.damage = log.damage.or(damage);
        true
    }

    /// An exchange for one object of a reader, which begins at once.
    fn add_object(&mut self, parent: usize, size: u64) -> usize {
        let Flow { spec, tcp, .. } = &self.flows[parent];
        let (parent_port, tcp) = (spec.source.port(), tcp.clone());
        let port = self.object_port;
        self.object_port = if port == *OBJECT_PORTS.end() { *OBJECT_PORTS.start() } else { port + 1 };
        let source = SocketAddr::new(spec.source.ip(), port);
        let spec = FlowSpec { source, work: Work::Download(Some(size)), start: self.now, stop: None, ..spec.clone() };
        match self.handlings.get(&parent_port).copied() {
            Some(handling) => drop(self.handlings.insert(port, handling)),
            None => drop(self.handlings.remove(&port)),
        }
        let FlowIndex(child) = self.add_flow(spec);
        self.flows[child].tcp = tcp;
        child
    }

    /// Wakes the readers whose objects are there.
    pub(super) fn wake_readers(&mut self) {
        if self.watched.is_empty() {
            return;
        }
        let (flows, agenda, actors, now) = (&self.flows, &mut self.agenda, &self.flow_actors, self.now);
        self.watched.retain(|(child, parent)| {
            let over = is_over(&flows[*child]);
            if over && flows[*parent].log.end.is_none() {
                agenda.set(actors[*parent], Some(now));
            }
            !over && flows[*parent].log.end.is_none()
        });
    }

    /// The first port of [`OBJECT_PORTS`].
    pub(super) const fn first_object_port() -> u16 {
        *OBJECT_PORTS.start()
    }
}
