//! Stations with the same view of the medium share one ear, so that the cost of a frame does not depend on their number.

use super::wheel::Wheel;
use super::{Reach, ReachMap};

/// Stations that hear the same others, and each other, equally.
#[derive(Debug)]
pub(super) struct Class {
    /// The backoffs of the members that share the ear, a wheel per AIFS.
    pub(super) wheels: Vec<Wheel>,
    pub(super) members: Vec<usize>,
    /// Members that temporarily have their own ear, after sending or a failure.
    pub(super) solos: Vec<usize>,
}

/// A listener: a class, or a single station in no class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Home {
    Class(usize),
    Alone(usize),
}

/// The division of a cell's stations into classes.
#[derive(Debug)]
pub(super) struct Division {
    pub(super) classes: Vec<Class>,
    /// The class of each station, if it has one.
    pub(super) class_of: Vec<Option<usize>>,
    /// Who hears each station, and how.
    pub(super) audience: Vec<Vec<(Home, Reach)>>,
}

impl Division {
    /// Divides the stations, each of which has `kinds` contenders with one of `levels` AIFS; with `shared` false there are
    /// no classes.
    pub(super) fn new(reach: &ReachMap, shared: bool, kinds: usize, levels: usize) -> Self {
        let stations = reach.stations();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for station in 0..stations {
            match groups.iter_mut().find(|group| shared && fits(reach, group, station)) {
                Some(group) => group.push(station),
                None => groups.push(vec![station]),
            }
        }
        let mut class_of = vec![None; stations];
        let mut classes = Vec::new();
        for group in groups.iter().filter(|group| group.len() > 1) {
            group.iter().for_each(|member| class_of[*member] = Some(classes.len()));
            let wheels = (0..levels).map(|_| Wheel::new(stations * kinds)).collect();
            classes.push(Class { wheels, members: group.clone(), solos: Vec::with_capacity(group.len()) });
        }
        let audience = (0..stations).map(|sender| {
            let heard = groups.iter().filter_map(|group| {
                let listener = *group.iter().find(|member| **member != sender)?;
                let home = class_of[listener].map_or(Home::Alone(listener), Home::Class);
                Some((home, reach.get(sender, listener))).filter(|(_, reach)| !reach.is_nothing())
            });
            heard.collect()
        });
        Self { audience: audience.collect(), classes, class_of }
    }
}

/// Whether `station` has the same view of the medium as the members of `group`.
fn fits(reach: &ReachMap, group: &[usize], station: usize) -> bool {
    let first = group[0];
    let within = reach.get(first, station);
    let alike = reach.get(station, first) == within && group.get(1).is_none_or(|m| reach.get(first, *m) == within);
    alike
        && (0..reach.stations())
            .filter(|other| ![first, station].contains(other))
            .all(|other| reach.get(other, first) == reach.get(other, station))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may fail")]
    use super::*;

    #[test]
    fn a_full_cell_is_one_class_and_a_chain_has_none() {
        assert_eq!(Division::new(&ReachMap::full(9), true, 1, 1).class_of, [Some(0); 9]);
        assert_eq!(Division::new(&ReachMap::full(9), false, 1, 1).class_of, [None; 9]);
        let mut chain = ReachMap::none(5);
        for a in 0..4 {
            chain.set_both(a, a + 1, Reach::FULL).unwrap();
        }
        let division = Division::new(&chain, true, 1, 1);
        assert_eq!(division.class_of, [None; 5]);
        assert_eq!(division.audience[0], [(Home::Alone(1), Reach::FULL)]);
    }

    #[test]
    fn hidden_stations_share_one_class() {
        let mut star = ReachMap::none(4);
        for leaf in 1..4 {
            star.set_both(0, leaf, Reach::FULL).unwrap();
        }
        let division = Division::new(&star, true, 1, 1);
        assert_eq!(division.class_of, [None, Some(0), Some(0), Some(0)]);
        assert_eq!(division.audience[1], [(Home::Alone(0), Reach::FULL)]);
        // A leaf with a louder signal at another leaf is in a class of its own.
        star.set(1, 2, Reach::SENSED).unwrap();
        assert_eq!(Division::new(&star, true, 1, 1).class_of[2], None);
    }
}
