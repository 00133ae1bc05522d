#!/usr/bin/env python3
"""A second implementation of one direction of a flow, its sender, its receiver and a relay's answer, checked against blocks.txt.

Written from docs/protocol/hop.md, not from the Rust code: it takes the inputs of each case and says what is sent, and when. `--write` prints
a new file with its own answers. Exit 0 if everything agrees, 1 otherwise.
"""
import pathlib
import sys

VECTOR = pathlib.Path(__file__).with_name("blocks.txt")
HEAD = """# Golden vectors of docs/protocol/hop.md, "Sending bytes", "Receiving bytes" and "Virtual retransmission": what a node does, not only how it
# writes it. vectors/check_blocks.py and `cargo test -p wavelane-services blocks` and `-p wavelane-gateway golden_relay` check them.
#
# `sender NAME` and `receiver NAME` begin a case: a new flow that was accepted, with a credit of 1,000,000, an RTT of 100 ms, 20 Mbit/s and no
# loss. Lines are in order of time, which is their first word, in ms. A line with `=` is what is sent at that time, whole: nothing else leaves at any other
# time. Octets are first-end. Datagrams have room for every frame of one line of input.
# Inputs of a sender: write N octets; shut (the end); delivered or lost FIRST-END (what became of the newest sending; with octets that arrive all small
# frames sent before do); receipt STATE CUMULATIVE RANGES CREDIT. Sent: offer BLOCK START LENGTH KIND, data FIRST-END, finish LENGTH.
# Inputs of a receiver: offer BLOCK START LENGTH KIND; data FIRST-END; finish LENGTH; read N octets; vtx START LENGTH; delivered or lost (the newest
# receipt). Sent: receipt STATE CUMULATIVE RANGES, have START RANGES.
# `relay FORWARDED RECEIPTED CACHED START LENGTH HAVE ONWARD`: a relay that forwarded so many octets, of which the next hop receipted so many, and whose
# cache holds those, is offered LENGTH octets by VTX: what it says it has, and what it offers onward at once.
"""
MICRO_MAX, BLOCK_PAUSE, BLOCK_AGE = 1100, 100, 1000
RTT, BLOCK_OCTETS = 100, 375_000
RECEIPT_DELAY, GRACE, QUERY_FIRST, QUERY_MAX = 25, 50, 200, 1000
VTX_EVERY = 100


class Set:
    """Octets as disjoint spans."""

    def __init__(self, spans=()):
        self.octets = set()
        for span in spans:
            self.add(*span)

    def add(self, first, end):
        self.octets.update(range(first, end))

    def drop(self, first, end):
        self.octets.difference_update(range(first, end))

    def spans(self, low=0, high=1 << 40):
        out = []
        for n in sorted(o for o in self.octets if low <= o < high):
            if out and out[-1][1] == n:
                out[-1][1] = n + 1
            else:
                out.append([n, n + 1])
        return [tuple(span) for span in out]


def text(spans, high_first=False):
    return ",".join(f"{a}-{b}" for a, b in sorted(spans, reverse=high_first)) or "none"


def parse(word):
    return [] if word == "none" else [tuple(map(int, span.split("-"))) for span in word.split(",")]


class Sender:
    def __init__(self):
        self.base = self.next = self.written = 0
        self.credit, self.ceiling = 1_000_000, None
        self.flying, self.landed, self.missing = Set(), {}, Set()
        self.block = None  # number, start, length, opened
        self.last_first = None
        self.end, self.finish, self.complete = None, "no", False
        self.asks, self.query_at, self.wait = False, None, 0
        self.query_flying = False

    def due(self):
        return self.query_at

    def take(self, now, words):
        kind = words[0]
        if kind == "write":
            self.written += int(words[1])
        elif kind == "shut":
            self.end, self.finish = self.written, "due"
        elif kind == "delivered":
            for first, end in parse(words[1]):
                for n in range(max(first, self.base), end):
                    self.missing.octets.discard(n)
                    self.flying.octets.discard(n)
                    self.landed.setdefault(n, now)
            if self.finish == "flying":
                self.finish = "arrived"
            self.query_flying = False
        elif kind == "lost":
            for first, end in parse(words[1]):
                for n in range(first, end):
                    if n in self.flying.octets:
                        self.flying.octets.discard(n)
                        self.missing.octets.add(n)
        elif kind == "receipt":
            self.receipt(now, words[1], int(words[2]), parse(words[3]), int(words[4]))
        self.watch(now)

    def receipt(self, now, state, cumulative, ranges, credit):
        if cumulative > self.next or any(end > self.next for _, end in ranges):
            return
        self.credit = max(self.credit, credit)
        self.ceiling = max(credit, cumulative) if state == "wait" else None
        before = (self.base, len(self.flying.octets), len(self.landed), len(self.missing.octets))
        self.base = max(self.base, cumulative)
        held = Set([(0, self.base), *ranges]).octets
        for n in held:
            self.landed.pop(n, None)
        self.flying.octets -= held
        self.missing.octets -= held
        for n, at in list(self.landed.items()):
            if at + GRACE <= now:
                del self.landed[n]
                self.missing.octets.add(n)
        if before != (self.base, len(self.flying.octets), len(self.landed), len(self.missing.octets)):
            self.wait, self.query_at = 0, None
        if state == "complete" and self.end == cumulative == self.base and self.finish in ("flying", "arrived"):
            self.complete, self.query_at, self.finish = True, None, "arrived"

    def watch(self, now):
        owed = bool(self.landed) or self.end is not None and not self.complete and self.finish == "arrived"
        top = self.credit if self.ceiling is None else min(self.credit, self.ceiling)
        starved = self.written > self.next and self.next >= top
        if not owed and (self.complete or not starved):
            self.query_at, self.wait = None, 0
        elif self.query_at is None and not self.asks and not self.query_flying:
            self.wait = self.wait or (QUERY_FIRST if owed else QUERY_MAX)
            self.query_at = now + self.wait
        if owed and self.query_at is not None:
            self.query_at = min(self.query_at, now + QUERY_MAX)

    def tick(self, now):
        if self.query_at is not None and self.query_at <= now:
            self.query_at = None
            owed = bool(self.landed) or self.finish == "arrived"
            self.wait = min(2 * self.wait, QUERY_MAX if owed else 16_000)
            if self.end is not None and not self.complete and self.finish == "arrived" and self.base == self.written:
                self.finish = "due"
            self.asks = True

    def send(self, now):
        small, out = [], []
        if self.finish == "due" and self.written - self.next <= MICRO_MAX:
            small.append(f"finish {self.end}")
            self.finish = "flying"
        if self.asks:
            number, start, length, micro = self.block[:4] if self.block else (0, self.base, None, False)
            small.append(offer(number, start, length, micro))
            self.asks, self.query_flying = False, True
        top = self.credit if self.ceiling is None else min(self.credit, self.ceiling)
        for first, end in self.missing.spans(0, top):
            out.append(f"data {first}-{end}")
            self.flying.add(first, end)
            self.missing.drop(first, end)
        new_end = min(self.written, top)
        if self.next < new_end:
            first, end = self.next, new_end
            micro = len(self.flying.octets) + len(self.landed) + self.written - self.next <= MICRO_MAX and end == self.written
            opened = (
                self.block is not None
                and self.block[2] is None
                and not micro
                and self.next - self.block[1] < BLOCK_OCTETS
                and now - self.block[4] < BLOCK_AGE
                and now - self.last_first < BLOCK_PAUSE
            )
            if not opened:
                number = self.block[0] + 1 if self.block else 0
                self.block = (number, first, end - first if micro else None, micro, now)
                out.append(offer(*self.block[:4]))
            out.append(f"data {first}-{end}")
            self.flying.add(first, end)
            self.next, self.last_first = end, now
        self.watch(now)
        return small + out


def offer(number, start, length, micro):
    return f"offer {number} {start} {'-' if length is None else length} {'micro' if micro else 'bulk'}"


class Receiver:
    def __init__(self):
        self.read = self.cumulative = 0
        self.held, self.end, self.block, self.micro = Set(), None, None, False
        self.prompt, self.now_due, self.at = None, False, None
        self.flying, self.have, self.vtx_at = False, None, None

    def due(self):
        return self.at

    def later(self, now):
        self.at = min(self.at or now + RECEIPT_DELAY, now + RECEIPT_DELAY)

    def take(self, now, words):
        kind = words[0]
        if kind == "offer":
            number, start = int(words[1]), int(words[2])
            repeated = self.block is not None and number <= self.block
            self.block = max(number, self.block or 0)
            if repeated:
                self.now_due = True
                return
            self.micro = words[4] == "micro"
            end = start + int(words[3]) if words[3] != "-" else None
            if self.micro and end <= self.cumulative:
                self.now_due = True
            elif self.micro:
                self.prompt = max(self.prompt or 0, end)
            else:
                self.later(now)
        elif kind == "data":
            (first, end), = parse(words[1])
            if end > 1_000_000 or self.end is not None and end > self.end:
                return
            fresh = [n for n in range(max(first, self.cumulative), end) if n not in self.held.octets]
            if not fresh:
                if self.flying and self.micro:
                    return
                if self.end == self.cumulative:
                    self.now_due = True
                else:
                    self.later(now)
                return
            self.held.octets.update(fresh)
            while self.cumulative in self.held.octets:
                self.held.octets.discard(self.cumulative)
                self.cumulative += 1
            if self.end == self.cumulative or self.prompt is not None and self.cumulative >= self.prompt:
                self.prompt, self.now_due = None, True
            else:
                self.later(now)
        elif kind == "finish":
            length = int(words[1])
            top = max(self.held.octets, default=self.cumulative - 1) + 1
            if self.end in (None, length) and length >= top:
                self.end, self.now_due = length, True
        elif kind == "read":
            self.read = min(self.cumulative, self.read + int(words[1]))
        elif kind == "vtx":
            start, length = int(words[1]), int(words[2])
            if self.vtx_at is None or now - self.vtx_at >= VTX_EVERY:
                # What its application has taken was not lost either.
                self.vtx_at, self.have = now, (start, min(start + length, self.cumulative))
        elif kind == "delivered":
            self.flying = False
        elif kind == "lost":
            self.now_due |= self.flying
            self.flying = False

    def tick(self, now):
        if self.at is not None and self.at <= now:
            self.at, self.now_due = None, True

    def send(self, now):
        out = []
        if self.now_due:
            state = "complete" if self.end == self.cumulative else "accept"
            out.append(f"receipt {state} {self.cumulative} {text(self.held.spans(), True)}")
            self.now_due, self.at, self.flying = False, None, True
        if self.have:
            start, end = self.have
            out.append(f"have {start} {text([(start, end)] if start < end else [])}")
            self.have = None
        return out


def relay(forwarded, receipted, cached, start, length):
    end = start + length
    have = Set((max(first, start), min(last, end, forwarded)) for first, last in cached if first < min(end, forwarded) and last > start)
    if receipted < forwarded:
        have.add(max(start, receipted), min(end, forwarded))
    onward = Set([(start, min(end, receipted))] if start < min(end, receipted) else [])
    lacks = onward.octets - Set(cached).octets
    return text(have.spans(), True), text([] if lacks else onward.spans())


def play(cases):
    """The lines of the file as this implementation answers its inputs."""
    lines, node = [], None

    def run(now):
        while node.due() is not None and node.due() <= now:
            at = node.due()
            node.tick(at)
            say(at)

    def say(now):
        sent = node.send(now)
        if sent:
            lines.append(f"{now} = {'; '.join(sent)}")

    for line in cases:
        words = line.split()
        if words[0] in ("sender", "receiver"):
            node = Sender() if words[0] == "sender" else Receiver()
            lines.append(line)
        elif words[0] == "relay":
            numbers = [int(words[1]), int(words[2]), parse(words[3]), int(words[4]), int(words[5])]
            lines.append(" ".join([*words[:6], *relay(*numbers)]))
        elif words[1] != "=":
            now = int(words[0])
            run(now)
            lines.append(line)
            if words[1] != "until":
                node.take(now, words[1:])
            node.tick(now)
            say(now)
    return lines


def main() -> int:
    lines = [line for line in VECTOR.read_text().splitlines() if line and not line.startswith("#")]
    answered = play(lines)
    if "--write" in sys.argv:
        print(HEAD + "\n".join(answered))
        return 0
    wrong = [f"{there!r} where this implementation has {here!r}" for there, here in zip(lines, answered) if there != here]
    if len(lines) != len(answered):
        wrong.append(f"{len(lines)} lines where this implementation has {len(answered)}")
    for line in wrong[:10]:
        print(f"blocks.txt: {line}", file=sys.stderr)
    if not wrong:
        print(f"blocks.txt: {sum(' = ' in line or line.startswith('relay') for line in lines)} answers agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
