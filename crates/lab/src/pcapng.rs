//! Writes pcapng files: IP packets, nanosecond times, a direction on each packet.
//!
//! Format: draft-ietf-opsawg-pcapng. All numbers little-endian.

use std::io::{self, Write};

/// LINKTYPE_RAW: packets begin with the IP header (tcpdump.org/linktypes.html).
const LINKTYPE_RAW: u16 = 101;
/// Section Header Block, section 4.1.
const SECTION_HEADER: u32 = 0x0A0D_0D0A;
/// Interface Description Block, section 4.2.
const INTERFACE: u32 = 1;
/// Enhanced Packet Block, section 4.3.
const ENHANCED_PACKET: u32 = 6;
/// Marks the byte order of a section.
const BYTE_ORDER: u32 = 0x1A2B_3C4D;
/// Option `opt_endofopt`.
const OPT_END: u16 = 0;
/// Option `if_name` of an interface.
const IF_NAME: u16 = 2;
/// Option `if_tsresol` of an interface.
const IF_TSRESOL: u16 = 9;
/// Option `epb_flags` of a packet; its two lowest bits are the direction, 1 in, 2 out.
const EPB_FLAGS: u16 = 2;

/// Bytes kept of each packet unless told otherwise: all headers, no bodies.
pub const SNAPLEN: usize = 128;
/// Largest file; packets past it are counted and not written.
pub const FILE_MAX: u64 = 256 << 20;

/// Which way a packet passed the port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// It arrived at the node.
    In,
    /// The node sent it.
    Out,
}

fn put_u16(out: &mut Vec<u8>, n: u16) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn put_u32(out: &mut Vec<u8>, n: u32) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn put_option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    put_u16(out, code);
    put_u16(out, u16::try_from(value.len()).unwrap_or(u16::MAX));
    let pad = value.len().next_multiple_of(4) - value.len();
    out.extend_from_slice(&value[..value.len().min(usize::from(u16::MAX))]);
    out.extend_from_slice(&[0; 3][..pad]);
}

/// Appends a block whose body `fill` writes; the length stands at both ends.
fn put_block(out: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    put_u32(out, kind);
    put_u32(out, 0);
    fill(out);
    let total = u32::try_from(out.len() - start + 4).expect("a block holds one header or one packet, far below 4 GiB");
    out[start + 4..start + 8].copy_from_slice(&total.to_le_bytes());
    put_u32(out, total);
}

/// Appends the head of a file with one interface.
pub(crate) fn put_head(out: &mut Vec<u8>, interface: &str, snaplen: usize) {
    put_block(out, SECTION_HEADER, |b| {
        put_u32(b, BYTE_ORDER);
        put_u16(b, 1); // major version
        put_u16(b, 0); // minor version
        b.extend_from_slice(&u64::MAX.to_le_bytes()); // section length not given
    });
    put_block(out, INTERFACE, |b| {
        put_u16(b, LINKTYPE_RAW);
        put_u16(b, 0);
        put_u32(b, u32::try_from(snaplen).unwrap_or(0));
        put_option(b, IF_NAME, interface.as_bytes());
        put_option(b, IF_TSRESOL, &[9]); // 10^-9 s
        put_option(b, OPT_END, &[]);
    });
}

/// Appends one packet that passed at `unix_ns` (nanoseconds since 1970), cut to `snaplen`.
pub(crate) fn put_packet(out: &mut Vec<u8>, unix_ns: u64, way: Way, packet: &[u8], snaplen: usize) {
    put_block(out, ENHANCED_PACKET, |b| {
        put_u32(b, 0); // interface
        put_u32(b, (unix_ns >> 32) as u32);
        put_u32(b, unix_ns as u32);
        let kept = &packet[..packet.len().min(snaplen)];
        put_u32(b, kept.len() as u32);
        put_u32(b, packet.len() as u32);
        b.extend_from_slice(kept);
        b.extend_from_slice(&[0; 3][..kept.len().next_multiple_of(4) - kept.len()]);
        let direction: u32 = if way == Way::In { 1 } else { 2 };
        put_option(b, EPB_FLAGS, &direction.to_le_bytes());
        put_option(b, OPT_END, &[]);
    });
}

/// Bytes gathered before they are handed to the writing thread.
const CHUNK: usize = 128 << 10;
/// Chunks that may wait for the disk; past that packets are counted and not written.
const CHUNKS_WAITING: usize = 32;

/// A capture that never makes its caller wait for the disk: a thread of its own writes the file.
#[derive(Debug)]
pub(crate) struct Capture {
    snaplen: usize,
    chunk: Vec<u8>,
    octets: u64,
    /// Packets not written because the file was full or the disk too slow.
    pub(crate) skipped: u64,
    chunks: std::sync::mpsc::SyncSender<Vec<u8>>,
    writer: std::thread::JoinHandle<io::Result<()>>,
}

impl Capture {
    /// Creates the file at `path` for the port named `interface`.
    pub(crate) fn create(path: &std::path::Path, interface: &str) -> io::Result<Self> {
        Self::create_with(path, interface, SNAPLEN)
    }
    /// Like [`Capture::create`], but packets are kept whole, so that readers can verify their checksums.
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
        put_head(&mut chunk, interface, snaplen);
        Ok(Self { snaplen, chunk, octets: 0, skipped: 0, chunks, writer })
    }

    /// Notes one packet.
    pub(crate) fn note(&mut self, unix_ns: u64, way: Way, packet: &[u8]) {
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
        put_packet(&mut self.chunk, unix_ns, way, packet, self.snaplen);
    }

    /// Writes what is left and closes the file. Returns the number of packets skipped.
    pub(crate) fn finish(self) -> io::Result<u64> {
        // A closed queue means that the writer has failed; its error follows from join.
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
    fn blocks_are_aligned_and_closed_by_their_own_length() {
        let mut out = Vec::new();
        put_head(&mut out, "wl_air", SNAPLEN);
        for body in 0..8 {
            put_packet(&mut out, 1 << 40, Way::In, &packet(body), SNAPLEN);
        }
        let (mut at, mut blocks) = (0, 0);
        while at < out.len() {
            let word = |i: usize| u32::from_le_bytes(out[i..i + 4].try_into().unwrap()) as usize;
            let len = word(at + 4);
            assert_eq!(len % 4, 0);
            assert_eq!(word(at + len - 4), len);
            at += len;
            blocks += 1;
        }
        assert_eq!((at, blocks), (out.len(), 10));
    }

    #[test]
    fn other_tools_read_what_we_write() {
        let path = std::env::temp_dir().join(format!("wavelane-{}-t.pcapng", std::process::id()));
        let mut capture = Capture::create(&path, "wl_air").unwrap();
        capture.note(1_700_000_000_123_456_789, Way::Out, &packet(10));
        capture.note(1_700_000_000_223_456_790, Way::In, &packet(1400));
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
        let mut capture = Capture::create(std::path::Path::new("/dev/full"), "wl_air").unwrap();
        capture.note(1, Way::Out, &packet(10));
        assert_eq!(capture.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
