//! Messages of the command in Python's names: what is `--out` there is `out` here.

/// What the command calls by its flags, and Python's word for it, the longer ones first.
const NAMES: [(&str, &str); 10] = [
    ("run it with --on lab", "the command runs it, as root: `wavelane run FILE --on lab`"),
    ("with --set", "with `set`"),
    ("add --replace", "say `replace=True`"),
    ("--out", "`out`"),
    ("--set", "`set`"),
    ("--sweep", "`axes`"),
    ("--seed", "`seed`"),
    ("--repeat", "`repeat`"),
    ("--jobs", "`jobs`"),
    (
        "name a directory that `wavelane run` wrote",
        "name a directory that `wavelane.run(..., out=DIR)` or the command `wavelane run` wrote",
    ),
];

/// A message with what to do in Python's names.
pub(crate) fn in_python(text: &str) -> String {
    NAMES.iter().fold(text.to_owned(), |text, (flag, name)| text.replace(flag, name))
}
