//! The two ends of an exchange at the stream seam: what a client program and a server program do with their sockets.
//!
//! A client sends a request of [`REQUEST_LEN`] bytes that says what it wants and which content belongs to it. A server
//! serves any request at any address it listens on.

use crate::content::Content;
use crate::traffic::{ECHO_GRACE, Flow, FlowEnd, FlowIndex, Question, Work};
use std::collections::VecDeque;
use wavelane_base::{FlowId, Instant, ReadOutcome, Seed, Span, Streams};

/// Bytes of a request.
pub const REQUEST_LEN: usize = 32;
/// Bytes of a server's receipt for an upload: how many bytes it read.
const RECEIPT_LEN: usize = 8;
const MAGIC: [u8; 4] = *b"WLsm";
/// Bytes moved per call at the stream seam.
pub(crate) const PIECE: usize = 16 * 1024;

/// What a program does at the seam.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Client,
    Server,
}

/// One program's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: FlowId,
    pub(crate) role: Role,
    /// The exchange; a server learns it from the request.
    pub(crate) flow: Option<FlowIndex>,
    /// Whether bytes may be written.
    pub(crate) open: bool,
    /// Bytes to send before (request) or after (receipt) the body.
    pending: VecDeque<u8>,
    /// Bytes of the request (server) or receipt (client of an upload) read so far.
    gathered: Vec<u8>,
    body_written: u64,
    body_read: u64,
    ended: bool,
    shut: bool,
}

/// The stream seam at one moment.
pub(crate) struct Seam<'a> {
    /// The run's time.
    pub(crate) now: Instant,
    /// The node's time.
    pub(crate) local: Instant,
    /// The gateway.
    pub(crate) streams: &'a mut dyn Streams,
    /// All exchanges of the run.
    pub(crate) flows: &'a mut [Flow],
    /// Room for what is moved per call.
    pub(crate) piece: &'a mut [u8; PIECE],
}

impl Connection {
    /// The client's end of `flow`.
    pub(crate) fn client(id: FlowId, flow: FlowIndex, request: [u8; REQUEST_LEN]) -> Self {
        let pending = request.into_iter().collect();
        Self { flow: Some(flow), open: false, pending, ..Self::server(id, Role::Client) }
    }
    /// A server's end; it must still read the request.
    pub(crate) fn accepted(id: FlowId) -> Self {
        Self::server(id, Role::Server)
    }
    fn server(id: FlowId, role: Role) -> Self {
        Self {
            id,
            role,
            flow: None,
            open: true,
            pending: VecDeque::new(),
            gathered: Vec::new(),
            body_written: 0,
            body_read: 0,
            ended: false,
            shut: false,
        }
    }

    /// Reads and writes whatever is possible now. Returns whether anything moved.
    pub(crate) fn pump(&mut self, seam: &mut Seam<'_>) -> bool {
        let read = self.pump_reads(seam);
        let written = self.open && self.pump_writes(seam);
        read || written
    }

    fn pump_reads(&mut self, seam: &mut Seam<'_>) -> bool {
        let mut moved = false;
        while !self.ended {
            if self.is_body_reader(seam) && self.flow.is_some_and(|f| !seam.flows[f.0].reads(seam.now)) {
                break;
            }
            match seam.streams.read(seam.local, self.id, seam.piece) {
                ReadOutcome::Data(n) => self.take(seam, n),
                ReadOutcome::Blocked => break,
                ReadOutcome::End => {
                    self.ended = true;
                    self.take_end(seam);
                }
                ReadOutcome::Reset => {
                    self.ended = true;
                    self.shut = true;
                    self.note_reset(seam.flows, seam.now, FlowEnd::Reset(None));
                }
            }
            moved = true;
        }
        moved
    }

    /// The far side took it.
    pub(crate) fn note_accepted(&mut self, flows: &mut [Flow], now: Instant) {
        self.open = true;
        if let Some(flow) = self.flow {
            flows[flow.0].log.accepted = Some(now);
        }
    }

    /// Whether it is the server's side of exchange `flow`.
    pub(crate) fn serves(&self, flow: FlowIndex) -> bool {
        self.role == Role::Server && self.flow == Some(flow)
    }

    /// The flow was abandoned by another part.
    pub(crate) fn note_reset(&self, flows: &mut [Flow], now: Instant, how: FlowEnd) {
        let Some(flow) = self.flow.map(|f| &mut flows[f.0]) else { return };
        match self.role {
            Role::Client => flow.finish(now, how),
            Role::Server => flow.log.server_resets += 1,
        }
    }

    fn is_body_reader(&self, seam: &Seam<'_>) -> bool {
        match self.flow.map(|f| seam.flows[f.0].spec.work) {
            Some(Work::Upload(_)) => self.role == Role::Server,
            Some(_) => self.role == Role::Client,
            None => false,
        }
    }

    /// `len` bytes came.
    fn take(&mut self, seam: &mut Seam<'_>, len: usize) {
        let mut bytes = &seam.piece[..len];
        if self.role == Role::Server && self.flow.is_none() {
            let need = REQUEST_LEN - self.gathered.len();
            let (head, rest) = bytes.split_at(need.min(bytes.len()));
            self.gathered.extend_from_slice(head);
            bytes = rest;
            if self.gathered.len() < REQUEST_LEN {
                return;
            }
            self.flow = parse_request(&self.gathered, seam.flows);
            assert!(
                self.flow.is_some(),
                "a server read a request that no client of this run sent: {:?}",
                self.gathered
            );
        }
        let Some(flow) = self.flow.map(|f| &mut seam.flows[f.0]) else { return };
        if bytes.is_empty() {
            return;
        }
        match (self.role, flow.spec.work) {
            (Role::Client, Work::Download(_)) | (Role::Server, Work::Upload(_)) => {
                flow.note_body(seam.now, bytes);
            }
            (Role::Client, Work::Echo { size, .. }) => {
                flow.note_body(seam.now, bytes);
                let answered = (flow.log.octets / size.max(1)) as usize;
                let first = (self.body_read / size.max(1)) as usize;
                let answered = answered.min(flow.log.questions.len());
                for question in &mut flow.log.questions[first.min(answered)..answered] {
                    question.answered.get_or_insert(seam.now);
                }
            }
            (Role::Server, Work::Echo { .. }) => self.pending.extend(bytes),
            (Role::Client, Work::Upload(_)) => self.gathered.extend_from_slice(&bytes[..bytes.len().min(RECEIPT_LEN)]),
            (Role::Server, Work::Download(_)) | (_, Work::Datagrams(_) | Work::Web(_)) => {
                flow.log.damage = flow.log.damage.or(Some(0));
            }
        }
        self.body_read += bytes.len() as u64;
    }

    /// The other direction ended in an orderly way.
    fn take_end(&mut self, seam: &mut Seam<'_>) {
        let Some(flow) = self.flow.map(|f| &mut seam.flows[f.0]) else { return };
        match (self.role, flow.spec.work) {
            (Role::Client, Work::Upload(size)) => {
                let receipt = size.is_some_and(|size| self.gathered == size.to_be_bytes() && flow.log.octets == size);
                flow.finish(seam.now, if receipt { FlowEnd::Complete } else { FlowEnd::Truncated });
            }
            (Role::Client, _) => {
                let whole = flow.body_size() == Some(flow.log.octets);
                flow.finish(seam.now, if whole { FlowEnd::Complete } else { FlowEnd::Truncated });
            }
            (Role::Server, Work::Upload(_)) => self.pending.extend(flow.log.octets.to_be_bytes()),
            (Role::Server, _) => {}
        }
    }

    fn pump_writes(&mut self, seam: &mut Seam<'_>) -> bool {
        let mut moved = false;
        while !self.pending.is_empty() {
            let bytes = self.pending.make_contiguous();
            let n = seam.streams.write(seam.local, self.id, bytes);
            self.pending.drain(..n);
            moved |= n > 0;
            if n == 0 {
                return moved;
            }
        }
        moved |= self.write_body(seam);
        if !self.shut && self.pending.is_empty() && self.has_said_everything(seam) {
            self.shut = true;
            seam.streams.shutdown(seam.local, self.id);
            moved = true;
        }
        moved
    }

    fn write_body(&mut self, seam: &mut Seam<'_>) -> bool {
        let mut moved = false;
        while let Some(index) = self.flow.filter(|_| self.is_body_writer(seam)) {
            let flow = &mut seam.flows[index.0];
            let n = flow.body_allowed(seam.now).saturating_sub(self.body_written).min(PIECE as u64) as usize;
            if n == 0 {
                break;
            }
            flow.content.fill(self.body_written, &mut seam.piece[..n]);
            let taken = seam.streams.write(seam.local, self.id, &seam.piece[..n]);
            self.body_written += taken as u64;
            flow.note_written(seam.now, self.body_written);
            moved |= taken > 0;
            if taken < n {
                break;
            }
        }
        moved
    }

    fn is_body_writer(&self, seam: &Seam<'_>) -> bool {
        match self.flow.map(|f| seam.flows[f.0].spec.work) {
            Some(Work::Download(_)) => self.role == Role::Server,
            Some(_) => self.role == Role::Client,
            None => false,
        }
    }

    /// Whether this side's direction is over once what is pending was sent.
    fn has_said_everything(&self, seam: &Seam<'_>) -> bool {
        let Some(flow) = self.flow.map(|f| &seam.flows[f.0]) else { return self.ended };
        match (self.role, flow.spec.work) {
            (Role::Client, Work::Download(_)) => self.ended,
            (Role::Server, Work::Download(size)) => Some(self.body_written) == size,
            (Role::Client, Work::Upload(size)) => Some(self.body_written) == size,
            (Role::Server, Work::Upload(_) | Work::Echo { .. }) | (_, Work::Datagrams(_) | Work::Web(_)) => self.ended,
            (Role::Client, Work::Echo { .. }) => {
                let all_answered = flow.log.questions.last().is_none_or(|q| q.answered.is_some());
                let all_asked = Some(self.body_written) == flow.body_size();
                let waited = flow.log.questions_end.is_some_and(|end| seam.now >= end + ECHO_GRACE);
                all_asked && (all_answered || waited)
            }
        }
    }
}

/// Asks the next questions that are due; returns when to look again.
pub(crate) fn ask(flow: &mut Flow, now: Instant, during_over: bool) -> Option<Instant> {
    let Work::Echo { every, random, .. } = flow.spec.work else { return None };
    let accepted = flow.log.accepted?;
    if let Some(end) = flow.log.questions_end {
        return Some(end + ECHO_GRACE).filter(|at| *at > now);
    }
    if during_over || flow.spec.stop.is_some_and(|stop| now >= stop) {
        flow.log.questions_end = Some(now);
        return Some(now + ECHO_GRACE);
    }
    if random {
        return ask_at_random(flow, now, every);
    }
    let due = |n: usize| accepted + every.times(n as u64);
    while due(flow.log.questions.len()) <= now {
        let due = due(flow.log.questions.len());
        flow.log.questions.push(Question { due, answered: None });
    }
    Some(due(flow.log.questions.len()))
}

/// The same with exponential times between questions.
fn ask_at_random(flow: &mut Flow, now: Instant, mean: Span) -> Option<Instant> {
    let accepted = flow.log.accepted?;
    let dice = || Seed(flow.content.0).chance("questions");
    let (mut dice, mut due) = flow.random.take().unwrap_or_else(|| (dice(), accepted));
    while due <= now {
        flow.log.questions.push(Question { due, answered: None });
        due += dice.exponential(mean);
    }
    flow.random = Some((dice, due));
    Some(due)
}

/// The request for exchange number `index`.
pub(crate) fn request(index: FlowIndex, content: Content) -> [u8; REQUEST_LEN] {
    let mut out = [0; REQUEST_LEN];
    out[..4].copy_from_slice(&MAGIC);
    out[8..16].copy_from_slice(&(index.0 as u64).to_be_bytes());
    out[16..24].copy_from_slice(&content.0.to_be_bytes());
    out
}

/// Which exchange a request is about; `None` if it is not exactly what its client sent.
fn parse_request(bytes: &[u8], flows: &[Flow]) -> Option<FlowIndex> {
    let index = usize::try_from(u64::from_be_bytes(*bytes.get(8..16)?.first_chunk()?)).ok()?;
    let flow = flows.get(index)?;
    (bytes == request(FlowIndex(index), flow.content)).then_some(FlowIndex(index))
}
