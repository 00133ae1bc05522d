#!/bin/bash
# Makes target/python, the virtual environment that `make test` puts first in PATH: what the Python package's own tests need, and
# the modules and programs (jsonschema, cryptography, pandas, flent) that other tests call. Prints its directory.
# Exit 77, with the reason on standard error, if it cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${CARGO_TARGET_DIR:-target}/python
missing() { echo "$1" >&2; exit 77; }

if ! type -P python3 >/dev/null; then missing "python3 is missing: apt-get install python3"; fi
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then missing "python3 is older than 3.11"; fi
if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
  as_root=()
  if (($(id -u) != 0)); then as_root=(sudo -n); fi
  "${as_root[@]}" apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends python3-venv </dev/null >/dev/null 2>&1 ||
    missing "Python's venv is missing: apt-get install python3-venv"
fi
# An environment of another Python is made anew.
"$venv/bin/python" -c '' 2>/dev/null || python3 -m venv --clear "$venv"
wanted=python/requirements-test.txt
if ! cmp -s "$wanted" "$venv/installed.txt"; then
  if ! said=$("$venv/bin/python" -m pip install --quiet --disable-pip-version-check --timeout 30 -r "$wanted" 2>&1); then
    echo "$said" >&2
    # pip's last error is the cause: no network, a full disk, a version that is not there.
    cause=$(grep '^ERROR' <<<"$said" | tail -n 1 || true)
    missing "pip cannot install $wanted: ${cause:-$(tail -n 1 <<<"$said")}"
  fi
  cp "$wanted" "$venv/installed.txt"
fi
cd "$venv"
pwd
