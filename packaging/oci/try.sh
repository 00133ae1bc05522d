#!/bin/bash
# try.sh WAVELANE DIR: keys and configurations for the two gateways of compose.yaml, made by the program WAVELANE in DIR/ship and
# DIR/shore. Who can read DIR can be these gateways: it is for trying.
set -euo pipefail
umask 077
if (($# != 2)); then
  echo "usage: $0 WAVELANE DIR: the program (make static), and a folder that is not there yet" >&2
  exit 2
elif [[ -e $2/ship/ship.key ]]; then
  echo "$2 has the keys of an earlier run: use it as it is, or remove it first" >&2
  exit 2
fi
wavelane=$(realpath "$1")
mkdir -p "$2/ship" "$2/shore"
cd "$2"
ship=$("$wavelane" keygen --out ship/ship.key)
shore=$("$wavelane" keygen --out shore/shore.key)
flags() { # flags NAME FLAG...: what `init` of NAME is given, kept for who writes it again
  echo "--name $1 --dir $1 ${*:2}" >"$1.flags"
}
flags ship --serves none --forward 0.0.0.0:8080=10.90.2.5:8080 --peer-name shore --peer-key "$shore" --peer-address link:4780
flags shore --serves 10.90.2.5/32 --peer-name ship --peer-key "$ship"
for name in ship shore; do
  read -ra words <"$name.flags"
  "$wavelane" init "${words[@]}" >&2
done
