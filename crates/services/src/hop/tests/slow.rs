//! Hundreds of slow readers (a kilobyte a second) beside one that takes everything as it arrives.

use super::*;

/// Bytes that the kernels on the path to an application take before it reads.
const KERNEL: u64 = 100 << 10;
/// Octets that a slow reader takes per second.
const SLOW: u64 = 100;

/// One download from side 0: its writer, and its reader at side 1, which takes [`KERNEL`] at once and the rest at [`SLOW`], or
/// everything as it arrives.
struct Download {
    flow: FlowName,
    left: u64,
    read: u64,
    since: Option<Instant>,
    slow: bool,
}

impl Download {
    fn new(world: &mut World, octets: u64, slow: bool) -> Self {
        let flow = world.open_accepted();
        Self { flow, left: octets, read: 0, since: None, slow }
    }
    fn pump(&mut self, world: &mut World) {
        let now = world.now;
        const BLOCK: [u8; 16 << 10] = [7; 16 << 10];
        while self.left > 0 {
            let took = world.hops[0].write(now, self.flow, &BLOCK[..BLOCK.len().min(self.left as usize)]) as u64;
            self.left -= took;
            if took == 0 {
                break;
            }
        }
        let since = now.since(*self.since.get_or_insert(now));
        let may = if self.slow { KERNEL + SLOW * since.as_nanos() / 1_000_000_000 } else { u64::MAX };
        let mut buf = [0; 16 << 10];
        while self.read < may {
            let n = (may - self.read).min(buf.len() as u64) as usize;
            match world.hops[1].read(now, self.flow.from_other_side(), &mut buf[..n]) {
                ReadOutcome::Data(n) => self.read += n as u64,
                ReadOutcome::Blocked => break,
                outcome => panic!("{outcome:?}"),
            }
        }
    }
}

fn run(world: &mut World, downloads: &mut [Download], span: Span, step: Span) {
    let end = world.now + span;
    while world.now < end {
        let next = world.now + step;
        while world.now < next {
            world.step(next);
            // Wakes waiting writers and readers.
            for side in 0..2 {
                for event in std::mem::take(&mut world.events[side]) {
                    if let HopEvent::Readable(name) | HopEvent::Writable(name) = event {
                        let name = if side == 0 { name } else { name.from_other_side() };
                        if let Ok(at) = downloads.binary_search_by_key(&name.number, |d| d.flow.number) {
                            downloads[at].pump(world);
                        }
                    }
                }
            }
        }
        downloads.iter_mut().for_each(|download| download.pump(world));
    }
}

/// Downloads by slow readers: all at once, or each `apart` after the previous one.
fn slow_readers(world: &mut World, count: usize, apart: Span, settle: Span) -> Vec<Download> {
    let mut downloads = Vec::new();
    for _ in 0..count {
        downloads.push(Download::new(world, 20_000_000, true));
        if apart > Span::ZERO {
            run(world, &mut downloads, apart, Span::from_millis(100));
        }
    }
    run(world, &mut downloads, settle, Span::from_millis(200));
    downloads
}

/// Octets that a download transfers in `time` beside others, and octets that these transfer meanwhile.
fn download(world: &mut World, others: &mut Vec<Download>, time: Span) -> (u64, u64) {
    let sum = |downloads: &[Download]| downloads.iter().map(|d| d.read).sum::<u64>();
    let before = sum(others);
    others.push(Download::new(world, 1 << 40, false));
    run(world, others, time, Span::from_millis(100));
    let last = others.pop().unwrap();
    world.hops[0].reset(last.flow, Reason::Aborted);
    (last.read, sum(others) - before)
}

#[test]
fn hundreds_of_slow_readers_leave_a_download_the_rest() {
    let time = Span::from_secs(15);
    let (alone, _) = download(&mut World::new(31, Pipe::default(), HopConfig::default()), &mut Vec::new(), time);
    for (count, apart_ms, settle) in [(200, 0, 30), (1_000, 0, 80), (200, 500, 10)] {
        let mut world = World::new(31, Pipe::default(), HopConfig::default());
        let mut slow = slow_readers(&mut world, count, Span::from_millis(apart_ms), Span::from_secs(settle));
        let (sender, receiver) = (world.hops[0].status(), world.hops[1].status());
        println!("{count} slow readers: {sender:?} {receiver:?}");
        let half = HopConfig::default().pool.get() / 2;
        let bound = half * 3 / 4;
        assert!(sender.to_send <= bound && receiver.unread <= bound, "{sender:?} {receiver:?} of {half}");
        let (got, meanwhile) = download(&mut world, &mut slow, time);
        let left = alone - meanwhile;
        println!("{count} slow readers, {apart_ms} ms apart: {got} of {left} octets, {alone} alone");
        assert!(got * 10 >= left * 9, "{count} slow readers, {apart_ms} ms apart: {got} of {left} octets");
        let c = world.hops[0].counters();
        assert!(c.repair_octets * 10 < c.first_octets, "what was promised and dropped: {c:?}");
    }
}

/// A flow's credit follows what is read of it.
#[test]
fn credit_shrinks_for_a_stopped_reader_and_recovers() {
    let mut world = World::new(32, Pipe::default(), HopConfig::default());
    // Sixty others are stalled, so that room is short.
    let mut others = slow_readers(&mut world, 60, Span::ZERO, Span::from_secs(10));
    let mut one = Download::new(&mut world, 1 << 40, false);
    let number = one.flow.from_other_side();
    let window = |world: &World| world.hops[1].flows[&number].inc.window();
    others.push(one);
    run(&mut world, &mut others, Span::from_secs(10), Span::from_millis(50));
    // 20 Mbit/s x 100 ms are 250,000 octets.
    assert!(window(&world) >= 500_000, "{}", window(&world));
    one = others.pop().unwrap();
    // It stops: bytes within the credit arrive, and no more credit is granted.
    let read = one.read;
    run(&mut world, &mut others, Span::from_secs(5), Span::from_millis(50));
    let held = world.hops[1].flows[&number].inc.buffered();
    assert!(held <= 1_000_000, "{held}");
    // It continues slowly, and its credit follows.
    one.slow = true;
    one.since = None;
    others.push(one);
    run(&mut world, &mut others, Span::from_secs(5), Span::from_millis(50));
    others.last_mut().unwrap().slow = false;
    run(&mut world, &mut others, Span::from_secs(10), Span::from_millis(50));
    let got = others.last().unwrap().read - read;
    assert!(got >= 19_000_000, "{got} octets in ten seconds of full speed");
    assert!(window(&world) >= 500_000, "{}", window(&world));
}
