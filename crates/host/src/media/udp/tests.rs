#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::clock::wall_nanos;

const LOOPBACK: &str = "127.0.0.1:0";

fn bind(address: &str) -> UdpLane {
    UdpLane::bind(address.parse().unwrap(), None, None).unwrap()
}

fn whole(bytes: &[u8]) -> Sent {
    Sent { done: bytes.len(), ..Sent::default() }
}

/// Everything that waits at `lane`, cut into datagrams, with the number of messages they came in.
fn collect(lane: &mut UdpLane) -> (Vec<Vec<u8>>, usize) {
    let (mut datagrams, mut messages) = (Vec::new(), 0);
    while lane
        .receive(|d| {
            messages += 1;
            let size = d.segment.map_or(d.bytes.len(), usize::from);
            datagrams.extend(d.bytes.chunks(size).map(<[u8]>::to_vec));
        })
        .unwrap()
        > 0
    {}
    (datagrams, messages)
}

/// `n` datagrams of `size` bytes, no two alike, the last `tail` bytes long, back to back.
fn batch(n: usize, size: usize, tail: usize) -> Vec<u8> {
    (0..(n - 1) * size + tail).map(|i| (i % 251) as u8 ^ (i / size) as u8).collect()
}

/// Receiver, sender, and the address by which the receiver is reached.
const WAYS: [[&str; 3]; 5] = [
    ["127.0.0.1:0", "127.0.0.1:0", "127.0.0.1"],
    ["[::1]:0", "[::1]:0", "::1"],
    ["[::]:0", "[::1]:0", "::1"],
    ["[::]:0", "127.0.0.1:0", "127.0.0.1"],
    ["127.0.0.1:0", "[::]:0", "127.0.0.1"],
];

/// Those that exist here, as sockets and the receiver's address.
fn ways() -> Vec<(UdpLane, UdpLane, SocketAddr)> {
    let six = UdpLane::bind("[::1]:0".parse().unwrap(), None, None).is_ok();
    if !six {
        eprintln!("SKIPPED (no IPv6 loopback here): lanes over IPv6");
    }
    let here = WAYS.iter().filter(|way| six || way.iter().all(|a| !a.contains("::")));
    let open = |way: &[&str; 3]| {
        let (receiver, sender) = (bind(way[0]), bind(way[1]));
        let to = SocketAddr::new(way[2].parse().unwrap(), receiver.local().unwrap().port());
        (receiver, sender, to)
    };
    here.map(open).collect()
}

#[test]
fn datagrams_keep_bytes_sender_and_ecn() {
    for (mut a, mut b, to) in ways() {
        let marks = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];
        for (i, mark) in marks.into_iter().enumerate() {
            let bytes = [i as u8; 100];
            assert_eq!(b.send(&bytes, None, to, mark), whole(&bytes), "to {to}");
        }
        let mut got = Vec::new();
        let from = SocketAddr::new(to.ip(), b.local().unwrap().port());
        let n = a.receive(|d| {
            assert_eq!(d.from, from.into());
            got.push((d.bytes[0], d.bytes.len(), d.ecn));
        });
        assert_eq!(n.unwrap(), 4);
        let expected: Vec<_> = marks.into_iter().enumerate().map(|(i, m)| (i as u8, 100, m)).collect();
        assert_eq!(got, expected);
        assert_eq!(a.receive(|_| panic!("nothing waits")).unwrap(), 0);
    }
}

#[test]
fn a_batch_arrives_as_the_datagrams_it_is_made_of() {
    for (mut a, mut b, to) in ways() {
        for (n, size, tail) in [(1, 1200, 1200), (2, 1200, 1), (44, 1472, 1472), (44, 1472, 9), (64, 100, 100)] {
            let bytes = batch(n, size, tail);
            assert_eq!(b.send(&bytes, Some(size as u16), to, Ecn::Ect0), whole(&bytes));
            let (got, messages) = collect(&mut a);
            assert!(got.iter().map(Vec::as_slice).eq(bytes.chunks(size)), "{n} x {size} + {tail} to {to}");
            // Loopback carries a batch whole, so this shows that both offloads work.
            assert_eq!(messages, 1, "{n} x {size} + {tail} to {to}");
            assert_eq!(b.segments_max(), SEGMENTS_MAX);
        }
    }
}

#[test]
fn a_kernel_that_cannot_cut_gets_the_same_datagrams_one_by_one() {
    let (mut a, mut b) = (bind(LOOPBACK), bind(LOOPBACK));
    set_int(&b.socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
    let bytes = batch(10, 1200, 7);
    for _ in 0..2 {
        assert_eq!(b.send(&bytes, Some(1200), a.local().unwrap(), Ecn::NotEct), whole(&bytes));
        let (got, _) = collect(&mut a);
        assert!(got.iter().map(Vec::as_slice).eq(bytes.chunks(1200)));
        assert_eq!(b.segments_max(), 1, "it is remembered");
    }
}

#[test]
fn a_batch_larger_than_the_interface_does_not_end_batching() {
    let (mut a, mut b) = (bind(LOOPBACK), bind(LOOPBACK));
    // Loopback carries 65,536 bytes: no segment is too big for it, so the whole is.
    let bytes = batch(2, 65_520, 65_520);
    let sent = b.send(&bytes, Some(65_520), a.local().unwrap(), Ecn::NotEct);
    assert_eq!(sent, Sent { done: bytes.len(), too_big: 2, lost: 0 });
    assert_eq!(b.segments_max(), SEGMENTS_MAX);
    assert!(collect(&mut a).0.is_empty());
}

#[test]
fn what_finds_no_room_in_the_socket_is_counted() {
    let (mut a, mut b) = (bind(LOOPBACK), bind(LOOPBACK));
    assert_eq!(a.dropped(), Some(0));
    // Four times what is asked for a buffer, and the kernel grants at most twice that.
    let (size, count) = (60_000, 4 * SOCKET_BUFFER / 60_000);
    for _ in 0..count {
        assert_eq!(b.send(&vec![7; size], None, a.local().unwrap(), Ecn::NotEct), whole(&vec![7; size]));
    }
    let dropped = a.dropped().unwrap() as usize;
    let (got, _) = collect(&mut a);
    assert!(dropped > count / 4, "{dropped} of {count}");
    assert_eq!(got.len() + dropped, count);
    assert_eq!((a.dropped().unwrap() as usize, b.dropped()), (dropped, Some(0)));
}

#[test]
fn time_spent_in_the_socket_is_reported() {
    let (mut a, mut b) = (bind(LOOPBACK), bind(LOOPBACK));
    // The kernel begins to stamp arrivals a while after the first socket has asked for it; until then it stamps what is read.
    let mut seen = Vec::new();
    for _ in 0..50 {
        let before = wall_nanos();
        assert_eq!(b.send(&[1], None, a.local().unwrap(), Ecn::NotEct), whole(&[1]));
        let sent = wall_nanos();
        while wall_nanos() < sent + 20_000_000 {
            std::hint::spin_loop();
        }
        let reading = wall_nanos();
        let mut waited = None;
        a.receive(|d| waited = Some(d.waited)).unwrap();
        let range = Span::from_nanos(reading - sent)..=Span::from_nanos(wall_nanos() - before);
        if range.contains(&waited.unwrap()) {
            return;
        }
        seen.push((waited, range));
    }
    panic!("never within the range: {seen:?}");
}

#[test]
fn answers_leave_from_the_called_address() {
    // The system's own choice towards 127.0.0.1 is 127.0.0.1.
    let second = "127.0.0.2";
    for wildcard in ["0.0.0.0:0", "[::]:0"] {
        let Ok(mut server) = UdpLane::bind(wildcard.parse().unwrap(), None, None) else {
            eprintln!("SKIPPED (no IPv6 here): answers from a lane bound to {wildcard}");
            continue;
        };
        let mut client = bind(LOOPBACK);
        let asked: SocketAddr = format!("{second}:{}", server.local().unwrap().port()).parse().unwrap();
        assert_eq!(client.send(&[1; 10], None, asked, Ecn::Ect0), whole(&[1; 10]));
        let mut heard = Vec::new();
        server.receive(|d| heard.push((d.from, d.at))).unwrap();
        assert_eq!(heard, [(client.local().unwrap().into(), Some(asked.ip()))], "at {wildcard}");
        let batch = batch(3, 100, 100);
        let destination = Destination { to: heard[0].0, from: heard[0].1, dscp: 0 };
        assert_eq!(server.send(&batch, Some(100), destination, Ecn::Ect0), whole(&batch));
        // An address that is not ours any more, or of the other IP version, keeps nothing from leaving.
        for from in ["192.0.2.1", "2001:db8::1"] {
            let destination = Destination { from: Some(from.parse().unwrap()), ..destination };
            assert_eq!(server.send(&[2; 10], None, destination, Ecn::Ect0), whole(&[2; 10]), "from {from}");
        }
        let mut senders = Vec::new();
        while client.receive(|d| senders.push((d.from.ip().unwrap().ip().to_string(), d.bytes.len(), d.ecn))).unwrap()
            > 0
        {}
        let sender = |ip: &str, len| (ip.to_owned(), len, Ecn::Ect0);
        assert_eq!(senders, [sender(second, 300), sender("127.0.0.1", 10), sender("127.0.0.1", 10)], "at {wildcard}");
    }
}

#[test]
fn a_busy_port_is_an_error() {
    let a = bind(LOOPBACK);
    let again = UdpLane::bind(a.local().unwrap(), None, None).err().unwrap();
    assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
}

/// Who sent what comes next.
fn sender(lane: &mut UdpLane) -> Option<SocketAddr> {
    let mut poller = crate::poller::Poller::new().unwrap();
    poller.add(&*lane, 1, crate::poller::Watch::Readable).unwrap();
    assert!(!poller.wait(Some(Duration::from_secs(2))).unwrap().is_empty(), "nothing came");
    let mut from = None;
    lane.receive(|d| from = d.from.ip()).unwrap();
    from
}

#[test]
fn an_answer_to_a_link_local_address_leaves_by_its_device() {
    use crate::netns::{Netns, may_administer_network};
    if !may_administer_network() {
        eprintln!("SKIPPED (needs root): link-local addresses");
        return;
    }
    let ns = Netns::new("t-local").unwrap();
    ns.run(|| {
        let sh = |line: &str| assert!(std::process::Command::new("sh").args(["-c", line]).status().unwrap().success());
        sh("ip link add e0 type veth peer name e1; ip link set e0 up; ip link set e1 up; \
            ip addr add fe80::a/64 dev e0 nodad; ip addr add fe80::b/64 dev e1 nodad");
        let index = crate::interface_index("e0").unwrap();
        let mut a = bind("[::]:0");
        // One that is bound to its device needs no word of it.
        for (device, way) in [(None, format!("%{index}")), (Some("e0"), String::new())] {
            let mut b = UdpLane::bind("[::]:0".parse().unwrap(), None, device).unwrap();
            let to = |host: &str, lane: &UdpLane| format!("[{host}]:{}", lane.local().unwrap().port()).parse().unwrap();
            let at: SocketAddr = to(&format!("fe80::b{way}"), &a);
            assert_eq!(b.send(b"there", None, at, Ecn::NotEct), whole(b"there"));
            let from = sender(&mut a).expect("it came");
            assert_eq!(a.send(b"back", None, from, Ecn::NotEct), whole(b"back"), "{from}");
            assert_eq!(sender(&mut b), Some(at), "as it was told");
        }
    })
    .unwrap();
}

/// A veth pair with a macvtap that nobody reads, as a radio's driver that has not sent: what waits is told, and when it is read it is gone.
#[test]
fn bulk_waits_for_what_a_driver_has_not_sent() {
    use crate::netns::{Netns, may_administer_network};
    use crate::tap::{self, Tap};
    let folder = std::env::temp_dir().join(format!("wavelane-ring-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    if !may_administer_network() || !tap::may_open(&folder) {
        eprintln!("SKIPPED (needs root): what waits in a driver");
        return std::fs::remove_dir_all(&folder).unwrap();
    }
    let (ns, node) = (Netns::new("t-ring").unwrap(), folder.join("tap"));
    ns.run(move || {
        const NEIGHBOUR: [u8; 6] = [2, 0, 0, 0, 0, 1];
        // Sysfs shows the devices of the namespace that it was mounted in.
        let line = "a=02:00:00:00:00:01; ip link add e0 address $a type veth peer name e1 address $a; \
            ip link set e0 arp off up; ip link set e1 up; ip addr add 10.9.0.1/24 dev e0; \
            ip link add link e1 name t1 type macvtap mode passthru; ip link set t1 up; \
            unshare --mount sh -c 'mount -t sysfs none /sys && cat /sys/class/net/t1/macvtap/tap*/dev'";
        let said = std::process::Command::new("sh").args(["-ec", line]).output().unwrap();
        let numbers = String::from_utf8(said.stdout).unwrap();
        let (major, minor) = numbers.trim().split_once(':').expect("numbers of the device");
        let tap = Tap::open(&node, (major.parse().unwrap(), minor.parse().unwrap()), "t1", NEIGHBOUR).unwrap();
        let (mut lane, to): (_, SocketAddr) = (bind("10.9.0.1:0"), "10.9.0.2:9".parse().unwrap());
        lane.hold_bulk_above(5_000);
        assert_eq!((lane.waiting(), lane.has_bulk_room()), (0, true));
        for n in 1..=4 {
            assert_eq!(lane.send(&[n; 1_400], None, to, Ecn::NotEct), whole(&[n; 1_400]));
        }
        // Four packets, and the kernel's bookkeeping of each.
        let waiting = lane.waiting();
        assert!((4 * 1_400..4 * 4_096).contains(&waiting), "{waiting} octets");
        assert!(!lane.has_bulk_room());
        let (mut buffer, mut taken) = ([0; 2_048], Vec::new());
        while let Some(len) = tap.read(&mut buffer).unwrap() {
            assert_eq!(len, 20 + 8 + 1_400);
            taken.push(buffer[len - 1]);
            assert!(lane.waiting() < waiting, "the driver has sent one");
        }
        assert_eq!((taken, lane.waiting(), lane.has_bulk_room()), (vec![1, 2, 3, 4], 0, true));
    })
    .unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}
