//! Our TCP as an end host that the laboratory can put on a link: the lab itself knows no protocol of ours.

use std::net::SocketAddr;
use wavelane_base::{FlowId, FrameMeta, Instant, Machine, PortId, ReadOutcome, Seed, Streams, Transmit, Wakeup};
use wavelane_lab::duel::{EndHost, HostNews};
use wavelane_tcp::{Config, Host, HostEvent, TcpEvent};

/// One host of ours.
pub(crate) struct Ours(pub(crate) Host);

impl Ours {
    /// A host whose initial sequence numbers follow from the seed and `name`.
    pub(crate) fn new(config: Config, seed: Seed, name: &str) -> Self {
        Self(Host::new(config, seed.entropy(name)))
    }
}

impl EndHost for Ours {
    fn listen(&mut self, address: SocketAddr) {
        self.0.listen(address);
    }
    fn connect(&mut self, now: Instant, local: SocketAddr, remote: SocketAddr) -> Result<FlowId, String> {
        self.0.connect(now, local, remote).map_err(|error| error.to_string())
    }
    fn news(event: HostEvent) -> HostNews {
        match event {
            HostEvent::Accepted { flow, local, .. } => HostNews::Accepted(flow, local.port()),
            HostEvent::Connection(flow, event) => match event {
                TcpEvent::Connected | TcpEvent::Readable | TcpEvent::Writable => HostNews::Ready(flow),
                TcpEvent::Refused | TcpEvent::Reset | TcpEvent::TimedOut => HostNews::Failed(flow),
                TcpEvent::Closed => HostNews::Other,
            },
        }
    }
}

impl Machine for Ours {
    type Event = HostEvent;

    fn handle_frame(&mut self, now: Instant, port: PortId, frame: &mut [u8], meta: FrameMeta) {
        self.0.handle_frame(now, port, frame, meta);
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant, port: PortId, buf: &mut [u8], max_segments: usize) -> Option<Transmit> {
        self.0.poll_transmit(now, port, buf, max_segments)
    }
    fn poll_timeout(&self) -> Option<Wakeup> {
        self.0.poll_timeout()
    }
    fn poll_event(&mut self) -> Option<HostEvent> {
        self.0.poll_event()
    }
}

impl Streams for Ours {
    fn write(&mut self, now: Instant, flow: FlowId, data: &[u8]) -> usize {
        self.0.write(now, flow, data)
    }
    fn read(&mut self, now: Instant, flow: FlowId, buf: &mut [u8]) -> ReadOutcome {
        self.0.read(now, flow, buf)
    }
    fn shutdown(&mut self, now: Instant, flow: FlowId) {
        self.0.shutdown(now, flow);
    }
    fn reset(&mut self, now: Instant, flow: FlowId) {
        self.0.reset(now, flow);
    }
}
