//! Writes captures of IP packets on a separate thread.

use std::io::{self, Write};
pub(crate) use wavelane_measure::pcapng::PortDirection;
use wavelane_measure::pcapng::{LINKTYPE_RAW, put_head, put_packet};

/// Default number of bytes kept of each packet: all headers, no bodies.
pub const SNAPLEN: usize = 128;
/// Largest file; packets beyond it are counted and not written.
pub const FILE_MAX: u64 = 256 << 20;

/// Bytes collected before they are passed to the writing thread.
const CHUNK: usize = 128 << 10;
/// Chunks that may wait for the disk; beyond that packets are counted and not written.
const CHUNKS_WAITING: usize = 32;

/// A capture whose caller never waits for the disk: a separate thread writes the file.
#[derive(Debug)]
pub(crate) struct CaptureFile {
    snaplen: usize,
    chunk: Vec<u8>,
    octets: u64,
    /// Packets not written because the file was full or the disk too slow.
    pub(crate) skipped: u64,
    chunks: std::sync::mpsc::SyncSender<Vec<u8>>,
    writer: std::thread::JoinHandle<io::Result<()>>,
}

impl CaptureFile {
    /// Creates the file at `path` for the port named `interface`.
    pub(crate) fn create(path: &std::path::Path, interface: &str) -> io::Result<Self> {
        Self::create_with(path, interface, SNAPLEN)
    }
    /// Like [`CaptureFile::create`], but keeps whole packets, so that readers can verify their checksums.
    pub(crate) fn create_whole(path: &std::path::Path, interface: &str) -> io::Result<Self> {
        Self::create_with(path, interface, usize::from(u16::MAX))
    }
    fn create_with(path: &std::path::Path, interface: &str, snaplen: usize) -> io::Result<Self> {
        let mut file = std::fs::File::create(path)?;
        let (chunks, queue) = std::sync::mpsc::sync_channel::<Vec<u8>>(CHUNKS_WAITING);
        let writer = std::thread::Builder::new().name("pcap".into()).spawn(move || {
            for chunk in queue {
                file.write_all(&chunk)?;
            }
            Ok(())
        })?;
        let mut chunk = Vec::with_capacity(CHUNK + 2048);
        put_head(&mut chunk, LINKTYPE_RAW, interface, snaplen);
        Ok(Self { snaplen, chunk, octets: 0, skipped: 0, chunks, writer })
    }

    /// Records one packet.
    pub(crate) fn note(&mut self, unix_ns: u64, way: PortDirection, packet: &[u8]) {
        if self.octets + self.chunk.len() as u64 >= FILE_MAX {
            self.skipped += 1;
            return;
        }
        if self.chunk.len() >= CHUNK {
            let full = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK + 2048));
            self.octets += full.len() as u64;
            if let Err(refused) = self.chunks.try_send(full) {
                use std::sync::mpsc::TrySendError::{Disconnected, Full};
                let (Full(chunk) | Disconnected(chunk)) = refused;
                self.octets -= chunk.len() as u64;
                self.chunk = chunk;
                self.skipped += 1;
                return;
            }
        }
        let kept = &packet[..packet.len().min(self.snaplen)];
        put_packet(&mut self.chunk, unix_ns, Some(way), kept, packet.len());
    }

    /// Writes what is left and closes the file. Returns the number of packets skipped.
    pub(crate) fn finish(self) -> io::Result<u64> {
        // A closed queue means that the writer has failed; join returns its error.
        let _ = self.chunks.send(self.chunk);
        drop(self.chunks);
        let wrote = self.writer.join().map_err(|_| io::Error::other("the thread writing the capture panicked"))?;
        wrote.map(|()| self.skipped)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::process::Command;

    /// A UDP packet 10.0.0.1:1000 -> 10.0.0.2:2000 with a body of `body` zeros; checksums left out.
    fn packet(body: usize) -> Vec<u8> {
        let total = u16::try_from(28 + body).unwrap().to_be_bytes();
        let udp = u16::try_from(8 + body).unwrap().to_be_bytes();
        let mut p = vec![0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        p.extend_from_slice(&[0x03, 0xe8, 0x07, 0xd0, udp[0], udp[1], 0, 0]);
        p.resize(28 + body, 0);
        p
    }

    #[test]
    fn other_tools_read_our_pcapng() {
        let path = std::env::temp_dir().join(format!("wavelane-{}-t.pcapng", std::process::id()));
        let mut capture = CaptureFile::create(&path, "wl_air").unwrap();
        capture.note(1_700_000_000_123_456_789, PortDirection::Out, &packet(10));
        capture.note(1_700_000_000_223_456_790, PortDirection::In, &packet(1400));
        assert_eq!(capture.finish().unwrap(), 0);
        let run = |tool: &str, arguments: &[&str]| match Command::new(tool).args(arguments).arg(&path).output() {
            Ok(out) => Some(String::from_utf8_lossy(&out.stdout).into_owned()),
            Err(_) => {
                eprintln!("SKIPPED (not installed): reading back with {tool}");
                None
            }
        };
        if let Some(text) = run("tcpdump", &["-n", "-tt", "--nano", "-r"]) {
            assert!(text.contains("1700000000.123456789"), "{text}");
            assert!(text.contains("10.0.0.1.1000 > 10.0.0.2.2000: UDP, length 1400"), "{text}");
        }
        let fields = ["-T", "fields", "-e", "frame.len", "-e", "frame.cap_len", "-e", "frame.packet_flags_direction"];
        let mut tshark: Vec<&str> = fields.to_vec();
        tshark.push("-r");
        if let Some(text) = run("tshark", &tshark) {
            let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split('\t').collect()).collect();
            assert_eq!(lines.len(), 2, "{text}");
            assert_eq!(lines[0][..2], ["38", "38"]);
            assert_eq!(lines[1][..2], ["1428", "128"]);
            assert!(lines[0][2].ends_with('2') && lines[1][2].ends_with('1'), "{text}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_full_disk_is_an_error_and_not_a_short_file() {
        let mut capture = CaptureFile::create(std::path::Path::new("/dev/full"), "wl_air").unwrap();
        capture.note(1, PortDirection::Out, &packet(10));
        assert_eq!(capture.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
