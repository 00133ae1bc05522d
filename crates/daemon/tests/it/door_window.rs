//! What the door offers to a sender in front of a slow line, with real kernels.

use crate::common::*;
use socket2::SockRef;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::time::Duration;
use wavelane_base::{Instant, Span};
use wavelane_door::{Receiving, Rooms, Window};
use wavelane_host::tcp;

/// Segments of their own, each in memory of its own, as most network cards deliver them.
const NO_OFFLOAD: &str = "ethtool -K eth0 tso off gso off sg off tx off > /dev/null";
const LINE: &str = "tc qdisc replace dev wan0 root tbf rate 128kbit burst 3200 latency 4s";
/// How long the uploads are watched: 131 kB in the flow and what waits in the socket pass first, 16 s in all.
const WATCHED: Duration = Duration::from_secs(24);
/// Longest time without an arrival. A segment takes 0.1 s; retransmission timeouts that back off leave pauses of 4 to 28 s.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A flow of 128 kbit/s takes this much, this often.
const TAKEN: usize = 400;
const TICK: Duration = Duration::from_millis(25);

/// A kernel that drops what the door's window invited leaves the sender to its retransmission timer.
#[test]
fn an_upload_over_a_slow_line_does_not_pause() {
    pauses_are_short(upload);
}

/// A flow that has no room yet: the bytes that the kernel promised in the handshake have to fit into the socket's buffer.
#[test]
fn a_full_socket_that_drains_slowly_does_not_pause() {
    pauses_are_short(drain);
}

fn pauses_are_short(longest_pause: fn(&World, TcpStream) -> Duration) {
    let _alone = alone();
    if !root_or_skip("door_window") || !tunnel::has("ethtool", "door_window") {
        return;
    }
    let runs = ["bbr", "cubic"].map(|name| std::thread::spawn(move || (name, run(name, longest_pause))));
    let pauses = runs.map(|run| run.join().unwrap());
    println!("{pauses:?}");
    for (name, pause) in pauses {
        assert!(pause.is_none_or(|pause| pause <= PAUSE_MAX), "{name}: nothing arrived for {pause:?}");
    }
}

/// A client that writes without end, with this congestion control, if the kernel has it.
fn run(congestion_control: &str, longest_pause: fn(&World, TcpStream) -> Duration) -> Option<Duration> {
    let world = World::new(congestion_control);
    world.sh(&world.client, NO_OFFLOAD);
    let stream = world.client.run(|| socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None));
    let stream = stream.unwrap().unwrap();
    if stream.set_tcp_congestion(congestion_control.as_bytes()).is_err() {
        eprintln!("SKIPPED (part of 1 test): door_window needs this kernel to have {congestion_control}");
        return None;
    }
    Some(longest_pause(&world, stream.into()))
}

/// Connects, writes without end while `watch` goes on, and returns what it returned.
fn write_during<T>(stream: TcpStream, target: &str, watch: impl FnOnce() -> T) -> T {
    let target: std::net::SocketAddr = target.parse().unwrap();
    SockRef::from(&stream).connect_timeout(&target.into(), PATIENCE).unwrap();
    stream.set_nodelay(true).unwrap();
    let stop = stream.try_clone().unwrap();
    let mut stream = stream;
    let writer = std::thread::spawn(move || while stream.write_all(&[7; 16_384]).is_ok() {});
    let seen = watch();
    // The door resets when it closes.
    let _ = stop.shutdown(std::net::Shutdown::Both);
    writer.join().unwrap();
    seen
}

/// The longest pause of the arrivals at the far end of two gateways.
fn upload(world: &World, stream: TcpStream) -> Duration {
    world.sh(&world.a, LINE);
    let _gateways = world.start_both("source = \"keep\"", "interfaces = [\"lan0\"]");
    let (tell, told) = channel();
    world.serve(9, move |mut stream, _| {
        let mut buffer = vec![0; 65_536];
        while let Ok(1..) = stream.read(&mut buffer) {
            let _ = tell.send(());
        }
    });
    write_during(stream, "10.3.0.2:9", || {
        let (start, mut last, mut pause) = (now(), now(), Duration::ZERO);
        while start.elapsed() < WATCHED {
            let arrived = told.recv_timeout(Duration::from_millis(100)).is_ok();
            pause = pause.max(last.elapsed());
            if arrived {
                last = now();
            }
        }
        pause
    })
}

/// The longest time in which a door socket that was full has nothing for its flow.
fn drain(world: &World, stream: TcpStream) -> Duration {
    let listener = world.a.run(|| tcp::listen("10.1.0.1:9".parse().unwrap())).unwrap().unwrap();
    write_during(stream, "10.1.0.1:9", || {
        let mut door = listener.accept().unwrap().0;
        tcp::prepare(&door).unwrap();
        pause(Duration::from_millis(500));
        let start = now();
        let clock = || Instant::ZERO + Span::from_nanos(start.elapsed().as_nanos() as u64);
        let rooms = Rooms { first: tcp::RECEIVE_FIRST, most: tcp::RECEIVE_MAX, per_byte: tcp::RECEIVE_PER_BYTE };
        let mut window = Window::new(clock(), rooms);
        let (mut last, mut longest) = (now(), Duration::ZERO);
        while start.elapsed() < WATCHED {
            pause(TICK);
            window.held_up(clock());
            if let Some(size) = window.before_read(|| receiving(&door)) {
                tcp::set_receive_room(&door, size, tcp::Buffers::default()).unwrap();
            }
            longest = longest.max(last.elapsed());
            match door.read(&mut [0; TAKEN]) {
                Ok(octets) => {
                    window.took(octets);
                    last = now();
                }
                Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock, "{e}"),
            }
        }
        longest
    })
}

fn receiving(door: &TcpStream) -> Option<Receiving> {
    let tcp::Receiving { round_trip, segment, held } = tcp::receiving(door)?;
    Some(Receiving { round_trip: Span::from_nanos(round_trip.as_nanos() as u64), segment, held })
}
