#!/bin/sh
# Compiles ns-3's side of the comparison into FOLDER: NAME.deb against Debian's ns-3 3.37, NAME.whl against the Python
# package ns3 3.44.post0 in the virtual environment VENV. A build of ns-3 that is not installed is left out, a program
# that is newer than its source is kept.
#   apt-get install libns3-dev ns3 g++ ; python3 -m venv VENV && VENV/bin/pip install ns3==3.44.post0
# usage: build.sh FOLDER VENV
set -eu
folder=$1 venv=$2
here=$(cd "$(dirname "$0")" && pwd)
modules="core network internet wifi applications point-to-point mobility propagation traffic-control spectrum stats antenna energy bridge"
linked() { for module in $modules; do printf ' -l%s-%s' "$1" "$module"; done; }
wheel=$(ls -d "$venv"/lib/python3*/site-packages/ns3 2>/dev/null | head -n 1 || true)
for program in seed_bulk dcf_sat chain_tcp ampdu people_cell; do
  source=$here/$program.cc
  fresh() { [ -e "$1" ] && [ -z "$(find "$source" "$here/common.h" "$here/ge_channel.h" -newer "$1")" ]; }
  if [ -d /usr/include/ns3 ] && ! fresh "$folder/$program.deb"; then
    # shellcheck disable=SC2046
    g++ -std=c++17 -O3 -march=native -DNS3VER=337 "$source" -o "$folder/$program.deb" $(linked ns3)
  fi
  if [ -n "$wheel" ] && ! fresh "$folder/$program.whl"; then
    # The definitions are those with which the package was built (its CMake export).
    # shellcheck disable=SC2046
    g++ -std=c++20 -O3 -march=native -DNS3VER=344 -DNS3_LOG_ENABLE -DNS3_ASSERT_ENABLE -I"$wheel/include" "$source" \
      -o "$folder/$program.whl" -L"$wheel/lib64" -Wl,-rpath,"$wheel/lib64" $(linked ns3.44)
  fi
done
