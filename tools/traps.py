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
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import trap_oracle
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from ctrace.inspector.facts.trial import Trial
from ctrace.inspector.features.fix.repairs.fixing import Fixing, RepairChoice
from ctrace.inspector.features.fix.repairs.obligations import COMPILED, NAMES
from ctrace.inspector.features.fix.repairs.repair_result import Fixes, How, TriedRepair
from ctrace.inspector.features.fix.repairs.source import all_repairs
from ctrace.inspector.features.fix.repairs.trial_runs import FailedTrialError, Runner, SearchBudget, new_server
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.fork_client import ForkServer
from ctrace.inspector.runs.target import resolve

_LIMIT = 120.0
_REPAIRS = tuple(each.name for each in all_repairs())
"""Repairs of source: an option of torch.compile changes nothing that the oracle can see."""

HEAD = """\
import copy
from collections import defaultdict

import torch
from torch import nn


class Config:
    def __init__(self):
        self.k = torch.tensor(2.0)
        self.number = 2.0
        self.shared = [self.k, self.k]
        self.table = defaultdict(list, {{"a": self.k, "b": self.k}})


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
        self.seen = 0
        self.kept = None
        self.history = []
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
STATES = (
    BUFFER,
    FROZEN,
    "self.scale = nn.Parameter(torch.tensor({value}))",
    "self.scale = torch.tensor({value})",
    'self.register_buffer("scale", torch.tensor(int({value} + 0.5)))',
    'self.register_buffer("scale", torch.tensor({value}, dtype=torch.float16))',
    'self.register_buffer("scale", torch.tensor({value}), persistent=False)',
    'self.register_buffer("scale", torch.tensor({value}))\n        self.other = self.scale',
)
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
RIGHT_NUMBERS = (
    "n = self.scale.item()",
    "n = float(self.scale)",
    "n = h.mean(1).sum().item()",
    "n = h.sum(1)[0].item()",
)
"""`float` of what needs gradients warns, an empty input changes the text of other errors, and `int` truncates."""
USES = ("y = h * n", "y = h + n", "y = n * h.relu()", "y = h / (n + 3.0)", "y = h - n * 2")
TESTS = ("h.sum() > 0", "h.abs().max() > {limit}", "(h > 0).any()", "h.mean() < 0.1 and h.max() > 0")
RIGHT_TESTS = TESTS[:3]
"""`and` keeps an empty input from the maximum."""
RIGHT_SIDES = ("h * 2", "h * 0.5", "h.relu()", "-h", "h + 1", "h.tanh()")
"""What is not selected neither overflows nor has gradients that are not finite."""
SIDES = (
    "h * 2", "h * 0.5", "h ** 4", "h ** 2", "h * h * h", "h.relu()", "h / h.abs().max()", "h.sqrt()", "h.exp()",
    "-h", "h + 1", "(h * 100) * h", "h.square() * 0.1", "h.log()",
)  # fmt: skip
BETWEEN = (
    "",
    "if self.warm: self.scale.mul_(0.5)",
    "self.bump()",
    "if self.strict: raise ValueError('strict')",
    "if self.strict: x.mul_(0.5)",
    "self.seen += 1",
    "if self.strict: print('strict')",
    "if self.strict: torch.rand(1)",
    "self.history = [h]",
    "h = h.half() if self.strict else h",
)
AFTER = (
    "",
    "self.kept = y.square().mean() * h.abs().max().item()",
    "if self.warm: n += 1",
    "if self.strict: y.add_(1)",
    "self.last = y",
    "self.kept = n",
    "self.history.append(n)",
    "if self.strict: y.register_hook(lambda g: g.clamp(max=0.1))",
    "if self.warm and self.seen: y = y.detach()",
    "self.last = {'y': y, 'h': h}",
    "self.last = (y, h.mean() * h.abs().max().item())",
    "if self.strict and y.max() > {limit}: raise ValueError('large')",
)
COPIES = (
    "c = copy.deepcopy(self.config)",
    "c = copy.copy(self.config)",
    "c = copy.deepcopy(self.config)\nif self.warm: c.k.mul_(0.5)",
    "c = copy.deepcopy(self.config)\nif self.strict: self.kept = c",
    "c = copy.deepcopy(self.config)\nself.last = c.k",
)
COPY_USES = (
    "y = h * c.k",
    "y = h * c.number",
    "y = h * c.shared[0]",
    "y = h * c.table['a']",
    "y = h * len(c.table['z'] + [1])",
)
VALUES = (
    "c = copy.deepcopy(h)\ny = c * 2",
    "c = copy.deepcopy(x)\nif self.warm: c.mul_(0.5)\ny = h * c.sum()",
    "c = copy.copy(x)\ny = h + c.sum()",
)
RANDOM = ("torch.rand(()) < 0.5", "torch.rand(1) > {limit} / 5", "torch.rand(()) < 0.3 and self.training")
KEPT = (
    "self.seen += 1\ny = h * (2 if self.seen % 2 else 3)",
    "self.history.append(h.sum().item())\ny = h * len(self.history)",
    "self.seen = self.seen + h.sum().item()\ny = h * 2",
    "self.kept = h.abs().max().item()\ny = h * 2",
)
CHECKED = (
    "assert (h.abs() < 1e3).all(), 'large'\ny = h * 2",
    "if torch.isnan(h).any(): raise ValueError('NaN')\ny = h * 2",
    "assert h.sum() > -1e4\ny = h * 2",
)
INDEXED = ("y[y > 0] = y[y > 0] * 2", "y[y > {limit}] *= 0.5", "y[y < 0] = y[y < 0] ** 2", "y[y < 0] = 0.0")


TERNARIES = ("y = {first} if {test} else {second}", "y = {second}\nif {test}:\n    y = {first}")
MASKED = ("h.relu()", "h * 2", "h.tanh()", "h")
LOOPS = ("h = h * 0.5", "h = h - h.mean()", "h = h * h * 0.1", "h = h.tanh()")
RIGHT_LOOPS = ("h = h * 0.5", "h = h.tanh()")
LAYERS = (
    "self.act(h)",
    "self.post(h)",
    "self.callback(h) if self.callback is not None else h",
    "keep(h)",
    "h.detach()",
)


_BLOCKS = {"value copy": VALUES, "kept": KEPT, "checked": CHECKED}


class Program(NamedTuple):
    """A generated program; `is_right`: nothing in it makes the obvious repair wrong."""

    pattern: str
    text: str
    is_right: bool


Pick = Callable[[tuple[str, ...]], str]
_RIGHT_PATTERNS = ("number", "branch", "copy", "index", "alias", "choice", "loop")
_PATTERNS = (*_RIGHT_PATTERNS, *_BLOCKS, "random")


@st.composite
def programs(draw: Any) -> Program:
    """Draw a program."""

    def pick(words: tuple[str, ...]) -> str:
        return str(draw(st.sampled_from(words)))

    if draw(st.booleans()):
        pattern, is_right, after, state = pick(_RIGHT_PATTERNS), True, "", BUFFER
        lines = right_lines(pick, pattern)
    else:
        pattern, is_right, state = pick(_PATTERNS), False, pick(STATES)
        has_number = pattern == "number"
        after = pick(tuple(each for each in AFTER if has_number or not re.search(r"\bn\b", each)))
        lines = trap_lines(pick, pattern, pick(BETWEEN))
    body = [line for each in (*lines, after, "return y + 1") if each for line in each.split("\n")]
    limit = str(draw(st.sampled_from((1, 0.5, 2, 4))))
    text = HEAD.format(
        state=state.format(value=draw(st.sampled_from(("3.0", "2.0", "0.5")))),
        bump=pick(("self.scale.mul_(0.5)", "self.config.k.add_(1)")),
        reset=pick(("self.scale.data.fill_(1.5)", "pass", "self.config = Config()")),
        body="\n".join(f"        {line}" for line in body).replace("{limit}", limit),
    )
    return Program(pattern, text, is_right)


def right_lines(pick: Pick, pattern: str) -> list[str]:
    """Draw lines for which the obvious repair is right."""
    match pattern:
        case "number":
            # Python adds 3.0 in double precision, which no tensor of floats does.
            return [pick(RIGHT_NUMBERS), pick(tuple(each for each in USES if "3.0" not in each))]
        case "branch":
            return branch_of(pick(RIGHT_TESTS), pick(RIGHT_SIDES), pick(RIGHT_SIDES))
        case "copy":
            return [COPIES[0], "y = h * c.number"]
        case "alias":
            return ["y = h * 2", f"if {pick(RIGHT_TESTS)}:\n    y = h"]
        case "choice":
            return [pick(TERNARIES).format(test=pick(RIGHT_TESTS), first=pick(MASKED), second=pick(RIGHT_SIDES))]
        case "loop":
            return loop_of(pick(RIGHT_LOOPS))
    return ["y = h * 1", INDEXED[0]]


def trap_lines(pick: Pick, pattern: str, between: str) -> list[str]:
    """Draw lines of a pattern, in any form."""
    match pattern:
        case "number":
            return [pick(NUMBERS), between, pick(USES)]
        case "branch":
            return [between, *branch_of(pick(TESTS), pick(SIDES), pick(SIDES))]
        case "random":
            return [between, *branch_of(pick(RANDOM), pick(SIDES), pick(SIDES))]
        case "copy":
            return [pick(COPIES), between, pick(COPY_USES)]
        case "alias":
            # `h` itself where the test holds: who else has it, and writes to it?
            return [between, "y = h * 2", f"if {pick(TESTS)}:\n    y = h", f"z = {pick(LAYERS)}"]
        case "choice":
            return [between, pick(TERNARIES).format(test=pick(TESTS), first=pick(MASKED), second=pick(SIDES))]
        case "loop":
            return loop_of(pick(LOOPS))
        case "index":
            return ["y = h * 1", between, pick(INDEXED)]
    return [between, pick(_BLOCKS[pattern])]


def branch_of(test: str, first: str, second: str) -> list[str]:
    """Return a branch with two sides."""
    return [f"if {test}:", f"    y = {first}", "else:", f"    y = {second}"]


def loop_of(line: str) -> list[str]:
    """Return a loop that ends after four rounds."""
    return ["step = 0", "while h.abs().max() > {limit} and step < 4:", f"    {line}", "    step += 1", "y = h * 1"]


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
    budget = SearchBudget(_LIMIT)
    choice = RepairChoice(names=_REPAIRS, build=False, combine=False)
    try:
        with Runner(resolve(str(path)), Options(), _LIMIT, budget, server) as runner:
            session = runner.capture(Trial())
            return Fixing(session, runner, budget, target=str(path), choice=choice, say=lambda _: None).run()
    except FailedTrialError:
        return None


def differences(before: Path, after: Path) -> list[str] | None:
    """Ask the oracle in a fork, which keeps torch's import and nothing of what the programs do.

    None: a program did not end in time, so the oracle has no answer.

    Raises:
        RuntimeError: the oracle failed in any other way.
    """
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
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        return None
    if status:
        raise RuntimeError(f"the oracle ended with {status} for {after}")
    acts: list[str] = json.loads(found)
    return acts


def still_open(repair: TriedRepair) -> list[str]:
    """Return the obligations that trying left open; none if it was not tried."""
    obligations = repair.outcome.obligations
    found = [each.name for each in obligations if not each.closed and each.how is How.TRYING]
    return found if len(found) < len(obligations) and found != [COMPILED] else []


def is_free(repair: TriedRepair, without: frozenset[str]) -> bool:
    """Whether a repair is proved without a question, or would be without some obligations."""
    if repair.is_free or not without:
        return repair.is_free
    open_ = set(still_open(repair)) - {COMPILED}  # compiled calls are not tried where eager ones differ
    return bool(open_) and open_ <= without


def described(repair: TriedRepair) -> list[Any]:
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
    unanswered = sum(len(about.get("unanswered", ())) for about in every)
    seconds = sum(about["seconds"] for about in every)
    print(
        f"{len(every)} programs of {len({about['seed'] for about in every})} seeds, {proofs} proofs without a question"
    )
    print(f"{unanswered} proofs that the oracle has no answer about")
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
        unanswered: list[str] = []
        for place, each in enumerate(free):
            after = folder / f"trap_{index}_repaired_{place}.py"
            after.write_text(next(text.text for text in each.files))
            acts = differences(path, after)
            if acts is None:
                unanswered.append(each.name)
                print(f"NO ANSWER of the oracle: {each.name}\n  {path}\n  {after}", flush=True)
            elif acts:
                apart.append([each.name, *acts])
                print(f"FALSE PROOF: {each.name}: {', '.join(acts)}\n  {path}\n  {after}", flush=True)
        about = {
            "seed": number,
            "index": index,
            "program": name,
            "kind": f"{program.pattern}, {'right' if program.is_right else 'trap'}",
            "seconds": round(time.monotonic() - began, 2),
            "false": apart,
            "unanswered": unanswered,
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
