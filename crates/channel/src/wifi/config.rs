//! The configuration of a cell, as plain values. Files are read by the scenario.

use super::aggregate::{AGGREGATE_FRAMES, AGGREGATE_OCTETS_MIN, Aggregate};
use super::capture::{CapturePoint, SNAPLEN_MAX, SNAPLEN_MIN};
use super::edca::{AIFSN, Access, Category, Edca, TXOP_MAX};
use super::fec::{FEEDBACK_MAX, Fec};
use super::queues::StationQueue;
use super::reach::ReachMap;
use super::{CW_MAX, ConfigError, Phy, Rules, STREAMS_MAX};
use crate::loss::{DWELL_MAX, DWELL_MIN};
use std::collections::{BTreeMap, BTreeSet};
use wavelane_base::{Rate, Ratio, Span};

/// Most stations in one cell: a port names two stations in 16 bits.
pub const STATIONS_BOUND: usize = 256;
/// The largest frame a station takes: the largest MSDU (9.2.3) less LLC/SNAP.
pub const FRAME_MAX: usize = 2304 - 8;
/// The QoS Control field, additional in data frames of EDCA (9.2.4.5).
const QOS_OCTETS: usize = 2;
/// An RTS threshold above every frame: RTS is never used (the largest and default dot11RTSThreshold, C.3; aPSDUMaxLength of
/// Table 21-29).
pub const RTS_NEVER: usize = 4_692_480;

/// One radio medium and its stations, which are numbered from 0.
#[derive(Clone, PartialEq, Debug)]
pub struct WifiConfig {
    /// The physical layer of all stations.
    pub phy: Phy,
    /// The rate of data frames.
    pub rate: Rate,
    /// The rate of ACK and CTS; `None` is the fastest basic rate of the rules not above that of the frame they respond to.
    pub answer_rate: Option<Rate>,
    /// The rate of RTS; `None` is the fastest basic rate of the rules not above the data rate.
    pub rts_rate: Option<Rate>,
    /// The rate of broadcast frames; `None` is the slowest basic rate of the rules.
    pub broadcast_rate: Option<Rate>,
    /// Data frames longer than this, including header and FCS, are preceded by an RTS.
    pub rts_threshold: usize,
    /// Differences of standard, ns-3 and ns-2.
    pub rules: Rules,
    /// Who hears whom.
    pub reach: ReachMap,
    /// Whether a much stronger frame survives a collision.
    pub capture: Option<CaptureEffect>,
    /// Bit errors.
    pub errors: Option<BitErrors>,
    /// Forward error correction while the channel is bad; needs `errors`.
    pub fec: Option<Fec>,
    /// Drop-tail limit of frames in each station, or with EDCA in each of its categories, including the one in service.
    pub queue: usize,
    /// Stations with a different queue. A managed queue precedes the current transmission, and so an aggregate.
    pub queues: BTreeMap<usize, StationQueue>,
    /// CWmin and CWmax other than the PHY's; each is a power of two less one. With EDCA each category has its own.
    pub cw: Option<(u32, u32)>,
    /// EDCA; `None` is DCF.
    pub edca: Option<Edca>,
    /// Thermal noise level, in dB on the scale of the reach map's signals: frames are lost according to SNR, modulation and
    /// code. OFDM only.
    pub noise_db: Option<i16>,
    /// Rate control modelled on Minstrel-HT; needs `aggregate`. `rate` is then not used.
    pub adapts: bool,
    /// Several data frames in one transmission; `None` sends each alone.
    pub aggregate: Option<Aggregate>,
    /// Stations that also hand up unicast frames for others, as they receive them: without ACK or retries of their own.
    pub listeners: BTreeSet<usize>,
    /// Where frames are captured from the start; fetched with [`super::Wifi::poll_capture`].
    pub captures: Vec<CapturePoint>,
    /// Most bytes kept of a captured frame, including the radiotap header.
    pub snaplen: usize,
}

/// When the stronger of two overlapping frames is received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaptureEffect {
    /// How much stronger it must be than any other (ns-2 `CPThresh`: 10 dB).
    pub margin_db: i16,
    /// Whether a receiver switches to a stronger frame that begins after the preamble of the first.
    pub mid_frame: bool,
}

/// Gilbert-Elliott bit errors: exponential dwell times, beginning with good; errors hit the frame's own bytes, at every
/// listener, not preamble and header.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BitErrors {
    /// Mean dwell time in the good state.
    pub good: Span,
    /// Mean dwell time in the bad state.
    pub bad: Span,
    /// Bit error probability in the good state.
    pub in_good: Ratio,
    /// Bit error probability in the bad state.
    pub in_bad: Ratio,
    /// Sharing of processes.
    pub per: ErrorsPer,
}

/// Sharing of bit error processes. The draws are always per listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorsPer {
    /// One for the cell.
    Cell,
    /// One for each receiver.
    Receiver,
    /// One for each station but the hub: for frames received by the station, and by the hub from it.
    Station {
        /// The hub, such as a base station.
        hub: usize,
    },
}

impl WifiConfig {
    /// A cell in which all stations hear each other, without RTS, capture or errors.
    pub fn new(phy: Phy, rate: Rate, rules: Rules, stations: usize) -> Self {
        Self {
            phy,
            rate,
            answer_rate: None,
            rts_rate: None,
            broadcast_rate: None,
            rts_threshold: RTS_NEVER,
            rules,
            reach: ReachMap::full(stations),
            capture: None,
            errors: None,
            fec: None,
            queue: 50,
            queues: BTreeMap::new(),
            cw: None,
            edca: None,
            noise_db: None,
            adapts: false,
            aggregate: None,
            listeners: BTreeSet::new(),
            captures: Vec::new(),
            snaplen: SNAPLEN_MAX,
        }
    }
    /// CWmin and CWmax.
    pub fn windows(&self) -> (u32, u32) {
        self.cw.unwrap_or((self.phy.cw_min(), CW_MAX))
    }
    /// Access parameters of a station's contenders, and their AIFSNs, smallest first.
    pub(super) fn contention(&self) -> (Vec<Access>, Vec<u8>) {
        let (cw_min, cw_max) = self.windows();
        // DIFS is SIFS and two slots (10.3.7).
        let dcf = Access { aifsn: *AIFSN.start(), cw_min, cw_max, txop: Span::ZERO };
        let access = self.edca.map_or(vec![dcf], |edca| edca.access.to_vec());
        let mut levels: Vec<u8> = access.iter().map(|access| access.aifsn).collect();
        levels.sort_unstable();
        levels.dedup();
        (access, levels)
    }
    /// Bytes of MAC header, FCS and LLC/SNAP around each frame handed in.
    pub fn overhead(&self) -> usize {
        self.rules.overhead + if self.edca.is_some() || self.aggregate.is_some() { QOS_OCTETS } else { 0 }
    }
    /// Checks that the configuration is valid.
    pub fn check(&self) -> Result<(), ConfigError> {
        let stations = self.reach.stations();
        if !(2..=STATIONS_BOUND).contains(&stations) {
            return Err(ConfigError::Stations(stations));
        }
        let rates = [
            ("data", Some(self.rate)),
            ("answer", self.answer_rate),
            ("RTS", self.rts_rate),
            ("broadcast", self.broadcast_rate),
        ];
        for (what, rate) in rates.into_iter().filter_map(|(what, rate)| Some((what, rate?))) {
            let phy = if what == "data" { self.phy } else { self.phy.legacy() };
            phy.rate(rate).map_err(|why| ConfigError::Rate { what, why })?;
        }
        self.check_queues()?;
        self.check_access()?;
        if let Some(capture) = self.capture
            && capture.margin_db < 1
        {
            return Err(ConfigError::Margin(capture.margin_db));
        }
        if let Some(fec) = self.fec {
            fec.code.check()?;
            if self.errors.is_none() {
                return Err(ConfigError::NothingToCorrect);
            }
            if fec.feedback > FEEDBACK_MAX {
                return Err(ConfigError::Feedback(fec.feedback));
            }
        }
        self.check_rules()?;
        self.check_high_throughput()?;
        self.check_captures()?;
        if let Some(&station) = self.listeners.iter().find(|station| **station >= stations) {
            return Err(ConfigError::Unknown { station, stations });
        }
        match self.rules.retry {
            super::Retry::PerFrame(0)
            | super::Retry::ShortLong { short: 0, .. }
            | super::Retry::ShortLong { long: 0, .. } => return Err(ConfigError::RetryZero),
            _ => {}
        }
        self.check_errors()
    }
    /// Windows, AIFSNs and TXOPs.
    fn check_access(&self) -> Result<(), ConfigError> {
        let (access, _) = self.contention();
        for Access { cw_min, cw_max, .. } in &access {
            let doubles = |cw: u32| cw <= CW_MAX && (cw + 1).is_power_of_two();
            // A window of 0 cannot be drawn from below it.
            if !(doubles(*cw_min) && doubles(*cw_max) && cw_min <= cw_max && *cw_min > 0) {
                return Err(ConfigError::Windows(*cw_min, *cw_max));
            }
        }
        if self.edca.is_some() {
            if self.cw.is_some() {
                return Err(ConfigError::WindowsTwice);
            }
            for (&Access { aifsn, txop, .. }, category) in access.iter().zip(Category::ALL) {
                if !AIFSN.contains(&aifsn) {
                    return Err(ConfigError::Aifsn { category, aifsn });
                }
                if txop > TXOP_MAX {
                    return Err(ConfigError::Txop { category, txop });
                }
            }
        }
        Ok(())
    }
    /// Checks that the rules support the configuration.
    fn check_rules(&self) -> Result<(), ConfigError> {
        if !self.rules.acknowledges {
            let asked = [("RTS", self.rts_threshold < RTS_NEVER), ("EDCA", self.edca.is_some())];
            if let Some((what, _)) = asked.iter().find(|(_, asked)| *asked) {
                return Err(ConfigError::NeedsAcknowledgements(what, self.rules.name));
            }
        } else if let Phy::WaveLan { .. } = self.phy {
            return Err(ConfigError::NotWaveLan(self.rules.name));
        }
        Ok(())
    }
    /// Checks streams, aggregates, and features not modelled with 802.11n and 802.11ac.
    fn check_high_throughput(&self) -> Result<(), ConfigError> {
        let ofdm = matches!(self.phy, Phy::Ofdm | Phy::ErpOfdm { .. }) || self.phy.is_by_mcs();
        if self.noise_db.is_some() && !ofdm {
            return Err(ConfigError::NoiseAlone(self.phy));
        }
        if self.noise_db.is_some() && self.fec.is_some() {
            return Err(ConfigError::NoiseTwice);
        }
        if self.adapts && self.aggregate.is_none() {
            return Err(ConfigError::AdaptsAlone);
        }
        if let Phy::Vht { streams, .. } = self.phy
            && !(1..=STREAMS_MAX).contains(&streams)
        {
            return Err(ConfigError::Streams(streams));
        }
        if !self.phy.is_by_mcs() {
            return if self.aggregate.is_some() { Err(ConfigError::AggregateAlone(self.phy)) } else { Ok(()) };
        }
        let asked = [("error correction", self.fec.is_some()), ("a capture", !self.captures.is_empty())];
        if let Some((what, _)) = asked.iter().find(|(_, asked)| *asked) {
            return Err(ConfigError::NotByMcs(what, self.phy));
        }
        let Some(aggregate) = self.aggregate else { return Ok(()) };
        let fits = (1..=AGGREGATE_FRAMES).contains(&aggregate.frames)
            && (AGGREGATE_OCTETS_MIN..=Aggregate::largest(self.phy).octets).contains(&aggregate.octets);
        if fits { Ok(()) } else { Err(ConfigError::Aggregate(aggregate, self.phy)) }
    }
    fn check_errors(&self) -> Result<(), ConfigError> {
        let stations = self.reach.stations();
        let Some(errors) = self.errors else { return Ok(()) };
        for (state, value) in [("good", errors.good), ("bad", errors.bad)] {
            if !(DWELL_MIN..=DWELL_MAX).contains(&value) {
                return Err(ConfigError::Dwell { state, value });
            }
        }
        match errors.per {
            ErrorsPer::Station { hub } if hub >= stations => Err(ConfigError::Unknown { station: hub, stations }),
            _ => Ok(()),
        }
    }
    fn check_captures(&self) -> Result<(), ConfigError> {
        let stations = self.reach.stations();
        for point in &self.captures {
            match *point {
                CapturePoint::Station(station) if station >= stations => {
                    return Err(ConfigError::Unknown { station, stations });
                }
                _ if matches!(self.phy, Phy::WaveLan { .. }) => return Err(ConfigError::NoCapture),
                _ => {}
            }
        }
        if (SNAPLEN_MIN..=SNAPLEN_MAX).contains(&self.snaplen) {
            Ok(())
        } else {
            Err(ConfigError::Snaplen(self.snaplen))
        }
    }
}
