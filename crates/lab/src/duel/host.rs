//! A host of ours at one end of the link, and its programs.

use super::ahead::{Ahead, PIECE};
use super::behind::Behind;
use super::{Duel, HOST_PORT, Shared};
use crate::LabError;
use crate::content::Content;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use wavelane_base::{FlowId, Instant, Machine, ReadOutcome, Streams};

/// An end host as a machine with one port, `PortId(0)`.
pub trait EndHost: Machine + Streams + Send + 'static {
    /// Accepts connections to `address` from now on.
    fn listen(&mut self, address: SocketAddr);
    /// Opens a connection; the error is the reason as text.
    fn connect(&mut self, now: Instant, local: SocketAddr, remote: SocketAddr) -> Result<FlowId, String>;
    /// What an event means for programs.
    fn news(event: Self::Event) -> HostNews;
}

/// Events that the programs of a host must know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostNews {
    /// A connection was accepted at the given port.
    Accepted(FlowId, u16),
    /// Something may be read or written.
    Ready(FlowId),
    /// The connection failed.
    Failed(FlowId),
    /// Nothing relevant.
    Other,
}

/// State of a program's connection.
enum Program {
    Send(Box<Sending>),
    Receive(Behind),
}

/// A body being sent.
struct Sending {
    body: Ahead,
    /// Not yet accepted by the connection, from `at` on.
    piece: Vec<u8>,
    at: usize,
    over: bool,
}

/// The host and its programs.
pub(super) struct HostSide<G> {
    pub(super) host: G,
    programs: BTreeMap<FlowId, Program>,
    /// By port, until a client connects.
    waiting: BTreeMap<u16, Behind>,
    ready: Vec<FlowId>,
    buf: Vec<u8>,
}

impl<G: EndHost> HostSide<G> {
    pub(super) fn new(host: G) -> Self {
        Self { host, programs: BTreeMap::new(), waiting: BTreeMap::new(), ready: Vec::new(), buf: vec![0; PIECE] }
    }

    pub(super) fn receive(&mut self, duel: &Duel, inboxes: &[Shared]) -> Result<(), LabError> {
        for (i, inbox) in inboxes.iter().enumerate() {
            self.host.listen(duel.target(i));
            self.waiting.insert(duel.target(i).port(), Behind::new(inbox)?);
        }
        Ok(())
    }

    pub(super) fn send(&mut self, now: Instant, duel: &Duel, bodies: Vec<Content>) -> Result<(), LabError> {
        for (i, body) in bodies.into_iter().enumerate() {
            let local = SocketAddr::new(duel.ip(0), HOST_PORT + i as u16);
            let refused = |said| LabError::Failed { program: format!("flow {i} of {}", duel.name), said };
            let flow = self.host.connect(now, local, duel.target(i)).map_err(refused)?;
            let sending = Sending { body: Ahead::new(body)?, piece: Vec::new(), at: 0, over: false };
            self.programs.insert(flow, Program::Send(Box::new(sending)));
        }
        Ok(())
    }

    /// Lets programs act on events. Returns whether any moved bytes.
    pub(super) fn pump(&mut self, now: Instant) -> Result<bool, LabError> {
        while let Some(event) = self.host.poll_event() {
            match G::news(event) {
                HostNews::Accepted(flow, port) => {
                    if let Some(behind) = self.waiting.remove(&port) {
                        self.programs.insert(flow, Program::Receive(behind));
                    }
                    self.ready.push(flow);
                }
                HostNews::Ready(flow) => self.ready.push(flow),
                HostNews::Failed(flow) if self.programs.contains_key(&flow) => {
                    let said = "its connection was refused, reset or timed out".to_owned();
                    return Err(LabError::Failed { program: format!("our host's {flow:?}"), said });
                }
                HostNews::Failed(_) | HostNews::Other => {}
            }
        }
        let mut moved = false;
        for flow in std::mem::take(&mut self.ready) {
            let Some(program) = self.programs.get_mut(&flow) else { continue };
            moved = true;
            match program {
                Program::Receive(behind) => drain(&mut self.host, flow, behind, &mut self.buf, now),
                Program::Send(sending) => fill(&mut self.host, flow, sending, now),
            }
        }
        Ok(moved)
    }
}

fn drain(host: &mut impl Streams, flow: FlowId, behind: &mut Behind, buf: &mut [u8], now: Instant) {
    loop {
        match host.read(now, flow, buf) {
            ReadOutcome::Data(n) => behind.note(now, &buf[..n]),
            ReadOutcome::End => {
                behind.end();
                return host.shutdown(now, flow);
            }
            ReadOutcome::Blocked | ReadOutcome::Reset => return,
        }
    }
}

fn fill(host: &mut impl Streams, flow: FlowId, sending: &mut Sending, now: Instant) {
    let Sending { body, piece, at, over } = sending;
    while !*over {
        if *at == piece.len() {
            *at = 0;
            // Sleeps if the piece is not ready: otherwise the link's real-time thread would keep the generating thread off the processor.
            let Some(next) = body.wait() else {
                *over = true;
                return host.shutdown(now, flow);
            };
            *piece = next;
        }
        *at += host.write(now, flow, &piece[*at..]);
        if *at < piece.len() {
            return;
        }
    }
}
