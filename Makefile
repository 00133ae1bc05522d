# `make demo` shows the main job, `make test` is what a change must pass, `make test-all` is everything. They install what they need.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
export PATH := $(HOME)/.cargo/bin:$(HOME)/go/bin:$(PATH):/usr/sbin:/sbin
export DEBIAN_FRONTEND := noninteractive

# command:package, for what cargo cannot fetch.
BUILD_TOOLS := cc:build-essential curl:curl
LAB_TOOLS := ip:iproute2 nft:nftables iptables:iptables ethtool:ethtool
TEST_TOOLS := tcpdump:tcpdump tshark:tshark tcptrace:tcptrace babeld:babeld kill:procps sysctl:procps ping:iputils-ping dig:bind9-dnsutils \
  openssl:openssl nghttpd:nghttp2-server python3:python3 ssh:openssh-client dropbear:dropbear-bin rsync:rsync iperf3:iperf3 strace:strace prlimit:util-linux \
  irtt:irtt chromium:chromium slirp-fullbolt:slirp dnsmasq:dnsmasq-base dhclient:isc-dhcp-client
# Other people's programs that the laboratory puts in the gateways' place.
PEER_TOOLS := kcptun-client:kcptun wg:wireguard-tools mptcpize:mptcpize
# What judges and tries our packages.
# Debian's g++ for aarch64 brings the C library's headers, which gcc alone only recommends.
PACKAGE_TOOLS := lintian:lintian debootstrap:debootstrap aarch64-linux-gnu-g++:g++-aarch64-linux-gnu qemu-aarch64-static:qemu-user-static
SING_BOX := github.com/sagernet/sing-box/cmd/sing-box@v1.14.1
NEXTEST := 0.9.151

# Installs the packages whose commands are missing: directly as root, else through sudo if it asks nothing.
define install
missing=()
# type -P and not command -v: kill is also a builtin of this shell.
for pair in $(1); do
  package=$${pair##*:}
  if ! type -P "$${pair%%:*}" >/dev/null && [[ " $${missing[*]} " != *" $$package "* ]]; then missing+=("$$package"); fi
done
if (($${#missing[@]})); then
  echo "== installing $${missing[*]}" >&2
  as_root=()
  if (($$(id -u) != 0)); then as_root=(sudo -n); fi
  if ! command -v apt-get >/dev/null; then
    echo "missing: $${missing[*]} (Debian's names). Install them and run this again." >&2; exit 2
  fi
  # What apt says matters only if it fails.
  said=$$(mktemp)
  if ! { "$${as_root[@]}" apt-get -q -o DPkg::Lock::Timeout=300 update </dev/null &&
         "$${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
           install --no-install-recommends "$${missing[@]}" </dev/null; } >"$$said" 2>&1; then
    tail -n 15 "$$said" >&2; rm -f "$$said"
    echo "could not install: run 'sudo apt-get install $${missing[*]}' and then this again." >&2; exit 2
  fi
  rm -f "$$said"
fi
if ! command -v cargo >/dev/null; then
  echo "cargo is missing: install Rust from https://rustup.rs and run this again." >&2; exit 2
fi
endef

.PHONY: help demo install put static deb image sbom test test-all soak clean
help:
	@echo "make demo     a download over a bad link: CUBIC, BBR and Wavelane side by side (about 70 s after the build; root)"
	echo "make install  wavelane, wavelaned, manual pages, completions and a systemd unit, under PREFIX=/usr/local"
	echo "make static   both programs without libraries of the system, for any Linux; make deb, make image: a Debian package and an OCI image of them"
	echo "make sbom     lists of what is linked into them (CycloneDX)"
	echo "make test     what a change must pass: formatting, lints, house rules, tests, determinism, lab smoke (some 25 minutes the first time)"
	echo "make test-all all of that, the long editions, other people's tunnels, the Python package (hours)"
	echo "make soak     hostile peers, damaged captures and result files, probe packets, property tests: ten minutes (SOAK_SECONDS=600), from a new seed each time, and two proxies under load for a quarter of an hour"

demo:
	@demo_as_root=()
	# Asked before the minutes that building takes.
	if (($$(id -u) != 0)); then
	  echo "== the lab makes network namespaces, which takes root: sudo will be asked for the run itself" >&2
	  command -v sudo >/dev/null || { echo "there is no sudo: run 'make demo' as root" >&2; exit 2; }
	  demo_as_root=(sudo)
	fi
	$(call install,$(BUILD_TOOLS) $(LAB_TOOLS))
	echo "== building what the demo runs" >&2
	cargo build --profile demo --no-default-features --package wavelane-cli --package wavelane-daemon
	out="records/demo-$$(date +%Y%m%d-%H%M%S)"
	code=0
	"$${demo_as_root[@]}" target/demo/wavelane run scenarios/demo.toml --on lab --out "$$out" || code=$$?
	if [[ -f "$$out/report.html" ]]; then echo "== the report: $$PWD/$$out/report.html"; fi
	exit $$code

# Builds as whoever calls, copies as root if the place needs it. DESTDIR is for packagers.
PREFIX ?= /usr/local
THIS := $(abspath $(firstword $(MAKEFILE_LIST)))
install:
	@$(call install,$(BUILD_TOOLS))
	cargo build --release --package wavelane-cli --package wavelane-daemon
	$(MAKE) -s -f "$(THIS)" put PROGRAMS=target/release

# Puts the programs of the folder PROGRAMS, their pages, completions and the unit in their places, and builds nothing.
PROGRAMS ?= target/release
put:
	@into="$(DESTDIR)$(PREFIX)"
	as_root=()
	if (($$(id -u) != 0)) && ! { mkdir -p "$$into" && [[ -w "$$into" ]]; } 2>/dev/null; then
	  command -v sudo >/dev/null || { echo "$$into is not yours: run this as root, or choose PREFIX=" >&2; exit 2; }
	  as_root=(sudo)
	fi
	unit=$$(mktemp)
	texts=$$(mktemp -d)
	trap 'rm -rf "$$unit" "$$texts"' EXIT
	"$(PROGRAMS)/wavelane" manuals "$$texts/man"
	for shell in bash zsh fish; do "$(PROGRAMS)/wavelane" completions "$$shell" >"$$texts/$$shell"; done
	sed 's|/usr/bin/|$(PREFIX)/bin/|' packaging/systemd/wavelaned.service >"$$unit"
	"$${as_root[@]}" install -D --strip -m 755 -t "$$into/bin" "$(PROGRAMS)/wavelane" "$(PROGRAMS)/wavelaned"
	"$${as_root[@]}" install -D -m 644 -t "$$into/share/man/man1" "$$texts"/man/*.1
	"$${as_root[@]}" install -D -m 644 -t "$$into/share/man/man8" "$$texts"/man/*.8
	"$${as_root[@]}" install -D -m 644 "$$texts/bash" "$$into/share/bash-completion/completions/wavelane"
	"$${as_root[@]}" install -D -m 644 "$$texts/zsh" "$$into/share/zsh/site-functions/_wavelane"
	"$${as_root[@]}" install -D -m 644 "$$texts/fish" "$$into/share/fish/vendor_completions.d/wavelane.fish"
	"$${as_root[@]}" install -D -m 644 "$$unit" "$$into/lib/systemd/system/wavelaned.service"
	"$${as_root[@]}" install -D -m 644 packaging/systemd/wavelane.sysusers "$$into/lib/sysusers.d/wavelane.conf"
	# The unit's user. A packager's own scripts make it, and without root nobody can.
	if [[ -z "$(DESTDIR)" ]] && { (($$(id -u) == 0)) || (($${#as_root[@]})); } && command -v systemd-sysusers >/dev/null; then
	  "$${as_root[@]}" systemd-sysusers "$$into/lib/sysusers.d/wavelane.conf"
	fi
	echo "== installed wavelane and wavelaned in $$into/bin" >&2

# Programs that need no library of the system, and packages of them, in target/packages. TARGET names another kind of processor.
TARGET ?= $(shell uname -m)-unknown-linux-musl
PACKAGES := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)/packages
# Of `wavelane`, such as --no-default-features for the small edition.
FEATURES ?=
# Most octets of wavelaned, for a router's flash; 0 for any.
DAEMON_MAX := 8000000
static:
	@$(call install,$(BUILD_TOOLS))
	rustup target add "$(TARGET)" 2>/dev/null || { echo "no standard library for $(TARGET): 'rustup target list' has the names" >&2; exit 2; }
	# For another processor: the compiler of that processor's Linux, which links with the standard library's own musl.
	other="$(TARGET)"
	other="$${other%%-*}"
	if [[ $$other = $$(uname -m) ]]; then
	  $(call install,musl-gcc:musl-tools)
	else
	  $(call install,$$other-linux-gnu-g++:g++-$${other//_/-}-linux-gnu)
	  name="$$(tr a-z- A-Z_ <<<"$(TARGET)")"
	  export "CC_$$(tr - _ <<<"$(TARGET)")=$$other-linux-gnu-gcc" "CARGO_TARGET_$${name}_LINKER=$$other-linux-gnu-gcc"
	fi
	built="$${CARGO_TARGET_DIR:-target}/$(TARGET)/release"
	cargo build --release --target "$(TARGET)" --package wavelane-cli --package wavelane-daemon $(FEATURES)
	mkdir -p "$(PACKAGES)"
	tar -C "$$built" --owner 0 --group 0 -caf "$(PACKAGES)/wavelane-$(TARGET).tar.xz" wavelane wavelaned
	(cd "$$built" && du -b wavelane wavelaned) >&2
	if (($(DAEMON_MAX) && $$(stat -c %s "$$built/wavelaned") > $(DAEMON_MAX))); then echo "wavelaned has more than $(DAEMON_MAX) octets" >&2; exit 1; fi
	echo "== $(PACKAGES)/wavelane-$(TARGET).tar.xz" >&2

deb: static
	@$(call install,dpkg-deb:dpkg)
	packaging/deb/build.sh "target/$(TARGET)/release" "$(PACKAGES)"

image: static
	@packaging/oci/build.sh "target/$(TARGET)/release" "$(PACKAGES)"

# What is linked into each program, as CycloneDX. The tool writes one list beside each crate; those of the programs are kept.
CYCLONEDX := 0.5.9
sbom:
	@$(call install,$(BUILD_TOOLS))
	if ! cargo cyclonedx --version >/dev/null 2>&1; then
	  echo "== installing cargo-cyclonedx in ~/.cargo/bin (once, some minutes)" >&2
	  CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off cargo install cargo-cyclonedx --version $(CYCLONEDX) --locked --quiet
	fi
	mkdir -p "$(PACKAGES)"
	trap 'find crates xtask -name "*.cdx.json" -delete' EXIT
	cargo cyclonedx --quiet --format json --target "$(TARGET)"
	mv crates/cli/wavelane-cli.cdx.json "$(PACKAGES)/wavelane.cdx.json"
	mv crates/daemon/wavelane-daemon.cdx.json "$(PACKAGES)/wavelaned.cdx.json"
	packaging/sbom.py "$(PACKAGES)" "$(TARGET)" >&2
	echo "== $(PACKAGES)/wavelane.cdx.json $(PACKAGES)/wavelaned.cdx.json" >&2

# Other people's tunnels that no package brings. Only `make test-all` installs them.
define peers
if ! type -P boringtun-cli >/dev/null; then
  step "installing the peer boringtun in ~/.cargo/bin"
  cargo install boringtun-cli --version 0.7.1 --locked --quiet
fi
if ! type -P sing-box >/dev/null; then
  # From 1.21 on, Go fetches the release of itself that a program asks for.
  packaged=$$(apt-cache show golang-go 2>/dev/null | sed -n 's/^Version: .*:1\.\([0-9]*\).*/\1/p' | sort -n | tail -n 1 || true)
  if ! type -P go >/dev/null && (($${packaged:-0} >= 21)); then
    $(call install,go:golang-go)
  fi
  # The tests name the stacks that are left out, and the remedy.
  if ! type -P go >/dev/null; then
    step "the peer sing-box is left out: there is no Go 1.21 or later to build it (https://go.dev/dl)"
  elif ! timeout 60 go list -m "$$(sed 's|/cmd/sing-box||' <<<$(SING_BOX))" >"$$scratch/go" 2>&1; then
    step "the peer sing-box is left out, for its source cannot be had: $$(tail -n 1 "$$scratch/go")"
  else
    step "installing the peer sing-box in ~/go/bin (about three minutes)"
    if ! GOBIN="$(HOME)/go/bin" timeout 900 go install -tags with_quic -ldflags '-s -w' $(SING_BOX) >"$$scratch/go" 2>&1; then
      step "the peer sing-box is left out, for it cannot be built: $$(tail -n 1 "$$scratch/go")"
    fi
  fi
fi
if ! type -P wireguard-go >/dev/null && ! type -P wireguard >/dev/null && type -P go >/dev/null; then
  step "installing the peer wireguard-go in ~/go/bin"
  if ! GOBIN="$(HOME)/go/bin" timeout 600 go install golang.zx2c4.com/wireguard@latest >"$$scratch/go" 2>&1; then
    step "the peer wireguard-go is left out, for it cannot be built: $$(tail -n 1 "$$scratch/go")"
  fi
fi
endef

# One runner, one profile and one target directory for everything, so that nothing is built twice. `make test` is what a change must
# pass; `make test-all` holds it and what takes too long for that, or needs other people's programs (CONTRIBUTING.md, "The suite").
# Property tests draw the same cases in every run; `make soak` draws new ones.
# What a first build and run write, in GB.
DISK_GB := 8
DISK_GB_ALL := 16
test: TIER := default
test-all: TIER := all
test-all: export WAVELANE_TEST_ALL := 1
test-all: export WAVELANE_HOSTILE_SECONDS ?= 60
# Three kinds of damaged input, a third of an hour each.
test-all: export WAVELANE_SOAK_SECONDS ?= 1200
test test-all: export PROPTEST_RNG_SEED ?= 1
test test-all:
	@$(call install,$(BUILD_TOOLS) $(LAB_TOOLS) $(TEST_TOOLS) $(if $(filter all,$(TIER)),$(PEER_TOOLS) $(PACKAGE_TOOLS)))
	# A disk that fills up on the way ends the build with an error that names some crate. The tally of the tests is not built yet.
	built="$${CARGO_TARGET_DIR:-target}"
	wanted=$(if $(filter all,$(TIER)),$(DISK_GB_ALL),$(DISK_GB))
	if [[ -d $$built/debug/deps ]]; then wanted=2; fi
	mkdir -p -- "$$built" || { echo "0 passed, 1 failed, 0 skipped"; exit 2; }
	free=$$(($$(df --output=avail --block-size=1M "$$built" | tail -n 1) / 1024))
	if ((free < wanted)); then
	  echo "this needs $$wanted GB in $$(realpath "$$built"), and $$((free)) GB are free there: make room, or name another place with CARGO_TARGET_DIR" >&2
	  echo "0 passed, 1 failed, 0 skipped"
	  exit 2
	fi
	scratch=$$(mktemp -d)
	touch "$$scratch/log"
	results="$${CARGO_TARGET_DIR:-target}/nextest/$(TIER)/junit.xml"
	rm -f "$$results"
	# However it ends, the last line says how many tests passed, failed and were skipped.
	finish() {
	  local code=$$?
	  trap - EXIT
	  cargo xtask tally "$$code" "$$scratch/log" "$$results" || true
	  rm -rf "$$scratch"
	  exit "$$code"
	}
	trap finish EXIT
	step() { echo "== $$(date +%T) $$*" >&2; }
	# A step whose exit code 77 is a skip, for the reason that it says last.
	check() {
	  local what="$$1" code=0
	  shift
	  step "$$what"
	  "$$@" 2>"$$scratch/check" || code=$$?
	  cat "$$scratch/check" >&2
	  if ((code == 77)); then
	    echo "SKIPPED ($$(tail -n 1 "$$scratch/check")): $$what" | tee -a "$$scratch/log"
	  elif ((code)); then
	    exit 1
	  fi
	}
	if ! { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1; then
	  step "installing rustfmt and clippy"
	  command -v rustup >/dev/null || { echo "cargo has no fmt or clippy: install Rust from https://rustup.rs" >&2; exit 2; }
	  rustup component add rustfmt clippy
	fi
	if ! cargo nextest --version >/dev/null 2>&1; then
	  step "installing cargo-nextest in ~/.cargo/bin (once, some minutes)"
	  # It waits for tests more than it computes: the faster build is the better one, without what updates it from the net.
	  CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
	    CARGO_TARGET_DIR="$$scratch/nextest" cargo install cargo-nextest --version $(NEXTEST) --locked --quiet --no-default-features --features default-no-update
	fi
	step "formatting, house rules"
	cargo fmt --all --check
	cargo xtask tidy
	step "lints"
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	# What `make demo` builds: without every command.
	cargo clippy --workspace --no-default-features --quiet -- -D warnings
	step "documentation comments"
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
	step "a Python environment for tests that call Python"
	if environment=$$(python/environment.sh 2>"$$scratch/python"); then
	  export PATH="$$environment/bin:$$PATH" MPLBACKEND=agg
	else
	  # The tests that want more than the machine's own Python has are skipped, and say so.
	  step "none: $$(tail -n 1 "$$scratch/python")"
	fi
	step "building"
	cargo nextest run --workspace --profile $(TIER) --no-run --cargo-quiet
	if [[ $(TIER) = all ]]; then
	  $(call peers)
	fi
	step "tests"
	cargo nextest run --workspace --profile $(TIER) $(if $(filter all,$(TIER)),--run-ignored all) --cargo-quiet
	step "examples in documentation comments"
	cargo test --workspace --doc --quiet 2>&1 | tee -a "$$scratch/log"
	step "second implementations of what is on the wire"
	if ! type -P python3 >/dev/null; then
	  echo "SKIPPED (python3 is missing: apt-get install python3): vectors/check_*.py" | tee -a "$$scratch/log"
	else
	  python3 vectors/check_fec.py
	  python3 vectors/check_vtx.py
	  python3 vectors/check_blocks.py
	  python3 vectors/check_frames.py
	  python3 vectors/check_headers.py
	  python3 vectors/check_serial.py
	  if python3 -c 'import cryptography' 2>/dev/null; then
	    python3 vectors/check_session.py
	    python3 vectors/check_parcels.py
	  else
	    echo "SKIPPED (python3-cryptography is missing): vectors/check_session.py, check_parcels.py" | tee -a "$$scratch/log"
	  fi
	fi
	step "determinism: the demo in the simulator, twice with seed 7 and once with seed 8"
	simulate() {
	  local code=0
	  target/debug/wavelane run scenarios/demo.toml --on sim --seed "$$1" --json --out "$$scratch/$$2" \
	    >"$$scratch/$$2.json" || code=$$?
	  if ((code != 0 && code != 3)); then echo "the simulated demo ended with exit code $$code" >&2; exit 1; fi
	  # The record's path is the one thing that may differ.
	  grep -rlF "$$scratch/$$2" "$$scratch/$$2" "$$scratch/$$2.json" | xargs -r sed -i "s|$$scratch/$$2|RECORD|g"
	}
	simulate 7 first; simulate 7 second; simulate 8 other
	cmp "$$scratch/first.json" "$$scratch/second.json"
	diff -r --exclude environment.json --exclude log.txt "$$scratch/first" "$$scratch/second"
	if cmp -s "$$scratch/first.json" "$$scratch/other.json"; then
	  echo "seed 8 gives what seed 7 gave: the seed has no effect" >&2; exit 1
	fi
	step "radio cells: the same bytes with one worker and with two; the other cells run"
	for cell in bulk-cell categories coded-cell wavelan capture; do
	  for jobs in 1 2; do
	    target/debug/wavelane run "scenarios/wifi/$$cell.toml" --repeat 2 --jobs "$$jobs" --json \
	      --out "$$scratch/jobs-$$jobs" >"$$scratch/jobs-$$jobs.json"
	    grep -rlF "$$scratch/jobs-$$jobs" "$$scratch/jobs-$$jobs" "$$scratch/jobs-$$jobs.json" \
	      | xargs -r sed -i "s|$$scratch/jobs-$$jobs|RECORD|g"
	  done
	  cmp "$$scratch/jobs-1.json" "$$scratch/jobs-2.json"
	  diff -r --exclude environment.json "$$scratch/jobs-1" "$$scratch/jobs-2"
	  rm -rf "$$scratch"/jobs-*
	done
	for cell in saturated-cell chain; do
	  target/debug/wavelane run "scenarios/wifi/$$cell.toml" --out "$$scratch/$$cell"
	done
	check "records against their JSON schema" \
	  python3 vectors/check_record.py docs/schema/wavelane-run-1.schema.json "$$scratch"/*/record.json
	if [[ $(TIER) = all ]]; then
	  check "the Debian package in two bare roots, and an operator's walk with it" packaging/deb/check.sh target/debug
	  check "compose.yaml: the image's two gateways and the link between them" packaging/oci/check.py target/debug
	  check "aarch64: both programs under an emulator" packaging/aarch64.sh
	  check "the last tag's daemon against this one" packaging/last-tag.sh
	  step "licences and known holes of what the programs are linked from"
	  packaging/deny.sh 2>&1 | tee -a "$$scratch/log"
	  step "the lists of what they are linked from are whole"
	  $(MAKE) -s -f "$(THIS)" sbom PACKAGES="$$scratch/lists"
	  step "the Python package, its types, its tests and its notebook"
	  python/check.sh 2>&1 | tee -a "$$scratch/log"
	  step "hostile peers against the optimised build, with overflow checks"
	  cargo test --profile hostile --package wavelane-daemon --test it --quiet -- --include-ignored hostile_peer:: hostile_opens:: 2>&1 | tee -a "$$scratch/log"
	fi
	step "one hop in the simulator and in the lab"
	target/debug/wavelane run scenarios/smoke/one_hop.toml --on sim --out "$$scratch/smoke-sim"
	if (($$(id -u) == 0)); then
	  code=0
	  target/debug/wavelane run scenarios/smoke/one_hop.toml --on lab --out "$$scratch/smoke-lab" || code=$$?
	  if ((code == 3)); then
	    echo "SKIPPED (inconclusive: this machine was late): lab smoke" | tee -a "$$scratch/log"
	  elif ((code)); then
	    echo "lab smoke failed with exit code $$code" >&2; exit 1
	  fi
	else
	  echo "SKIPPED (needs root): lab smoke" | tee -a "$$scratch/log"
	fi
	cat "$$scratch/log" "$$results" | grep -o 'SKIPPED (.*' | sort | uniq -c || true
	echo "== all green"

# What is worth running for longer than a change should wait, from a new seed each time. A failure prints the command that
# repeats it. SOAK_SECONDS is for all of it; property tests and each of the four kinds of input have a fifth.
SOAK_SECONDS ?= 600
# And how long a proxy of each engine has mixed load.
PROXY_SOAK_SECONDS ?= 900
PROPERTY_CRATES := base wire serial queue channel tcp transport services gateway scenario sim
soak:
	@$(call install,$(BUILD_TOOLS))
	fifth=$$(($(SOAK_SECONDS) / 5))
	seed=$$(date +%s)
	echo "== hostile peers for $$fifth s, from seed $$seed" >&2
	WAVELANE_HOSTILE_SECONDS=$$fifth WAVELANE_HOSTILE_SEED=$$seed \
	  cargo test --package wavelane-daemon --test it hostile_messages -- --nocapture
	echo "== captures, result files of flent, iperf3 and irtt, and probe packets, $$fifth s each, from seed $$seed" >&2
	WAVELANE_SOAK_SECONDS=$$fifth WAVELANE_SOAK_SEED=$$seed \
	  cargo test --package wavelane-probe --test it -- --nocapture --test-threads 1 corpus::mutated
	echo "== a proxy of each engine under mixed load for $(PROXY_SOAK_SECONDS) s" >&2
	WAVELANE_SOAK_SECONDS=$(PROXY_SOAK_SECONDS) \
	  cargo test --package wavelane-daemon --test it soak::a_proxys -- --ignored --nocapture
	tests=(cargo test --quiet $(addprefix --package wavelane-,$(PROPERTY_CRATES)))
	"$${tests[@]}" --no-run
	until=$$(($$(date +%s) + fifth))
	while (($$(date +%s) < until)); do
	  echo "== property tests, from seed $$seed" >&2
	  if ! PROPTEST_RNG_SEED=$$seed "$${tests[@]}"; then
	    echo "== to repeat it: PROPTEST_RNG_SEED=$$seed $${tests[*]}" >&2
	    exit 1
	  fi
	  seed=$$((seed + 1))
	done

clean:
	@cargo clean
	rm -rf records
