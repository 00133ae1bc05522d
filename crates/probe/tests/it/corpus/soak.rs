//! Feeds inputs made by chance for a number of seconds, or a number of them, and says how to repeat the one that failed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use wavelane_base::{Chance, Seed};

/// Between lines of progress.
const PROGRESS: Duration = Duration::from_secs(30);
/// An input that takes as many of them is taken for one that never ends. Nothing of this size takes a second.
const STUCK: u32 = 4;

#[expect(clippy::disallowed_methods, reason = "a soak test lasts as long as it was told")]
fn now() -> Instant {
    Instant::now()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a whole number: {text}")))
}

/// The command that feeds the input of `seed` alone.
fn repetition(test: &str, seed: u64) -> String {
    format!(
        "repeat it with: WAVELANE_SOAK_SEED={seed} WAVELANE_SOAK_INPUTS=1 cargo test -p wavelane-probe --test it {test}"
    )
}

/// Where the input of `seed` is left if it fails, to be put into the corpus.
fn left_at(test: &str, seed: u64) -> PathBuf {
    std::env::temp_dir().join(format!("wavelane-{test}-{seed}"))
}

/// An input that is being fed.
struct Fed<'a> {
    test: &'a str,
    seed: u64,
    input: &'a [u8],
}

impl Drop for Fed<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let at = left_at(self.test, self.seed);
            let left = std::fs::write(&at, self.input);
            eprintln!("{}", repetition(self.test, self.seed));
            match left {
                Ok(()) => eprintln!("the input is in {}: add it to fuzz/corpus", at.display()),
                Err(why) => eprintln!("the input could not be written to {}: {why}", at.display()),
            }
        }
    }
}

/// Makes inputs with `make`, each from a seed of its own, and gives them to `feed`, which panics if something is wrong. Without
/// a time or a number of inputs in the environment, `usual` are made.
pub(crate) fn run(test: &str, usual: u64, make: impl Fn(&mut Chance) -> Vec<u8>, feed: impl Fn(&[u8])) {
    let first = number("WAVELANE_SOAK_SEED").unwrap_or(1);
    let (inputs, seconds) = match (number("WAVELANE_SOAK_INPUTS"), number("WAVELANE_SOAK_SECONDS")) {
        (Some(inputs), _) => (inputs, None),
        (None, Some(seconds)) => (u64::MAX, Some(Duration::from_secs(seconds))),
        (None, None) => (usual, None),
    };
    let (start, current) = (now(), AtomicU64::new(first));
    let (ended, watched) = channel();
    let fed = std::thread::scope(|scope| {
        let seed_now = &current;
        scope.spawn(move || watch(test, first, seed_now, &watched));
        // Dropped also by a panic, which ends the watching.
        let ended = ended;
        let mut fed = 0;
        let (mut slowest, mut slowest_seed) = (Duration::ZERO, first);
        while fed < inputs && seconds.is_none_or(|most| start.elapsed() < most) {
            let seed = first.wrapping_add(fed);
            current.store(seed, Ordering::Relaxed);
            let input = make(&mut Seed(seed).chance(test));
            let began = now();
            let guard = Fed { test, seed, input: &input };
            feed(guard.input);
            drop(guard);
            if began.elapsed() > slowest {
                slowest = began.elapsed();
                slowest_seed = seed;
            }
            fed += 1;
        }
        drop(ended);
        println!("{test}: the slowest input, of seed {slowest_seed}, took {slowest:?}");
        fed
    });
    eprintln!("{test}: {fed} inputs from seed {first} in {:.0} s: clean", start.elapsed().as_secs_f64());
}

/// Prints progress until the sender is gone, and ends the process if an input does not end.
fn watch(test: &str, first: u64, current: &AtomicU64, ended: &Receiver<()>) {
    let (mut last, mut same) = (None, 0);
    while ended.recv_timeout(PROGRESS) == Err(RecvTimeoutError::Timeout) {
        let seed = current.load(Ordering::Relaxed);
        eprintln!("{test}: {} inputs from seed {first}", seed.wrapping_sub(first));
        same = if last == Some(seed) { same + 1 } else { 0 };
        last = Some(seed);
        if same == STUCK {
            eprintln!("{test}: the input of seed {seed} does not end; {}", repetition(test, seed));
            std::process::exit(1);
        }
    }
}
