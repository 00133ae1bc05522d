#!/bin/bash
# deny.sh: holds what the programs are linked from against deny.toml: licences, sources, crates that are unwanted or have known holes. It
# installs cargo-deny if that is missing. The list of known holes comes from the net; without it that part says SKIPPED.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
VERSION=0.20.2
if ! cargo deny --version >/dev/null 2>&1; then
  echo "installing cargo-deny in ~/.cargo/bin (once, some minutes)" >&2
  built=$(mktemp -d)
  trap 'rm -rf "$built"' EXIT
  # It runs for seconds: the faster build is the better one.
  CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_TARGET_DIR="$built" \
    cargo install cargo-deny --version "$VERSION" --locked --quiet
fi
cargo deny check licenses bans sources
said=$(cargo deny check advisories 2>&1) && code=0 || code=$?
if ((code)) && grep -q 'failed to fetch advisory database' <<<"$said"; then
  echo "SKIPPED (the list of known holes cannot be fetched): advisories of cargo deny"
else
  echo "$said"
  exit "$code"
fi
