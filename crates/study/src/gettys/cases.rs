//! The experiments: what is run for each.

use super::judge;
use super::{Place, Run, Task};
use crate::document::Edition;
use crate::home::{Air, Home, fifo, named, two_stage};

/// 802.11g signalling rates in Mbit/s, and what TCP gets of each in kbit/s: the acknowledged exchange of one frame of 1500
/// bytes, with the mean back-off, per frame (the rates of `docs/decisions/0033-gettys.md`).
pub(super) const RATES: [(u32, u32); 4] = [(54, 24_200), (24, 15_000), (12, 8_900), (6, 4_900)];
/// The laptop's driver ring: the transmit descriptors of its radio card.
pub(super) const RING: u32 = 256;
/// Linux's usual `txqueuelen`.
pub(super) const TXQUEUELEN: u32 = 1_000;
/// What a router's radio holds where the source's figures imply it, in packets.
pub(super) const E3000: u32 = 1_042;
pub(super) const WNDR3700: u32 = 417;
/// What 4 s at 6 Mbit/s and 2 s at 12 Mbit/s imply, 1637 and 1486 packets, in the middle.
pub(super) const SLOW_ROUTER: u32 = 1_560;
/// The WRT54TM: what its radio takes beyond `txqueuelen`, and `txqueuelen` before it was set to 10.
pub(super) const WRT54TM: (u32, u32) = (23, 1_644);
/// Its goodput in kbit/s.
pub(super) const WRT54TM_KBIT: u32 = 20_000;

/// Every experiment of the edition.
pub(super) fn all(edition: Edition) -> Vec<Task> {
    let full = edition == Edition::Full;
    let mut tasks = Vec::new();
    for place in [Place::Sim, Place::Lab] {
        let sim = place == Place::Sim;
        // A run in the laboratory costs real time.
        let lasts = |seconds: u64, short: u64| if sim || full { seconds } else { short };
        // What is steady long before the end of the simulator's run.
        let settled = |seconds: u64, in_lab: u64| if sim { seconds } else { in_lab };
        tasks.push(growth(place, lasts(40, 30)));
        tasks.push(lengths(place, if sim || full { &[1_000, 300, 100, 10, 0] } else { &[100, 0] }, lasts(20, 17)));
        tasks.push(slow_router(place, if sim || full { &[12, 6] } else { &[12] }, lasts(settled(45, 40), 36)));
        tasks.push(remedy(place, if sim || full { &[24_200, 4_900] } else { &[4_900] }, lasts(40, 20)));
        if sim || full {
            tasks.push(rates(place));
            tasks.push(web(place));
            tasks.push(ring_at_low_rate(place, settled(40, 30)));
            tasks.push(commercial(place, settled(60, 45)));
            tasks.push(wrong_knob(place));
            tasks.push(laptop_knob(place, settled(40, 30)));
            tasks.push(gargoyle(place, settled(40, 32)));
        }
    }
    tasks.push(cell_growth());
    tasks.push(cell_rates());
    tasks.push(other_disciplines());
    tasks
}

fn upload(title: &str, kbit: u32, up: String, seconds: u64) -> Home {
    Home::new(title, Air::Cable { kbit, up, down: fifo(1_000) }, seconds)
}

fn download(title: &str, kbit: u32, down: String, seconds: u64) -> Home {
    let air = Air::Cable { kbit, up: two_stage(TXQUEUELEN, RING), down };
    Home { copy: "download", ..Home::new(title, air, seconds) }
}

fn task(
    place: Place,
    runs: Vec<(String, Home)>,
    judge: impl Fn(&[super::Found<'_>]) -> Vec<crate::document::Row> + Sync + Send + 'static,
) -> Task {
    let runs = runs.into_iter().map(|(name, home)| Run { name, home }).collect();
    Task { place, runs, judge: Box::new(judge) }
}

/// S3-E2a and S3-E2a'.
fn growth(place: Place, seconds: u64) -> Task {
    let home = upload("An upload at 54 Mbit/s, txqueuelen 1000", RATES[0].1, two_stage(TXQUEUELEN, RING), seconds);
    task(place, vec![("e2a".into(), home)], move |found| judge::growth(place, "cable", &found[0]))
}

fn cell_growth() -> Task {
    let air = Air::Cell { mbit: 54, packets: TXQUEUELEN + RING };
    let home = Home::new("An upload in an 802.11g cell at 54 Mbit/s", air, 40);
    task(Place::Sim, vec![("e2a-cell".into(), home)], |found| judge::growth(Place::Sim, "802.11g cell", &found[0]))
}

/// S3-E2b.
fn lengths(place: Place, lengths: &'static [u32], short: u64) -> Task {
    let home = |q: u32| {
        let title = format!("An upload at 54 Mbit/s, txqueuelen {q}");
        (format!("e2b-{q}"), upload(&title, RATES[0].1, two_stage(q, RING), if q > 100 { 40 } else { short }))
    };
    task(place, lengths.iter().map(|q| home(*q)).collect(), move |found| judge::lengths(place, lengths, found))
}

/// S3-E2c on a cable of each rate's goodput.
fn rates(place: Place) -> Task {
    let home = |(mbit, kbit): (u32, u32)| {
        let title = format!("An upload at {mbit} Mbit/s, txqueuelen 1000");
        // Half of it is start; at faster rates that is over sooner.
        let seconds = if place == Place::Lab && mbit > 6 { 60 } else { 90 };
        (format!("e2c-{mbit}"), upload(&title, kbit, two_stage(TXQUEUELEN, RING), seconds))
    };
    task(place, RATES.map(home).into(), move |found| judge::rates(place, "cable", found))
}

fn cell_rates() -> Task {
    let home = |(mbit, _): (u32, u32)| {
        let air = Air::Cell { mbit, packets: TXQUEUELEN + RING };
        (format!("e2c-cell-{mbit}"), Home::new(format!("An upload in an 802.11g cell at {mbit} Mbit/s"), air, 90))
    };
    task(Place::Sim, RATES.map(home).into(), |found| judge::rates(Place::Sim, "802.11g cell", found))
}

/// Starts of pages: before the copy, and while it runs.
const PAGES: [u64; 4] = [2, 40, 55, 70];

/// S3-E2d.
fn web(place: Place) -> Task {
    let slow = upload("Web pages during an upload at 6 Mbit/s", RATES[3].1, two_stage(TXQUEUELEN, RING), 110);
    let home = Home { pages: PAGES.into(), ..slow };
    task(place, vec![("e2d".into(), home)], move |found| judge::web(place, &found[0], PAGES.len()))
}

/// S3-E2e: `txqueuelen` 0 at 6 Mbit/s, with the ring that the text supposes and the one that its figure implies.
fn ring_at_low_rate(place: Place, seconds: u64) -> Task {
    let home = |ring: u32| {
        let title = format!("An upload at 6 Mbit/s, txqueuelen 0, ring {ring}");
        (format!("e2e-{ring}"), upload(&title, RATES[3].1, two_stage(0, ring), seconds))
    };
    task(place, [RING, 50].map(home).into(), move |found| judge::rings(place, &[RING, 50], found))
}

/// S3-E3a.
fn commercial(place: Place, seconds: u64) -> Task {
    let home = download("A download by a router with commercial firmware", RATES[0].1, fifo(E3000), seconds);
    task(place, vec![("e3a".into(), home)], move |found| judge::commercial(place, &found[0]))
}

/// S3-E3b: the knob of an interface that is not the bottleneck.
fn wrong_knob(place: Place) -> Task {
    let home = |q: u32| {
        let plain = download(&format!("A download, txqueuelen {q} elsewhere"), RATES[0].1, fifo(WNDR3700), 30);
        (format!("e3b-{q}"), Home { bridge: Some(two_stage(q, RING)), ..plain })
    };
    task(place, [TXQUEUELEN, 0].map(home).into(), move |found| {
        judge::no_effect(place, "S3-E3b", Some(200.0), WNDR3700, found)
    })
}

/// S3-E3c.
fn slow_router(place: Place, mbits: &'static [u32], seconds: u64) -> Task {
    let home = |mbit: u32| {
        let kbit = RATES.iter().find(|(m, _)| *m == mbit).map_or(0, |(_, kbit)| *kbit);
        let title = format!("A download at {mbit} Mbit/s through a deep router");
        (
            format!("e3c-{mbit}"),
            download(&title, kbit, fifo(SLOW_ROUTER), if mbit == 6 { 2 * seconds } else { seconds }),
        )
    };
    task(place, mbits.iter().map(|m| home(*m)).collect(), move |found| judge::slow_router(place, mbits, found))
}

/// S3-E3d: the laptop's knob during a download.
fn laptop_knob(place: Place, seconds: u64) -> Task {
    let home = |q: u32| {
        let title = format!("A download at 54 Mbit/s, the laptop's txqueuelen {q}");
        let air = Air::Cable { kbit: RATES[0].1, up: two_stage(q, RING), down: fifo(E3000) };
        (format!("e3d-{q}"), Home { copy: "download", ..Home::new(title, air, seconds) })
    };
    task(place, [TXQUEUELEN, 0].map(home).into(), move |found| judge::no_effect(place, "S3-E3d", None, E3000, found))
}

/// S3-E3e.
fn gargoyle(place: Place, seconds: u64) -> Task {
    let (ring, usual) = WRT54TM;
    let home = |q: u32| {
        let title = format!("A download through a WRT54TM, txqueuelen {q}");
        (format!("e3e-{q}"), download(&title, WRT54TM_KBIT, two_stage(q, ring), seconds))
    };
    task(place, [usual, 10].map(home).into(), move |found| judge::gargoyle(place, ring, [usual, 10], found))
}

/// S3-E4: the same link under FIFO and under FQ-CoDel.
fn remedy(place: Place, kbits: &'static [u32], seconds: u64) -> Task {
    let mut runs = Vec::new();
    for kbit in kbits {
        for (word, queue) in [("fifo", two_stage(TXQUEUELEN, RING)), ("fq-codel", named("fq-codel"))] {
            let title = format!("An upload at {} Mbit/s under {word}", f64::from(*kbit) / 1e3);
            runs.push((format!("e4-{kbit}-{word}"), upload(&title, *kbit, queue, seconds)));
        }
    }
    task(place, runs, move |found| judge::remedy(place, kbits, found))
}

/// Beside the remedy: other disciplines, and what a ring behind the best of them does.
pub(super) const OTHERS: [(&str, &str); 5] = [
    ("codel", "{ kind = \"codel\" }"),
    ("pie", "{ kind = \"pie\" }"),
    ("dualpi2", "{ kind = \"dualpi2\" }"),
    ("fq-codel, ring of 256", "{ kind = \"fq-codel\", ring = \"256 packets\" }"),
    ("fq-codel, ring of 2", "{ kind = \"fq-codel\", ring = \"2 packets\" }"),
];

fn other_disciplines() -> Task {
    let home = |i: usize| {
        let (word, queue) = OTHERS[i];
        let title = format!("An upload at 4.9 Mbit/s under {word}");
        (format!("e4-other-{i}"), upload(&title, RATES[3].1, queue.to_owned(), 40))
    };
    task(Place::Sim, (0..OTHERS.len()).map(home).collect(), judge::others)
}
