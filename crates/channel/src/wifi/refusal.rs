//! Why a cell configuration is rejected, and what to do about it.

use super::aggregate::{AGGREGATE_FRAMES, AGGREGATE_OCTETS_MIN, Aggregate};
use super::capture::{SNAPLEN_MAX, SNAPLEN_MIN};
use super::config::STATIONS_BOUND;
use super::edca::{Category, TXOP_MAX};
use super::fec::FEEDBACK_MAX;
use super::queues::{AIRTIME_STATIONS, AQL_MAX, QUEUE_BOUND};
use super::{CW_MAX, Phy, RateError, STREAMS_MAX};
use crate::loss::{DWELL_MAX, DWELL_MIN};
use wavelane_base::{Ratio, Span};

/// Why a cell is impossible.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// A rate that the PHY does not have.
    #[error("{what} rate: {why}")]
    Rate {
        /// Which rate.
        what: &'static str,
        /// Why not.
        why: RateError,
    },
    /// Too few or too many stations.
    #[error("a cell of {0} stations is outside 2 to {STATIONS_BOUND}: add stations, or split the cell")]
    Stations(usize),
    /// A station that does not exist.
    #[error("station {station} does not exist: the cell has stations 0 to {}, choose one of them", .stations - 1)]
    Unknown {
        /// The number given.
        station: usize,
        /// How many there are.
        stations: usize,
    },
    /// A reach from a station to itself.
    #[error("station {0} is given a reach to itself: a station never hears its own frames, so leave this pair out")]
    Itself(usize),
    /// A frame that can be decoded without being sensed or without interfering.
    #[error("station {to} can decode station {from} without sensing or without interference: set both as well")]
    DecodeAlone {
        /// The sender.
        from: usize,
        /// The listener.
        to: usize,
    },
    /// A queue that holds nothing, or too much.
    #[error("a queue of {0} frames is outside 1 to {QUEUE_BOUND}: choose one inside")]
    Queue(usize),
    /// A managed queue with invalid parameters.
    #[error("queue of station {station}: {why}")]
    ManagedQueue {
        /// Whose.
        station: usize,
        /// Why not.
        why: crate::cable::ConfigError,
    },
    /// Drop-tail by bytes.
    #[error("queue of station {0}: drop-tail of a station counts frames: give packets, or name another kind of queue")]
    FramesOnly(usize),
    /// Airtime fairness in an unsupported configuration.
    #[error(
        "queue of station {0} with airtime fairness: that is a queue for each receiver, of fq-codel or codel, in cells of \
         at most {AIRTIME_STATIONS} stations: choose such a queue, or split the cell"
    )]
    Airtime(usize),
    /// A ring behind drop-tail.
    #[error(
        "queue of station {0}: drop-tail before a ring is drop-tail of both together: leave the ring out and add it to the \
         limit, or name another kind of queue"
    )]
    RingOfDropTail(usize),
    /// Airtime queue limits without a ring or airtime fairness.
    #[error(
        "queue of station {0}: airtime queue limits bound what a ring holds for each receiver: name the ring's depth and \
         airtime fairness, or leave the limits out"
    )]
    AqlAlone(usize),
    /// Airtime queue limits out of order.
    #[error(
        "queue of station {0}: of the airtime queue limits the lower must be above 0 and not above the higher, and none above \
         {AQL_MAX}: choose such limits"
    )]
    AqlTerms(usize),
    /// Contention windows that are not powers of two less one, in ascending order.
    #[error(
        "contention windows {0} to {1} are impossible: both must be a power of two less one, rising, at most {CW_MAX}"
    )]
    Windows(u32, u32),
    /// Contention windows in addition to EDCA's own.
    #[error("contention windows are given apart from EDCA: set them in its categories, and leave this out")]
    WindowsTwice,
    /// An AIFSN that no station may use.
    #[error("AIFSN {aifsn} of {category:?} is outside 2 to 15: choose one inside")]
    Aifsn {
        /// Whose.
        category: Category,
        /// What was asked for.
        aifsn: u8,
    },
    /// A TXOP limit that cannot be announced.
    #[error("a TXOP limit of {txop} for {category:?} is above {TXOP_MAX}: choose a shorter one, or 0 for one exchange")]
    Txop {
        /// Whose.
        category: Category,
        /// What was asked for.
        txop: Span,
    },
    /// Times of a pair that are empty, unsorted or overlap.
    #[error("outages of a pair: {0}")]
    Outages(crate::loss::LossError),
    /// Loss of frames that are not received anyway.
    #[error(
        "station {to} does not decode station {from}, so it loses nothing of it: let it decode, or leave loss and drop out"
    )]
    LossAlone {
        /// The sender.
        from: usize,
        /// The listener.
        to: usize,
    },
    /// Noise without curves for it.
    #[error(
        "what noise does to frames of {0} is not modelled: leave it out, or choose 802.11a, 802.11g, 802.11n or 802.11ac"
    )]
    NoiseAlone(Phy),
    /// Noise and coded frames.
    #[error("frames meet either noise or the errors that a code corrects: leave one of them out")]
    NoiseTwice,
    /// Rate control without aggregation.
    #[error("rate control is modelled for aggregates: state the aggregation, if only of 1 frame, or a fixed rate")]
    AdaptsAlone,
    /// Aggregates of another physical layer.
    #[error("{0} sends every frame alone: leave aggregation out, or choose 802.11n or 802.11ac")]
    AggregateAlone(Phy),
    /// Something that is not modelled with 802.11n and 802.11ac.
    #[error("{0} is not modelled with {1}: leave it out, or choose a physical layer before 802.11n")]
    NotByMcs(&'static str, Phy),
    /// Spatial streams that are not modelled.
    #[error("{0} spatial streams are outside 1 to {STREAMS_MAX}: choose a number inside")]
    Streams(u8),
    /// An aggregate that cannot be announced.
    #[error(
        "aggregates of {} frames and {} B are outside 1 to {AGGREGATE_FRAMES} frames and {AGGREGATE_OCTETS_MIN} to \
         {} B of {}: choose numbers inside", .0.frames, .0.octets, Aggregate::largest(*.1).octets, .1
    )]
    Aggregate(Aggregate, Phy),
    /// A retry limit of zero.
    #[error("a retry limit of 0 never sends a frame: use 1 for no repetition")]
    RetryZero,
    /// A dwell time outside the bounds.
    #[error("mean {state} time of {value} is outside {DWELL_MIN} to {DWELL_MAX}: choose one inside")]
    Dwell {
        /// Which state.
        state: &'static str,
        /// What was asked for.
        value: Span,
    },
    /// A code rate outside the bounds.
    #[error("a code of rate {0} is outside 1/4 to 1: choose one inside, such as 71/100")]
    CodeRate(Ratio),
    /// A Reed-Solomon code that does not exist.
    #[error(
        "RS({length},{data}) is no Reed-Solomon code used here: the length must be 7, 15, 31, 63, 127 or 255, at least \
         2 more than the information and at most 4 times that"
    )]
    Code {
        /// Symbols of a block.
        length: u16,
        /// Of these, information.
        data: u16,
    },
    /// Error correction without errors.
    #[error("error correction is asked for without bit errors: state the bit errors, or leave the correction out")]
    NothingToCorrect,
    /// Feedback that is too old.
    #[error("channel feedback {0} old is above {FEEDBACK_MAX}: choose a shorter age")]
    Feedback(Span),
    /// A feature that needs acknowledgements.
    #[error("{0} needs acknowledgements, which the rules \"{1}\" do not have: leave it out, or choose other rules")]
    NeedsAcknowledgements(&'static str, &'static str),
    /// A capture of frames that are not 802.11.
    #[error("WaveLAN's frames are not 802.11, so no capture file can hold them: leave the capture out")]
    NoCapture,
    /// WaveLAN under the rules of 802.11.
    #[error("WaveLAN does not use the rules of 802.11: use its own rules \"wavelan-1995\" in place of \"{0}\"")]
    NotWaveLan(&'static str),
    /// A snap length below the header length, or above the longest frame.
    #[error("{0} bytes kept of each captured frame are outside {SNAPLEN_MIN} to {SNAPLEN_MAX}: choose a number inside")]
    Snaplen(usize),
    /// A capture margin that is not positive.
    #[error("a capture margin of {0} dB would let both frames win: choose at least 1 dB")]
    Margin(i16),
}
