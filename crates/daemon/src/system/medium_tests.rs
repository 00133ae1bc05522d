//! A medium that only tests have, to show that a row of the table is all that it takes: a pipe of datagrams between two ends,
//! which carries packets of 64 octets only.
#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::config::{Config, LaneEnds};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use wavelane_base::{Carrier, Ecn, Span};
use wavelane_host::udp::{Datagram, Destination, Sent};

const NARROW: Carrier = Carrier { overhead: 1, mtu_floor: 64, mtu_max: 64, batch: 63, radio: None };

pub(super) const PIPE: MediumRow = MediumRow {
    keys: &MediumKeys {
        word: "pipe",
        carrier: NARROW,
        device: DeviceKind::Interface,
        has_ip: false,
        read: |table, _, _| Ok(LaneEnds { address: table.address.clone(), socket: Some(socket(table.device.clone())) }),
    },
    capability: None,
    open: |socket, _| Ok(Box::new(Pipe::open(socket.device.as_deref().unwrap_or_default())?)),
    obstacle: || None,
    remedy: |_| None,
    diagnose: |_| None,
};

fn socket(device: Option<String>) -> LaneSocket {
    let medium = LaneMedium::named("pipe").unwrap();
    LaneSocket {
        local: "[::]:0".parse().unwrap(),
        device,
        medium,
        priority: 0,
        mark: None,
        line: None,
        dial: None,
        radio: None,
    }
}

/// One end; its device is a path, and the other end's that path with a dash.
struct Pipe {
    socket: UnixDatagram,
    other: String,
}

impl Pipe {
    fn open(path: &str) -> io::Result<Self> {
        let socket = UnixDatagram::bind(path)?;
        socket.set_nonblocking(true)?;
        let other = path.strip_suffix('-').map_or_else(|| format!("{path}-"), str::to_owned);
        Ok(Self { socket, other })
    }
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl media::Medium for Pipe {
    fn receive(&mut self, take: &mut dyn FnMut(Datagram<'_>)) -> io::Result<usize> {
        let mut buffer = [0; 64];
        match self.socket.recv(&mut buffer) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(e) => Err(e),
            Ok(len) => {
                let from = Address::Line(1);
                take(Datagram {
                    bytes: &mut buffer[..len],
                    segment: None,
                    from,
                    at: None,
                    ecn: Ecn::NotEct,
                    waited: Span::ZERO,
                });
                Ok(1)
            }
        }
    }
    fn send(&mut self, bytes: &[u8], _: Option<u16>, _: Destination, _: Ecn) -> Sent {
        match self.socket.send_to(bytes, &self.other) {
            Ok(_) => Sent { done: bytes.len(), ..Sent::default() },
            Err(_) => Sent { done: bytes.len(), lost: 1, ..Sent::default() },
        }
    }
    fn carrier(&self) -> Carrier {
        NARROW
    }
}

#[test]
fn a_row_of_the_table_is_a_medium() {
    let folder = std::env::temp_dir().join(format!("wavelane-pipe-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("end");
    crate::keys::write_key(&folder.join("a.key"), &[1; 32]).unwrap();
    let key = crate::keys::to_base64(&[9; 32]);
    let text = format!(
        "[gateway]\nname = \"a\"\nkey = \"a.key\"\ncontrol = \"a.sock\"\n[[peer]]\nname = \"b\"\npublic_key = \"{key}\"\n\
         [[peer.lane]]\nmedium = \"pipe\"\naddress = \"line 1\"\ndevice = \"end0\"\n"
    );
    let config = Config::parse(&text, "x", &folder).unwrap();
    let [lane] = &config.peers[0].lanes[..] else { panic!("one lane") };
    assert_eq!(lane.number(), Some(Address::Line(1)));
    let gateway = config.to_gateway(&[]);
    let told = gateway.peers[0].lanes[0];
    assert_eq!((told.address, told.carrier.mtu_floor), (Some(Address::Line(1)), 64), "the gateway is told its carrier");
    let place = path.to_str().unwrap().to_owned();
    let mut here = (socket(None).medium.row().open)(&socket(Some(place.clone())), None).unwrap();
    let mut there = (socket(None).medium.row().open)(&socket(Some(place + "-")), None).unwrap();
    let to = Destination { to: Address::Line(1), from: None, dscp: 0 };
    assert_eq!(here.send(b"seven", None, to, Ecn::NotEct).done, 5);
    let mut got = Vec::new();
    assert_eq!(there.receive(&mut |d| got.extend_from_slice(d.bytes)).unwrap(), 1);
    assert_eq!((&got[..], there.receive(&mut |_| panic!("nothing more")).unwrap()), (&b"seven"[..], 0));
    assert_eq!((remedy(&io::ErrorKind::NotFound.into()), to_examine(Address::Line(1))), (None, None));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_words_are_the_files() {
    for row in MEDIA {
        assert_eq!(LaneMedium::named(row.keys.word).unwrap().word, row.keys.word);
    }
    assert!(LaneMedium::named("radio-waves").unwrap_err().contains("use one of udp, ethernet, serial"));
}
