//! What a line carried, and what it spoilt, by cause.

/// Why octets gave no packet. A frame counts once, by the first cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// An escape before an octet that none may precede, or at the end of a frame.
    Escape,
    /// Longer than a packet may be, or without an end.
    Long,
    /// Too short to be a frame.
    Short,
    /// The frame check sequence does not hold.
    CheckSum,
    /// The sender gave the frame up.
    Aborted,
    /// A protocol that nobody here speaks.
    Protocol,
    /// Of a packet-radio modem: no data, or another port's.
    Command,
    /// A compressed header without the full one it refers to.
    Header,
    /// No IP packet of the length it claims.
    Packet,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Escape,
        Self::Long,
        Self::Short,
        Self::CheckSum,
        Self::Aborted,
        Self::Protocol,
        Self::Command,
        Self::Header,
        Self::Packet,
    ];

    /// Its word in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Escape => "escape",
            Self::Long => "long",
            Self::Short => "short",
            Self::CheckSum => "check_sum",
            Self::Aborted => "aborted",
            Self::Protocol => "protocol",
            Self::Command => "command",
            Self::Header => "header",
            Self::Packet => "packet",
        }
    }
}

/// Counts of one end of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Whole packets received.
    pub frames: u64,
    /// Octets received, of whatever.
    pub octets: u64,
    /// Octets since the last whole packet: many of them say that the rate or the framing is another.
    pub octets_since_frame: u64,
    /// Packets written.
    pub sent_frames: u64,
    /// Octets written.
    pub sent_octets: u64,
    bad: [u64; Fault::ALL.len()],
}

impl Counters {
    /// Frames lost by this cause.
    pub const fn bad(&self, fault: Fault) -> u64 {
        self.bad[fault as usize]
    }
    /// Frames lost by any cause.
    pub fn bad_total(&self) -> u64 {
        self.bad.iter().sum()
    }
    /// The causes that occurred, with their counts.
    pub fn bad_by_cause(&self) -> impl Iterator<Item = (Fault, u64)> + '_ {
        Fault::ALL.into_iter().map(|fault| (fault, self.bad(fault))).filter(|&(_, count)| count > 0)
    }
    pub(crate) fn count_bad(&mut self, fault: Fault) {
        self.bad[fault as usize] += 1;
    }
    pub(crate) fn count_frame(&mut self) {
        self.frames += 1;
        self.octets_since_frame = 0;
    }
    pub(crate) fn count_octets(&mut self, octets: usize) {
        self.octets += octets as u64;
        self.octets_since_frame += octets as u64;
    }
    pub(crate) fn count_sent(&mut self, octets: usize) {
        self.sent_frames += 1;
        self.sent_octets += octets as u64;
    }
}
