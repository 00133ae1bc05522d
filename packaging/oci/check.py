#!/usr/bin/env python3
"""check.py PROGRAMS [SERVICE=OTHERS]: makes the OCI image of PROGRAMS, unpacks it as an engine does, and runs the services of compose.yaml from it, each in
a network namespace of its own, with the file's networks, addresses, mounts and commands. The programs of OTHERS, of another version, stand
in the image of SERVICE. Exit 77 if that cannot be tried here."""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# What this understands of the file: a key beyond these would be one that is not tried.
SERVICE = {"image", "entrypoint", "volumes", "networks", "ports", "depends_on", "tmpfs"}
# Octets to download, and the round trip of the link's scenario in seconds.
WANTED, ROUND_TRIP = 3_000_000, 0.6
# Seconds for the gateways to find each other, and for a program to end.
PATIENCE, ENDING = 60, 20


def missing(why: str) -> None:
    print(why, file=sys.stderr)
    sys.exit(77)


def run(*words: object, **more) -> str:
    return subprocess.run([str(word) for word in words], check=True, text=True, stdout=subprocess.PIPE, **more).stdout


def unpack(image: Path, into: Path) -> dict:
    """The image's files in `into`; returns its configuration."""
    work = into.with_suffix(".image")
    with tarfile.open(image) as archive:
        archive.extractall(work, filter="fully_trusted")

    def blob(about: dict) -> Path:
        kind, digest = about["digest"].split(":")
        path = work / "blobs" / kind / digest
        content = path.read_bytes()
        assert len(content) == about["size"] and hashlib.sha256(content).hexdigest() == digest, f"{path} is not what it is called"
        return path

    manifest = json.loads(blob(json.loads((work / "index.json").read_text())["manifests"][0]).read_text())
    for layer in manifest["layers"]:
        with tarfile.open(blob(layer)) as archive:
            archive.extractall(into, filter="fully_trusted")
    return json.loads(blob(manifest["config"]).read_text())["config"]


def put(programs: Path, root: Path) -> None:
    for program in ("wavelane", "wavelaned"):
        shutil.copy(programs / program, root / "usr/bin" / program)
    libraries(root)


def libraries(root: Path) -> None:
    """Programs for tests are linked with the system's libraries, those of an image with none."""
    for program in ("wavelane", "wavelaned"):
        told = subprocess.run(["ldd", root / "usr/bin" / program], text=True, capture_output=True).stdout
        for library in {word for word in told.split() if word.startswith("/")}:
            place = root / library.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, place)


class World:
    """The services, each in a namespace; one more has a bridge for each network."""

    def __init__(self, work: Path, programs: Path, compose: dict, others: dict):
        self.work, self.compose, self.others, self.running = work, compose, others, {}
        self.names = {service: f"wl{os.getpid()}-{service}" for service in [*compose["services"], "switch"]}
        image = run(HERE / "build.sh", programs, work, env={**os.environ}).strip()
        self.config = unpack(Path(image), work / "root")
        assert Path(image).name.startswith(f"wavelane_{os.environ['WAVELANE_VERSION']}_"), image
        libraries(work / "root")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in self.running.values():
            child.kill()
        for name in self.names.values():
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL, check=False)

    def wire(self) -> None:
        for name in self.names.values():
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for network in self.compose["networks"]:
            run("ip", "-n", self.names["switch"], "link", "add", network, "type", "bridge")
            run("ip", "-n", self.names["switch"], "link", "set", network, "up")
        for service, about in self.compose["services"].items():
            for network, place in about["networks"].items():
                [pool] = self.compose["networks"][network]["ipam"]["config"]
                bits = pool["subnet"].split("/")[1]
                there, here = f"{network}-{service}"[:15], self.names[service]
                run("ip", "-n", self.names["switch"], "link", "add", there, "type", "veth", "peer", "name", network, "netns", here)
                run("ip", "-n", self.names["switch"], "link", "set", there, "master", network, "up")
                run("ip", "-n", here, "addr", "add", f"{place['ipv4_address']}/{bits}", "dev", network)
                run("ip", "-n", here, "link", "set", network, "up")

    def start(self, service: str) -> None:
        """Starts what it depends on, and it."""
        if service in self.running:
            return
        about = self.compose["services"][service]
        for other in about.get("depends_on", []):
            self.start(other)
        root = self.work / f"root-{service}"
        shutil.copytree(self.work / "root", root)
        if service in self.others:
            put(self.others[service], root)
        near = [(name, each) for name, each in self.compose["services"].items() if set(each["networks"]) & set(about["networks"])]
        hosts = [f"{place['ipv4_address']} {name}\n" for name, each in near for net, place in each["networks"].items() if net in about["networks"]]
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n" + "".join(hosts))
        for volume in about.get("volumes", []):
            source, target, *how = os.path.expandvars(volume.replace("${WAVELANE_TRY:-../../target/packages/try}", "$WAVELANE_TRY")).split(":")
            assert how in ([], ["ro"]), volume
            shutil.copytree((HERE / source).resolve(strict=True), root / target.lstrip("/"), dirs_exist_ok=True)
        command = about.get("entrypoint") or self.config["Entrypoint"] + self.config["Cmd"]
        inside = ["ip", "netns", "exec", self.names[service], "chroot", root, *command]
        self.running[service] = subprocess.Popen(inside, stderr=(self.work / f"{service}.log").open("w"))

    def inside(self, service: str, *command: str) -> list:
        return ["ip", "netns", "exec", self.names[service], "chroot", self.work / f"root-{service}", *command]

    def said(self, service: str) -> str:
        return (self.work / f"{service}.log").read_text()


def main(programs: Path, others: dict) -> None:
    if os.geteuid() != 0:
        missing("namespaces take root")
    try:
        import yaml
    except ImportError:
        missing("the Python module yaml is missing: apt-get install python3-yaml")
    for tool in ("ip", "chroot", "curl", "ldd"):
        if not shutil.which(tool):
            missing(f"{tool} is missing")
    compose = yaml.safe_load((HERE / "compose.yaml").read_text())
    for service, about in compose["services"].items():
        assert set(about) <= SERVICE, f"{service}: {set(about) - SERVICE}"
    default = compose["services"]["ship"]["image"]
    version = next(line.split('"')[1] for line in (HERE / "../../Cargo.toml").read_text().splitlines() if line.startswith("version = "))
    assert default == f"wavelane:${{WAVELANE_VERSION:-{version}}}", f"compose.yaml asks for {default}, and this is {version}"
    os.environ["WAVELANE_VERSION"] = version
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        os.environ["WAVELANE_TRY"] = str(work / "try")
        run(HERE / "try.sh", programs / "wavelane", work / "try", stderr=subprocess.DEVNULL)
        for service, other in others.items():
            # Another version has the configuration that it writes itself.
            assert service in compose["services"], service
            written = work / "try" / service
            flags = (work / "try" / f"{service}.flags").read_text().split()
            (written / "wavelaned.toml").unlink()
            run(other / "wavelane", "init", *flags, cwd=work / "try", stderr=subprocess.DEVNULL)
        with World(work, programs, compose, others) as world:
            world.wire()
            for service in compose["services"]:
                world.start(service)
            until = time.monotonic() + PATIENCE
            while True:
                asked = subprocess.run(world.inside("ship", "wavelane", "status", "--json"), text=True, capture_output=True)
                if asked.returncode == 0 and json.loads(asked.stdout)["peers"][0]["up"]:
                    break
                for name, child in world.running.items():
                    assert child.poll() is None, f"{name} ended: {world.said(name)}"
                assert time.monotonic() < until, f"the gateways do not find each other: {asked.stdout}{asked.stderr}{world.said('ship')}"
                time.sleep(0.2)
            began = time.monotonic()
            curl = ["ip", "netns", "exec", world.names["ship"], "curl", "-sS", "--max-time", "60", "http://127.0.0.1:8080/nq/large"]
            with subprocess.Popen(curl, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as download:
                got = len(download.stdout.read(WANTED))
                took = time.monotonic() - began
                download.terminate()
            assert got == WANTED, f"{got} of {WANTED} octets came"
            # Request and first octets take a round trip, whatever the link's rate.
            assert took > ROUND_TRIP, f"{took:.2f} s: that was not the link"
            direct = subprocess.run(["ip", "netns", "exec", world.names["ship"], "curl", "-sS", "--max-time", "5", "http://10.90.2.5:8080/nq/small"], capture_output=True)
            assert direct.returncode != 0, "the ship reaches the server beside the link"
            for child in world.running.values():
                child.send_signal(signal.SIGTERM)
            for name, child in world.running.items():
                code = child.wait(ENDING)
                # 130: Ctrl-C or SIGTERM ended what has no end of its own.
                assert code in (0, 130), f"{name} ended with {code}: {world.said(name)}"
            [offered] = [line for line in world.said("link").splitlines() if line.startswith("offered: ")]
            reverse = float(offered.split("reverse ")[1].split()[0])
            assert reverse > WANTED / 1e6, offered
            print(f"compose.yaml: {got} octets in {took:.1f} s over the link ({offered})", file=sys.stderr)


if __name__ == "__main__":
    named = [word.split("=", 1) for word in sys.argv[2:]]
    main(Path(sys.argv[1]).resolve(), {service: Path(other).resolve() for service, other in named})
