//! Names the commit of the build, for `--version`.

mod commit;

fn main() {
    commit::tell();
}
