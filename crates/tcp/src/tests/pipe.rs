//! Two machines over a bad pipe, against the simplest model there is: what goes in comes out, in order, once.

use super::world::{Way, World, address};
use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use wavelane_base::{Rate, Ratio, ReadOutcome, Streams};

/// The reference: two queues of bytes.
#[derive(Default)]
struct Model {
    queues: [VecDeque<u8>; 2],
    shut: [bool; 2],
    ended: [bool; 2],
    counter: [u8; 2],
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(usize, usize),
    Read(usize, usize),
    Shut(usize),
    Wait(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2usize, 1..20_000usize).prop_map(|(side, n)| Step::Write(side, n)),
        4 => (0..2usize, 1..20_000usize).prop_map(|(side, n)| Step::Read(side, n)),
        1 => (0..2usize).prop_map(Step::Shut),
        6 => (1..3_000u64).prop_map(Step::Wait),
    ]
}

fn any_config() -> impl Strategy<Value = Config> {
    use CongestionControl::{Bbr, Bbr3, Cubic, NewReno, Reno};
    let flags = (proptest::array::uniform8(any::<bool>()), proptest::array::uniform4(any::<bool>()));
    let exit =
        prop_oneof![Just(SlowStartExit::Loss), Just(SlowStartExit::HyStartPlusPlus), Just(SlowStartExit::HyStart)];
    let sizes = (100..1_460u16, 2_000..60_000usize, 2_000..60_000usize, 1..4u32);
    (prop_oneof![Just(Reno), Just(NewReno), Just(Cubic), Just(Bbr), Just(Bbr3)], flags, exit, sizes).prop_map(
        |(congestion, (flags, more), exit, sizes)| {
            let [sack, rack_tlp, prr, timestamps, window_scale, ecn, nagle, old] = flags;
            let [offload, ack_when_read, timer_from_repeat, reduce_again] = more;
            Config {
                mss: sizes.0,
                sack,
                rack_tlp,
                prr,
                slow_start_exit: exit,
                timestamps,
                window_scale,
                ecn,
                nagle,
                send_buffer: sizes.1,
                receive_buffer: sizes.2,
                receive_window_initial: old.then_some(4_000),
                delayed_ack_count: sizes.3,
                offload,
                ack_when_read,
                compressed_acks: if prr { 44 } else { 0 },
                timer_from_repeat,
                reduce_again,
                // The pipe below loses so much that giving up must not be mistaken for a fault.
                data_retries: 60,
                syn_retries: 60,
                rto_max: Span::from_secs(8),
                // The side that ends first answers for as long as the other may retransmit (RFC 9293, section 3.4.2).
                time_wait: Span::from_secs(240),
                ..Config::linux(congestion)
            }
        },
    )
}

fn any_way() -> impl Strategy<Value = Way> {
    (1..50u64, 0..120u64, 3_000..60_000u64, 0..30u32, 0..20u32, 0..20u32, 1..80u64).prop_map(
        |(mbit, delay, queue, loss, repeat, swap, late)| Way {
            rate: Rate::from_bps(mbit * 200_000),
            loss: Ratio::new(loss, 100).unwrap(),
            repeat: Ratio::new(repeat, 100).unwrap(),
            swap: Ratio::new(swap, 100).unwrap(),
            late: Span::from_millis(late),
            mark_above: (swap % 2 == 0).then_some(queue / 2),
            ..Way::clean(1, delay, queue)
        },
    )
}

struct Driven {
    world: World,
    flows: [wavelane_base::FlowId; 2],
    model: Model,
    bounds: [usize; 2],
}

impl Driven {
    fn write(&mut self, side: usize, n: usize) {
        if self.model.shut[side] {
            return;
        }
        let mut counter = self.model.counter[side];
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            counter = counter.wrapping_mul(5).wrapping_add(17);
            counter
        })
        .take(n)
        .collect();
        let taken = self.world.hosts[side].write(self.world.now, self.flows[side], &bytes);
        if taken > 0 {
            self.model.counter[side] = bytes[taken - 1];
        }
        self.model.queues[side].extend(&bytes[..taken]);
        // Written and unread bytes are somewhere: in one buffer or the other.
        assert!(self.model.queues[side].len() <= self.bounds[side], "more is held than both buffers may hold");
    }

    fn read(&mut self, side: usize, n: usize) -> bool {
        let mut buf = vec![0; n];
        let from = 1 - side;
        match self.world.hosts[side].read(self.world.now, self.flows[side], &mut buf) {
            ReadOutcome::Data(got) => {
                assert!(got <= self.model.queues[from].len(), "{got} bytes read that nobody wrote");
                let wanted: Vec<u8> = self.model.queues[from].drain(..got).collect();
                assert!(buf[..got] == wanted, "what was read is not what was written");
                true
            }
            ReadOutcome::End => {
                assert!(self.model.shut[from], "an end that nobody asked for");
                assert!(
                    self.model.queues[from].is_empty(),
                    "the end came before {} bytes",
                    self.model.queues[from].len()
                );
                self.model.ended[side] = true;
                false
            }
            ReadOutcome::Blocked => false,
            ReadOutcome::Reset => {
                assert!(self.model.ended[side], "a reset that nobody asked for");
                false
            }
        }
    }

    fn shut(&mut self, side: usize) {
        self.model.shut[side] = true;
        self.world.hosts[side].shutdown(self.world.now, self.flows[side]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn the_stream_arrives_unchanged(
        configs in (any_config(), any_config()), ways in (any_way(), any_way()), seed in any::<u64>(),
        steps in proptest::collection::vec(any_step(), 1..60),
    ) {
        let bound = |from: &Config, to: &Config| from.send_buffer + to.receive_buffer;
        let bounds = [bound(&configs.0, &configs.1), bound(&configs.1, &configs.0)];
        let mut world = World::new([configs.0, configs.1], [ways.0, ways.1], seed);
        let flows = world.open(Instant::from_secs(2_000));
        let mut run = Driven { world, flows, model: Model::default(), bounds };
        for step in steps {
            match step {
                Step::Write(side, n) => run.write(side, n),
                Step::Read(side, n) => { run.read(side, n); }
                Step::Shut(side) => run.shut(side),
                Step::Wait(wait) => { let until = run.world.now + Span::from_millis(wait); run.world.run(until) }
            }
        }
        // Now both read on and end: everything must arrive, and both hosts forget the connection.
        run.shut(0);
        run.shut(1);
        let limit = run.world.now + Span::from_secs(4_000);
        while run.model.ended != [true, true] {
            for side in [0, 1] {
                while !run.model.ended[side] && run.read(side, 30_000) {}
            }
            prop_assert!(run.model.ended == [true, true] || run.world.step(limit), "it never ends: {:?}",
                [run.world.hosts[0].status(flows[0]), run.world.hosts[1].status(flows[1])]);
        }
        let limit = run.world.now + Span::from_secs(4_000);
        run.world.run(limit);
        prop_assert_eq!([run.world.hosts[0].connection_count(), run.world.hosts[1].connection_count()], [0, 0]);
    }
}

#[test]
fn a_path_that_swaps_packets_costs_little() {
    let config = Config::linux(CongestionControl::Cubic);
    let clean = Way::clean(20, 20, 200_000);
    let swapping = Way { swap: Ratio::new(1, 20).unwrap(), late: Span::from_millis(3), ..clean };
    let mut world = World::new([config.clone(), config], [swapping, clean], 3);
    let flows = world.open(ms(1_000));
    let end = world.transfer(flows, 0, 10_000_000, Instant::from_secs(60)).expect("it arrives");
    let counters = world.hosts[0].status(flows[0]).unwrap().counters;
    // 5 % of 6,900 packets come 3 ms late; a sender that counts duplicates would repeat hundreds.
    assert!(counters.retransmits < 60, "{counters:?}");
    assert!(end < Instant::from_secs(6), "{end:?}");
    assert_eq!(world.hosts[0].status(flows[0]).unwrap().state, ConnectionState::Established);
    assert_eq!(world.hosts[0].connection_count(), 1, "{}", address(0));
}
