#!/bin/bash
# last-tag.sh [PROGRAMS]: builds the daemon of the last tag, or takes that of PROGRAMS, and runs it against this tree's, as each of the two
# gateways of oci/compose.yaml, with its own tree's configuration. Exit 77 if that cannot be tried here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
old=${1:-}
if [[ -z $old ]]; then
  tag=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null) || { echo "there is no tag yet" >&2; exit 77; }
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  git archive "$tag" | tar -x -C "$work"
  # Crates that both have in common are built once.
  CARGO_TARGET_DIR=$target/last-tag cargo build --manifest-path "$work/Cargo.toml" --package wavelane-cli --package wavelane-daemon >&2
  old=$target/last-tag/debug
fi
"$old/wavelaned" --version >&2
for role in ship shore; do
  packaging/oci/check.py "$target/debug" "$role=$old"
done
