//! The pictures of several records on the same axes.

use crate::ReportError;
use crate::compare::{Compared, letter as letter_of};
use crate::curves::{self, Picture};
use crate::legend::{Key, KeyLook};
use crate::plot::{Curve, Look};

/// Maximum number of records distinguished by dashes: that many shapes of dots exist.
const DASHED_MAX: usize = 4;
/// The dashes of records, and the shapes of dots where curves consist of dots.
const DASHES: [&str; DASHED_MAX] =
    ["A solid (dots: round)", "B dashed (square)", "C dotted (triangles)", "D dashes and dots (diamonds)"];

/// How to read the pictures of `records` records.
pub(crate) fn legends(records: usize, by_dash: bool) -> String {
    let look = match by_dash {
        true => format!(
            "A colour is a stack or flow, and the dash tells the records apart: {}.",
            DASHES[..records.min(DASHED_MAX)].join(", ")
        ),
        false => "Every curve has a colour or dash of its own, for there are many.".into(),
    };
    format!("In the pictures a letter is a record. {look} Areas are the spread over a record's seeds.")
}

/// Gives curves of one name in different records the same colour, and those of different names different ones if there are enough.
/// `names` are those that have one already.
pub(crate) fn recolour(curves: &mut [Curve], names: &mut Vec<String>) {
    for curve in curves {
        let (letter, name) = curve.name.split_once(' ').unwrap_or(("A", &curve.name));
        let number = names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        let record = (0..).map(letter_of).take_while(|l| *l != "?").position(|l| l == letter).unwrap_or(0);
        curve.look = Look::of(number).with_dash(record);
    }
}

/// Whether one name has two colours.
pub(crate) fn is_apart(curves: &[Curve]) -> bool {
    let named = |curve: &Curve| curve.name.split_once(' ').map(|(_, name)| name.to_owned());
    (1..curves.len()).any(|i| {
        let of_name = |c: &&Curve| named(c) == named(&curves[i]);
        curves[..i].iter().filter(of_name).any(|c| c.look.colour != curves[i].look.colour)
    })
}

/// Meaning of colours and dashes; empty if a colour does not stand for one name, or if there is only one of either.
fn keys(curves: &[Curve]) -> Vec<Key> {
    let mut names: Vec<(&str, Look)> = Vec::new();
    let mut records: Vec<(&str, Look)> = Vec::new();
    for curve in curves {
        let Some((letter, name)) = curve.name.split_once(' ') else { return Vec::new() };
        if !names.contains(&(name, curve.look.with_dash(0))) {
            names.push((name, curve.look.with_dash(0)));
        }
        if !records.iter().any(|(known, _)| *known == letter) {
            records.push((letter, curve.look));
        }
    }
    let mixed = |(i, (name, look)): (usize, &(&str, Look))| {
        names[..i].iter().any(|(other, used)| (other == name) != (used.colour == look.colour))
    };
    let twice = |(i, (name, _)): (usize, &(&str, Look))| names[..i].iter().any(|(other, _)| other == name);
    if names.len() < 2 || records.len() < 2 || names.iter().enumerate().any(|at| mixed(at) || twice(at)) {
        return Vec::new();
    }
    let colour = |(name, look): &(&str, Look)| Key { look: KeyLook::Colour(*look), name: (*name).to_owned() };
    let dash = |(letter, look): &(&str, Look)| Key { look: KeyLook::Dash(*look), name: (*letter).to_owned() };
    names.iter().map(colour).chain(records.iter().map(dash)).collect()
}

/// The one record whose stacks are compared, all of them together again: its own pictures have them on the same axes.
pub(crate) fn whole(records: &[Compared]) -> Option<Compared> {
    let first = records.first().filter(|_| records.iter().all(|r| r.stack.is_some()))?;
    let mut whole = first.clone();
    whole.document.stacks = records.iter().flat_map(|r| r.document.stacks.iter().cloned()).collect();
    Some(whole)
}

/// The records' pictures, those of the same kind on the same axes, and whether colours distinguish curves and dashes distinguish records;
/// of fewer records if it is told to stop.
pub(crate) fn overlaid(records: &[Compared], stopped: &dyn Fn() -> bool) -> Result<(Vec<Picture>, bool), ReportError> {
    if let Some(whole) = whole(records) {
        return Ok((curves::pictures(&whole.record, &whole.document, &whole.scenario)?, true));
    }
    let mut all: Vec<Picture> = Vec::new();
    for (number, r) in records.iter().enumerate().take_while(|_| !stopped()) {
        for mut picture in curves::pictures(&r.record, &r.document, &r.scenario)? {
            for curve in &mut picture.plot.curves {
                curve.look = curve.look.with_dash(number);
                curve.name = format!("{} {}", letter_of(number), curve.name);
            }
            match all.iter_mut().find(|p| p.name == picture.name) {
                Some(under) => under.lay_over(picture),
                None => all.push(picture),
            }
        }
    }
    let alike = |curves: &[Curve]| (1..curves.len()).any(|i| curves[..i].iter().any(|c| c.look == curves[i].look));
    // Records of other stacks number theirs otherwise: then the names are numbered anew, in all pictures alike.
    let apart = all.iter().any(|picture| is_apart(&picture.plot.curves));
    let mut names = Vec::new();
    // Instead of dashes for several flows of a stack: a colour each.
    for picture in all.iter_mut().filter(|picture| apart || alike(&picture.plot.curves)) {
        recolour(&mut picture.plot.curves, &mut names);
    }
    let by_dash = records.len() <= DASHED_MAX && !all.iter().any(|picture| alike(&picture.plot.curves));
    if by_dash {
        for picture in &mut all {
            picture.plot.keys = keys(&picture.plot.curves);
        }
    }
    // If there are too few colours for the curves of a record, each curve of every picture gets its own look.
    for picture in all.iter_mut().filter(|_| !by_dash) {
        for (i, curve) in picture.plot.curves.iter_mut().enumerate() {
            curve.look = Look::of(i);
        }
    }
    Ok((all, by_dash))
}
