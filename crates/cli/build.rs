//! Names the commit of the build, for `--version` and records' `environment.json`.

#[path = "../daemon/commit.rs"]
mod commit;

fn main() {
    commit::tell();
}
