//! The legend of a plot: an entry for each curve, or for each colour and each dash.

use crate::plot::{Canvas, DASHES, GREY, LEGEND_ROW, Look, Plot, WORDS, mark, mark_in, stroke, width_of};

/// Meaning of a colour or a dash, where names of curves combine both.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Key {
    /// The colour, or the dash of a grey line.
    pub(crate) look: KeyLook,
    pub(crate) name: String,
}

/// One part of a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyLook {
    Colour(Look),
    Dash(Look),
}

/// What a legend shows before a name; nothing before the meaning of marks.
pub(crate) struct Item<'a> {
    /// Distance from the left edge and from the first row.
    place: (f64, f64),
    look: Option<ItemLook>,
    name: &'a str,
}

fn item(look: Option<ItemLook>, name: &str) -> Item<'_> {
    Item { place: (0.0, 0.0), look, name }
}

enum ItemLook {
    Both(Look),
    Colour(Look),
    Dash(Look),
}

impl Plot {
    /// The legend's items, each with its place in rows that fit, and the number of rows.
    pub(crate) fn legend(&self, canvas: &Canvas) -> (Vec<Item<'_>>, f64) {
        let (left, right) = (if canvas.layout.width < 500.0 { 12.0 } else { canvas.layout.left }, canvas.right());
        let (mut x, mut row) = (left, 0.0);
        let curves = || self.curves.iter().map(|c| item(Some(ItemLook::Both(c.look)), &c.name));
        let keys = || {
            self.keys.iter().map(|key| match key.look {
                KeyLook::Colour(look) => item(Some(ItemLook::Colour(look)), &key.name),
                KeyLook::Dash(look) => item(Some(ItemLook::Dash(look)), &key.name),
            })
        };
        let mut items: Vec<Item<'_>> = if self.keys.is_empty() { curves().collect() } else { keys().collect() };
        if self.curves.iter().any(|c| !c.marks.is_empty()) {
            items.push(item(None, self.marks_mean));
        }
        let mut placed = Vec::with_capacity(items.len());
        for item in items {
            let width = if item.look.is_some() { 58.0 } else { 40.0 } + width_of(item.name, WORDS);
            if x > left && x + width > right {
                x = left;
                row += 1.0;
            }
            placed.push(Item { place: (x, row * LEGEND_ROW), ..item });
            x += width;
        }
        (placed, row + 1.0)
    }

    pub(crate) fn draw_legend(&self, canvas: &mut Canvas, items: &[Item<'_>], top: f64) {
        for item in items {
            let (x, y) = (item.place.0, top + item.place.1);
            let (line, dots) = match item.look {
                None => {
                    canvas.line((x + 6.0, y - 10.0), (x + 6.0, y + 2.0), &format!("{GREY} stroke-width=\"1.6\""));
                    canvas.text(x + 14.0, y, WORDS, "start", item.name);
                    continue;
                }
                Some(ItemLook::Both(look)) => (self.stroke(look), mark(look, (x + 16.0, y - 4.0), 3.2)),
                Some(ItemLook::Colour(look)) => (stroke(look.with_dash(0), false, true), String::new()),
                Some(ItemLook::Dash(look)) => {
                    let dashes = DASHES[look.dash];
                    let dots = mark_in("class=\"greyf\" fill=\"#555\"", look, (x + 16.0, y - 4.0), 3.2);
                    (format!("{GREY} stroke-width=\"2\" stroke-dasharray=\"{dashes}\""), dots)
                }
            };
            canvas.line((x, y - 4.0), (x + 32.0, y - 4.0), &line);
            if self.points {
                canvas.out.push_str(&dots);
            }
            canvas.text(x + 39.0, y, WORDS, "start", item.name);
        }
    }
}
