#!/bin/bash
# Builds the Python package into a virtual environment under target/, and runs its types, tests and notebook.
# What cannot be had is said as SKIPPED (reason), which `make test` counts.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
export WAVELANE="$PWD/target/debug/wavelane"
if [[ $target = /* ]]; then WAVELANE="$target/debug/wavelane"; fi
venv=$target/python
skip() { echo "SKIPPED ($1): the Python package, its tests and its notebook"; exit 0; }

if ! type -P python3 >/dev/null; then skip "python3 is missing: apt-get install python3"; fi
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then skip "python3 is older than 3.11"; fi
if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
  as_root=()
  if (($(id -u) != 0)); then as_root=(sudo -n); fi
  "${as_root[@]}" apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends python3-venv </dev/null >/dev/null 2>&1 ||
    skip "Python's venv is missing: apt-get install python3-venv"
fi
# An environment of another Python is made anew.
"$venv/bin/python" -c '' 2>/dev/null || python3 -m venv --clear "$venv"
wanted=python/requirements-test.txt
if ! cmp -s "$wanted" "$venv/installed.txt"; then
  if ! said=$("$venv/bin/python" -m pip install --quiet --disable-pip-version-check --timeout 30 -r "$wanted" 2>&1); then
    echo "$said" >&2
    skip "pip cannot install $wanted: is there a network?"
  fi
  cp "$wanted" "$venv/installed.txt"
fi

# For maturin, which pip calls by its name.
PATH="$(cd "$venv/bin" && pwd):$PATH"
# The profile of the other tests, so that little is built twice.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall \
  --config-settings=build-args="--profile dev" ./python
export MPLBACKEND=agg PYTHONDONTWRITEBYTECODE=1
"$venv/bin/mypy" --config-file python/pyproject.toml --cache-dir "$target/mypy" python/wavelane
"$venv/bin/python" -m pytest -q -p no:cacheprovider --import-mode=importlib python/tests
"$venv/bin/python" python/notebooks/execute.py python/notebooks/*.ipynb
