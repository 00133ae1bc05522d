#!/bin/bash
# aarch64.sh [PROGRAMS]: builds both programs for aarch64 on another kind of processor, at a compiler's cheaper settings, or takes those of
# PROGRAMS, and runs them under an emulator: that they link, start, and reckon as here. Exit 77 if that cannot be tried here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for pair in aarch64-linux-gnu-g++:g++-aarch64-linux-gnu qemu-aarch64-static:qemu-user-static; do
  command -v "${pair%%:*}" >/dev/null || { echo "${pair%%:*} is missing: apt-get install ${pair##*:}" >&2; exit 77; }
done
target=aarch64-unknown-linux-musl
built=${1:-}
if [[ -z $built ]]; then
  rustup target add "$target" 2>/dev/null || { echo "no standard library for $target" >&2; exit 77; }
  # Apart from what ships, which has other settings.
  export CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")/aarch64
  CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 make -s static TARGET="$target" FEATURES=--no-default-features DAEMON_MAX=0 >&2
  built=$CARGO_TARGET_DIR/$target/release
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run() { qemu-aarch64-static "$built/$1" "${@:2}"; }
head=$(od -An -tx1 -N20 "$built/wavelaned" | tr -d ' \n')
# e_machine 183 (ELF for the Arm 64-bit Architecture), in the least octet first.
[[ $head = 7f454c46*b700 ]] || { echo "wavelaned is no program for aarch64: $head" >&2; exit 1; }
run wavelaned --version >&2
run wavelane init --name ship --dir "$work" --listen 127.0.0.1:4780 --serves none --forward 127.0.0.1:8080=10.3.0.2:80 --peer-name shore \
  --peer-key "$(run wavelane keygen | sed -n 's/^public *//p')" >&2
run wavelane check "$work/wavelaned.toml" >&2
code=0
run wavelane run scenarios/smoke/one_hop.toml --on sim --out "$work/smoke" >&2 || code=$?
((code == 0)) || { echo "the simulated hop ended with $code" >&2; exit 1; }
echo "both programs link for aarch64 and run under an emulator" >&2
