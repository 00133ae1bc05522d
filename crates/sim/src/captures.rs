//! Capture files, `pcap/STACK-NODE-CHANNEL.pcapng`, times from the run's start on: of the stations of radio cells, and of
//! gateways' ports on the channels between them, where the laboratory captures too; of every channel's ends around a gateway that is
//! joined to no other, such as a proxy.

use crate::engine::Point;
use crate::wiring::World;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Error, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use wavelane_channel::wifi::{CapturePoint, LINKTYPE_RADIOTAP};
use wavelane_measure::pcapng::{LINKTYPE_RAW, PortDirection, put_head, put_packet};
use wavelane_run::{BackendError, CaptureExtent, RunContext};
use wavelane_scenario::{Channel, NodeKind, Scenario};

/// Most bytes of one capture file; frames after that are counted and not written.
const FILE_MAX: u64 = 1 << 30;
/// Stands for the cell itself in a file's name, in the place of a station.
const MEDIUM: &str = "medium";
/// Bytes kept of each IP packet: all headers, no bodies, as the laboratory keeps.
const SNAPLEN: usize = 128;

/// One capture file.
struct Sink {
    path: PathBuf,
    file: BufWriter<File>,
    block: Vec<u8>,
    written: u64,
    left_out: u64,
    failed: Option<Error>,
}

/// Capture files by channel and place among its captures: a cable's end, or the place in a cell's list.
type Sinks = Rc<RefCell<BTreeMap<(usize, usize), Sink>>>;

/// The capture files of one run.
pub(crate) struct Captures {
    cells: Sinks,
    cables: Sinks,
}

impl Captures {
    /// Opens a file for each place and has the engine write to it. Without captures nothing happens.
    pub(crate) fn open(scenario: &Scenario, world: &mut World, context: &RunContext<'_>) -> Result<Self, BackendError> {
        let cells = Self::of_cells(scenario, world, context)?;
        let cables = match context.captures {
            CaptureExtent::Off => Sinks::default(),
            CaptureExtent::Headers => Self::of_cables(scenario, world, context, SNAPLEN)?,
            CaptureExtent::Whole => Self::of_cables(scenario, world, context, usize::from(u16::MAX))?,
        };
        Ok(Self { cells, cables })
    }

    fn of_cells(scenario: &Scenario, world: &mut World, context: &RunContext<'_>) -> Result<Sinks, BackendError> {
        let mut sinks = BTreeMap::new();
        for channel in &scenario.channels {
            let (Some(cell), Some(id)) = (channel.cell(), world.channels.get(&channel.name)) else { continue };
            for (place, point) in cell.captures.iter().enumerate() {
                let at = match *point {
                    CapturePoint::Medium => MEDIUM,
                    CapturePoint::Station(station) => &channel.between[station],
                };
                let path = context.pcap(at, &channel.name);
                sinks.insert((id.0, place), Sink::create(path, LINKTYPE_RADIOTAP, &channel.name, cell.snaplen)?);
            }
        }
        if sinks.is_empty() {
            return Ok(Sinks::default());
        }
        let sinks = Rc::new(RefCell::new(sinks));
        let shared = Rc::clone(&sinks);
        world.engine.set_capture_sink(Box::new(move |channel, captured, bytes| {
            if let Some(sink) = shared.borrow_mut().get_mut(&(channel.0, captured.point)) {
                let way = if captured.sent { PortDirection::Out } else { PortDirection::In };
                sink.packet(captured.at.as_nanos(), way, bytes, captured.octets);
            }
        }));
        Ok(sinks)
    }

    fn of_cables(
        scenario: &Scenario,
        world: &mut World,
        context: &RunContext<'_>,
        snaplen: usize,
    ) -> Result<Sinks, BackendError> {
        let mut sinks = BTreeMap::new();
        let between: Vec<&Channel> = scenario.channels_between_gateways().collect();
        // A gateway alone is a proxy: what passes is of interest at both its sides and at the ends.
        let alone = between.is_empty() && scenario.nodes.iter().any(|node| node.kind == NodeKind::Gateway);
        let all = scenario.channels.iter().filter(|_| alone);
        for channel in between.into_iter().chain(all) {
            let Some(id) = world.channels.get(&channel.name).filter(|_| channel.cell().is_none()) else { continue };
            for (end, node) in channel.between.iter().enumerate() {
                let path = context.pcap(node, &channel.name);
                sinks.insert((id.0, end), Sink::create(path, LINKTYPE_RAW, &channel.name, snaplen)?);
            }
        }
        if sinks.is_empty() {
            return Ok(Sinks::default());
        }
        let sinks = Rc::new(RefCell::new(sinks));
        let shared = Rc::clone(&sinks);
        world.engine.set_tap(Box::new(move |crossing| {
            if let Some(sink) = shared.borrow_mut().get_mut(&(crossing.channel.0, usize::from(crossing.port.0))) {
                let way = if crossing.point == Point::Offered { PortDirection::Out } else { PortDirection::In };
                let kept = &crossing.packet[..crossing.packet.len().min(snaplen)];
                sink.packet(crossing.at.as_nanos(), way, kept, crossing.packet.len());
            }
        }));
        Ok(sinks)
    }

    /// Writes the keys that open whole captures, if these are kept.
    pub(crate) fn log_keys(world: &mut World, context: &RunContext<'_>) -> Result<(), BackendError> {
        let keys = world.engine.take_keys();
        if context.captures != CaptureExtent::Whole || keys.is_empty() {
            return Ok(());
        }
        let path = context.key_log();
        let lines: String = keys.iter().map(|key| format!("{key}\n")).collect();
        std::fs::write(&path, lines).map_err(|why| unwritable(&path, &why))
    }

    /// Finishes the files. Says which of them are not whole.
    pub(crate) fn close(self) -> Result<Vec<String>, BackendError> {
        let mut notes = Vec::new();
        let (mut cells, mut cables) = (self.cells.borrow_mut(), self.cables.borrow_mut());
        for sink in cells.values_mut().chain(cables.values_mut()) {
            let failed = sink.failed.take().or_else(|| sink.file.flush().err());
            if let Some(why) = failed {
                return Err(unwritable(&sink.path, &why));
            }
            if sink.left_out > 0 {
                let name = sink.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let (left_out, most) = (sink.left_out, FILE_MAX >> 20);
                notes.push(format!("{name}: {left_out} packets are left out, for the file had reached {most} MiB"));
            }
        }
        Ok(notes)
    }
}

impl Sink {
    fn create(path: PathBuf, link_type: u16, channel: &str, snaplen: usize) -> Result<Self, BackendError> {
        // A name that exists belongs to another station and channel of this run, such as a-b on c and a on b-c.
        let file = File::create_new(&path).map_err(|why| unwritable(&path, &why))?;
        let mut sink =
            Self { path, file: BufWriter::new(file), block: Vec::new(), written: 0, left_out: 0, failed: None };
        put_head(&mut sink.block, link_type, channel, snaplen);
        sink.write();
        Ok(sink)
    }
    /// Writes one packet of `octets`, of which `kept` is kept.
    fn packet(&mut self, at_ns: u64, way: PortDirection, kept: &[u8], octets: usize) {
        self.block.clear();
        put_packet(&mut self.block, at_ns, Some(way), kept, octets);
        self.write();
    }
    fn write(&mut self) {
        if self.failed.is_some() {
            return;
        }
        if self.written + self.block.len() as u64 > FILE_MAX {
            self.left_out += 1;
            return;
        }
        self.written += self.block.len() as u64;
        self.failed = self.file.write_all(&self.block).err();
    }
}

fn unwritable(path: &Path, why: &Error) -> BackendError {
    let path = path.display();
    BackendError::Unable(format!("cannot write {path}: {why}; use --out with a writable folder that has free space"))
}
