//! What the stations of a radio cell did, from its counters.

use crate::{CategoryRaw, ErrorsRaw, RadioRaw};
use wavelane_base::Span;
use wavelane_channel::wifi::{Category, CategoryTally, Tally, Wifi};
use wavelane_scenario::{Channel, category_word};

impl RadioRaw {
    /// All stations of `channel` together after a run of this length.
    pub fn of(channel: &Channel, cell: &Wifi, span: Span) -> Self {
        let sum = |what: fn(&Tally) -> u64| (0..channel.between.len()).map(|s| what(cell.tally(s))).sum();
        Self {
            channel: channel.name.clone(),
            span,
            frames: sum(|t| t.data_sent + t.rts_sent + t.answers_sent),
            data: sum(|t| t.data_sent),
            rts: sum(|t| t.rts_sent),
            ack_missing: sum(|t| t.ack_missing),
            cts_missing: sum(|t| t.cts_missing),
            given_up: sum(|t| t.given_up),
            queue_full: sum(|t| t.refused),
            dropped_delay: is_managed(channel, cell).then(|| sum(|t| t.dropped_delay)),
            categories: categories(channel, cell),
            errors: lossy(channel).then(|| ErrorsRaw {
                uncoded: (sum(|t| t.uncoded_heard), sum(|t| t.uncoded_lost)),
                coded: (sum(|t| t.coded_heard), sum(|t| t.coded_lost)),
            }),
        }
    }
}

/// Whether noise or bit errors damage frames of a cell.
fn lossy(channel: &Channel) -> bool {
    channel.cell().is_some_and(|cell| cell.errors.is_some() || cell.noise_db.is_some())
}

/// Whether any station of a cell has a queue that drops before it is full.
fn is_managed(channel: &Channel, cell: &Wifi) -> bool {
    (0..channel.between.len()).any(|station| cell.looks_at_flows(station))
}

/// What became of the frames of each category, if there are any.
fn categories(channel: &Channel, cell: &Wifi) -> Vec<CategoryRaw> {
    if !cell.has_categories() {
        return Vec::new();
    }
    let managed = is_managed(channel, cell);
    let of = |category: Category| {
        let stations = 0..channel.between.len();
        let sum = |what: fn(&CategoryTally) -> u64| {
            stations.clone().map(|station| what(cell.category_tally(station, category))).sum()
        };
        CategoryRaw {
            category: category_word(category),
            data: sum(|t| t.data_sent),
            ack_missing: sum(|t| t.ack_missing),
            gave_way: sum(|t| t.gave_way),
            given_up: sum(|t| t.given_up),
            queue_full: sum(|t| t.refused),
            dropped_delay: managed.then(|| sum(|t| t.dropped_delay)),
            delivered_octets: sum(|t| t.delivered_octets),
        }
    };
    Category::ALL.map(of).to_vec()
}
