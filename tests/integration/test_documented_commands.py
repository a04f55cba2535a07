"""Every command of README and docs really runs: as it is written, as the equivalent in INSTEAD, or NOT_RUN says why."""

import json
import os
import shlex
import subprocess
import sys

import msgspec
import pytest

from tests.support import documented
from tests.support.documentation import NAMED
from tests.support.documented import Ran
from tests.support.places import ROOT
from tests.support.warm import WarmServer

COMMANDS = sorted({command for _, command in NAMED})
_QUICK = "--backend aot_eager --rounds 3 --threads 1"
INSTEAD = {
    "autotune --op mm --all": "autotune --all",
    "bytecode --graph 1/0": "bytecode --graph 0/0",
    "bytecode --line 12": "bytecode --line 24",
    "check --from-trace trace_dir/": "check job --from-trace trace_dir/",
    "check --from-trace traces/": "check job --from-trace traces/",
    "diff": "diff before after",
    "diff --fail-on breaks": "diff before after --fail-on breaks",
    "diff --git origin/main..HEAD model.py --fail-on any --markdown -o diff.md": "diff --git main..HEAD model.py --fail-on any --markdown -o diff.md",
    "diff --json": "diff before after --json",
    "explain NAME": "explain before",
    "explain logs/ --rank 3": "explain logs/ --rank 1",
    "explain model.py --name before": "explain model.py --fast --name again",
    "fix": "fix model.py",
    "fix --report": "fix model.py --report",
    "graphs --graph 0/1 --ops": "graphs --graph 0/0 --ops",
    "guards --cost": "guards --cost model.py",
    "kernels --dump DIR": "kernels --dump kernels/",
    "kernels apply": "kernels apply ops/gelu_1 model.py",
    "kernels apply ops model.py --json": "kernels apply ops/gelu_1 model.py --json",
    "kernels edit": "kernels edit ops/gelu_1 --once",
    "kernels edit ops --once --json": "kernels edit ops/gelu_1 --once --json",
    "kernels edit ops/gelu_1": "kernels edit ops/gelu_1 --once",
    "kernels edit ops/gelu_1 --ir": "kernels edit ops/gelu_1 --once --ir",
    "kernels eject": "kernels eject gelu_1 -o ops",
    "kernels eject --json": "kernels eject gelu_1 -o ops --json",
    "kernels eject NAME -o ops": "kernels eject gelu_1 -o ops",
    "kernels tune": "kernels tune ops/gelu_1 --dry-run",
    "kernels wrap": "kernels wrap model.py:my_kernel",
    "ranks": "ranks logs/",
    "ranks --fail": "ranks logs/ --fail",
    "ranks --json": "ranks logs/ --json",
    "report": "report --force",
    "report --open": "report --force",
    "report model.py --open": "report model.py --force",
    "report model.py --target h100": "report model.py --target h100 --force",
    "report model.py --target h100 with the code for a GPU": "report model.py --target h100 --force",
    "repro model.py b3f21a --issue": "repro model.py --issue",
    "run": "run train.py",
    "run --build": "run train.py",
    "runs --keep NAME": "runs --keep before",
    "runs --keep RUN": "runs --keep after",
    "runs --rename NAME before": "runs --rename before first",
    "runs --rename RUN NAME": "runs --rename after second",
    "schema COMMAND": "schema kernels",
    "targets NAME": "targets a100",
    "time": f"time model.py {_QUICK}",
    "time --compile TARGET": "time --compile model.py --backend aot_eager",
    "time model.py": f"time model.py {_QUICK}",
    "time model.py --backends eager,aot_eager,inductor --timeout 120": "time model.py --backends eager,aot_eager --rounds 3",
    "time model.py --modes default --options epilogue_fusion=false": f"time model.py {_QUICK}",
    "time model.py --modes default,reduce-overhead,max-autotune": f"time model.py {_QUICK}",
    "time model.py --threads 1 --rounds 30 --json": f"time model.py {_QUICK} --json",
    "time model.py --train": f"time model.py --train {_QUICK}",
    "time net.py:Net --input 'float32[8,128]' --vary 0=1,64": f"time net.py:Net --input 'float32[8,128]' --vary 0=1,64 {_QUICK}",
    "time train.py:net": f"time train.py:net {_QUICK}",
}  # fmt: skip
"""What runs in the place of a command: for words that stand for something, and for less work of the same kind."""
NOT_RUN = {
    "autotune model.py --mode max-autotune --build": "builds every choice; tests/integration/test_autotune.py does",
    "browse": "needs a terminal",
    "browse before": "needs a terminal",
    "browse model.py": "needs a terminal",
    "browse trace.log": "needs a terminal",
    "check --on ray": "needs a cluster",
    "cudagraphs model.py --mode reduce-overhead --build": "needs a GPU",
    "ranks logs/ --on ray": "needs a cluster",
    "serve": "serves until Ctrl-C; tests/cli/serving asks it",
    "serve --host 0.0.0.0": "serves until Ctrl-C",
    "serve --port 0 --open": "serves until Ctrl-C",
    "serve shared/.ctrace": "serves until Ctrl-C",
    "targets --read -o gpu.yaml": "needs a GPU",
}
"""The commands that do not run here, each with the reason; `test_docs.py` parses them."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, warm_server: WarmServer | None) -> dict[str, Ran]:
    """Run all commands in one process."""
    folder = tmp_path_factory.mktemp("documented").resolve()
    documented.make(folder)
    commands = [each for each in sorted(COMMANDS, key=_order) if each not in NOT_RUN]
    words = [[_folder(each), *shlex.split(INSTEAD.get(each, each))] for each in commands]
    first = [
        ["", "explain", "model.py", "--train", "--name", "before"],
        ["", "explain", "model.py", "--train", "--name", "after"],
    ]
    variables = {} if warm_server is None else warm_server.variables
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.documented", str(folder)],
        cwd=ROOT,
        env={**os.environ, **variables, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")},
        pass_fds=() if warm_server is None else warm_server.inherited,
        input=json.dumps([*first, *words]),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = msgspec.json.decode(done.stdout, type=list[Ran])
    return dict(zip(commands, found[len(first) :], strict=True))


_LATE = ("check --init", "check", "fix --undo", "runs --keep", "runs --rename", "runs --prune")
"""The beginnings of commands that run after the others, in this order."""


def _order(command: str) -> tuple[int, bool, str]:
    """Sort what names no target first, since it shows the last run; then what makes a package before what uses it."""
    late = max((at for at, each in enumerate(_LATE, 1) if command.startswith(each)), default=0)
    names_more = any(not word.startswith("-") for word in command.split()[1:])
    return late, names_more and not command.startswith("kernels eject"), command


def _folder(command: str) -> str:
    return "branch" if command.partition(" ")[0] in ("fix", "repro", "breaks", "check") else ""


@pytest.mark.parametrize("command", [each for each in COMMANDS if each not in NOT_RUN])
def test_it_runs(command: str, ran: dict[str, Ran]) -> None:
    done = ran[command]
    assert done.code in (0, 1), done.err or done.out
