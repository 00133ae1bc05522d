#!/bin/bash
# check.sh PROGRAMS: makes the Debian package of PROGRAMS and installs it into two bare Debians, sets up a gateway in each as the guide
# does, fetches a page over a bad link between them, and removes the package. Exit 77 if that cannot be tried here.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
((EUID == 0)) || { echo "installing into a bare root takes root" >&2; exit 77; }
for tool in ip curl; do command -v "$tool" >/dev/null || { echo "$tool is missing" >&2; exit 77; }; done
command -v debootstrap >/dev/null || { echo "debootstrap is missing: apt-get install debootstrap" >&2; exit 77; }
work=$(mktemp -d)
net= running=()
stop() { # ends what was started, by SIGTERM
  if ((${#running[@]})); then kill "${running[@]}" 2>/dev/null || true; wait "${running[@]}" 2>/dev/null || true; fi
  running=()
}
finish() {
  stop
  if [[ -n $net ]]; then for name in ship sea shore; do ip netns delete "$net-$name" 2>/dev/null || true; done; fi
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
inside() { chroot "$work/root" "$@"; }
inside dpkg --install /tmp/wavelane.deb >&2
inside getent passwd wavelane >&2
inside sh -c 'wavelane --version && wavelaned --version' >&2

# The operator's walk: two such machines, a satellite between them, and what the guide has one type. Without nft in a bare root the ship
# forwards a port, which takes no privilege.
cp -a "$work/root" "$work/shore"
cp "$here/../../scenarios/links/satellite.toml" "$work/root/tmp"
net=wldeb$$
enter() { # enter ship|sea|shore COMMAND...: becomes the command in that namespace; ship and sea share the ship's files
  local where=$1 root=$work/root
  shift
  if [[ $where = shore ]]; then root=$work/shore; fi
  exec ip netns exec "$net-$where" chroot "$root" "$@"
}
on() { (enter "$@"); }
background() { # background LOG WHERE COMMAND...
  enter "${@:2}" 2>"$work/$1.log" &
  running+=($!)
}
for name in ship sea shore; do
  ip netns add "$net-$name"
  ip -n "$net-$name" link set lo up
done
ip -n "$net-sea" link add ship0 type veth peer name wan0 netns "$net-ship"
ip -n "$net-sea" link add shore0 type veth peer name wan0 netns "$net-shore"
join() { ip -n "$net-$1" addr add "$3" dev "$2"; ip -n "$net-$1" link set "$2" up; }
join ship wan0 198.51.100.2/24
join sea ship0 198.51.100.1/24
join sea shore0 192.0.2.1/24
join shore wan0 192.0.2.7/24
ip -n "$net-shore" addr add 10.3.0.2/32 dev lo
background link sea wavelane channel /tmp/satellite.toml --listen 198.51.100.1:4780 --to 192.0.2.7:4780
background server shore wavelane probe serve --listen 10.3.0.2:80
ship=$(on ship wavelane keygen --out /etc/wavelane/ship.key)
shore=$(on shore wavelane keygen --out /etc/wavelane/shore.key)
on ship wavelane init --name ship --dir /etc/wavelane --serves none --forward 127.0.0.1:8080=10.3.0.2:80 \
  --peer-name shore --peer-key "$shore" --peer-address 198.51.100.1:4780 >&2
on shore wavelane init --name shore --dir /etc/wavelane --serves 10.3.0.2/32 --peer-name ship --peer-key "$ship" >&2
for name in ship shore; do
  on "$name" wavelane check /etc/wavelane/wavelaned.toml >&2
  background "$name" "$name" wavelaned --config /etc/wavelane/wavelaned.toml
done
for ((tries = 60; tries > 0; tries--)); do
  if on ship wavelane netcheck >"$work/netcheck" 2>&1; then break; fi
  sleep 1 # until both are up; the round trip is 600 ms
done
cat "$work/netcheck" >&2
grep -q 'ok    it answers from' "$work/netcheck" || { cat "$work"/*.log >&2; exit 1; }
page=$(ip netns exec "$net-ship" curl -sS --max-time 30 -o "$work/page" -w '%{http_code} %{time_total}' http://127.0.0.1:8080/nq/small)
on ship wavelane status >&2
[[ $page = 200\ * && ${page#200 } > 0.6 ]] || { echo "the page came as '$page', not over the link" >&2; exit 1; }
on ship wavelane check /etc/wavelane/wavelaned.toml --with shore >&2
stop
for name in ship sea shore; do
  [[ -z $(ip netns pids "$net-$name") ]] || { echo "something goes on in $name after SIGTERM" >&2; exit 1; }
done
inside dpkg --purge wavelane >&2
[[ ! -e $work/root/usr/bin/wavelaned && -e $work/root/etc/wavelane/ship.key ]]
echo "the package installs, a page crosses a bad link between two bare roots (status and seconds: $page), and it goes; the key stays" >&2
