//! A connection of our own TCP, as the door sees it.

use crate::socket::{Got, Put, Receiving, Rooms, Socket};
use wavelane_base::{FlowId, Instant, ReadOutcome, Streams};
use wavelane_tcp::Host;

/// A connection of `host`, at one moment.
pub struct OwnSocket<'a> {
    pub(crate) host: &'a mut Host,
    pub(crate) now: Instant,
    pub(crate) flow: FlowId,
    pub(crate) rooms: Rooms,
}

impl Socket for OwnSocket<'_> {
    fn read(&mut self, into: &mut [u8]) -> Got {
        match self.host.read(self.now, self.flow, into) {
            ReadOutcome::Data(octets) => Got::Bytes(octets),
            ReadOutcome::Blocked => Got::Blocked,
            ReadOutcome::End => Got::End,
            ReadOutcome::Reset => Got::Failed,
        }
    }
    fn write(&mut self, front: &[u8], back: &[u8]) -> Put {
        self.host.expect_more(self.flow);
        let mut taken = self.host.write(self.now, self.flow, front);
        if taken == front.len() {
            taken += self.host.write(self.now, self.flow, back);
        }
        if taken == 0 { Put::Blocked } else { Put::Bytes(taken) }
    }
    fn shutdown(&mut self) -> bool {
        self.host.shutdown(self.now, self.flow);
        true
    }
    fn end_orderly(&mut self) {}
    fn undelivered(&self) -> Option<u32> {
        // Only a change matters.
        self.host.connection(self.flow)?.undelivered().map(|acknowledged| acknowledged as u32)
    }
    fn has_bytes(&self) -> bool {
        self.host.connection(self.flow).is_some_and(|connection| connection.receiving().0 > 0)
    }
    fn receiving(&self) -> Option<Receiving> {
        if self.rooms.first == self.rooms.most {
            // The buffer has one size.
            return None;
        }
        let connection = self.host.connection(self.flow)?;
        let (held, round_trip) = connection.receiving();
        let segment = usize::try_from(connection.status().mss).unwrap_or(usize::MAX);
        Some(Receiving { round_trip: round_trip.unwrap_or_default(), segment, held })
    }
    fn set_receive_room(&mut self, octets: usize) {
        self.host.set_receive_buffer(self.flow, octets);
    }
    fn receive_rooms(&self) -> Rooms {
        self.rooms
    }
}
