#!/bin/bash
# build.sh PROGRAMS OUT: makes OUT/wavelane_VERSION_ARCH.deb of the programs in PROGRAMS. It builds nothing and needs no root.
set -euo pipefail
umask 022
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
programs=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$top/Cargo.toml" | head -n 1)
arch=${ARCH:-$(dpkg --print-architecture)}
# Whoever makes a package for others says so in the variables that Debian's own tools read.
maintainer="${DEBFULLNAME:-The Wavelane authors} <${DEBEMAIL:-wavelane@packages.invalid}>"
# The same sources give the same package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct 2>/dev/null || stat -c %Y "$top/Cargo.toml")}
export SOURCE_DATE_EPOCH
root=$(mktemp -d)
# It becomes the system's root.
chmod 755 "$root"
trap 'rm -rf "$root"' EXIT

make -s -f "$top/Makefile" -C "$top" put PROGRAMS="$programs" PREFIX=/usr DESTDIR="$root"
# Where Debian's own programs look.
mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
mkdir -p "$root/usr/share/doc/wavelane" "$root/usr/share/lintian/overrides" "$root/etc/wavelane" "$root/DEBIAN"
gzip -9n "$root"/usr/share/man/man*/*
cp "$here/copyright" "$root/usr/share/doc/wavelane/copyright"
gzip -9nc "$top/CHANGELOG.md" >"$root/usr/share/doc/wavelane/CHANGELOG.md.gz"
cp "$here/lintian-overrides" "$root/usr/share/lintian/overrides/wavelane"
{
  printf 'wavelane (%s) unstable; urgency=medium\n\n  * What changed stands in CHANGELOG.md.gz beside this file.\n\n' "$version"
  printf ' -- %s  %s\n' "$maintainer" "$(LC_ALL=C date -uRd "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$root/usr/share/doc/wavelane/changelog.gz"
size=$(du -ks --apparent-size "$root" | cut -f 1)
sed "s/@VERSION@/$version/; s/@ARCH@/$arch/; s/@SIZE@/$size/; s/@MAINTAINER@/$maintainer/" "$here/control" >"$root/DEBIAN/control"
for script in postinst prerm postrm; do install -m 755 "$here/$script" "$root/DEBIAN/$script"; done
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
chmod 644 "$root/DEBIAN/md5sums" "$root/DEBIAN/control"
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -print0 | xargs -0r touch --no-dereference --date="@$SOURCE_DATE_EPOCH"
file="$out/wavelane_${version}_${arch}.deb"
dpkg-deb --root-owner-group -Z"${COMPRESS:-xz}" --build "$root" "$file" >/dev/null
echo "$file"
