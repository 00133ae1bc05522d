#!/bin/bash
# Builds the Python package into the environment of environment.sh, and runs its types, tests and notebook.
# What cannot be had is said as SKIPPED (reason), which `make test` counts.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
export WAVELANE="$PWD/target/debug/wavelane"
if [[ $target = /* ]]; then WAVELANE="$target/debug/wavelane"; fi
why=$(mktemp)
trap 'rm -f "$why"' EXIT
code=0
venv=$(python/environment.sh 2>"$why") || code=$?
if ((code == 77)); then
  echo "SKIPPED ($(tail -n 1 "$why")): the Python package, its tests and its notebook"
  exit 0
elif ((code)); then
  cat "$why" >&2
  exit 1
fi

# For maturin, which pip calls by its name.
PATH="$venv/bin:$PATH"
# The profile of the other tests, so that little is built twice.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall \
  --config-settings=build-args="--profile dev" ./python
export MPLBACKEND=agg PYTHONDONTWRITEBYTECODE=1
"$venv/bin/mypy" --config-file python/pyproject.toml --cache-dir "$target/mypy" python/wavelane
"$venv/bin/python" -m pytest -q -p no:cacheprovider --import-mode=importlib python/tests
"$venv/bin/python" python/notebooks/execute.py python/notebooks/*.ipynb
