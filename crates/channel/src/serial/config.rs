//! The configuration of a serial line, as plain values.

use crate::cable::{ConfigError as CableError, Discipline};
use crate::{CableConfig, DirectionConfig};
use wavelane_base::{Rate, Ratio, Span};

/// Bits on the line per octet without a modem: a start bit, eight of data, a stop bit.
pub const BITS_8N1: u64 = 10;
/// What a modem adds to each direction's delay: it waits to fill a block, corrects and decodes it.
pub const MODEM_DELAY: Span = Span::from_millis(50);
/// Rate of the line between computer and modem, whose start and stop bits the modem strips: no compression brings more than this.
pub const COMPUTER_RATE: Rate = Rate::from_bps(115_200);
/// Slowest and fastest line.
pub const RATE_MIN: Rate = Rate::from_bps(50);
/// See [`RATE_MIN`].
pub const RATE_MAX: Rate = Rate::from_bps(4_000_000);
/// Largest FIFO of a receiver.
pub const FIFO_MAX: u32 = 256;
/// Longest time until a receiver's interrupt is served.
pub const SERVICE_MAX: Span = Span::from_secs(1);
/// Most that compression may be said to gain: V.42bis promises four to one on what compresses best.
pub const RATIO_MAX: u64 = 4;

/// A serial line between two ports; side a is `PortId(0)`, side b is `PortId(1)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SerialConfig {
    /// From side a to side b.
    pub forward: SerialDirection,
    /// From side b to side a.
    pub reverse: SerialDirection,
}

/// One direction of a serial line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SerialDirection {
    /// Bits per second on the line.
    pub rate: Rate,
    /// What the line makes of an octet.
    pub coding: Coding,
    /// The receiver's FIFO; without one no octet is ever overrun.
    pub uart: Option<Uart>,
    /// Probability that a bit on the line is inverted.
    pub noise: Ratio,
    /// Queue, delay and loss of whole frames. Its rate follows from the line.
    pub cable: DirectionConfig,
}

/// What a line makes of an octet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Coding {
    /// Asynchronous: [`BITS_8N1`] bits.
    #[default]
    Async,
    /// Synchronous, as on a leased line or a subscriber's: eight bits.
    Sync,
    /// A modem with error correction (V.42): synchronous, eight bits, [`MODEM_DELAY`], and no noise gets through.
    V42,
    /// The same with compression (V.42bis), approximated by a ratio that holds for every octet, at most what the computer's own line at
    /// [`COMPUTER_RATE`] carries.
    V42bis(Gain),
}

/// A ratio of at least one, in hundredths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gain(u64);

impl Gain {
    /// The document's "about 2-to-1".
    pub const TWO: Self = Self(200);
    /// From hundredths; `None` outside 1 to [`RATIO_MAX`].
    pub fn from_hundredths(hundredths: u64) -> Option<Self> {
        (100..=RATIO_MAX * 100).contains(&hundredths).then_some(Self(hundredths))
    }
    /// In hundredths.
    pub const fn hundredths(self) -> u64 {
        self.0
    }
}

/// A receiver whose octets wait in a FIFO until the processor reads them all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uart {
    /// Octets it holds besides the one that is arriving: 1 for an 8250, 16 for a 16550, 32 for a 16650.
    pub fifo: u32,
    /// At how many the interrupt is raised.
    pub trigger: u32,
    /// Longest time from the interrupt until the FIFO is read; it is uniform from zero.
    pub service: Span,
}

impl Uart {
    /// A FIFO whose interrupt comes at a quarter of it, as the second of the 16550's four levels.
    pub fn new(fifo: u32, service: Span) -> Self {
        Self { fifo, trigger: (fifo / 4).max(1), service }
    }
}

/// Why a serial line is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SerialError {
    /// The rate.
    #[error("rate of {} bit/s lies outside {} to {}: use a line's rate in bit/s, start and stop bits counted",
        .0.as_bps(), RATE_MIN.as_bps(), RATE_MAX.as_bps())]
    Rate(Rate),
    /// The FIFO.
    #[error(
        "fifo {fifo} and trigger {trigger} do not fit: use a fifo of 1 to {FIFO_MAX} and a trigger of 1 up to that"
    )]
    Fifo {
        /// Octets it holds.
        fifo: u32,
        /// Where the interrupt comes.
        trigger: u32,
    },
    /// The service delay.
    #[error("service {0} is longer than {SERVICE_MAX}: use less")]
    Service(Span),
    /// Noise behind a modem.
    #[error("a modem with error correction lets no noise through: remove noise, or the modem")]
    Noise,
    /// What only packets have.
    #[error(
        "a serial line has a FIFO of frames, keeps their order and changes them only by noise: leave the rest to a cable"
    )]
    Packets,
    /// What a cable refuses too.
    #[error(transparent)]
    Cable(#[from] CableError),
}

impl Default for SerialDirection {
    /// 115.2 kbit/s, 8N1, without delay, noise or a FIFO to overrun.
    fn default() -> Self {
        let line = Self {
            rate: Rate::from_bps(115_200),
            coding: Coding::Async,
            uart: None,
            noise: Ratio::ZERO,
            cable: DirectionConfig::default(),
        };
        line.settled(Span::ZERO)
    }
}

impl SerialDirection {
    /// The same with the cable's rate and delay as the line and its coding have them, `delay` being that of the way itself.
    pub fn settled(mut self, delay: Span) -> Self {
        self.cable.rate = Some(self.octet_rate());
        self.cable.delay = delay + self.modem_delay();
        self
    }
    /// The delay of the way without the modem's.
    pub fn way_delay(&self) -> Span {
        self.cable.delay.saturating_sub(self.modem_delay())
    }
    fn modem_delay(&self) -> Span {
        if matches!(self.coding, Coding::Async | Coding::Sync) { Span::ZERO } else { MODEM_DELAY }
    }
    /// The rate at which octets pass, times eight.
    pub fn octet_rate(&self) -> Rate {
        let bps = self.rate.as_bps();
        Rate::from_bps(match self.coding {
            Coding::Async => bps * 8 / BITS_8N1,
            Coding::Sync | Coding::V42 => bps,
            Coding::V42bis(ratio) => (bps * ratio.hundredths() / 100).min(COMPUTER_RATE.as_bps() * 8 / BITS_8N1),
        })
    }
    /// The time of one octet.
    pub fn octet_time(&self) -> Span {
        self.octet_rate().time_for(wavelane_base::Octets::new(1))
    }
    /// Rejects invalid values.
    pub fn check(&self) -> Result<(), SerialError> {
        if self.rate < RATE_MIN || self.rate > RATE_MAX {
            return Err(SerialError::Rate(self.rate));
        }
        if let Some(Uart { fifo, trigger, service }) = self.uart {
            if !(1..=FIFO_MAX).contains(&fifo) || !(1..=fifo).contains(&trigger) {
                return Err(SerialError::Fifo { fifo, trigger });
            }
            if service > SERVICE_MAX {
                return Err(SerialError::Service(service));
            }
        }
        if self.noise != Ratio::ZERO && self.modem_delay() != Span::ZERO {
            return Err(SerialError::Noise);
        }
        // What a queue drops or a cable alters would be octets of a frame that the far decoder takes for the next.
        let plain = DirectionConfig {
            rate: self.cable.rate,
            delay: self.cable.delay,
            queue: self.cable.queue,
            loss: self.cable.loss.clone(),
            outages: self.cable.outages.clone(),
            ..DirectionConfig::default()
        };
        let fifo = self.cable.queueing.discipline == Discipline::Fifo;
        if plain != self.cable || !fifo || self.cable.rate != Some(self.octet_rate()) {
            return Err(SerialError::Packets);
        }
        Ok(())
    }
}

impl SerialConfig {
    /// As a cable of octets.
    pub fn cable(&self) -> CableConfig {
        CableConfig { forward: self.forward.cable.clone(), reverse: self.reverse.cable.clone() }
    }
    /// Rejects invalid values.
    pub fn check(&self) -> Result<(), SerialError> {
        self.forward.check()?;
        self.reverse.check()?;
        Ok(self.cable().check()?)
    }
}
