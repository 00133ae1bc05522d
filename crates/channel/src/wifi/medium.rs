//! Start and end of frames at every listener; slots are counted while the medium is idle.

use super::classes::Home;
use super::ear::Heard;
use super::station::{Contender, Kind, OnAir, Plan, Station, Waiting};
use super::timers::Rank;
use super::wheel::Wheel;
use super::{BusySlot, PhyRate, Reach, Wifi};
use wavelane_base::{Instant, Span};

impl Wifi {
    /// The station starts sending; the end is scheduled.
    pub(super) fn send(&mut self, station: usize, frame: OnAir, rate: PhyRate) {
        let now = self.now;
        self.leave(station);
        self.freeze(station, now, true);
        self.ears[station].begin_sending();
        self.on_air.push(station);
        let frame = frame.at(now, rate, rate.airtime(self.on_air(frame.octets, frame.coded)));
        self.stations[station].air = frame;
        self.stations[station].air_rate = Some(rate);
        self.stations[station].plan = Plan::End;
        self.timers.set(station, frame.end, Rank::End);
        for i in 0..self.audience[station].len() {
            let (home, reach) = self.audience[station][i];
            match home {
                Home::Alone(listener) => self.begin_at(listener, station, reach),
                Home::Class(class) => {
                    for j in 0..self.classes[class].solos.len() {
                        let solo = self.classes[class].solos[j];
                        if solo != station {
                            self.begin_at(solo, station, reach);
                        }
                    }
                    self.begin_at(self.class_ear(class), station, reach);
                }
            }
        }
    }

    fn begin_at(&mut self, ear: usize, sender: usize, reach: Reach) {
        let loudest = if self.hearing.capture.is_some() { self.loudest_at(ear, sender) } else { None };
        if reach.sense {
            self.freeze(ear, self.now + self.hearing.window, false);
        }
        self.ears[ear].begin(self.now, sender, reach, loudest, &self.hearing);
        if self.ears[ear].hold.is_some() && reach.sense {
            let until = self.held_until(ear);
            self.ears[ear].hold_on(self.now, until, &self.hearing);
        }
    }
    /// The strongest interference at an ear from frames on the air, excluding that of `sender`.
    fn loudest_at(&self, ear: usize, sender: usize) -> Option<i16> {
        let others = self.on_air.iter().filter(|other| **other != sender);
        let reach = |other: &usize| {
            self.audience[*other].iter().find(|(home, _)| match *home {
                Home::Alone(listener) => listener == ear,
                Home::Class(class) if ear >= self.stations.len() => self.class_ear(class) == ear,
                Home::Class(class) => self.stations[ear].class == Some(class) && ear != *other,
            })
        };
        others.filter_map(reach).filter(|(_, reach)| reach.interfere).map(|(_, reach)| reach.signal_db).max()
    }

    /// The station's frame ends: every listener processes it.
    pub(super) fn finish(&mut self, station: usize) {
        let frame = self.stations[station].air;
        self.stations[station].plan = Plan::Nothing;
        self.on_air.retain(|sender| *sender != station);
        self.ears[station].end_sending(self.now);
        self.touched.push(station);
        self.tap_sent(station, &frame);
        for i in 0..self.audience[station].len() {
            let (home, reach) = self.audience[station][i];
            match home {
                Home::Alone(listener) => self.end_at(listener, station, reach, &frame),
                Home::Class(class) => {
                    // The solos first: the frame's receiver becomes one of them below.
                    for j in 0..self.classes[class].solos.len() {
                        let solo = self.classes[class].solos[j];
                        if solo != station {
                            self.end_at(solo, station, reach, &frame);
                        }
                    }
                    self.end_at(self.class_ear(class), station, reach, &frame);
                }
            }
        }
        self.sent(station, &frame);
        while let Some(ear) = self.touched.pop() {
            self.resume(ear);
        }
    }

    fn end_at(&mut self, ear: usize, sender: usize, reach: Reach, frame: &OnAir) {
        let mut heard = self.ears[ear].end(self.now, sender, reach, self.eifs_extra);
        if self.ears[ear].hold.is_some() && heard != Heard::Nothing {
            let until = self.held_until(ear);
            self.ears[ear].look_again(self.now, until);
        }
        if let Heard::Overlapped(jammed) = heard {
            heard = if self.outlasts(sender, frame, jammed) { Heard::Whole } else { Heard::Broken };
            match heard {
                Heard::Whole => self.ears[ear].spare(),
                _ => self.ears[ear].fail(self.now, self.eifs_extra),
            }
        }
        if heard == Heard::Whole && (self.errors.is_some() || self.noise.is_some() || self.losses.is_some()) {
            let spared = if frame.frames > 1 {
                self.hears_part(ear, sender, frame)
            } else {
                let spared = self.survives(sender, ear, (frame.octets, frame.coded), (frame.body, self.now));
                // With noise or bit errors no ear is shared, so the ear is the station.
                if frame.kind == Kind::Data && frame.to == ear {
                    self.stations[ear].tally.note_errors(frame.coded, spared);
                }
                spared
            };
            if !spared {
                self.ears[ear].fail(self.now, self.eifs_extra);
                heard = Heard::Broken;
            }
        }
        self.tap_heard(ear, sender, reach.signal_db, heard, frame);
        let waited = ear < self.stations.len() && self.stations[ear].waiting != Waiting::Nothing;
        let mut answered = false;
        if heard == Heard::Whole {
            let receiver = match ear.checked_sub(self.stations.len()) {
                _ if frame.to == sender => self.deliver_to_all(ear, sender),
                None => (frame.to == ear).then_some(ear),
                Some(class) => {
                    let to = &self.stations[frame.to];
                    (to.joined && to.class == Some(class)).then_some(frame.to)
                }
            };
            if let Some(receiver) = receiver {
                if receiver != ear {
                    self.leave(receiver);
                    self.touched.push(receiver);
                }
                answered = self.receive(receiver, sender, frame);
            }
            if receiver != Some(ear) {
                self.reserve(ear, frame);
            }
            // With listeners no ear is shared, so the ear is the station. Parts of an aggregate are not handed up.
            let for_other = frame.kind == Kind::Data && frame.to != ear && frame.to != sender && frame.frames == 1;
            if for_other && self.listens.get(ear).is_some_and(|listens| *listens) {
                self.overhear(ear, sender, frame.to);
            }
        }
        // A reception that is not the awaited response ends the wait; so does the end of one that was lost after the timeout
        // had passed.
        if waited && !answered && self.stations[ear].waiting != Waiting::Nothing {
            let overdue = self.stations[ear].plan == Plan::Nothing && !self.ears[ear].is_locked();
            if heard != Heard::Nothing || overdue {
                self.fail(ear);
            }
        }
        self.touched.push(ear);
    }

    /// Whether `octets` that `sender` sends over a span of time survive noise and bit errors at an ear.
    pub(super) fn survives(
        &mut self,
        sender: usize,
        ear: usize,
        what: (usize, bool),
        span: (Instant, Instant),
    ) -> bool {
        let Station { air, air_rate, .. } = &self.stations[sender];
        let rate = air_rate.unwrap_or(self.data_rate);
        if self.losses.as_mut().is_some_and(|losses| !losses.spares(self.now, [sender, ear], air, what.0)) {
            return false;
        }
        // With either, no ear is shared, so the ear is the station.
        self.noise.as_mut().is_none_or(|noise| noise.spares(sender, ear, rate, what.0))
            && self.errors.as_mut().is_none_or(|errors| errors.spares(sender, ear, what, span))
    }

    /// Whether a frame survives an overlap with another of the same strength.
    fn outlasts(&mut self, sender: usize, frame: &OnAir, jammed: Span) -> bool {
        let Some(rate) = self.stations[sender].air_rate else { return false };
        let whole = self.now.since(frame.body).as_secs_f64();
        let octets = (jammed.as_secs_f64() / whole).min(1.0) * frame.octets as f64;
        let survival = self.rules.overlap.survival(rate, octets);
        survival > 0.0 && self.chance.unit() < survival
    }

    /// Sets the NAV from a frame for another station.
    fn reserve(&mut self, ear: usize, frame: &OnAir) {
        let until = self.now + frame.after;
        if until > self.ears[ear].nav {
            self.ears[ear].nav = until;
            if frame.kind == Kind::Rts && self.rules.nav_reset {
                self.ears[ear].nav_check = Some(self.now + self.nav_patience);
            }
        }
    }
    /// Resets the NAV, as nothing followed an RTS.
    pub(super) fn release(&mut self, ear: usize) {
        self.ears[ear].nav_check = None;
        self.ears[ear].nav = self.now;
        self.resume(ear);
    }

    /// Stops counting slots at `until`, unless a backoff expires by then: that station does not detect it in time.
    pub(super) fn freeze(&mut self, ear: usize, until: Instant, at_once: bool) {
        if !self.ears[ear].counting {
            return;
        }
        if !at_once && self.expiry(ear).is_some_and(|at| at <= until) {
            return;
        }
        // EDCA counts at the beginning of a slot, so the current one counts as well.
        let begun = u64::from(self.busy_slot == BusySlot::Counts && (!at_once || self.kinds > 1));
        let (slot, base) = (self.slot.as_nanos(), self.ears[ear].base);
        let passed = |start: Instant| if until < start { 0 } else { until.since(start).as_nanos() / slot + begun };
        match ear.checked_sub(self.stations.len()) {
            Some(class) => {
                for (wheel, offset) in self.classes[class].wheels.iter_mut().zip(&self.aifs_extra) {
                    let slots = passed(base + *offset);
                    wheel.pass(wheel.least().map_or(slots, |least| slots.min(u64::from(least))));
                }
            }
            None => {
                for contender in &mut self.contenders[ear * self.kinds..(ear + 1) * self.kinds] {
                    let start = (base + self.aifs_extra[contender.level]).max(contender.hold);
                    if let Some(counter) = &mut contender.counter {
                        *counter -= passed(start).min(u64::from(*counter)) as u32;
                    }
                }
            }
        }
        self.ears[ear].counting = false;
        self.arm(ear);
    }

    /// Resumes slot counting if the medium is idle, and merges ears with equal state.
    pub(super) fn resume(&mut self, ear: usize) {
        let class = ear.checked_sub(self.stations.len());
        if class.is_none() && self.stations[ear].joined {
            return;
        }
        // While one category waits for a response, the others of its station must not access the medium.
        let engaged = self.kinds > 1 && class.is_none() && self.stations[ear].waiting != Waiting::Nothing;
        if !self.ears[ear].is_busy() && !engaged {
            let base = self.ears[ear].difs_end(self.difs);
            // A running count continues, unless its start has changed.
            if !(self.ears[ear].counting && self.ears[ear].base == base) {
                self.freeze(ear, self.now, true);
                self.ears[ear].base = base;
                self.ears[ear].counting = true;
            }
            if let Some(class) = class {
                for i in (0..self.classes[class].solos.len()).rev() {
                    self.join(self.classes[class].solos[i], class);
                }
            } else if let Some(class) = self.stations[ear].class
                && self.join(ear, class)
            {
                self.arm(self.class_ear(class));
                return;
            }
        }
        self.arm(ear);
    }

    /// Gives a member its own ear, with the state of its class's ear.
    pub(super) fn leave(&mut self, station: usize) {
        let Some(class) = self.stations[station].class.filter(|_| self.stations[station].joined) else { return };
        let ear = self.class_ear(class);
        self.stations[station].joined = false;
        for index in self.kinds_of(station) {
            let contender = &mut self.contenders[index];
            contender.counter = self.classes[class].wheels[contender.level].remove(index);
            contender.hold = Instant::ZERO;
        }
        self.ears[station] = self.ears[ear];
        self.classes[class].solos.push(station);
        self.arm(ear);
        self.arm(station);
    }
    /// Returns a member to its class if its state no longer differs; returns whether it did.
    fn join(&mut self, station: usize, class: usize) -> bool {
        let ear = self.class_ear(class);
        let (own, shared) = (&self.ears[station], &self.ears[ear]);
        let alike = own.agrees(shared, self.now)
            && self.stations[station].is_bystander()
            && self.contenders[self.kinds_of(station)].iter().all(|contender| {
                let extra = self.aifs_extra[contender.level];
                (own.base + extra).max(contender.hold) == shared.base + extra
            });
        if !alike || self.stations[station].joined {
            return false;
        }
        self.stations[station].joined = true;
        self.classes[class].solos.retain(|solo| *solo != station);
        for index in self.kinds_of(station) {
            let contender = &mut self.contenders[index];
            if let Some(counter) = contender.counter.take() {
                self.classes[class].wheels[contender.level].insert(index, counter);
            }
        }
        self.timers.clear(self.stations.len() + station);
        true
    }

    /// When the first backoff at an ear expires, if slot counting continues.
    fn expiry(&self, ear: usize) -> Option<Instant> {
        let base = self.ears[ear].base;
        match ear.checked_sub(self.stations.len()) {
            Some(class) => {
                let wheels = self.classes[class].wheels.iter().zip(&self.aifs_extra);
                let due = |(wheel, extra): (&Wheel, &Span)| Some(base + *extra + self.slots(wheel.least()?));
                wheels.filter_map(due).min()
            }
            None => self.contenders[self.kinds_of(ear)].iter().filter_map(|c| self.expiry_of(c, base)).min(),
        }
    }
    /// When the backoff of a contender with its own ear expires.
    pub(super) fn expiry_of(&self, contender: &Contender, base: Instant) -> Option<Instant> {
        let counter = contender.counter?;
        Some((base + self.aifs_extra[contender.level]).max(contender.hold) + self.slots(counter))
    }
    pub(super) fn slots(&self, count: u32) -> Span {
        self.slot.times(u64::from(count))
    }
    /// Sets an ear's deadline: a backoff expiry, or a NAV check.
    pub(super) fn arm(&mut self, ear: usize) {
        let owner = self.stations.len() + ear;
        let heard = &self.ears[ear];
        let access = if heard.counting { self.expiry(ear) } else { None };
        match (access, heard.nav_check) {
            (access, Some(check)) if access.is_none_or(|access| check <= access) => {
                self.timers.set(owner, check, Rank::Nav);
            }
            (Some(access), _) => self.timers.set(owner, access, Rank::Access),
            (None, _) => self.timers.clear(owner),
        }
    }
    pub(super) fn class_ear(&self, class: usize) -> usize {
        self.stations.len() + class
    }
    /// The contenders of a station.
    pub(super) fn kinds_of(&self, station: usize) -> core::ops::Range<usize> {
        station * self.kinds..(station + 1) * self.kinds
    }
}

/// How long a station that received an RTS waits for the next frame before it resets its NAV (10.3.2.4).
pub(super) fn nav_patience(sifs: Span, slot: Span, cts: PhyRate) -> Span {
    sifs.times(2) + cts.airtime(super::phy::ACK_OCTETS) + cts.preamble() + slot.times(2)
}
