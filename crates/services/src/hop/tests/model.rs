//! A minimal reference model: a flow is two byte queues. The same random commands drive both.
use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Write { side: usize, len: usize },
    Read { side: usize, len: usize },
    Shutdown { side: usize },
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..2_usize, prop_oneof![1..200_usize, 1..40_000_usize]).prop_map(|(side, len)| Op::Write { side, len }),
        4 => (0..2_usize, 1..30_000_usize).prop_map(|(side, len)| Op::Read { side, len }),
        1 => (0..2_usize).prop_map(|side| Op::Shutdown { side }),
        5 => (1..400_u64).prop_map(Op::Wait),
    ]
}

/// The expected state of one direction: bytes written and not read, and whether it was ended.
#[derive(Default)]
struct Queue {
    bytes: VecDeque<u8>,
    ended: bool,
    end_read: bool,
    next: u8,
}

fn read(world: &mut World, queue: &mut Queue, name: FlowName, side: usize, len: usize) -> ReadOutcome {
    if queue.end_read {
        return ReadOutcome::End;
    }
    let mut buf = vec![0; len];
    let outcome = world.hops[side].read(world.now, name, &mut buf);
    match outcome {
        ReadOutcome::Data(n) => {
            let expected: Vec<u8> = queue.bytes.drain(..n).collect();
            assert_eq!(&buf[..n], &expected[..], "bytes in order, once, intact");
        }
        ReadOutcome::End => {
            assert!(queue.ended && queue.bytes.is_empty(), "the end only after every byte");
            queue.end_read = true;
        }
        ReadOutcome::Blocked => {}
        ReadOutcome::Reset => panic!("nobody reset the flow"),
    }
    outcome
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn a_flow_is_two_byte_queues(
        seed in any::<u64>(),
        shape in (0..35_u32, 0..15_u32, 0..15_u32, 0..50_u64, 1..80_u64),
        ops in proptest::collection::vec(op(), 1..60),
    ) {
        let (loss, duplicate, spurious, jitter, delay) = shape;
        let pipe = Pipe {
            rate: Rate::from_bps(8_000_000),
            delay: Span::from_millis(delay),
            jitter: Span::from_millis(jitter),
            loss: Ratio::new(loss, 100).unwrap(),
            duplicate: Ratio::new(duplicate, 100).unwrap(),
            spurious: Ratio::new(spurious, 100).unwrap(),
            outages: vec![(ms(2_000), ms(4_000))],
        };
        let mut world = World::new(seed, pipe, HopConfig { flows_max: 8, pool: Octets::new(1 << 20), ..HopConfig::default() });
        let flow = world.open_accepted();
        let names = [flow, flow.from_other_side()];
        // queues[side] holds what `side` wrote.
        let mut queues = [Queue::default(), Queue::default()];
        for op in ops {
            match op {
                Op::Write { side, len } => {
                    let queue = &mut queues[side];
                    let data: Vec<u8> = (0..len).map(|i| queue.next.wrapping_add(i as u8)).collect();
                    let n = world.hops[side].write(world.now, names[side], &data);
                    assert!(n == 0 || !queue.ended);
                    queue.bytes.extend(&data[..n]);
                    queue.next = queue.next.wrapping_add(n as u8);
                }
                Op::Read { side, len } => {
                    read(&mut world, &mut queues[1 - side], names[side], side, len);
                }
                Op::Shutdown { side } => {
                    world.hops[side].shutdown(world.now, names[side]);
                    queues[side].ended = true;
                }
                Op::Wait(wait) => world.run_until(world.now + Span::from_millis(wait)),
            }
        }
        // Repair the pipe, end the flows, and require all bytes.
        world.pipe = Pipe { delay: Span::from_millis(delay), ..Pipe::default() };
        for (side, name) in names.into_iter().enumerate() {
            world.hops[side].shutdown(world.now, name);
            queues[side].ended = true;
        }
        let deadline = world.now + Span::from_secs(60);
        let mut ends = [false; 2];
        while ends != [true; 2] {
            assert!(world.now < deadline, "not delivered: {} and {} bytes missing", queues[0].bytes.len(), queues[1].bytes.len());
            world.step(world.now + Span::from_millis(10));
            for side in 0..2 {
                while !ends[side] {
                    match read(&mut world, &mut queues[1 - side], names[side], side, 10_000) {
                        ReadOutcome::End => ends[side] = true,
                        ReadOutcome::Data(_) => {}
                        ReadOutcome::Blocked | ReadOutcome::Reset => break,
                    }
                }
            }
        }
        world.run_until(world.now + Span::from_secs(5));
        prop_assert_eq!((world.hops[0].status(), world.hops[1].status()), Default::default());
        for (side, name) in names.into_iter().enumerate() {
            prop_assert!(world.events[side].contains(&HopEvent::Closed(name)));
            prop_assert_eq!(world.hops[side].counters().protocol_errors, 0);
        }
    }
}
