//! What one station holds: its queue, its place in the exchange of frames, its counters.

use super::PhyRate;
use super::stage::Stage;
use std::collections::VecDeque;
use std::sync::Arc;
use wavelane_base::{Ecn, FrameMeta, Instant, Span};
use wavelane_queue::Aql;

/// One station.
#[derive(Debug)]
pub(super) struct Station {
    /// The number of the next frame that joins a queue; 0 is never given.
    pub(super) next_number: u64,
    /// The last number received from each contender, so that repetitions are known.
    pub(super) last_from: Vec<u64>,
    pub(super) waiting: Waiting,
    pub(super) plan: Plan,
    /// The frame it sends, or sent last.
    pub(super) air: OnAir,
    /// The rate of that frame.
    pub(super) air_rate: Option<PhyRate>,
    /// The category whose exchange is under way, or was last; 0 without EDCA.
    pub(super) turn: usize,
    /// The rate that rate control has chosen for the exchange under way.
    pub(super) chosen: Option<PhyRate>,
    /// How many frames of the queue the exchange under way carries; 0 without aggregation.
    pub(super) riding: u8,
    /// Whether the data frame of the exchange under way is coded.
    pub(super) coded: bool,
    /// When the exchange under way began.
    pub(super) began: Instant,
    /// When the TXOP ends that `turn` has gained.
    pub(super) txop_end: Instant,
    /// Its class, if others perceive the same.
    pub(super) class: Option<usize>,
    /// Whether it shares its class's ear at the moment.
    pub(super) joined: bool,
    /// Airtime queue limits of its rings, one count for each receiver and category.
    pub(super) aql: Option<Box<Aql>>,
    pub(super) tally: Tally,
}

/// What contends for the medium: a station, or with EDCA one of its four categories.
#[derive(Debug)]
pub(super) struct Contender {
    /// What waits; behind a managed queue, its ring, or what the transmission under way or the next one carries.
    pub(super) queue: VecDeque<Queued>,
    /// Most frames in `queue` without a managed one.
    pub(super) limit: usize,
    /// A managed queue before it.
    pub(super) stage: Option<Box<Stage>>,
    /// Acknowledged frames that their receivers hold back because one before them is missing.
    pub(super) held: VecDeque<Queued>,
    /// CWmin and CWmax.
    pub(super) windows: (u32, u32),
    pub(super) window: u32,
    pub(super) failures: Failures,
    /// Failures in a row, of whichever frame.
    pub(super) in_a_row: u32,
    /// The back-off pending; kept on the class's wheel instead while the station shares its class's ear.
    pub(super) counter: Option<u32>,
    /// No slot is counted before this, whatever the medium does.
    pub(super) hold: Instant,
    /// Which of the cell's AIFS it waits for.
    pub(super) level: usize,
    /// How long it may go on sending; zero is one exchange.
    pub(super) txop: Span,
    pub(super) tally: CategoryTally,
}

/// A frame in the queue.
#[derive(Debug)]
pub(super) struct Queued {
    /// The receiver; the sender itself stands for everybody.
    pub(super) to: usize,
    pub(super) number: u64,
    pub(super) ecn: Ecn,
    /// The hash of its flow, for managed queues.
    pub(super) flow: u64,
    /// Hashes of its source and destination, and its code point, for those that look at them.
    pub(super) hosts: (u64, u64),
    pub(super) dscp: u8,
    pub(super) no_ack: bool,
    /// It may follow the frame before it within one TXOP.
    pub(super) txop: bool,
    /// It has been sent before.
    pub(super) tried: bool,
    /// It is part of the transmission under way.
    pub(super) riding: bool,
    /// Nothing has spoilt it in the transmission under way.
    pub(super) intact: bool,
    /// Its receiver has it.
    pub(super) arrived: bool,
    /// Its receiver has handed it out.
    pub(super) handed: bool,
    /// Transmissions of it that failed; only with aggregation.
    pub(super) tries: u32,
    /// The airtime that it has pending under airtime queue limits.
    pub(super) pledged: Span,
    /// Its receivers' copies are the same memory.
    pub(super) bytes: Arc<Vec<u8>>,
}

/// The answer a station waits for.
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
    /// An ACK or block acknowledgement is due, which announces what is left of the TXOP.
    Ack {
        to: usize,
        octets: usize,
        after: Span,
    },
    /// A CTS is due, which announces what is left of the exchange.
    Cts {
        to: usize,
        after: Span,
    },
    /// The data frame follows the CTS, or the exchange before it in a TXOP.
    Data,
    /// The answer should have begun.
    Timeout,
}

/// A frame on the air.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnAir {
    pub(super) kind: Kind,
    /// The receiver; the sender itself stands for everybody.
    pub(super) to: usize,
    pub(super) octets: usize,
    /// How many frames it carries; more than one are an aggregate.
    pub(super) frames: u8,
    /// Nobody is to answer it.
    pub(super) no_ack: bool,
    /// It is lengthened by forward error correction.
    pub(super) coded: bool,
    /// It is a repetition.
    pub(super) retry: bool,
    /// Its rate, in units of 500 kbit/s.
    pub(super) half_mbps: u8,
    /// When its own first byte is sent, after preamble and header.
    pub(super) body: Instant,
    /// When it ends.
    pub(super) end: Instant,
    /// How long the exchange goes on after its end.
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

/// What a station has done since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Data frames sent, repetitions counted.
    pub data_sent: u64,
    /// RTS frames sent.
    pub rts_sent: u64,
    /// ACK and CTS frames sent.
    pub answers_sent: u64,
    /// Transmissions of data whose ACK, or of an aggregate block acknowledgement, did not come.
    pub ack_missing: u64,
    /// RTS frames whose CTS did not come.
    pub cts_missing: u64,
    /// Frames acknowledged.
    pub acknowledged: u64,
    /// Frames sent once without acknowledgement: by request, and broadcasts.
    pub unacknowledged: u64,
    /// Times that one category of the station had to give way to a higher one at the same instant.
    pub internal_collisions: u64,
    /// Frames given up after their last try.
    pub given_up: u64,
    /// Frames that found the queue full, or were too long.
    pub refused: u64,
    /// Frames that a managed queue dropped to hold the delay down.
    pub dropped_delay: u64,
    /// Frames received and handed out, repetitions not counted.
    pub received: u64,
    /// Bytes of these, without MAC header.
    pub received_octets: u64,
    /// Repetitions received of frames already handed out.
    pub duplicates: u64,
    /// Data frames for it without coding that bit errors or noise alone could spoil: heard, and met by no other frame.
    pub uncoded_heard: u64,
    /// Those that they spoilt.
    pub uncoded_lost: u64,
    /// The same of frames with forward error correction.
    pub coded_heard: u64,
    /// Those that bit errors spoilt in spite of it: its residual loss.
    pub coded_lost: u64,
}

/// What has become of the frames of one category of one station since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CategoryTally {
    /// Data frames sent, repetitions counted.
    pub data_sent: u64,
    /// Data frames whose ACK did not come.
    pub ack_missing: u64,
    /// Times that it had to give way to a higher category of its station.
    pub gave_way: u64,
    /// Frames given up after their last try.
    pub given_up: u64,
    /// Frames that found the queue full, or were too long.
    pub refused: u64,
    /// Frames that a managed queue dropped to hold the delay down.
    pub dropped_delay: u64,
    /// Frames that their receivers handed out, repetitions not counted.
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
    /// The number of the frame that joins a queue.
    pub(super) fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }
    /// Whether nothing sets it apart from a bystander.
    pub(super) fn is_bystander(&self) -> bool {
        self.waiting == Waiting::Nothing && self.plan == Plan::Nothing
    }
}

impl Tally {
    /// A data frame that no other frame spoilt has ended at its receiver.
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
    pub(super) fn new(to: usize, meta: &FrameMeta, (no_ack, txop): (bool, bool), bytes: Arc<Vec<u8>>) -> Self {
        let FrameMeta { ecn, flow, hosts, dscp, .. } = *meta;
        Self {
            to,
            number: 0,
            ecn,
            flow,
            hosts,
            dscp,
            no_ack,
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
    /// The frames of the transmission under way.
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
