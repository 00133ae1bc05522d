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
pip=("$venv/bin/python" -m pip --quiet --disable-pip-version-check)
rm -rf "$target/wheels"
"${pip[@]}" wheel --no-build-isolation --no-deps --config-settings=build-args="--profile dev" --wheel-dir "$target/wheels" ./python
# One wheel for every Python from 3.11 on: it works where nothing else is, and brings the types.
wheels=("$target"/wheels/wavelane-*-cp311-abi3-*.whl)
[[ ${#wheels[@]} = 1 && -f ${wheels[0]} ]] || { echo "no wheel for the stable ABI: $(ls "$target/wheels")" >&2; exit 1; }
empty=$(realpath -m "$target/python-empty")
rm -rf "$empty"
python3 -m venv "$empty"
"$empty/bin/python" -m pip --quiet --disable-pip-version-check install --no-index "${wheels[0]}"
(cd / && PYTHONDONTWRITEBYTECODE=1 "$empty/bin/python" -c '
import importlib.resources, tempfile, wavelane
files = importlib.resources.files(wavelane)
missing = [name for name in ("py.typed", "_wavelane.pyi") if not (files / name).is_file()]
assert not missing, f"the wheel lacks {missing}"
with tempfile.TemporaryDirectory() as place:
    record = wavelane.run("'"$OLDPWD"'/scenarios/smoke/one_hop.toml", out=place + "/record")
assert record.verdict in ("pass", "inconclusive"), record.verdict
')
"${pip[@]}" install --no-deps --force-reinstall "${wheels[0]}"
# A cluster's workers are the package, and refuse a program of another commit.
commit=$("$venv/bin/python" -c 'from wavelane import _wavelane; print((_wavelane.COMMIT or "").split("+")[0])')
if [[ $("$WAVELANE" --version) != *"$commit"* ]]; then
  echo "$WAVELANE is of another commit than the package: build it again (cargo build) and run this again" >&2
  exit 1
fi
export MPLBACKEND=agg PYTHONDONTWRITEBYTECODE=1
"$venv/bin/mypy" --config-file python/pyproject.toml --cache-dir "$target/mypy" python/wavelane
"$venv/bin/python" -m pytest -q -p no:cacheprovider --import-mode=importlib python/tests
"$venv/bin/python" python/notebooks/execute.py python/notebooks/*.ipynb
