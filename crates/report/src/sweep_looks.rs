//! Colours and dashes of a sweep's pictures: the same for a stack and for a value in every picture, even if a picture lacks some.

use crate::legend::{Key, KeyLook};
use crate::plot::{COLOURS, DASHES, Look, style_of};
use std::collections::BTreeSet;
use wavelane_run::SweepCell;

/// A mean over the seeds of one cell, with its half-width.
pub(crate) struct Point {
    /// Its stack, and the flow and values that distinguish it from other curves of that stack.
    pub(crate) stack: String,
    pub(crate) rest: String,
    pub(crate) curve: String,
    pub(crate) x: f64,
    pub(crate) mean: f64,
    pub(crate) half: Option<f64>,
}

/// A metric's points, and what distinguishes curves of a stack in the order of the cells, even where there is no point.
#[derive(Default)]
pub(crate) struct Points {
    pub(crate) all: Vec<Point>,
    pub(crate) rests: Vec<String>,
}

/// Each once, in order.
pub(crate) fn distinct<'a>(of: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut known = BTreeSet::new();
    of.filter(|one| known.insert(*one)).collect()
}

/// The stacks in the scenario's order: those of the cell with the most stacks, then those that only other cells have.
pub(crate) fn stacks_of(cells: &[SweepCell]) -> Vec<&str> {
    let most = cells.iter().map(|cell| cell.document.stacks.len()).max();
    let first = cells.iter().find(|cell| Some(cell.document.stacks.len()) == most);
    distinct(first.into_iter().chain(cells).flat_map(|cell| &cell.document.stacks).map(|s| s.stack.as_str()))
}

/// The looks of curves and their meaning.
pub(crate) struct Looks<'a> {
    /// The look of every curve, with its name.
    pub(crate) curves: Vec<(Look, &'a str)>,
    /// Meaning of colours and dashes, where names of curves combine both.
    pub(crate) keys: Vec<Key>,
}

/// A colour for each of `stacks` and a dash for the other distinctions between curves, if there are enough.
pub(crate) fn looks<'a>(Points { all, rests }: &'a Points, stacks: &[&'a str], order: &[&'a str]) -> Looks<'a> {
    let enough = stacks.len() <= COLOURS.len() && rests.len() <= DASHES.len();
    let colour = |stack: &str| Look::of(style_of(stacks.iter().copied(), stack)).with_dash(0);
    let number = |rest: &str| rests.iter().position(|known| known == rest).unwrap_or(0);
    let of = |name: &&'a str| {
        let point = all.iter().find(|p| p.curve == **name)?;
        let both = colour(&point.stack).with_dash(number(&point.rest));
        let alone = Look::of(style_of(order.iter().copied(), name));
        Some((if enough { both } else { alone }, *name))
    };
    let curves = order.iter().filter_map(of).collect();
    let of_stack = |stack: &&str| Key { look: KeyLook::Colour(colour(stack)), name: (*stack).to_owned() };
    let of_rest = |rest: &&String| Key {
        look: KeyLook::Dash(Look::of(0).with_dash(number(rest))),
        name: rest.trim_start_matches([',', ' ']).to_owned(),
    };
    // The legend lists only what the picture contains.
    let drawn_stacks: Vec<&str> = stacks.iter().copied().filter(|s| all.iter().any(|p| p.stack == *s)).collect();
    let drawn_rests: Vec<&String> = rests.iter().filter(|rest| all.iter().any(|p| p.rest == **rest)).collect();
    let two = enough && drawn_stacks.len() > 1 && drawn_rests.len() > 1;
    let keys = drawn_stacks.iter().map(of_stack).chain(drawn_rests.iter().map(of_rest));
    Looks { curves, keys: if two { keys.collect() } else { Vec::new() } }
}
