//! State of one station: its queue, its state in the frame exchange, its counters.

use super::stage::Stage;
use super::{Handling, PhyRate};
use std::collections::VecDeque;
use std::sync::Arc;
use wavelane_base::{Ecn, FrameMeta, Instant, Span};
use wavelane_queue::Aql;

/// One station.
#[derive(Debug)]
pub(super) struct Station {
    /// The number of the next frame that joins a queue; 0 is never given.
    pub(super) next_number: u64,
    /// The last number received from each contender, to detect duplicates.
    pub(super) last_from: Vec<u64>,
    pub(super) waiting: Waiting,
    pub(super) plan: Plan,
    /// The frame it sends, or sent last.
    pub(super) air: OnAir,
    /// The rate of that frame.
    pub(super) air_rate: Option<PhyRate>,
    /// The category of the current or last exchange; 0 without EDCA.
    pub(super) turn: usize,
    /// The rate that rate control has chosen for the current exchange.
    pub(super) chosen: Option<PhyRate>,
    /// How many frames of the queue the current exchange carries; 0 without aggregation.
    pub(super) riding: u8,
    /// Whether the data frame of the current exchange is coded.
    pub(super) coded: bool,
    /// When the current exchange began.
    pub(super) began: Instant,
    /// End of the TXOP that `turn` has gained.
    pub(super) txop_end: Instant,
    /// Its class, if others share its view of the medium.
    pub(super) class: Option<usize>,
    /// Whether it currently shares its class's ear.
    pub(super) joined: bool,
    /// Airtime queue limits of its rings, one count for each receiver and category.
    pub(super) aql: Option<Box<Aql>>,
    pub(super) tally: Tally,
}

/// What contends for the medium: a station, or with EDCA one of its four categories.
#[derive(Debug)]
pub(super) struct Contender {
    /// Waiting frames; behind a managed queue, its ring, or the frames of the current or next transmission.
    pub(super) queue: VecDeque<Queued>,
    /// Most frames in `queue` without a managed one.
    pub(super) limit: usize,
    /// A managed queue in front of it.
    pub(super) stage: Option<Box<Stage>>,
    /// Acknowledged frames held by their receivers because an earlier one is missing.
    pub(super) held: VecDeque<Queued>,
    /// CWmin and CWmax.
    pub(super) windows: (u32, u32),
    pub(super) window: u32,
    pub(super) failures: Failures,
    /// Consecutive failures, of any frame.
    pub(super) in_a_row: u32,
    /// The pending backoff counter; on the class's wheel instead while the station shares its class's ear.
    pub(super) counter: Option<u32>,
    /// No slot is counted before this, whatever the state of the medium.
    pub(super) hold: Instant,
    /// Index of its AIFS among the cell's.
    pub(super) level: usize,
    /// TXOP limit; zero is one exchange.
    pub(super) txop: Span,
    pub(super) tally: CategoryTally,
}

/// A frame in the queue.
#[derive(Debug)]
pub(super) struct Queued {
    /// The receiver; the sender itself means broadcast.
    pub(super) to: usize,
    pub(super) number: u64,
    pub(super) ecn: Ecn,
    /// The hash of its flow, for managed queues.
    pub(super) flow: u64,
    /// Hashes of its source and destination, and its code point, for disciplines that use them.
    pub(super) hosts: (u64, u64),
    pub(super) dscp: u8,
    pub(super) no_ack: bool,
    /// Where it gains the medium it is acknowledged after all.
    pub(super) guarded: bool,
    /// It may follow the frame before it within one TXOP.
    pub(super) txop: bool,
    /// It has been sent before.
    pub(super) tried: bool,
    /// It is part of the current transmission.
    pub(super) riding: bool,
    /// It is intact in the current transmission.
    pub(super) intact: bool,
    /// Its receiver has it.
    pub(super) arrived: bool,
    /// Its receiver has delivered it.
    pub(super) handed: bool,
    /// Its failed transmissions; only with aggregation.
    pub(super) tries: u32,
    /// Its pending airtime under airtime queue limits.
    pub(super) pledged: Span,
    /// Shared with its receivers' copies.
    pub(super) bytes: Arc<Vec<u8>>,
}

/// The response a station waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waiting {
    Nothing,
    Cts,
    Ack,
}

/// What a station's deadline is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plan {
    Nothing,
    /// The frame on the air ends.
    End,
    /// An ACK or block acknowledgement is due, whose Duration is the rest of the TXOP.
    Ack {
        to: usize,
        octets: usize,
        after: Span,
    },
    /// A CTS is due, whose Duration is the rest of the exchange.
    Cts {
        to: usize,
        after: Span,
    },
    /// The data frame is due after a CTS, or after the previous exchange of a TXOP.
    Data,
    /// The response timeout.
    Timeout,
}

/// A frame on the air.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnAir {
    pub(super) kind: Kind,
    /// The receiver; the sender itself means broadcast.
    pub(super) to: usize,
    pub(super) octets: usize,
    /// How many frames it carries; more than one means an aggregate.
    pub(super) frames: u8,
    /// It is not acknowledged.
    pub(super) no_ack: bool,
    /// It is lengthened by forward error correction.
    pub(super) coded: bool,
    /// It is a retry.
    pub(super) retry: bool,
    /// Its rate, in units of 500 kbit/s.
    pub(super) half_mbps: u8,
    /// When its first byte after preamble and header is sent.
    pub(super) body: Instant,
    /// When it ends.
    pub(super) end: Instant,
    /// Duration of the exchange after its end.
    pub(super) after: Span,
}

/// The four kinds of frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Rts,
    Cts,
    Data,
    Ack,
}

/// Failures of the frame in service.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Failures {
    pub(super) short: u32,
    pub(super) long: u32,
}

/// Counters of a station since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Data frames sent, including retries.
    pub data_sent: u64,
    /// RTS frames sent.
    pub rts_sent: u64,
    /// ACK and CTS frames sent.
    pub answers_sent: u64,
    /// Data transmissions without the expected ACK or block acknowledgement.
    pub ack_missing: u64,
    /// RTS frames without a CTS.
    pub cts_missing: u64,
    /// Frames acknowledged.
    pub acknowledged: u64,
    /// Frames sent once without acknowledgement: by request, and broadcasts.
    pub unacknowledged: u64,
    /// Internal collisions: one category of the station lost to a higher one at the same instant.
    pub internal_collisions: u64,
    /// Frames dropped after their last retry.
    pub given_up: u64,
    /// Frames dropped because the queue was full, or that were too long.
    pub refused: u64,
    /// Frames that a managed queue dropped to control the delay.
    pub dropped_delay: u64,
    /// Frames received and delivered, without duplicates.
    pub received: u64,
    /// Bytes of these, without MAC header.
    pub received_octets: u64,
    /// Duplicates received of frames already delivered.
    pub duplicates: u64,
    /// Uncoded data frames for it, received without collision, that only bit errors or noise could destroy.
    pub uncoded_heard: u64,
    /// Those that they destroyed.
    pub uncoded_lost: u64,
    /// The same for frames with forward error correction.
    pub coded_heard: u64,
    /// Those that bit errors destroyed despite it: its residual loss.
    pub coded_lost: u64,
}

/// Counters of one category of one station since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CategoryTally {
    /// Data frames sent, including retries.
    pub data_sent: u64,
    /// Data frames without an ACK.
    pub ack_missing: u64,
    /// Internal collisions lost to a higher category of its station.
    pub gave_way: u64,
    /// Frames dropped after their last retry.
    pub given_up: u64,
    /// Frames dropped because the queue was full, or that were too long.
    pub refused: u64,
    /// Frames that a managed queue dropped to control the delay.
    pub dropped_delay: u64,
    /// Frames that their receivers delivered, without duplicates.
    pub delivered: u64,
    /// Bytes of these, without MAC header.
    pub delivered_octets: u64,
}

impl Station {
    pub(super) fn new(contenders: usize, class: Option<usize>) -> Self {
        Self {
            next_number: 1,
            last_from: vec![0; contenders],
            waiting: Waiting::Nothing,
            plan: Plan::Nothing,
            air: OnAir::NOTHING,
            air_rate: None,
            turn: 0,
            chosen: None,
            riding: 0,
            coded: false,
            began: Instant::ZERO,
            txop_end: Instant::ZERO,
            class,
            joined: class.is_some(),
            aql: None,
            tally: Tally::default(),
        }
    }
    /// The number for the next frame that joins a queue.
    pub(super) fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }
    /// Whether it has no part in an exchange.
    pub(super) fn is_bystander(&self) -> bool {
        self.waiting == Waiting::Nothing && self.plan == Plan::Nothing
    }
}

impl Tally {
    /// A data frame without collision has ended at its receiver.
    pub(super) fn note_errors(&mut self, coded: bool, spared: bool) {
        let (heard, lost) = if coded {
            (&mut self.coded_heard, &mut self.coded_lost)
        } else {
            (&mut self.uncoded_heard, &mut self.uncoded_lost)
        };
        *heard += 1;
        *lost += u64::from(!spared);
    }
}

impl Queued {
    /// A frame for `to` that has not been sent.
    pub(super) fn new(to: usize, meta: &FrameMeta, handling: Handling, bytes: Arc<Vec<u8>>) -> Self {
        let FrameMeta { ecn, flow, hosts, dscp, .. } = *meta;
        let Handling { no_ack, guarded, txop, .. } = handling;
        Self {
            to,
            number: 0,
            ecn,
            flow,
            hosts,
            dscp,
            no_ack,
            guarded,
            txop,
            tried: false,
            riding: false,
            intact: false,
            arrived: false,
            handed: false,
            tries: 0,
            pledged: Span::ZERO,
            bytes,
        }
    }
}

impl Contender {
    /// Frames that wait or are in service.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len() + self.stage.as_ref().map_or(0, |stage| stage.len())
    }
    /// The frames of the current transmission.
    pub(super) fn riders(&self) -> impl Iterator<Item = &Queued> {
        self.queue.iter().filter(|frame| frame.riding)
    }
    pub(super) fn new(limit: usize, windows: (u32, u32), level: usize, txop: Span) -> Self {
        Self {
            queue: VecDeque::with_capacity(limit),
            limit,
            stage: None,
            held: VecDeque::new(),
            windows,
            window: windows.0,
            failures: Failures::default(),
            in_a_row: 0,
            counter: None,
            hold: Instant::ZERO,
            level,
            txop,
            tally: CategoryTally::default(),
        }
    }
}

impl OnAir {
    pub(super) const NOTHING: Self = Self {
        kind: Kind::Ack,
        to: 0,
        octets: 0,
        frames: 1,
        no_ack: true,
        coded: false,
        retry: false,
        half_mbps: 0,
        body: Instant::ZERO,
        end: Instant::ZERO,
        after: Span::ZERO,
    };
}
