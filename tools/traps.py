"""Generate programs in which a repair is right or wrong, repair them, and ask an oracle about each proof.

    make traps                              100 programs with a new seed
    python tools/traps.py --count 20 --seed 7 [--jsonl FILE]    a file that is there already is continued
    python tools/traps.py --totals FILE...                      what the files of a study say together

Each program is a pattern that a repair matches, in contexts that make the obvious repair wrong: written rarely, kept in
the state, frozen, saved, in half precision, raising, read elsewhere. The oracle, trap_oracle.py, runs the program
before and after each repair that was proved without a question. Exit 1: a proof is false; the two programs are kept.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import trap_oracle
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from ctrace.inspector.facts.trial import Trial
from ctrace.inspector.features.fix.repairs.fixing import Fixing, RepairChoice
from ctrace.inspector.features.fix.repairs.obligations import COMPILED, NAMES
from ctrace.inspector.features.fix.repairs.result import Fixes, How, Tried
from ctrace.inspector.features.fix.repairs.running import Budget, FailedTrialError, Runner, new_server
from ctrace.inspector.features.fix.repairs.source import all_repairs
from ctrace.inspector.runs.forks.server import ForkServer
from ctrace.inspector.runs.request import Options
from ctrace.inspector.runs.target import resolve

_LIMIT = 120.0
_REPAIRS = tuple(each.name for each in all_repairs())
"""Repairs of source: an option of torch.compile changes nothing that the oracle can see."""

HEAD = """\
import copy

import torch
from torch import nn


class Config:
    def __init__(self):
        self.k = torch.tensor(2.0)


KEPT = []


def keep(t):
    if KEPT:
        t.clamp_(max=0.1)
    return t


class Act(nn.Module):
    def __init__(self):
        super().__init__()
        self.hard = False

    def forward(self, t):
        if self.hard:
            t.clamp_(max=0.1)
        return t * 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.act = Act()
        self.callback = None
        self.warm = False
        self.strict = False
        self.config = Config()
        {state}

    def bump(self):
        if self.warm:
            {bump}

    def reset(self):
        {reset}

    def post(self, t):
        if self.strict and self.warm:
            t.mul_(0.5)
        return t + 1

    def forward(self, x):
        h = self.linear(x)
{body}


torch.manual_seed(0)
model = Net()


def inputs():
    return (torch.randn(4, 8, generator=torch.Generator().manual_seed(3)),)
"""
BUFFER = 'self.register_buffer("scale", torch.tensor({value}))'
FROZEN = "self.scale = nn.Parameter(torch.tensor({value}), requires_grad=False)"
NUMBERS = (
    "n = self.scale.item()",
    "n = float(self.scale)",
    "n = int(self.scale)",
    "n = h.abs().max().item()",
    "n = h.mean(1).sum().item()",
    "n = h.sum(1)[0].item()",
    "n = h[:1, :1].item()",
    "n = float(h.sum())",
)
USES = ("y = h * n", "y = h + n", "y = n * h.relu()", "y = h / (n + 3.0)", "y = h - n * 2")
TESTS = ("h.sum() > 0", "h.abs().max() > {limit}", "(h > 0).any()", "h.mean() < 0.1 and h.max() > 0")
SIDES = (
    "h * 2", "h * 0.5", "h ** 4", "h ** 2", "h * h * h", "h.relu()", "h / h.abs().max()", "h.sqrt()", "h.exp()",
    "-h", "h + 1", "(h * 100) * h", "h.square() * 0.1", "h.log()",
)  # fmt: skip
BETWEEN = ("", "if self.warm: self.scale.mul_(0.5)", "self.bump()", "if self.strict: raise ValueError('strict')")
AFTER = (
    "",
    "self.kept = y.square().mean() * h.abs().max().item()",
    "if self.warm: n += 1",
    "if self.strict: y.add_(1)",
    "self.last = y",
)
COPIES = ("c = copy.deepcopy(self.config)", "c = copy.copy(self.config)")
INDEXED = ("y[y > 0] = y[y > 0] * 2", "y[y > {limit}] *= 0.5", "y[y < 0] = y[y < 0] ** 2", "y[y < 0] = 0.0")


TERNARIES = ("y = {first} if {test} else {second}", "y = {second}\nif {test}:\n    y = {first}")
MASKED = ("h.relu()", "h * 2", "h.tanh()", "h")
LOOPS = ("h = h * 0.5", "h = h - h.mean()", "h = h * h * 0.1", "h = h.tanh()")
LAYERS = (
    "self.act(h)",
    "self.post(h)",
    "self.callback(h) if self.callback is not None else h",
    "keep(h)",
    "h.detach()",
)


class Program(NamedTuple):
    """A generated program; `is_right`: nothing in it makes the obvious repair wrong."""

    pattern: str
    text: str
    is_right: bool


@st.composite
def programs(draw: Any) -> Program:
    """Draw a program."""

    def pick(words: tuple[str, ...]) -> str:
        return str(draw(st.sampled_from(words)))

    pattern = pick(("number", "branch", "copy", "index", "alias", "choice", "loop"))
    is_right = draw(st.booleans())
    between = "" if is_right else pick(BETWEEN)
    of_pattern = AFTER if pattern == "number" else tuple(each for each in AFTER if " n " not in each)
    after = "" if is_right else pick(of_pattern)
    state = BUFFER if is_right else pick((BUFFER, FROZEN))
    limit = draw(st.sampled_from((1, 0.5, 2, 4)))
    if pattern == "number":
        number = pick(tuple(each for each in NUMBERS if not (is_right and "int(" in each)))
        lines = [number, between, pick(USES)]
    elif pattern == "branch":
        test, first, second = pick(TESTS), pick(SIDES), pick(SIDES)
        lines = [between, f"if {test}:", f"    y = {first}", "else:", f"    y = {second}"]
    elif pattern == "copy":
        lines = [pick(COPIES), between, "y = h * c.k"]
    elif pattern == "alias":
        # `h` itself where the test holds: who else has it, and writes to it?
        lines = [
            between,
            "y = h * 2",
            f"if {pick(TESTS)}:",
            "    y = h",
            *([] if is_right else [f"z = {pick(LAYERS)}"]),
        ]
    elif pattern == "choice":
        shape = pick(TERNARIES).format(test=pick(TESTS), first=pick(MASKED), second=pick(SIDES))
        lines = [between, *shape.split("\n")]
    elif pattern == "loop":
        lines = [
            "step = 0",
            "while h.abs().max() > {limit} and step < 4:",
            f"    {pick(LOOPS)}",
            "    step += 1",
            "y = h * 1",
        ]
    else:
        lines = ["y = h * 1", between, pick(INDEXED)]
    body = [each for each in (*lines, after, "return y + 1") if each]
    text = HEAD.format(
        state=state.format(value=draw(st.sampled_from(("3.0", "2.0", "0.5")))),
        bump=pick(("self.scale.mul_(0.5)", "self.config.k.add_(1)")),
        reset=pick(("self.scale.data.fill_(1.5)", "pass", "self.config = Config()")),
        body="\n".join(f"        {line}" for line in body).replace("{limit}", str(limit)),
    )
    return Program(pattern, text, is_right)


def drawn(count: int, number: int) -> list[Program]:
    """Draw different programs from a seed."""
    found: dict[str, Program] = {}

    @seed(number)
    @settings(
        max_examples=20 * count, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(programs())
    def collect(program: Program) -> None:
        if len(found) < count:
            found.setdefault(program.text, program)

    collect()
    return list(found.values())


def repaired(path: Path, server: ForkServer) -> Fixes | None:
    """Search for repairs of a program; None: it cannot be run."""
    budget = Budget(_LIMIT)
    choice = RepairChoice(names=_REPAIRS, build=False, combine=False)
    try:
        with Runner(resolve(str(path)), Options(), _LIMIT, budget, server) as runner:
            session = runner.capture(Trial())
            return Fixing(session, runner, budget, target=str(path), choice=choice, say=lambda _: None).run()
    except FailedTrialError:
        return None


def differences(before: Path, after: Path) -> list[str]:
    """Ask the oracle in a fork, which keeps torch's import and nothing of what the programs do."""
    asking, answering = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(int(_LIMIT))
            os.write(answering, json.dumps(trap_oracle.differences(str(before), str(after))).encode())
            status = 0
        except BaseException:
            traceback.print_exc()  # os._exit shows nothing
        finally:
            os._exit(status)
    os.close(answering)
    with os.fdopen(asking, "rb") as opened:
        found = opened.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"the oracle ended with {status} for {after}")
    acts: list[str] = json.loads(found)
    return acts


def still_open(repair: Tried) -> list[str]:
    """Return the obligations that trying left open; none if it was not tried."""
    obligations = repair.outcome.obligations
    found = [each.name for each in obligations if not each.closed and each.how is How.TRYING]
    return found if len(found) < len(obligations) and found != [COMPILED] else []


def is_free(repair: Tried, without: frozenset[str]) -> bool:
    """Whether a repair is proved without a question, or would be without some obligations."""
    if repair.is_free or not without:
        return repair.is_free
    open_ = set(still_open(repair)) - {COMPILED}  # compiled calls are not tried where eager ones differ
    return bool(open_) and open_ <= without


def described(repair: Tried) -> list[Any]:
    """Return what the log says about a repair."""
    return [repair.name, repair.proved, repair.question, repair.outcome.why, still_open(repair)]


def arguments() -> argparse.Namespace:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument(
        "--without",
        choices=NAMES,
        action="append",
        default=[],
        help="count a repair as proved although this obligation is open: shows what it alone catches",
    )
    parser.add_argument("--jsonl", type=Path, help="append one line for each program; skip those that it has")
    parser.add_argument("--totals", type=Path, nargs="+", help="print what such files say together, and try nothing")
    return parser.parse_args()


def digest_of(program: Program) -> str:
    """Return a short name of a program, by its text."""
    return hashlib.sha256(program.text.encode()).hexdigest()[:16]


def lines_of(files: list[Path]) -> dict[str, Any]:
    """Return the lines of the files of a study, the last one of each program."""
    found: dict[str, Any] = {}
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            about = json.loads(line)
            found[about["program"]] = about
    return found


def print_totals(every: list[Any]) -> int:
    """Print the counts of programs by kind, and of proofs; return the number of false ones."""
    kinds: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    proofs = 0
    for about in every:
        kinds[about["kind"]] += 1
        proved = [name for name, proved, question, *_ in about["repairs"] if proved and not question]
        proofs += len(proved)
        kinds[f"{about['kind']}: proved"] += bool(proved)
        alone.update(names[0] for *_, names in about["repairs"] if len(names) == 1)
    for kind in sorted(kinds):
        print(f"{kinds[kind]:5} {kind}")
    for name, number in alone.most_common():
        print(f"{number:5} repairs that {name} alone refuses")
    false = sum(len(about["false"]) for about in every)
    seconds = sum(about["seconds"] for about in every)
    print(
        f"{len(every)} programs of {len({about['seed'] for about in every})} seeds, {proofs} proofs without a question"
    )
    print(f"{false} false proofs; {seconds / max(len(every), 1):.1f} s for each program")
    return false


def main() -> int:
    """Generate, repair and check; print the counts by pattern, and every false proof."""
    asked = arguments()
    if asked.totals:
        return int(print_totals(list(lines_of(asked.totals).values())) > 0)
    number = random.randrange(1 << 31) if asked.seed is None else asked.seed
    print(f"seed {number}", flush=True)
    done = lines_of([asked.jsonl]) if asked.jsonl is not None and asked.jsonl.exists() else {}
    every: list[Any] = []
    server = new_server()
    folder = Path(tempfile.mkdtemp(prefix="traps-"))
    for index, program in enumerate(drawn(asked.count, number)):
        name = digest_of(program)
        if name in done:
            every.append(done[name])
            continue
        path = folder / f"trap_{index}.py"
        path.write_text(program.text)
        began = time.monotonic()
        fixes = repaired(path, server)
        repairs = fixes.repairs if fixes is not None else ()
        free = [each for each in repairs if each.files and is_free(each, frozenset(asked.without))]
        apart: list[list[str]] = []
        for place, each in enumerate(free):
            after = folder / f"trap_{index}_repaired_{place}.py"
            after.write_text(next(text.text for text in each.files))
            acts = differences(path, after)
            if acts:
                apart.append([each.name, *acts])
                print(f"FALSE PROOF: {each.name}: {', '.join(acts)}\n  {path}\n  {after}", flush=True)
        about = {
            "seed": number,
            "index": index,
            "program": name,
            "kind": f"{program.pattern}, {'right' if program.is_right else 'trap'}",
            "seconds": round(time.monotonic() - began, 2),
            "false": apart,
            "repairs": [described(each) for each in repairs],
        }
        every.append(about)
        if asked.jsonl is not None:
            with asked.jsonl.open("a", encoding="utf-8") as log:
                log.write(json.dumps(about) + "\n")
    server.close()
    false = print_totals(every)
    print(f"the programs are in {folder}")
    return int(false > 0)


if __name__ == "__main__":
    sys.exit(main())
