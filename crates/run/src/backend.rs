//! The contract between a scenario and the places that can run it, and the raw results every place hands back.
//!
//! Both backends return the same [`StackRaw`], and [`crate::figures`] alone turns it into figures, so a number means
//! the same whether virtual time or a real kernel produced it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use wavelane_base::{Seed, Span};
use wavelane_scenario::{Scenario, Stack};

/// Bin width to which backends thin out [`FlowRaw::arrivals`].
pub const ARRIVAL_BIN: Span = Span::from_millis(1);

/// Bytes of a body that share a time stamp.
pub const AGE_OCTETS: u64 = 1024;
/// Most ages noted of one flow: 4 GiB of its bytes.
pub const AGES_MAX: usize = 1 << 22;

/// What a backend does with one clause of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Treatment {
    /// Exactly as written.
    Imposed,
    /// Nearly as written; says how it differs.
    Approximated(String),
    /// Left out; says why. The run goes on without it.
    Omitted(String),
    /// Cannot be honoured and cannot be left out; says why. The run does not start.
    Refused(String),
}

/// One clause of a scenario and what the backend does with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clause {
    /// Where it stands in the file, such as `channels.air.forward.loss` or `flows.page`.
    pub clause: String,
    /// What becomes of it.
    pub treatment: Treatment,
}

/// A backend's reading of a scenario, before anything runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Review {
    /// Clauses other than stacks. A clause not named is imposed.
    pub clauses: Vec<Clause>,
    /// The scenario's stacks in its order. A stack not named is imposed.
    pub stacks: Vec<(Stack, Treatment)>,
}

impl Review {
    /// Notes what becomes of a clause.
    pub fn clause(&mut self, clause: impl Into<String>, treatment: Treatment) {
        self.clauses.push(Clause { clause: clause.into(), treatment });
    }
    /// Notes what becomes of a stack.
    pub fn stack(&mut self, stack: Stack, treatment: Treatment) {
        self.stacks.push((stack, treatment));
    }
    /// What becomes of `stack`.
    pub fn treatment_of(&self, stack: Stack) -> Treatment {
        self.stacks.iter().find(|(s, _)| *s == stack).map_or(Treatment::Imposed, |(_, t)| t.clone())
    }
    /// The first clause (not stack) that stops the run, with its reason.
    pub fn refusal(&self) -> Option<(&str, &str)> {
        self.clauses.iter().find_map(|c| match &c.treatment {
            Treatment::Refused(why) => Some((c.clause.as_str(), why.as_str())),
            _ => None,
        })
    }
}

/// How far a run has come, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The stack being run.
    pub stack: Stack,
    /// Its seed.
    pub seed: Seed,
    /// Time passed inside the run.
    pub at: Span,
    /// The run's duration; it may end earlier.
    pub of: Span,
    /// What it is doing, such as `page 12.3 MB of 20 MB`.
    pub note: String,
}

/// What is kept of packets that pass the channels between gateways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CaptureExtent {
    /// Nothing in the simulator, whose runs can be repeated from the seed; headers in the laboratory, whose runs cannot.
    Off,
    /// The headers.
    Headers,
    /// Whole packets, and beside them the keys that open what gateways sealed.
    Whole,
}

/// What a backend is given besides the scenario.
pub struct RunContext<'a> {
    /// The Record's directory, for `pcap/` and `log.txt` companions.
    pub out: &'a Path,
    /// Prefix of this run's files, `STACK` or `STACK-SEED` when the Record holds several seeds.
    pub label: String,
    /// What is captured of the packets that pass the channels between gateways.
    pub captures: CaptureExtent,
    /// Called about every 100 ms of wall-clock time.
    pub progress: &'a mut dyn FnMut(Progress),
    /// Set on Ctrl-C. The backend polls it at least every 100 ms, cleans up and returns [`BackendError::Cancelled`].
    pub cancelled: &'a AtomicBool,
}

impl RunContext<'_> {
    /// Where this run's capture of `node`'s `port` belongs: `pcap/LABEL-NODE-PORT.pcapng`. The folder exists.
    pub fn pcap(&self, node: &str, port: &str) -> PathBuf {
        self.out.join("pcap").join(format!("{}-{node}-{port}.pcapng", self.label))
    }
    /// Where the keys belong that open this run's captures: `pcap/LABEL-keys.txt`.
    pub fn key_log(&self) -> PathBuf {
        self.out.join("pcap").join(format!("{}-keys.txt", self.label))
    }
    /// Whether the user asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// Why a stack could not be run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BackendError {
    /// [`RunContext::cancelled`] was set; everything is cleaned up.
    #[error("cancelled")]
    Cancelled,
    /// This machine lacks something the run needs (a capability, a tool, disk). One line with cause and remedy.
    #[error("{0}")]
    Unable(String),
    /// The run broke. One line with the cause.
    #[error("{0}")]
    Failed(String),
}

/// A place that realises scenarios.
pub trait Backend {
    /// `sim` or `lab`.
    fn name(&self) -> &'static str;
    /// Sorts the scenario's clauses and stacks. Pure: consults the machine only for what is installed.
    fn review(&self, scenario: &Scenario) -> Review;
    /// Runs one stack once, to the end or to the scenario's duration, and leaves nothing behind.
    fn run_stack(
        &mut self,
        scenario: &Scenario,
        stack: Stack,
        seed: Seed,
        context: &mut RunContext<'_>,
    ) -> Result<StackRaw, BackendError>;
}

/// What one run of one stack gave.
#[derive(Clone, PartialEq, Debug)]
pub struct StackRaw {
    /// The stack.
    pub stack: Stack,
    /// Every flow of the scenario, in its order.
    pub flows: Vec<FlowRaw>,
    /// IP bytes offered to the channels between gateways, both directions, before loss.
    pub wire_octets: u64,
    /// The same by channel and direction; empty where they are not counted apart.
    pub ways: Vec<WayRaw>,
    /// FEC, repeats and ARQ bytes of the gateways; `None` where the stack has none to count.
    pub repair_octets: Option<u64>,
    /// Bytes of first transmissions, the base of the repair share.
    pub first_octets: Option<u64>,
    /// Why the run proves nothing (such as the host's scheduler being late), if so.
    pub inconclusive: Option<String>,
    /// Remarks for the log, one line each.
    pub notes: Vec<String>,
    /// What happened in the radio cells, in the scenario's order.
    pub radios: Vec<RadioRaw>,
    /// What the serial lines did, by channel and direction in the scenario's order.
    pub lines: Vec<LineRaw>,
    /// Processor time while the flows ran.
    pub spent: Spent,
    /// What the kernels of the endpoints counted of TCP while the flows ran, in the scenario's order of nodes; empty where
    /// no kernel takes part.
    pub kernels: Vec<KernelTcp>,
    /// What the gateways' packet service sent, all gateways together; `None` where it is not in use.
    pub packets: Option<PacketsRaw>,
    /// Retransmission timeouts of the endpoints' TCP connections that are open at the end; `None` where nobody counts them.
    pub timeouts: Option<u64>,
}

/// What was offered to one direction of a cable between gateways.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WayRaw {
    /// The channel.
    pub channel: String,
    /// `forward` or `reverse`.
    pub way: &'static str,
    /// IP bytes, before loss.
    pub octets: u64,
}

/// What one direction of a serial line did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineRaw {
    /// The channel.
    pub channel: String,
    /// `forward` or `reverse`.
    pub way: &'static str,
    /// What became of its packets.
    pub tally: LineTally,
}

/// What one direction of a serial line did to packets, and the octets that it sent for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LineTally {
    /// Packets handed in, and their octets.
    pub packets: u64,
    /// See `packets`.
    pub packet_octets: u64,
    /// Of these, packets that were not sent: the queue was full, PPP was not up yet, or they were longer than the MTU.
    pub full: u64,
    /// See `full`.
    pub down: u64,
    /// See `full`.
    pub too_long: u64,
    /// Packets sent, and the octets of their frames.
    pub sent: u64,
    /// See `sent`.
    pub sent_octets: u64,
    /// Whole packets at the other end, and frames there that were none.
    pub received: u64,
    /// See `received`.
    pub bad: u64,
    /// Octets that noise changed or took, and octets for which the other end's FIFO had no room.
    pub noise: u64,
    /// See `noise`.
    pub overrun: u64,
}

/// Processor time in seconds, from the run's start to the last flow's end. `None` where it was not measured.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Spent {
    /// User and system time of the gateways' or the peer's processes.
    pub programs_s: Option<f64>,
    /// The whole machine's busy time, interrupts included.
    pub machine_s: Option<f64>,
}

/// What one node's kernel counted of TCP (RFC 4022: tcpOutSegs and tcpRetransSegs).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelTcp {
    /// The node's name.
    pub node: String,
    /// Segments sent, those that hold only retransmissions left out, pure acknowledgements included.
    pub sent: u64,
    /// Segments retransmitted.
    pub repeated: u64,
}

/// What the packet service counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketsRaw {
    /// Packets sent for the first time.
    pub sent: u64,
    /// Retransmissions of packets or of pieces of them.
    pub repeated: u64,
    /// Retransmissions of what had arrived.
    pub spurious: u64,
    /// Transmissions told by an earlier packet's headers.
    pub compressed: u64,
}

/// What the stations of one radio cell did in a run, all together, from its start to its end.
#[derive(Clone, PartialEq, Debug)]
pub struct RadioRaw {
    /// The channel's name.
    pub channel: String,
    /// How long the run was.
    pub span: Span,
    /// Frames of all kinds sent, repetitions counted.
    pub frames: u64,
    /// Data frames among them.
    pub data: u64,
    /// RTS frames among them.
    pub rts: u64,
    /// Data frames whose ACK did not come.
    pub ack_missing: u64,
    /// RTS frames whose CTS did not come.
    pub cts_missing: u64,
    /// Frames given up after their last try.
    pub given_up: u64,
    /// Frames that found a queue full.
    pub queue_full: u64,
    /// Where queues are managed: frames that they dropped to hold the delay down.
    pub dropped_delay: Option<u64>,
    /// With EDCA, what became of the frames of each category, lowest priority first.
    pub categories: Vec<CategoryRaw>,
    /// With bit errors, what they did to data frames that no other frame met.
    pub errors: Option<ErrorsRaw>,
}

/// What became of the frames of one access category in a radio cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CategoryRaw {
    /// Its word in files.
    pub category: &'static str,
    /// Data frames sent, repetitions counted.
    pub data: u64,
    /// Data frames whose ACK did not come.
    pub ack_missing: u64,
    /// Times that it gave way to a higher category of its station.
    pub gave_way: u64,
    /// Frames given up after their last try.
    pub given_up: u64,
    /// Frames that found the queue full.
    pub queue_full: u64,
    /// Where queues are managed: frames that they dropped to hold the delay down.
    pub dropped_delay: Option<u64>,
    /// IP bytes that arrived, each hop counted.
    pub delivered_octets: u64,
}

/// What bit errors did to the data frames of a radio cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ErrorsRaw {
    /// Frames sent without error correction, and those lost.
    pub uncoded: (u64, u64),
    /// Frames sent with it, and those lost in spite of it.
    pub coded: (u64, u64),
}

/// What one flow saw. All times are nanoseconds since the run's start, on one clock.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowRaw {
    /// Its name in the scenario.
    pub flow: String,
    /// Its application's word in the scenario, such as `download`.
    pub app: &'static str,
    /// When the application called connect().
    pub connect_ns: u64,
    /// When the receiver read the first byte of the body (echo: of the first answer).
    pub first_byte_ns: Option<u64>,
    /// When the receiver read the latest byte.
    pub last_byte_ns: Option<u64>,
    /// Whether everything asked for arrived and ended in an orderly way (echo: whether the connection held throughout).
    pub completed: bool,
    /// Whether the receiver's hash matches the sender's; `None` where it was not compared (echo, unfinished).
    pub intact: Option<bool>,
    /// Application bytes read by the receiver.
    pub octets: u64,
    /// (time, bytes) read by the receiver, in order, at most one entry per [`ARRIVAL_BIN`]; their sum is `octets`.
    pub arrivals: Vec<(u64, u64)>,
    /// Echo probes in order of sending, all that were sent; empty for other applications.
    pub probes: Vec<Probe>,
    /// (time of reading, age then) of a download's bytes, one per [`AGE_OCTETS`] of the body, in order; at most
    /// [`AGES_MAX`]. An age runs from the sender's write to the receiver's read. Empty where bytes are not stamped.
    pub ages: Vec<(u64, u64)>,
    /// The exchanges of a fetch, or of the pages of a web flow, in order of connecting, all that were begun; empty for other
    /// applications.
    pub fetches: Vec<Fetch>,
    /// How long the flow was allowed to run: from `connect_ns` to its stop or the run's duration.
    pub given_ns: u64,
}

/// One exchange of a fetch, on a connection of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// The page that it belongs to, from 0; each exchange of a fetch is its own.
    pub page: u32,
    /// When connect() was called, since the run's start.
    pub connect_ns: u64,
    /// From then to the first byte of the body; `None` if none came.
    pub first_byte_ns: Option<u64>,
    /// From then to its last byte; `None` if it did not end within 5 s of the flow's end.
    pub total_ns: Option<u64>,
}

/// One question of an echo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// When it was due (open loop: the schedule's time, not when a blocked socket took it), since the run's start.
    pub sent_ns: u64,
    /// From then to the last byte of the answer; `None` if unanswered 5 s after the end.
    pub rtt_ns: Option<u64>,
}
