//! A cell from its configuration.

use super::adapt::Controls;
use super::aggregate;
use super::capture::Tap;
use super::classes::Division;
use super::ear::{Ear, Hearing};
use super::edca::{AIFSN, Access};
use super::errors::Errors;
use super::noise::Noise;
use super::pair_loss::PairLosses;
use super::stage::Stage;
use super::station::{Contender, Station};
use super::timers::Timers;
use super::{
    BLOCK_ACK_OCTETS, ConfigError, Eifs, FRAME_MAX, Overlap, PhyRate, READY_BOUND, ReachMap, Wifi, WifiConfig, medium,
};
use std::collections::VecDeque;
use std::sync::Arc;
use wavelane_base::{Instant, Seed, Span};
use wavelane_queue::Aql;

/// The rates of a cell's frames.
struct Rates {
    data: PhyRate,
    /// Of broadcast frames.
    broadcast: PhyRate,
    rts: PhyRate,
    /// Of CTS to an RTS.
    cts: PhyRate,
    /// Of ACK and CTS, if not derived from the frame they respond to.
    answer: Option<PhyRate>,
}

impl Rates {
    fn of(config: &WifiConfig) -> Result<Self, ConfigError> {
        // Control and broadcast frames are sent at rates that every station supports.
        let (phy, basic) = (config.phy.legacy(), config.rules.basic);
        let rate = |what, rate| phy.rate(rate).map_err(|why| ConfigError::Rate { what, why });
        let data = config.phy.rate(config.rate).map_err(|why| ConfigError::Rate { what: "data", why })?;
        let rts = config.rts_rate.map(|r| rate("RTS", r)).transpose()?;
        // Who adapts may talk to stations that read nothing faster.
        let usual = if config.adapts { phy.slowest_of(basic) } else { data.answered_at(basic) };
        let rts = rts.unwrap_or(usual);
        let answer = config.answer_rate.map(|r| rate("answer", r)).transpose()?;
        let cts = answer.unwrap_or_else(|| rts.answered_at(basic));
        let broadcast = config.broadcast_rate.map(|r| rate("broadcast", r)).transpose()?;
        let broadcast = broadcast.unwrap_or_else(|| phy.slowest_of(basic));
        Ok(Self { data, broadcast, rts, cts, answer })
    }
}

impl Wifi {
    /// A cell called `name`. Its random numbers come from the run's substreams `"NAME / back-off"` and so on, so two cells
    /// of one run need two names.
    pub fn new(seed: Seed, name: &str, config: &WifiConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let (phy, rules, stations) = (config.phy, config.rules, config.reach.stations());
        let rates = Rates::of(config)?;
        // What a listener hands up is its own. Random draws are per listener, so with errors no two have the same view. Where all hear
        // all, frames overlap only if they begin together, which needs no draw.
        let drawn = config.errors.is_some()
            || !config.listeners.is_empty()
            || config.noise_db.is_some()
            || config.reach.has_losses()
            || rules.overlap != Overlap::Lost && config.reach != ReachMap::full(config.reach.stations());
        let holds = Self::holds(rules.sensed, config.reach.pairs());
        let (access, levels) = config.contention();
        let kinds = access.len();
        let division = Division::new(&config.reach, !drawn && !holds, kinds, levels.len());
        let contender = |station: usize, access: &Access| {
            let level = levels.iter().position(|aifsn| *aifsn == access.aifsn).unwrap_or(0);
            let mut contender =
                Contender::new(config.limit_of(station), (access.cw_min, access.cw_max), level, access.txop);
            let managed = config.queues.get(&station).filter(|queue| queue.is_managed());
            contender.stage = managed.map(|queue| {
                let chance = seed.chance(&format!("{name} / queue of {station}"));
                Box::new(Stage::new(queue, stations, &chance))
            });
            contender
        };
        let station = |at: usize, class: Option<usize>| {
            let mut station = Station::new(stations * kinds, class);
            let terms = config.queues.get(&at).and_then(|queue| queue.aql);
            station.aql = terms.map(|terms| Box::new(Aql::new(terms, stations * kinds)));
            station
        };
        let inside = if kinds > 1 { stations } else { 0 };
        let inner_dice = (0..inside).map(|station| seed.chance(&format!("{name} / back-off within {station}")));
        let ears = stations + division.classes.len();
        let mut cell = Self {
            phy,
            rules,
            queue: config.queue,
            rts_threshold: config.rts_threshold,
            aggregate: config.aggregate,
            overhead: config.overhead(),
            lone: aggregate::lone_octets(phy),
            kinds,
            aifs_extra: levels.iter().map(|aifsn| phy.slot().times(u64::from(aifsn - AIFSN.start()))).collect(),
            busy_slot: config.edca.map_or(rules.busy_slot, |edca| edca.busy_slot),
            data_rate: rates.data,
            broadcast_rate: rates.broadcast,
            rts_rate: rates.rts,
            worth_an_rts: Span::ZERO,
            answer_rate: rates.answer,
            slot: phy.slot(),
            sifs: phy.sifs(),
            difs: phy.difs(),
            eifs_extra: match rules.eifs {
                _ if !rules.acknowledges => Span::ZERO,
                Eifs::Reception => phy.eifs().saturating_sub(phy.difs()),
                Eifs::Collision => phy.eifs(),
            },
            nav_patience: medium::nav_patience(phy.sifs(), phy.slot(), rates.cts),
            hearing: Hearing {
                window: rules.cca(phy),
                capture: config.capture,
                collision_is_error: rules.eifs == Eifs::Collision,
            },
            now: Instant::ZERO,
            stations: (0..).zip(&division.class_of).map(|(at, class)| station(at, *class)).collect(),
            contenders: (0..stations)
                .flat_map(|s| access.iter().map(move |access| (s, access)))
                .map(|(s, a)| contender(s, a))
                .collect(),
            ears: vec![Ear::new(holds); ears],
            classes: division.classes,
            audience: division.audience,
            on_air: Vec::with_capacity(stations),
            timers: Timers::new(stations + ears),
            dice: seed.chance(&format!("{name} / back-off")),
            chance: seed.chance(&format!("{name} / overlaps")),
            inner_dice: inner_dice.collect(),
            errors: config.errors.map(|errors| Errors::new(seed, name, errors, config.fec, stations)),
            fec: config.fec,
            noise: config.noise_db.map(|level| Noise::new(seed, name, config, level)),
            losses: PairLosses::new(seed, name, config),
            controls: config.adapts.then(|| Box::new(controls(seed, name, config, rates.cts))),
            ready: VecDeque::with_capacity(READY_BOUND),
            listens: (0..stations).map(|station| config.listeners.contains(&station)).collect(),
            overheard: VecDeque::new(),
            events: VecDeque::with_capacity(stations * kinds),
            frames_missed: 0,
            events_missed: 0,
            tap: Tap::new(config),
            spare: (0..stations * kinds).map(|_| Arc::new(Vec::with_capacity(FRAME_MAX))).collect(),
            touched: Vec::with_capacity(2 * ears),
            starting: Vec::with_capacity(stations * kinds),
        };
        cell.worth_an_rts = cell.worth_an_rts();
        Ok(cell)
    }
}

/// Rate control for every ordered pair of stations, without statistics.
fn controls(seed: Seed, name: &str, config: &WifiConfig, answer: PhyRate) -> Controls {
    let phy = config.phy;
    let pairs = config.reach.stations() * config.reach.stations();
    let rates = phy.choices();
    let slots = phy.slot().times(u64::from(config.windows().0) / 2);
    let (preamble, answer) = (rates[0].preamble(), answer.airtime(BLOCK_ACK_OCTETS));
    let fixed = phy.difs() + slots + preamble + phy.sifs() + answer;
    Controls::new(pairs, rates, seed.chance(&format!("{name} / samples")), fixed)
}
