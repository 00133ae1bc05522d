//! Capture files of radio cells: `pcap/STACK-STATION-CHANNEL.pcapng`, times from the run's start on.

use crate::wiring::World;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Error, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use wavelane_channel::wifi::{CapturePoint, LINKTYPE_RADIOTAP};
use wavelane_measure::pcapng::{Way, put_head, put_packet};
use wavelane_scenario::{BackendError, RunContext, Scenario};

/// Most bytes of one capture file; frames after that are counted and not written.
const FILE_MAX: u64 = 1 << 30;
/// What stands in a file's name for the cell itself, where else a station does.
const MEDIUM: &str = "medium";

/// One capture file.
struct Sink {
    path: PathBuf,
    file: BufWriter<File>,
    written: u64,
    left_out: u64,
    failed: Option<Error>,
}

/// The capture files of one run, by channel and place among its captures.
pub(crate) struct Captures {
    sinks: Rc<RefCell<BTreeMap<(usize, usize), Sink>>>,
}

impl Captures {
    /// Opens a file for each place and has the engine write to it. Without captures nothing happens.
    pub(crate) fn open(scenario: &Scenario, world: &mut World, context: &RunContext<'_>) -> Result<Self, BackendError> {
        let mut sinks = BTreeMap::new();
        for channel in &scenario.channels {
            let (Some(cell), Some(id)) = (channel.cell(), world.channels.get(&channel.name)) else { continue };
            for (place, point) in cell.captures.iter().enumerate() {
                let at = match *point {
                    CapturePoint::Medium => MEDIUM,
                    CapturePoint::Station(station) => &channel.between[station],
                };
                let mut sink = Sink::create(context.pcap(at, &channel.name))?;
                let mut head = Vec::new();
                put_head(&mut head, LINKTYPE_RADIOTAP, &channel.name, cell.snaplen);
                sink.write(&head);
                sinks.insert((id.0, place), sink);
            }
        }
        if sinks.is_empty() {
            return Ok(Self { sinks: Rc::default() });
        }
        let sinks = Rc::new(RefCell::new(sinks));
        let (shared, mut block) = (Rc::clone(&sinks), Vec::new());
        world.engine.set_capture_sink(Box::new(move |channel, captured, bytes| {
            if let Some(sink) = shared.borrow_mut().get_mut(&(channel.0, captured.point)) {
                let way = if captured.sent { Way::Out } else { Way::In };
                block.clear();
                put_packet(&mut block, captured.at.as_nanos(), Some(way), bytes, captured.octets);
                sink.write(&block);
            }
        }));
        Ok(Self { sinks })
    }

    /// Finishes the files. Says which of them are not whole.
    pub(crate) fn close(self) -> Result<Vec<String>, BackendError> {
        let mut notes = Vec::new();
        for sink in self.sinks.borrow_mut().values_mut() {
            let failed = sink.failed.take().or_else(|| sink.file.flush().err());
            if let Some(why) = failed {
                return Err(unwritable(&sink.path, &why));
            }
            if sink.left_out > 0 {
                let name = sink.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let (left_out, most) = (sink.left_out, FILE_MAX >> 20);
                notes.push(format!("{name}: {left_out} frames are left out, for the file had reached {most} MiB"));
            }
        }
        Ok(notes)
    }
}

impl Sink {
    fn create(path: PathBuf) -> Result<Self, BackendError> {
        // A name that exists belongs to another station and channel of this run, such as a-b on c and a on b-c.
        let file = File::create_new(&path).map_err(|why| unwritable(&path, &why))?;
        Ok(Self { path, file: BufWriter::new(file), written: 0, left_out: 0, failed: None })
    }
    fn write(&mut self, block: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        if self.written + block.len() as u64 > FILE_MAX {
            self.left_out += 1;
            return;
        }
        self.written += block.len() as u64;
        self.failed = self.file.write_all(block).err();
    }
}

fn unwritable(path: &Path, why: &Error) -> BackendError {
    let path = path.display();
    BackendError::Unable(format!("cannot write {path}: {why}; free space, choose another --out, or remove pcap"))
}
