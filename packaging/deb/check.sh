#!/bin/bash
# check.sh PROGRAMS: makes the Debian package of PROGRAMS and installs it into a bare Debian, sets up a gateway there as the guide
# does, starts it, asks it, and removes the package. Exit 77 if that cannot be tried here.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
((EUID == 0)) || { echo "installing into a bare root takes root" >&2; exit 77; }
command -v debootstrap >/dev/null || { echo "debootstrap is missing: apt-get install debootstrap" >&2; exit 77; }
work=$(mktemp -d)
daemon=
finish() {
  if [[ -n $daemon ]]; then kill "$daemon" 2>/dev/null || true; wait "$daemon" 2>/dev/null || true; fi
  rm -rf --one-file-system "$work"
}
trap finish EXIT
file=$(COMPRESS=none "$here/build.sh" "$1" "$work")
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | head -n 1)
if ! debootstrap --variant=minbase "$suite" "$work/root" "${mirror:-http://deb.debian.org/debian}" >"$work/said" 2>&1; then
  echo "no bare Debian to be had: $(tail -n 1 "$work/said")" >&2; exit 77
fi
cp "$file" "$work/root/tmp/wavelane.deb"
# Two gateways would need a link; one with a forward shows that programs, user and folders are in order.
inside() { chroot "$work/root" "$@"; }
inside dpkg --install /tmp/wavelane.deb >&2
inside getent passwd wavelane >&2
inside sh -c 'wavelane --version && wavelaned --version' >&2
key=$(inside wavelane keygen --out /etc/wavelane/ship.key)
inside wavelane init --name ship --dir /etc/wavelane --listen 127.0.0.1:4780 --serves none --forward 127.0.0.1:8080=10.3.0.2:80 \
  --peer-name shore --peer-key "$(inside wavelane keygen | sed -n 's/^public *//p')" --control /run/ship.sock >&2
[[ -n $key ]] && inside wavelane check /etc/wavelane/wavelaned.toml >&2
unshare --net sh -c 'ip link set lo up && exec chroot "$1" wavelaned --config /etc/wavelane/wavelaned.toml' sh "$work/root" &
daemon=$!
for ((tries = 100; tries > 0; tries--)); do
  [[ -S $work/root/run/ship.sock ]] && break
  kill -0 "$daemon" || { echo "wavelaned ended" >&2; exit 1; }
  sleep 0.1
done
inside wavelane status --control /run/ship.sock >&2
kill "$daemon"
wait "$daemon"
daemon=
inside dpkg --purge wavelane >&2
[[ ! -e $work/root/usr/bin/wavelaned && -e $work/root/etc/wavelane/ship.key ]]
echo "the package installs, runs and goes; the key stays" >&2
