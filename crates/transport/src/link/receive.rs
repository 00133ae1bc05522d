//! What arrives: the frames of datagrams, and of datagrams restored by repair symbols.

use super::compose::RANGES_SHARED;
use super::inbound::InboundLoss;
use super::{Arrival, Asks, HEARD_RESPONSES_MAX, LANES_MAX, Link, TO_TELL_MAX};
use crate::Service;
use crate::fec::Decoder;
use crate::lane::{Came, LaneReceiver};
use crate::session::OpenOctets;
use wavelane_base::{Instant, Span};
use wavelane_wire::datagram::{DATA_HEADER_LEN, TAG_LEN};
use wavelane_wire::frame::{Frame, Frames, Ranges};

/// Most frames in one datagram, padding excluded. A full one of the shortest receipts has half as many.
const FRAMES_MAX: usize = 512;
/// Most frames of these costly kinds: lane acks, of which there is one per lane, and lists of finished flows.
const LISTS_MAX: usize = 2 * LANES_MAX;

impl<S: Service> Link<S> {
    /// Takes the plaintext of an authenticated datagram.
    pub fn handle_payload(&mut self, arrival: Arrival, payload: &[u8]) {
        let Arrival { now, rx_time, lane, back, number, ecn, open } = arrival;
        self.counters.datagrams_received += 1;
        let known = receiver(&mut self.receivers, lane).is_some();
        let mut came = Came::default();
        if known {
            let around = DATA_HEADER_LEN + TAG_LEN + self.lanes[self.lanes.first()].overhead();
            let octets = &mut self.came[usize::from(lane)];
            *octets += (payload.len() + around) as u64;
            let ping = |frame| matches!(frame, Ok(Frame::Ping | Frame::AckWish { .. } | Frame::Padding));
            self.first.came(rx_time, number, (payload.len() + around) as u32, || Frames::new(payload).all(ping));
            came = Came { lane, octets: *octets };
            self.inbound.resize(self.receivers.len(), InboundLoss::default());
            self.decoders.resize_with(self.receivers.len(), Decoder::default);
        }
        let protected = known && matches!(Frames::new(payload).next(), Some(Ok(Frame::Protected)));
        let mut asked = Asked { eliciting: true, now: false };
        // A datagram that was rebuilt from symbols before it arrived was handled then.
        if !protected || self.decoders[usize::from(lane)].source(number, payload) {
            asked = self.take_frames(now, payload, Some(came), open);
        }
        if known {
            asked.now |= self.take_recovered(now, lane);
        }
        if let Some(receiver) = receiver(&mut self.receivers, lane) {
            receiver.received(now, rx_time, number, ecn, asked.eliciting, asked.now);
            // A tail probe: the lane that our acks take may be what fails, so this ack leaves by the probe's lane too.
            let back = back.filter(|back| asked.now && self.lanes.are_several() && *back != self.lanes.first());
            if let Some(back) = back {
                self.lanes[back].ack_copy = receiver.clone().take_ack(now, RANGES_SHARED);
            }
            self.inbound[usize::from(lane)].arrived(number);
        }
        if let Some(back) = back {
            self.costs.pair(lane, back);
        }
        self.heed_costs(now);
        self.settle(now);
    }

    /// Handles the frames of one datagram; `came` is the octets received on its lane so far. For a recovered datagram (`None`) lane acks
    /// are skipped: they are late.
    fn take_frames(&mut self, now: Instant, payload: &[u8], came: Option<Came>, open: Option<OpenOctets>) -> Asked {
        let mut asked = Asked::default();
        let (mut frames, mut lists, mut tells) = (0, 0, 0);
        for frame in Frames::new(payload) {
            let Ok(frame) = frame else {
                self.counters.malformed += 1;
                break;
            };
            frames += usize::from(frame != Frame::Padding);
            match &frame {
                Frame::LaneAck(_) | Frame::Forget { .. } => lists += 1,
                Frame::Repaired { .. } => tells += 1,
                _ => {}
            }
            if frames > FRAMES_MAX || lists > LISTS_MAX || tells > TO_TELL_MAX {
                // No legitimate sender says so much at once; the work per datagram stays bounded.
                self.counters.malformed += 1;
                break;
            }
            asked.eliciting |= frame.is_eliciting();
            match frame {
                Frame::LaneAck(_) | Frame::Repair(_) | Frame::Repaired { .. } if came.is_none() => {}
                Frame::LaneAck(ack) => match self.lanes.get_mut(ack.lane) {
                    Some(lane) => {
                        lane.sender.set_came(came.unwrap_or_default());
                        lane.sender.handle_ack(now, &ack);
                        let made = |(by, number)| {
                            by == ack.lane && ack.ranges.0.iter().any(|r| r.0 <= number && number <= r.1)
                        };
                        if self.asks.made_by.is_some_and(made) {
                            self.asks = Asks { answered: true, ..Asks::default() };
                        }
                    }
                    None => self.counters.stray_acks += 1,
                },
                Frame::AckWish { lane, packets, delay_us, now: at_once } => {
                    asked.now |= at_once;
                    if at_once {
                        self.service.asked(now);
                    }
                    if let Some(receiver) = receiver(&mut self.receivers, lane) {
                        receiver.wish(packets, Span::from_micros(delay_us));
                    }
                }
                Frame::Repair(repair) => {
                    if let Some(decoder) = self.decoders.get_mut(usize::from(repair.lane)) {
                        decoder.repair(repair.key, repair.first, repair.mask, repair.symbol);
                    }
                }
                Frame::Repaired { lane, numbers } => self.repaired(now, lane, &numbers),
                Frame::Padding | Frame::Ping | Frame::Close | Frame::Protected | Frame::Unknown { .. } => {}
                Frame::PathChallenge(token) => self.responses.asked(now, token),
                Frame::PathResponse(token) if self.heard_responses.len() < HEARD_RESPONSES_MAX => {
                    self.heard_responses.push_back(token);
                }
                Frame::PathResponse(_) => {}
                Frame::Metered { lanes, order } => self.costs.hear(lanes, order),
                Frame::LaneGone { lane, next } => {
                    self.costs.gone(lane);
                    self.going.heard(lane, next);
                    if let Some(receiver) = self.receivers.get_mut(usize::from(lane)) {
                        receiver.gone(next);
                    }
                    if let Some(loss) = self.inbound.get_mut(usize::from(lane)) {
                        loss.gone(next);
                    }
                }
                carried => {
                    if self.service.handle_frame(now, &carried) {
                        self.liveness.used(now);
                    }
                    // Only the last frame can be data of this length that ends with the payload: its octets are the open ones.
                    let ends = |bytes: &[u8]| bytes.as_ptr_range().end == payload.as_ptr_range().end;
                    if let (Frame::Data { bytes, .. }, Some(OpenOctets { len, digest })) = (&carried, open)
                        && bytes.len() == len
                        && ends(bytes)
                    {
                        self.service.note_open(&carried, digest);
                    }
                }
            }
        }
        asked
    }

    /// Handles datagrams that repair symbols restored. Returns whether there were any.
    fn take_recovered(&mut self, now: Instant, lane: u8) -> bool {
        let mut any = false;
        while let Some((number, payload)) = self.decoders[usize::from(lane)].poll_recovered() {
            any = true;
            self.counters.recovered += 1;
            self.take_frames(now, &payload, None, None);
            if self.to_tell.len() < TO_TELL_MAX {
                self.to_tell.push((lane, number));
            }
        }
        any
    }

    /// The neighbour rebuilt these datagrams of ours from symbols: nothing in them has to be retransmitted.
    fn repaired(&mut self, now: Instant, lane: u8, numbers: &Ranges) {
        let Some(lane) = self.lanes.get_mut(lane) else {
            self.counters.stray_acks += 1;
            return;
        };
        let sent = lane.sender.next_number();
        let numbers = numbers.0.iter().flat_map(|&(first, last)| first..=last);
        for number in numbers.take(TO_TELL_MAX).filter(|number| *number < sent) {
            let parked = lane.guard.repaired(number);
            let record = lane.sender.take_record(number).map(|record| record.load);
            parked.into_iter().chain(record).for_each(|load| self.service.delivered(now, load));
        }
    }
}

/// What a datagram's frames request: a lane ack, and an immediate one.
#[derive(Clone, Copy, Default)]
struct Asked {
    eliciting: bool,
    now: bool,
}

/// The receiver for the neighbour's lane, made on first use; `None` past [`LANES_MAX`].
fn receiver(receivers: &mut Vec<LaneReceiver>, lane: u8) -> Option<&mut LaneReceiver> {
    if usize::from(lane) >= LANES_MAX {
        return None;
    }
    while receivers.len() <= usize::from(lane) {
        receivers.push(LaneReceiver::new(receivers.len() as u8));
    }
    receivers.get_mut(usize::from(lane))
}
