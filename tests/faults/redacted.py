"""Redactions and damages of logs of cold and warm compiles: a redaction loses nothing, and damage is named.

A small program is compiled twice, with empty and with filled caches; its logs are then redacted in 0.1 to 50% of their
payloads, or damaged. A redacted log has to show what the original shows; of a damaged one, the report has to say that
it is damaged, cut, changed or in doubt, and where bytes were lost, most of the rest has to be there.
"""

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import md5
from pathlib import Path

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.kernels.emitted_code import with_torchs_kernels
from ctrace.inspector.findings.kernels.kernel_view import parts
from ctrace.inspector.log.framing import payload_of, records
from ctrace.inspector.runs.load import load_log
from tests.faults.study import Bench, Result, Study, Try

_PROGRAM = """
import torch
from torch import nn

class SecretNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.secret_first, self.secret_second = nn.Linear(32, 64), nn.Linear(64, 8)

    def forward(self, secret_input):
        secret_hidden = self.secret_first(secret_input).relu()
        print("hidden")
        return self.secret_second(secret_hidden)

@torch.compile
def secret_step(secret_value, scale):
    secret_scaled = secret_value * scale
    torch._dynamo.graph_break()
    return secret_scaled.relu() + secret_value.sum()

model = torch.compile(SecretNet())
for size in (2, 5, 9):
    model(torch.rand(size, 32)).sum().backward()
for scale in (1.0, 2.0, 3.0):
    secret_step(torch.rand(7), scale)
"""
SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.09, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
_NAMES = (rb"[Ss]ecret_?\w*", rb"dynamo_timed", rb"/[\w./-]*torch/", rb"\bTensor\b", rb"\d{6,}")
_HASH = re.compile(rb'"has_payload": "([0-9a-f]{32})"')
_LEAST_LEFT = 0.5


def _recorded(scratch: Path) -> dict[str, Path]:
    """Record the program with empty caches, and then with filled ones."""
    (program := scratch / "program.py").write_text(_PROGRAM)
    found = {}
    for name in ("cold", "warm"):
        folder = scratch / name
        environment = {"TORCH_TRACE": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(scratch / "cache")}
        subprocess.run(
            [sys.executable, str(program)], env={**os.environ, **environment}, capture_output=True, check=True
        )
        (found[name],) = folder.glob("*.log")
    return found


def _facts(session: Session) -> list[object]:
    kernels = sum(len(each.rows) for each in parts(with_torchs_kernels(session)[0]))
    numbers = (session.graphs, session.breaks, session.recompiles, session.compilations)
    return [str(session.verdict), *map(len, numbers), kernels]


def redacted(data: bytes, share: float, chance: random.Random) -> bytes:
    """Replace names in a share of the payloads, at least in one."""
    found = [at for at in records(data) if _redact(data[at[1] : at[2]]) != data[at[1] : at[2]]]
    whole = sum(1 for start, line, _ in records(data) if _HASH.search(data, start, line))
    chosen = set(chance.sample(found, min(max(round(share * whole), 1), len(found))))
    made = []
    for at in records(data):
        start, line, end = at
        made += [data[start:line], _redact(data[line:end]) if at in chosen else data[line:end]]
    return b"".join(made)


def _redact(payload: bytes) -> bytes:
    for name in _NAMES:
        changed = re.sub(name, lambda found: b"9" * len(found[0]) if found[0].isdigit() else b"REDACTED", payload)
        if changed != payload:
            return changed
    return payload


def cut(data: bytes, chance: random.Random) -> bytes:
    """Cut the end off, within a record."""
    return data[: chance.randrange(len(data) // 2, len(data))]


def lost(data: bytes, chance: random.Random) -> bytes:
    """Lose up to a block of bytes."""
    at = chance.randrange(len(data) - 5_000)
    return data[:at] + data[at + chance.randint(1, 4_096) :]


def zeroed(data: bytes, chance: random.Random) -> bytes:
    """Replace a block by zeros, as a file system does after a crash."""
    at = chance.randrange(len(data) - 5_000)
    return data[:at] + bytes(4_096) + data[at + 4_096 :]


def swapped(data: bytes, chance: random.Random) -> bytes:
    """Swap two lines."""
    lines = data.splitlines(keepends=True)
    one, other = chance.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def overwritten(data: bytes, chance: random.Random) -> bytes:
    """Overwrite a block with another one, as two writers of one file do."""
    at, other = chance.randrange(len(data) - 5_000), chance.randrange(len(data) - 5_000)
    return data[:at] + data[other : other + 2_000] + data[at + 2_000 :]


def flipped(data: bytes, chance: random.Random) -> bytes:
    """Flip a bit of a payload; torch writes no checksum of headers."""
    _, line, end = chance.choice([at for at in records(data) if at[1] < at[2] and _HASH.search(data, at[0], at[1])])
    changed = bytearray(data)
    changed[chance.randrange(line + 1, end)] ^= 1 << chance.randrange(8)
    return bytes(changed)


DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (cut, lost, zeroed, swapped, overwritten, flipped)


def run(bench: Bench) -> Iterator[Try]:
    """Try half of the tries as redactions and half as damages."""
    chance = random.Random(bench.seed)
    logs = _recorded(bench.scratch)
    whole = {name: _facts(load_log(log)) for name, log in logs.items()}
    for number in range(bench.tries // 2):
        name, share = tuple(logs)[number % 2], SHARES[number // 2 % len(SHARES)]
        log = bench.scratch / "redacted.log"
        log.write_bytes(redacted(logs[name].read_bytes(), share, chance))
        session = load_log(log)
        said = any("the log was changed" in each.what for each in session.problems)
        is_right = said and _facts(session) == whole[name]
        detail = "" if is_right else f"{_facts(session)} instead of {whole[name]}, {'' if said else 'not '}said"
        yield Try(f"{name}, {share:.1%} redacted", Result.FINE if is_right else Result.LOSS, detail)
    for number in range(bench.tries - bench.tries // 2):
        name, damage = tuple(logs)[number % 2], DAMAGES[number // 2 % len(DAMAGES)]
        data = damage(logs[name].read_bytes(), chance)
        log = bench.scratch / "damaged.log"
        log.write_bytes(data)
        yield _named(f"{number} {name} {damage.__name__}", load_log(log), whole[name], data)


def _named(name: str, session: Session, whole: list[object], data: bytes) -> Try:
    is_named = bool(session.cut_off) or any(each.is_doubt for each in session.problems)
    if not is_named and _facts(session) == whole and not _mismatches(data):
        return Try(name, Result.SILENT, "nothing in the log shows it")
    if not is_named:
        return Try(name, Result.LIE, f"{_facts(session)} instead of {whole}, without a sign")
    left = len(session.compilations) / int(str(whole[4]))
    return Try(name, Result.FINE if left >= _LEAST_LEFT or " cut" in name else Result.LOSS, f"{left:.0%} are left")


def _mismatches(data: bytes) -> bool:
    for start, line, end in records(data):
        found = _HASH.search(data, start, line)
        if found and md5(payload_of(data[line:end]), usedforsecurity=False).hexdigest().encode() != found[1]:
            return True
    return False


FAULTS = Study("redacted and damaged", 60, run)
