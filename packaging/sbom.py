#!/usr/bin/env python3
"""sbom.py [FOLDER] [TARGET]: whether the lists of `make sbom` in FOLDER are whole. Each names every package of Cargo.lock that cargo links
into its program for TARGET, with a licence, its checksum's package address, and nothing that is not in Cargo.lock."""

import json
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = {"wavelane": "wavelane-cli", "wavelaned": "wavelane-daemon"}


def linked(crate, target):
    """Name and version of what cargo links into a crate's program: no build scripts, no macros, no tests."""
    tree = ["cargo", "tree", "--locked", "--package", crate, "--target", target, "--edges", "normal,no-proc-macro"]
    said = subprocess.run([*tree, "--prefix", "none", "--format", "{p}"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {(words[0], words[1].removeprefix("v")) for words in map(str.split, said.splitlines()) if words}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/packages")
    target = sys.argv[2] if len(sys.argv) > 2 else "x86_64-unknown-linux-musl"
    locked = {(package["name"], package["version"]) for package in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]}
    wrong = []
    for program, crate in PROGRAMS.items():
        document = json.loads((folder / f"{program}.cdx.json").read_text())
        listed = [document["metadata"]["component"], *document["components"]]
        names = {(one["name"], one["version"]) for one in listed}
        wanted = linked(crate, target)
        if len(wanted) < 20:
            wrong.append(f"{program}: cargo tree names {len(wanted)} packages only")
        wrong += [f"{program}: {name} {version} is linked and not listed" for name, version in sorted(wanted - names)]
        wrong += [f"{program}: {name} {version} is listed and not in Cargo.lock" for name, version in sorted(names - locked)]
        for one in listed:
            licences = [licence.get("expression") or licence.get("license", {}).get("id") or licence.get("license", {}).get("name") for licence in one.get("licenses", [])]
            if not any(licences):
                wrong.append(f"{program}: {one['name']} {one['version']} has no licence")
            elif not one.get("purl", "").startswith("pkg:cargo/"):
                wrong.append(f"{program}: {one['name']} {one['version']} has no package address")
        print(f"{program}: {len(wanted)} packages are linked, {len(names)} are listed")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
