//! Access categories and error correction of a radio cell: `edca` and `fec` of `[channels.NAME]`.

use crate::ScenarioError;
use crate::parse_wifi::contention_windows;
use crate::word;
use crate::write::unit;
use crate::{Table, Value};
use wavelane_base::{Ratio, Span};
use wavelane_channel::wifi::{AIFSN, Access, Category, Edca, Fec, FecCode, FecFrames, Phy};

/// Access categories with their words, lowest priority first.
pub const CATEGORIES: &[(&str, Category)] = &[
    ("background", Category::Background),
    ("best-effort", Category::BestEffort),
    ("video", Category::Video),
    ("voice", Category::Voice),
];
/// The rate of the source document's code.
const CODE_RATE: Option<Ratio> = Ratio::new(71, 100);

/// The word of a category.
pub fn category_word(category: Category) -> &'static str {
    CATEGORIES.iter().find(|(_, c)| *c == category).map_or("best-effort", |(word, _)| word)
}

/// `"standard"`, or the differences from it: `{ voice = { aifsn = 2, cw = [3, 7], txop = "2080 us" } }`.
pub(crate) fn edca(value: &Value<'_>, phy: Phy) -> Result<Edca, ScenarioError> {
    let mut edca = Edca::standard(phy);
    if value.as_str().is_some() {
        return word(value, "set of access categories", &[("standard", ())], "\"standard\"").map(|()| edca);
    }
    let table = value.table("{ voice = { txop = \"2080 us\" } }")?;
    let words: Vec<&str> = CATEGORIES.iter().map(|(word, _)| *word).collect();
    table.only(&words)?;
    for (word, category) in CATEGORIES {
        if let Some(value) = table.get(word) {
            access(&value, &mut edca.access[*category as usize])?;
        }
    }
    Ok(edca)
}

fn access(value: &Value<'_>, access: &mut Access) -> Result<(), ScenarioError> {
    let table = value.table("{ aifsn = 2, cw = [3, 7], txop = \"2080 us\" }")?;
    table.only(&["aifsn", "cw", "txop"])?;
    if let Some(value) = table.get("aifsn") {
        let number = value.whole()?;
        let (least, most) = (AIFSN.start(), AIFSN.end());
        let inside = u8::try_from(number).ok().filter(|number| AIFSN.contains(number));
        let why = || format!("{} = {number} is outside {least} to {most}: choose one inside", value.path);
        access.aifsn = inside.ok_or_else(|| value.impossible(why()))?;
    }
    if let Some(value) = table.get("cw") {
        (access.cw_min, access.cw_max) = contention_windows(&value)?;
    }
    if let Some(value) = table.get("txop") {
        access.txop = value.quantity()?;
    }
    Ok(())
}

/// Writes every category in the form that [`edca`] reads.
pub(crate) fn write_edca(edca: &Edca) -> String {
    let one = |(word, category): &(&str, Category)| {
        let Access { aifsn, cw_min, cw_max, txop } = &edca.access[*category as usize];
        format!("{word} = {{ aifsn = {aifsn}, cw = [{cw_min}, {cw_max}], txop = {} }}", unit(txop))
    };
    format!("{{ {} }}", CATEGORIES.iter().map(one).collect::<Vec<_>>().join(", "))
}

const FRAMES: &[(&str, FecFrames)] = &[("data", FecFrames::Data), ("all", FecFrames::All)];

/// `{ kind = "reed-solomon", length = 31, data = 22 }` or `{ kind = "residual", ber = "0.00057" }`.
pub(crate) fn fec(value: &Value<'_>) -> Result<Fec, ScenarioError> {
    const KINDS: &[(&str, bool)] = &[("residual", false), ("reed-solomon", true)];
    let table = value.table("{ kind = \"reed-solomon\", length = 31, data = 22 }")?;
    let kind = table.need("kind", "\"reed-solomon\"")?;
    let code = if word(&kind, "kind of error correction", KINDS, "\"reed-solomon\"")? {
        table.only(&["kind", "length", "data", "frames", "feedback"])?;
        let symbols = |value: &Value<'_>| value.whole().map(|n| u16::try_from(n).unwrap_or(u16::MAX));
        let length = symbols(&table.need("length", "31")?)?;
        FecCode::ReedSolomon { length, data: symbols(&table.need("data", "22")?)? }
    } else {
        table.only(&["kind", "ber", "code-rate", "frames", "feedback"])?;
        let rate = table.quantity("code-rate")?.or(CODE_RATE).unwrap_or(Ratio::ONE);
        FecCode::Residual { ber: table.need("ber", "\"0.00057\"")?.quantity()?, rate }
    };
    let frames = frames(&table)?;
    Ok(Fec { code, frames, feedback: table.quantity("feedback")?.unwrap_or(Span::ZERO) })
}

fn frames(table: &Table<'_>) -> Result<FecFrames, ScenarioError> {
    let frames = table.get("frames").map(|v| word(&v, "choice of frames", FRAMES, "\"data\"")).transpose()?;
    Ok(frames.unwrap_or(FecFrames::Data))
}

/// Writes it in the form that [`fec`] reads.
pub(crate) fn write_fec(fec: &Fec) -> String {
    let code = match fec.code {
        FecCode::Residual { ber, rate } => {
            format!("kind = \"residual\", ber = {}, code-rate = {}", unit(&ber), unit(&rate))
        }
        FecCode::ReedSolomon { length, data } => {
            format!("kind = \"reed-solomon\", length = {length}, data = {data}")
        }
    };
    let frames = FRAMES.iter().find(|(_, f)| *f == fec.frames).map_or("data", |(word, _)| word);
    format!("{{ {code}, frames = \"{frames}\", feedback = {} }}", unit(&fec.feedback))
}
