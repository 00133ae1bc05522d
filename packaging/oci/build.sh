#!/bin/bash
# build.sh PROGRAMS OUT: makes OUT/wavelane_VERSION_ARCH.oci.tar, an OCI image (image-spec 1.1, image-layout) with nothing in it but the
# static programs of PROGRAMS. It needs neither root nor a container engine; `podman load`, `docker load` and `skopeo` read it.
set -euo pipefail
umask 022
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
programs=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$top/Cargo.toml" | head -n 1)
case ${ARCH:-$(uname -m)} in
  x86_64 | amd64) arch=amd64 ;;
  aarch64 | arm64) arch=arm64 ;;
  *) echo "no OCI name is known here for the processor ${ARCH:-$(uname -m)}: add it to $0" >&2; exit 2 ;;
esac
# The same programs give the same image.
made=$(git -C "$top" log -1 --format=%ct 2>/dev/null || stat -c %Y "$top/Cargo.toml")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
blobs=$work/image/blobs/sha256
mkdir -p "$blobs" "$work/root/usr/bin" "$work/root/etc/wavelane" "$work/root/run" "$work/root/tmp"
install -m 755 "$programs/wavelane" "$programs/wavelaned" "$work/root/usr/bin"
chmod 1777 "$work/root/tmp"
archive() { tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$made" -C "$1" -cf "$2" "${@:3}"; }
# A blob is called by its hash: prints it and the size.
keep() {
  local sum
  sum=$(sha256sum "$1" | cut -d ' ' -f 1)
  mv "$1" "$blobs/$sum"
  echo "\"digest\":\"sha256:$sum\",\"size\":$(stat -c %s "$blobs/$sum")"
}
archive "$work/root" "$work/layer" etc run tmp usr
layer=$(keep "$work/layer")
diff=$(sed 's/^"digest":\("[^"]*"\).*/\1/' <<<"$layer")
cat >"$work/config" <<JSON
{"created":"$(date -u -d "@$made" +%FT%TZ)","architecture":"$arch","os":"linux","config":{"Entrypoint":["/usr/bin/wavelaned"],"Cmd":["--config","/etc/wavelane/wavelaned.toml"],"Env":["PATH=/usr/bin"],"ExposedPorts":{"4780/udp":{}},"Volumes":{"/etc/wavelane":{}},"StopSignal":"SIGTERM"},"rootfs":{"type":"layers","diff_ids":[$diff]}}
JSON
config=$(keep "$work/config")
kind=application/vnd.oci.image
cat >"$work/manifest" <<JSON
{"schemaVersion":2,"mediaType":"$kind.manifest.v1+json","config":{"mediaType":"$kind.config.v1+json",$config},"layers":[{"mediaType":"$kind.layer.v1.tar",$layer}]}
JSON
manifest=$(keep "$work/manifest")
echo '{"imageLayoutVersion":"1.0.0"}' >"$work/image/oci-layout"
cat >"$work/image/index.json" <<JSON
{"schemaVersion":2,"mediaType":"$kind.index.v1+json","manifests":[{"mediaType":"$kind.manifest.v1+json",$manifest,"platform":{"architecture":"$arch","os":"linux"},"annotations":{"org.opencontainers.image.ref.name":"wavelane:$version"}}]}
JSON
# What engines without a store for OCI images read of an archive, as docker writes it.
blob() { sed 's/^"digest":"sha256:\([^"]*\)".*/blobs\/sha256\/\1/' <<<"$1"; }
cat >"$work/image/manifest.json" <<JSON
[{"Config":"$(blob "$config")","RepoTags":["wavelane:$version"],"Layers":["$(blob "$layer")"]}]
JSON
file="$out/wavelane_${version}_$arch.oci.tar"
archive "$work/image" "$file" oci-layout index.json manifest.json blobs
echo "$file"
