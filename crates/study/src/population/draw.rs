//! One member of a family of links: a pure function of the family's seed and the draw's number. Every trait has a named
//! substream of its own, so that a new trait moves nobody's draws.

use wavelane_base::maths::{exponential, log_e, power};
use wavelane_base::{Chance, Seed};

/// Bits of a full-sized IP packet.
pub(super) const PACKET_BITS: f64 = 12_000.0;
/// Bytes of one.
const PACKET: f64 = 1_500.0;
/// Slowest, and fastest of nineteen draws in twenty, in bit/s.
const RATE: [f64; 2] = [0.1e6, 100e6];
/// The same of the twentieth.
const RATE_FAST: [f64; 2] = [100e6, 500e6];
/// How many times faster one direction is than the other at the most: a thinner return path cannot carry the
/// acknowledgements of a plain TCP, two packets each, beside an echo.
pub(super) const ASYMMETRY: f64 = 20.0;
/// Round trip without queue, in ms.
const RTT_MS: [f64; 2] = [4.0, 600.0];
/// Share of it on the upstream path.
const SPLIT: [f64; 2] = [0.3, 0.7];
/// Queue in bandwidth-delay products, and its least size in packets.
const QUEUE_BDP: [f64; 2] = [0.1, 4.0];
const QUEUE_PACKETS: f64 = 10.0;
/// More than any equipment holds, in bytes: it bounds the simulator's memory.
const QUEUE_MAX: f64 = 64e6;
/// Lowest rate of a moving one, in parts of its highest.
const MOVING_LEAST: f64 = 0.2;
/// Longest jitter and lateness of reordered packets, in ms, beside half the round trip.
const JITTER_MS: f64 = 40.0;
/// A member lasts this long in s, unless this many packets take less; but at least this long, packets and round
/// trips.
const LASTS_S: f64 = 45.0;
const LASTS_PACKETS: f64 = 60_000.0;
const LEAST_S: f64 = 30.0;
const LEAST_PACKETS: f64 = 2_000.0;
const LEAST_RTTS: f64 = 60.0;
/// The same of a draw whose rate falls, whose queue is this many products deep; the factor by which it falls, how far at most, and how many
/// seconds lie before a fall and in it.
const RATE_DEEP: [f64; 2] = [1e6, 100e6];
const QUEUE_DEEP_BDP: [f64; 2] = [4.0, 40.0];
const FALL: [f64; 2] = [10.0, 100.0];
const FALL_LEAST: f64 = 20e3;
const FALL_S: [f64; 2] = [4.0, 15.0];
/// A fall that stutters: every so many ms one step in five may carry up to this part of the rate.
const STUTTER_MS: f64 = 100.0;
const SPURT: f64 = 0.75;
/// Radios, with their rates in units of 500 kbit/s.
const RADIOS: [(&str, &[u64]); 3] =
    [("802.11b", &[4, 11, 22]), ("802.11g", &[12, 24, 48, 108]), ("802.11a", &[12, 24, 48, 108])];
/// The round trip that such a line is taken to have, in ms: for how long it runs, and for the buffers.
const RADIO_RTT_MS: f64 = 20.0;
/// Numbers of a set.
const SET: u64 = 1_000_000;
/// Seconds from one satellite handover to the next.
const HANDOVER_S: f64 = 15.0;

/// What kind of links a draw's number stands for. The other sets stand after the mixed one, so that its draws keep their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Set {
    Mixed,
    /// Queues of many bandwidth-delay products, and a rate that falls to a fraction for seconds.
    Deep,
    /// A line of gateways in one radio cell.
    Radio,
}

impl Set {
    pub(super) const ALL: [Self; 3] = [Self::Mixed, Self::Deep, Self::Radio];

    /// The number before its first.
    pub(super) const fn before(self) -> u64 {
        match self {
            Self::Mixed => 0,
            Self::Deep => 1_000_000,
            Self::Radio => 2_000_000,
        }
    }

    pub(super) fn of(number: u64) -> Self {
        let here = |set: &Self| (set.before()..set.before() + SET).contains(&number);
        Self::ALL.into_iter().find(here).unwrap_or(Self::Mixed)
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Deep => "deep",
            Self::Radio => "radio",
        }
    }
}

/// A radio cell with a line of gateways: each decodes its neighbours and senses the others.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct RadioLine {
    pub(super) gateways: u64,
    pub(super) phy: &'static str,
    /// bit/s on the air.
    pub(super) rate: u64,
    /// Packets that each station holds.
    pub(super) queue: u64,
    /// Share of full frames that are lost on the air, before the link repeats them.
    pub(super) loss_ppm: u32,
}

/// A member of the population.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Draw {
    /// The family.
    pub(super) family: Seed,
    /// Its number.
    pub(super) number: u64,
    /// The dice of its channel.
    pub(super) dice: u64,
    pub(super) load: Load,
    pub(super) rtt_ms: f64,
    pub(super) moving: Moving,
    /// In place of both ways.
    pub(super) radio: Option<RadioLine>,
    /// From the server to the client.
    pub(super) down: Way,
    /// From the client to the server.
    pub(super) up: Way,
    /// How long it runs, in ms.
    pub(super) lasts_ms: u64,
    /// Between two echoes, in ms.
    pub(super) echo_ms: u64,
}

/// What is carried beside the echo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Load {
    Download,
    Upload,
    Both,
}

/// How the rate moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Moving {
    No,
    /// Every few seconds to another.
    Steps,
    /// As a fading cellular link's, many times a second.
    Walk,
    /// At every handover between satellites, with the delay, after a short outage.
    Handover,
    /// To a tenth or a hundredth for some seconds, in half of the draws with spurts meanwhile.
    Falls,
}

/// One direction.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Way {
    /// bit/s; the highest, if it moves.
    pub(super) rate: u64,
    pub(super) delay_us: u64,
    pub(super) queue: u64,
    pub(super) loss: Loss,
    pub(super) jitter_us: u64,
    /// Parts in a million, and how late in us.
    pub(super) reorder: (u32, u64),
    pub(super) duplicate_ppm: u32,
    pub(super) corrupt_ppm: u32,
    /// bit/s and bytes.
    pub(super) policer: Option<(u64, u64)>,
    /// (ms, bit/s) of each change.
    pub(super) rates: Vec<(u64, u64)>,
    /// (ms, us) of each change of the delay except spikes.
    pub(super) delays: Vec<(u64, u64)>,
    /// (ms, us) of each spike: what is sent at that moment, and so all that follows, is delayed by this much.
    pub(super) spikes: Vec<(u64, u64)>,
    /// (ms, ms) of each outage.
    pub(super) outages: Vec<(u64, u64)>,
}

/// What a direction loses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Loss {
    None,
    /// Nothing: the radio retransmits, and its retransmissions delay what follows.
    Repeated,
    Random {
        ppm: u32,
    },
    Bursts {
        good_us: u64,
        bad_us: u64,
        in_bad_ppm: u32,
    },
}

impl Loss {
    /// Its kind.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Repeated => "repeated by the radio",
            Self::Random { .. } => "random",
            Self::Bursts { .. } => "bursts",
        }
    }
}

/// The substreams of one draw.
struct Dice {
    family: Seed,
    number: u64,
}

impl Dice {
    fn of(&self, what: &str) -> Chance {
        self.family.chance(&format!("population draw {} / {what}", self.number))
    }
    fn uniform(&self, what: &str, [least, most]: [f64; 2]) -> f64 {
        uniform(&mut self.of(what), [least, most])
    }
    /// As likely between 1 and 2 as between 10 and 20.
    fn log(&self, what: &str, range: [f64; 2]) -> f64 {
        log(&mut self.of(what), range)
    }
    fn one_in(&self, what: &str, n: u64) -> bool {
        self.of(what).below(n) == 0
    }
}

fn uniform(chance: &mut Chance, [least, most]: [f64; 2]) -> f64 {
    least + (most - least) * chance.unit()
}

fn log(chance: &mut Chance, [least, most]: [f64; 2]) -> f64 {
    least * power(most / least, chance.unit())
}

/// To three digits: the last bit of a logarithm must not reach the file.
fn three_digits(value: f64) -> u64 {
    let scale = 10f64.powi((value.max(1.0).log10().floor() as i32 - 2).max(0));
    ((value / scale).round() * scale) as u64
}

fn ppm(share: f64) -> u32 {
    (share * 1e6).round() as u32
}

/// Draws member `number` of a family.
pub(super) fn draw(family: Seed, number: u64) -> Draw {
    let (dice, set) = (Dice { family, number }, Set::of(number));
    let fast = set == Set::Mixed && dice.one_in("fast", 20);
    let slow = if set == Set::Deep { RATE_DEEP } else { RATE };
    let (range, fastest) = if fast { (RATE_FAST, RATE_FAST[1]) } else { (slow, slow[1]) };
    let first = dice.log("rate", range);
    let second = dice.log("other rate", [(first / ASYMMETRY).max(slow[0]), (first * ASYMMETRY).min(fastest)]);
    let rtt_ms = dice.log("round trip", RTT_MS);
    let split = dice.uniform("split", SPLIT);
    let load = match (dice.one_in("both", 4), dice.one_in("upload", 4)) {
        (true, _) => Load::Both,
        (false, true) => Load::Upload,
        (false, false) => Load::Download,
    };
    let moving = match (dice.one_in("moving", 4), dice.of("how it moves").below(3)) {
        (false, _) => Moving::No,
        (true, 0) => Moving::Steps,
        (true, 1) => Moving::Walk,
        (true, _) => Moving::Handover,
    };
    let moving = match set {
        Set::Mixed => moving,
        Set::Deep => Moving::Falls,
        Set::Radio => Moving::No,
    };
    // The first rate is that of the way the body takes.
    let (down, up) = if load == Load::Upload { (second, first) } else { (first, second) };
    let mut draw = Draw {
        family,
        number,
        dice: dice.of("dice").next_u64() >> 24,
        load,
        rtt_ms,
        moving,
        radio: None,
        down: way(&dice, "down", down, rtt_ms, 1.0 - split),
        up: way(&dice, "up", up, rtt_ms, split),
        lasts_ms: 0,
        echo_ms: 0,
    };
    match set {
        Set::Mixed => {}
        Set::Deep => deepen(&dice, &mut draw),
        Set::Radio => draw.make_radio(radio_line(&dice)),
    }
    draw.lasts_ms = lasts_ms(&draw);
    let slower = draw.down.steady().min(draw.up.steady());
    draw.echo_ms = (100.0f64).max((10.0 * PACKET_BITS / slower * 1e3).round()) as u64;
    let (lasts, load) = (draw.lasts_ms, draw.load);
    for (name, way, loaded) in
        [("down", &mut draw.down, load != Load::Upload), ("up", &mut draw.up, load != Load::Download)]
    {
        if moving != Moving::Falls || loaded {
            move_rate(&dice, name, way, moving, lasts);
        }
        spike(&dice, name, way, lasts);
    }
    if set == Set::Deep {
        // An echo of a hundred octets must not fill what a fall leaves.
        draw.echo_ms = draw.echo_ms.max((PACKET_BITS / draw.down.least().min(draw.up.least()) * 1e3).ceil() as u64);
    }
    draw
}

/// Queues of the deep set on the ways that carry a body, and no policer: it would keep them empty.
fn deepen(dice: &Dice, draw: &mut Draw) {
    for (name, way) in [("down", &mut draw.down), ("up", &mut draw.up)] {
        way.policer = None;
        let bdp = way.rate as f64 * draw.rtt_ms / 8e3;
        let queue = dice.log(&format!("{name} deep queue"), QUEUE_DEEP_BDP) * bdp;
        way.queue = three_digits(queue.clamp(QUEUE_PACKETS * PACKET, QUEUE_MAX));
    }
}

fn radio_line(dice: &Dice) -> RadioLine {
    let (phy, rates) = RADIOS[dice.of("radio").below(RADIOS.len() as u64) as usize];
    let loss = dice.log("radio loss", [0.001, 0.1]);
    RadioLine {
        gateways: 2 + dice.of("gateways").below(4),
        phy,
        rate: rates[dice.of("radio rate").below(rates.len() as u64) as usize] * 500_000,
        queue: dice.log("radio queue", [20.0, 200.0]).round() as u64,
        loss_ppm: if dice.one_in("radio loses", 2) { ppm(loss) } else { 0 },
    }
}

fn way(dice: &Dice, name: &str, rate: f64, rtt_ms: f64, share: f64) -> Way {
    let of = |what: &str| format!("{name} {what}");
    let trait_here = |what: &str| dice.one_in(what, 4);
    let rate = three_digits(rate);
    let queue = dice.log(&of("queue"), QUEUE_BDP) * rate as f64 * rtt_ms / 8e3;
    let late_us = JITTER_MS.min(rtt_ms / 2.0) * 1e3;
    let (jitter, reorder) = (trait_here("jitter"), trait_here("reordering"));
    let policer = trait_here("policer").then(|| {
        let rate = three_digits(rate as f64 * dice.uniform(&of("policer rate"), [0.3, 0.9]));
        let burst = rate as f64 / 8e3 * dice.log(&of("policer burst"), [5.0, 200.0]);
        (rate, three_digits(burst.max(QUEUE_PACKETS * PACKET)))
    });
    let chance = |what: &str, range| if trait_here(what) { ppm(dice.log(&of(what), range)) } else { 0 };
    Way {
        rate,
        delay_us: (rtt_ms * share * 1e3).round() as u64,
        queue: three_digits(queue.clamp(QUEUE_PACKETS * PACKET, QUEUE_MAX)),
        loss: loss(dice, name),
        jitter_us: if jitter { dice.uniform(&of("jitter"), [0.0, late_us]).round() as u64 } else { 0 },
        reorder: if reorder {
            let late = dice.uniform(&of("reordered by"), [0.1 * late_us, late_us]);
            (ppm(dice.log(&of("reordering"), [0.001, 0.05])), late.round() as u64)
        } else {
            (0, 0)
        },
        duplicate_ppm: chance("duplication", [0.001, 0.05]),
        corrupt_ppm: chance("corruption", [0.0001, 0.01]),
        policer,
        ..Way::plain()
    }
}

/// A third of the directions lose nothing.
fn loss(dice: &Dice, name: &str) -> Loss {
    let of = |what: &str| format!("{name} {what}");
    match dice.of(&of("kind of loss")).below(6) {
        0 => Loss::None,
        1 => Loss::Repeated,
        2 | 3 => Loss::Random { ppm: ppm(dice.log(&of("random loss"), [0.001, 0.2])) },
        _ => {
            let bad = dice.log(&of("bad dwell"), [2_000.0, 300_000.0]);
            let share = dice.uniform(&of("bad share"), [0.02, 0.2]);
            let in_bad_ppm = ppm(dice.uniform(&of("lost in bad"), [0.1, 1.0]));
            Loss::Bursts { good_us: three_digits(bad * (1.0 - share) / share), bad_us: three_digits(bad), in_bad_ppm }
        }
    }
}

fn lasts_ms(draw: &Draw) -> u64 {
    let rates = draw.loaded().into_iter().map(|way| way.steady() * if draw.moving == Moving::No { 1.0 } else { 0.5 });
    let packet_s = PACKET_BITS / rates.fold(f64::INFINITY, f64::min);
    let usual = (LASTS_PACKETS * packet_s).clamp(LEAST_S, LASTS_S);
    let least = (LEAST_PACKETS * packet_s).max(LEAST_RTTS * draw.rtt_ms / 1e3);
    (usual.max(least).ceil() * 1e3) as u64
}

/// Fills in the changes of rate, and what comes with them.
fn move_rate(dice: &Dice, name: &str, way: &mut Way, moving: Moving, lasts_ms: u64) {
    let mut chance = dice.of(&format!("{name} moving"));
    let full = way.rate as f64;
    let some = |chance: &mut Chance| three_digits(full * log(chance, [MOVING_LEAST, 1.0]));
    match moving {
        Moving::No => {}
        Moving::Steps => {
            let mut at = 0.0;
            while at < lasts_ms as f64 {
                way.rates.push((at as u64, some(&mut chance)));
                at += uniform(&mut chance, [4e3, 12e3]);
            }
        }
        Moving::Walk => {
            let every = (20.0 * PACKET_BITS / full * 1e3).max(100.0) as u64;
            // A standard deviation of a tenth per tenth of a second, between the least and the whole rate.
            let (depth, step) = (-log_e(MOVING_LEAST), 0.1 * (every as f64 / 100.0).sqrt());
            let mut at = depth * chance.unit();
            for ms in (0..lasts_ms).step_by(every as usize) {
                way.rates.push((ms, three_digits(full * exponential(-at))));
                at = (at + step * normal(&mut chance)).abs();
                if at > depth {
                    at = (2.0 * depth - at).max(0.0);
                }
            }
        }
        Moving::Falls => {
            let stutters = dice.one_in("stutter", 2);
            let mut at = 1e3 * uniform(&mut chance, FALL_S);
            while at < lasts_ms as f64 {
                let low = (full / log(&mut chance, FALL)).max(FALL_LEAST);
                let until = at + 1e3 * uniform(&mut chance, FALL_S);
                while at < until {
                    let spurt = if stutters && chance.below(5) == 0 { chance.unit() * SPURT } else { 0.0 };
                    way.rates.push((at as u64, three_digits(low.max(full * spurt))));
                    at = if stutters { at + STUTTER_MS } else { until };
                }
                way.rates.push((at as u64, way.rate));
                at += 1e3 * uniform(&mut chance, FALL_S);
            }
        }
        Moving::Handover => {
            // Both directions change satellites at once.
            let mut at = dice.uniform("first handover", [1.0, HANDOVER_S]) * 1e3;
            let base = way.delay_us;
            way.rates.push((0, some(&mut chance)));
            while at < lasts_ms as f64 {
                let out = uniform(&mut chance, [20.0, 200.0]).round() as u64;
                way.outages.push((at as u64, out));
                way.rates.push((at as u64, some(&mut chance)));
                way.delays.push((at as u64, base + uniform(&mut chance, [0.0, 10_000.0]).round() as u64));
                at += HANDOVER_S * 1e3;
            }
        }
    }
}

/// Near a normal number: the sum of twelve uniform ones less six, which needs no logarithm.
fn normal(chance: &mut Chance) -> f64 {
    (0..12).map(|_| chance.unit()).sum::<f64>() - 6.0
}

fn spike(dice: &Dice, name: &str, way: &mut Way, lasts_ms: u64) {
    if way.loss != Loss::Repeated {
        return;
    }
    let every = dice.log(&format!("{name} spike every"), [500.0, 5_000.0]);
    let mean = dice.log(&format!("{name} spike of"), [10_000.0, 300_000.0]);
    let mut chance = dice.of(&format!("{name} spikes"));
    // As long as a packet takes: it is caught, and those behind it wait for it.
    let apart = way.spike_lasts_ms() + 1;
    let mut at = 0.0;
    loop {
        at += apart as f64 - every * log_e(1.0 - chance.unit());
        if at >= lasts_ms as f64 {
            return;
        }
        let size = (-mean * log_e(1.0 - chance.unit())).clamp(1_000.0, 3.0 * mean);
        way.spikes.push((at as u64, size.round() as u64));
    }
}

impl Draw {
    /// The bad link is a radio cell: nothing else is lost or late.
    fn make_radio(&mut self, line: RadioLine) {
        self.rtt_ms = RADIO_RTT_MS;
        for way in [&mut self.down, &mut self.up] {
            *way = Way { rate: line.rate, queue: line.queue * line.gateways * PACKET as u64, ..Way::plain() };
        }
        self.radio = Some(line);
    }

    pub(super) fn set(&self) -> Set {
        Set::of(self.number)
    }

    /// The approximate cost of simulating it: packets that are offered.
    pub(super) fn cost(&self) -> f64 {
        let packets = |way: &Way| way.steady() * self.lasts_ms as f64 / 1e3 / PACKET_BITS;
        500.0 + self.loaded().into_iter().map(packets).sum::<f64>()
    }

    /// The directions that carry a body.
    pub(super) fn loaded(&self) -> Vec<&Way> {
        match self.load {
            Load::Download => vec![&self.down],
            Load::Upload => vec![&self.up],
            Load::Both => vec![&self.down, &self.up],
        }
    }

    /// Whether the worst tenth has the lower aim: a controller learns little there in the time.
    pub(super) fn is_hard(&self) -> bool {
        self.loaded().iter().any(|way| way.rate < 1_000_000) || self.moving == Moving::Walk && self.rtt_ms > 300.0
    }

    /// One packet's serialisation on the slower way, at its lowest rate, in ms.
    pub(super) fn packet_ms(&self) -> f64 {
        PACKET_BITS / self.down.least().min(self.up.least()) * 1e3
    }

    /// The receive window and send buffer that limit no TCP, in bytes: twice what path and queue hold.
    pub(super) fn buffer(&self) -> u64 {
        let rtt_ms = self.rtt_ms + self.down.late_ms() + self.up.late_ms();
        let of = |way: &&Way| 2.0 * (way.rate as f64 * rtt_ms / 8e3 + way.queue as f64);
        (self.loaded().iter().map(of).fold(8e6, f64::max) / 1e6).ceil() as u64 * 1_000_000
    }
}

impl Way {
    fn plain() -> Self {
        Self {
            rate: 0,
            delay_us: 0,
            queue: 0,
            loss: Loss::None,
            jitter_us: 0,
            reorder: (0, 0),
            duplicate_ppm: 0,
            corrupt_ppm: 0,
            policer: None,
            rates: Vec::new(),
            delays: Vec::new(),
            spikes: Vec::new(),
            outages: Vec::new(),
        }
    }

    /// The rate a policer leaves of the highest one.
    pub(super) fn steady(&self) -> f64 {
        self.policer.map_or(self.rate, |(rate, _)| rate.min(self.rate)) as f64
    }

    /// The lowest rate.
    pub(super) fn least(&self) -> f64 {
        self.rates.iter().map(|(_, rate)| *rate as f64).fold(self.steady(), f64::min)
    }

    /// How long a spike's delay stands, in ms.
    pub(super) fn spike_lasts_ms(&self) -> u64 {
        (PACKET_BITS / self.least() * 1e3).ceil() as u64
    }

    /// How much later than its delay a packet may be, in ms.
    fn late_ms(&self) -> f64 {
        let spikes = self.spikes.iter().map(|(_, us)| *us).max().unwrap_or(0);
        (self.jitter_us + self.reorder.1 + spikes) as f64 / 1e3
    }

    /// Share of packets that are lost on the path, over a long time, without policer, queue and outages.
    pub(super) fn lost(&self) -> f64 {
        let lost = match self.loss {
            Loss::None | Loss::Repeated => 0.0,
            Loss::Random { ppm } => f64::from(ppm) / 1e6,
            Loss::Bursts { good_us, bad_us, in_bad_ppm } => {
                bad_us as f64 / (good_us + bad_us) as f64 * f64::from(in_bad_ppm) / 1e6
            }
        };
        1.0 - (1.0 - lost) * (1.0 - f64::from(self.corrupt_ppm) / 1e6)
    }
}
