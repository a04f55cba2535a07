"""Every command of README and docs really runs: as it is written, as the equivalent in INSTEAD, or NOT_RUN says why."""

import fcntl
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest
import typer.main

from ctrace.cli.commands.run import separated
from ctrace.cli.main import command_line, joined
from tests.support import documented
from tests.support.documentation import NAMED, PAGES, blocks
from tests.support.documented import Ran
from tests.support.places import ROOT
from tests.support.warm import WarmServer

COMMANDS = sorted({command for _, command in NAMED})
TYPER = typer.main.get_command(command_line()).commands  # type: ignore[attr-defined]
INSTEAD = {
    "report model.py --memory": "report model.py --train --memory -o memory.html",
    "memory model.py --train": "memory model.py --train --build",
    "memory model.py": "memory model.py --train --build",
    "kernels model.py --fake --target h100": "explain model.py --fake --target h100",
    "explain model.py --fake --layers 2": "explain model.py --fake --target h100",
    "explain model.py --fake --assume model.py:31:12=True,False": "explain model.py --fake --target h100",
    "explain model.py --fake": "explain model.py --fake --target h100",
    "diff --git main..HEAD model.py --train --memory": "diff --git main..HEAD model.py",
    "accuracy net.py:Net --input 'float32[8,128]' --vary 0=1,64": "accuracy model.py",
    "accuracy model.py --promises": "accuracy model.py",
    "accuracy model.py --against eager": "accuracy model.py",
    "accuracy": "accuracy model.py",
    "accuracy model.py --steps 20": "accuracy model.py --train",
    "check --init --github": "check --init --github net.py",
    "autotune --op mm --all": "autotune --all",
    "autotune model.py --mode max-autotune --target h100": "autotune model.py --target h100",
    "breaks model.py": "breaks model.py --all",
    "bytecode --graph 1/0": "bytecode --graph 0/0",
    "bytecode --line 12": "bytecode --line 24",
    "check --from-trace trace_dir/": "check job --from-trace trace_dir/",
    "check --from-trace traces/": "check job --from-trace traces/",
    "collectives": "collectives before",
    "collectives --all --json": "collectives before --all --json",
    "collectives model.py --world 8 --train": "collectives sample_models/fsdp_tp_llama.py --world 8 --train",
    "cudagraphs model.py --mode reduce-overhead --target h100": "cudagraphs model.py --target h100",
    "diff": "diff before after",
    "diff --fail-on breaks": "diff before after --fail-on breaks",
    "diff --git origin/main..HEAD model.py --fail-on any --markdown -o diff.md": "diff --git main..HEAD model.py --fail-on any --markdown -o diff.md",
    "diff --json": "diff before after --json",
    "explain NAME": "explain before",
    "explain logs/ --rank 3": "explain logs/ --rank 1",
    "explain model.py --name before": "explain model.py --fast --name again",
    "explain net.py:Encoder --input 'float32[8,n]'": "explain net.py:Encoder --input 'float32[8,n]' --fast",
    "explain pkg.models:tiny": "explain pkg.models:tiny --fast",
    "explain pkg.models:tiny --vary 0=1,2,8 --json -o report.json": "explain pkg.models:tiny --fast --vary 0=1,2,8 --json -o report.json",
    "explain train.py -- --epochs 1": "explain train.py --fast -- --epochs 1",
    "explain x.py --target gpu.yaml": "explain model.py --target h100",
    "fix": "fix model.py",
    "fusion --stage backward": "fusion before --stage backward",
    "fusion model.py --json": "fusion sample_models/attention_print.py",
    "graphs --graph 0/1 --ops": "graphs --graph 0/0 --ops",
    "guards --cost": "guards --cost model.py",
    "memory": "memory model.py --train --build",
    "kernels --dump DIR": "kernels --dump kernels/",
    "kernels --ir ptx --kernel exp_0": "kernels model.py --target h100 --ir ptx --kernel exp_0",
    "kernels --target a100,h100": "kernels model.py --target h100",
    "kernels --target h100": "kernels model.py --target h100",
    "kernels --target h100 --dump kernels/": "kernels model.py --target h100 --dump kernels_h100/",
    "kernels --target h100 --ir ptx": "kernels model.py --target h100 --ir ptx",
    "kernels apply": "kernels apply ops/gelu_1 model.py --json",
    "kernels apply ops model.py --json": "kernels apply ops/gelu_1 model.py --json",
    "kernels apply ops/gelu_1 model.py": "kernels apply ops/gelu_1 model.py --json",
    "kernels apply ops/gelu_1 model.py --diff": "kernels apply ops/gelu_1 model.py --json",
    "kernels apply ops/gelu_1 model.py --place 1 --json": "kernels apply ops/gelu_1 model.py --json",
    "kernels apply ops/gelu_1 model.py --train": "kernels apply ops/gelu_1 model.py --json",
    "kernels apply ops/gelu_1 sample_models/mlp.py": "kernels apply ops/gelu_1 model.py --json",
    "kernels edit": "kernels edit ops/gelu_1 --once --json",
    "kernels edit ops --once --json": "kernels edit ops/gelu_1 --once --json",
    "kernels edit ops/gelu_1": "kernels edit ops/gelu_1 --once --json",
    "kernels edit ops/gelu_1 --ir": "kernels edit ops/gelu_1 --once --json",
    "kernels edit ops/gelu_1 --once": "kernels edit ops/gelu_1 --once --json",
    "kernels eject": "kernels eject gelu_1 -o ops",
    "kernels eject --all -o ops": "kernels eject --all -o all_ops",
    "kernels eject --all -o ops --of model.py --target h100": "kernels eject --all -o ops_h100 --of model.py --target h100",
    "kernels eject --all -o ops --of model.py --train --dynamic": "kernels eject --all -o ops_train --of model.py --train --dynamic",
    "kernels eject --json": "kernels eject gelu_1 -o ops --json",
    "kernels eject --line model.py:24 -o ops": "kernels eject --line model.py:24 -o line_ops",
    "kernels eject NAME -o ops": "kernels eject gelu_1 -o ops",
    "kernels eject gelu_1 -o ops --of model.py": "kernels eject --all -o ops_train --of model.py --train --dynamic",
    "kernels eject gelu_1 -o ops --of model.py --target h100": "kernels eject --all -o ops_h100 --of model.py --target h100",
    "kernels eject gelu_1 -o ops --of model.py --target h100 --train": "kernels eject --all -o ops_h100 --of model.py --target h100",
    "kernels eject gelu_1 -o ops --of sample_models/mlp.py --target h100 --train": "kernels eject --all -o ops_h100 --of model.py --target h100",
    "kernels model.py --target a100,h100": "kernels model.py --target h100",
    "kernels model.py --target h100 --mode max-autotune --all": "kernels model.py --target h100 --all",
    "kernels sample_models/attention.py --target h100": "kernels model.py --target h100",
    "kernels tune": "kernels tune ops_h100/gelu_1 --target h100 --most 2 --dry-run --json",
    "kernels tune ops --json": "kernels tune ops_h100/gelu_1 --target h100 --most 2 --dry-run --json",
    "kernels tune ops/gelu_1": "kernels tune ops_h100/gelu_1 --target h100 --most 2 --dry-run --json",
    "kernels tune ops/gelu_1 --kernel gelu_1_kernel --dry-run --json": "kernels tune ops_h100/gelu_1 --target h100 --most 2 --dry-run --json",
    "kernels tune ops/gelu_1 --most 200 --all": "kernels tune ops_h100/gelu_1 --target h100 --most 2 --dry-run --json",
    "kernels tune ops/gelu_1 --target h100": "kernels tune ops_h100/gelu_1 --target h100 --most 2",
    "kernels tune ops/gelu_1 --target h100 --most 20": "kernels tune ops_h100/gelu_1 --target h100 --most 2",
    "kernels wrap": "kernels wrap sample_models/triton_kernel.py:add_relu_kernel --no-run -o add_relu_op.py",
    "kernels wrap model.py:add_kernel": "kernels wrap sample_models/triton_kernel.py:add_relu_kernel --no-run -o add_relu_op.py",
    "kernels wrap model.py:add_kernel --json": "kernels wrap sample_models/triton_kernel.py:add_relu_kernel --no-run -o add_relu_op.py",
    "kernels wrap model.py:add_kernel --no-run": "kernels wrap sample_models/triton_kernel.py:add_relu_kernel --no-run -o add_relu_op.py",
    "kernels wrap model.py:add_kernel -o add_op.py": "kernels wrap sample_models/triton_kernel.py:add_relu_kernel --no-run -o add_relu_op.py",
    "kernels wrap model.py:kernel --json": "kernels wrap sample_models/triton_kernel.py:add_relu_kernel --no-run -o add_relu_op.py",
    "kernels wrap model.py:my_kernel": "kernels wrap sample_models/triton_kernel.py:add_relu_kernel --no-run -o add_relu_op.py",
    "kernels wrap sample_models/triton_kernel.py:add_relu_kernel -o add_relu_op.py": "kernels wrap sample_models/triton_kernel.py:add_relu_kernel --no-run -o add_relu_op.py",
    "ranks": "ranks logs/",
    "ranks --fail": "ranks logs/ --fail",
    "ranks --json": "ranks logs/ --json",
    "recompiles --vary 0=1,2,8 model.py": "recompiles model.py --vary 0=1,2,8",
    "report": "report --force",
    "report --open": "report --force",
    "report before -o before.html": "report before -o before.html --force",
    "report before after": "report before after -o compared.html",
    "report logs/ --ranks": "report logs/ --ranks -o ranks.html",
    "report model.py --accuracy": "report model.py --accuracy --force",
    "report model.py --open": "report model.py --force",
    "report model.py --target h100": "report model.py --target h100 --force",
    "report model.py --target h100 with the code for a GPU": "report model.py --target h100 --force",
    "run": "run train.py",
    "run --build": "run train.py",
    "run --json -o report.json train.py": "run --json -o program.json train.py",
    "run -m pkg.tool": "run -m pkg.tool --help",
    "run train.py --epochs 1": "run train.py",
    "runs --keep NAME": "runs --keep before",
    "runs --keep RUN": "runs --keep after",
    "runs --rename NAME before": "runs --rename before first",
    "runs --rename RUN NAME": "runs --rename after second",
    "schema COMMAND": "schema kernels",
    "targets NAME": "targets a100",
    "time": "time model.py --backend aot_eager --rounds 3 --threads 1",
    "time --compile TARGET": "time --compile model.py --backend aot_eager",
    "time --compile model.py": "time --compile model.py --backend aot_eager",
    "time model.py": "time model.py --backend aot_eager --rounds 3 --threads 1",
    "time model.py --backends eager,aot_eager,inductor --timeout 120": "time model.py --backend aot_eager --rounds 3 --threads 1",
    "time model.py --compile": "time --compile model.py --backend aot_eager",
    "time model.py --modes default --options epilogue_fusion=false": "time model.py --backend aot_eager --rounds 3 --threads 1",
    "time model.py --modes default,reduce-overhead,max-autotune": "time model.py --backend aot_eager --rounds 3 --threads 1",
    "time model.py --threads 1 --rounds 30 --json": "time model.py --backend aot_eager --rounds 3 --threads 1",
    "time model.py --train": "time model.py --backend aot_eager --rounds 3 --threads 1",
    "time net.py:Net --input 'float32[8,128]' --vary 0=1,64": "time model.py --backend aot_eager --rounds 3 --threads 1",
    "time train.py:net": "time model.py --backend aot_eager --rounds 3 --threads 1",
}  # fmt: skip
"""What runs in the place of a command: for words that stand for something, and for less work of the same kind."""
NOT_RUN = {
    "accuracy train.py": "tests/integration/test_accuracy.py compares programs",
    "accuracy train.py -- --epochs 1": "tests/integration/test_accuracy.py compares programs",
    "doctor": "tests/integration/test_doctor.py does",
    "doctor --json": "tests/integration/test_doctor.py does",
    "memory train.py -- --epochs 1": "tests/integration/test_memory.py measures programs",
    "repro": "tests/integration/test_repro.py makes programs of several findings",
    "repro --budget 5m": "tests/integration/test_repro.py does",
    "repro model.py -o repro.py": "tests/integration/test_repro.py does",
    "repro model.py b3f21a --issue": "tests/integration/test_repro.py does",
    "repro model.py:26": "tests/integration/test_repro.py does",
    "report model.py --train --memory --try -o tried.html": "tests/integration/test_memory.py tries changes",
    "memory train.py --world 1024 --rank 7": "the example has no ranks; tests/integration/test_memory.py has some",
    "memory model.py --train --world 8 --rank 3": "the example has no ranks; tests/integration/test_memory.py has some",
    "memory model.py --train --world 8": "the example has no ranks; tests/integration/test_memory.py has some",
    "memory model.py --train --try": "tests/integration/test_memory.py does",
    "memory model.py --train --fit batch --target h100": "tests/integration/test_memory.py does",
    "memory model.py --train --fake": "tests/integration/test_memory.py does",
    "memory llama.py --world 1024 --fake --train": "no such model here; tests/integration/test_memory.py has one",
    "explain llama.py --world 1024 --fake --target h100 --train": "no such model here; tests/integration/test_cluster.py has one",
    "upgrade": "installs torch; tests/integration/test_upgrade.py compares two environments",
    "upgrade --fail-on worse": "tests/integration/test_upgrade.py does",
    "upgrade --python a/.venv --python b/.venv model.py": "tests/integration/test_upgrade.py does",
    "upgrade --python other/.venv model.py": "tests/integration/test_upgrade.py does",
    "upgrade torch==2.15.0": "installs torch",
    "upgrade torch==2.15.0 --yes --fail-on worse --markdown": "installs torch",
    "upgrade torch==2.15.0 --yes --fail-on worse --markdown -o upgrade.md --sarif upgrade.sarif": "installs torch",
    "upgrade torch==2.15.0 model.py": "installs torch",
    "upgrade transformers==5.2.0 model.py": "installs a package",
    "upgrade transformers==5.2.0 model.py --yes": "installs a package",
    "autotune model.py --mode max-autotune --build": "builds every choice; tests/integration/test_autotune.py does",
    "browse": "needs a terminal",
    "browse before": "needs a terminal",
    "browse model.py": "needs a terminal",
    "browse trace.log": "needs a terminal",
    "check --on ray": "needs a cluster",
    "cudagraphs model.py --mode reduce-overhead --build": "needs a GPU",
    "explain hf:./folder --target h100": "needs transformers; tests/integration/test_fake.py has a folder",
    "repro model.py --culprit": "no kernel of the example is wrong; tests/integration/test_accuracy_gates.py has one",
    "repro model.py:11 --culprit": "no kernel of the example is wrong; tests/integration/test_accuracy_gates.py has one",
    "explain job.log --follow": "waits for a job, until Ctrl-C",
    "explain trace_dir/job.log --follow": "waits for a job, until Ctrl-C",
    "fix --report": "another search of half a minute; tests/integration/test_fix.py",
    "fix model.py --accept output_guard": "another search of half a minute; tests/integration/test_fix.py",
    "fix model.py --budget 120s --json": "another search of half a minute; tests/integration/test_fix.py",
    "fix model.py --diff": "another search of half a minute; tests/integration/test_fix.py",
    "fix model.py --only tensor_branch --finding model.py:26": "another search of half a minute; tests/integration/test_fix.py",
    "fix model.py -o fix.patch": "another search of half a minute; tests/integration/test_fix.py",
    "collectives train.py --world 1024 --rank 7": "the example has no ranks; tests/integration/test_cluster.py has some",
    "ranks logs/ --on ray": "needs a cluster",
    "ranks model.py --world 64 --mesh dp=8,tp=8 --train": "captures several ranks; tests/integration/test_cluster.py does",
    "ranks sample_models/fsdp_tp_llama.py --world 8 --train": "captures several ranks; tests/integration/test_cluster.py",
    "ranks train.py --world 1024": "captures several ranks; tests/integration/test_cluster.py does",
    "ranks train.py --world 1024 --ranks 0,7,1023": "captures several ranks; tests/integration/test_cluster.py does",
    "ranks train.py --world 1024 -- --steps 2": "captures several ranks; tests/integration/test_cluster.py does",
    "run --world 1024 --rank 7 train.py": "the example has no ranks; tests/integration/test_cluster.py has some",
    "serve": "serves until Ctrl-C; tests/cli/test_report_server.py asks it",
    "serve --host 0.0.0.0": "serves until Ctrl-C",
    "serve --port 0 --open": "serves until Ctrl-C",
    "serve shared/.ctrace": "serves until Ctrl-C",
    "targets --read -o gpu.yaml": "needs a GPU",
}
"""The commands that do not run here, each with the reason; `tests/test_docs.py` parses them."""


FIRST = [
    ["branch", "explain", "model.py", "--fast"],
    ["", "explain", "model.py", "--train", "--name", "before"],
    ["", "explain", "model.py", "--name", "after"],
]
"""What runs first: a folder and words. Commands without a target show these runs."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, warm_server: WarmServer | None) -> dict[str, Ran]:
    """Run all commands in one process, once for all workers: one may have taken over some of another's tests."""
    base = tmp_path_factory.getbasetemp().resolve()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "documented"
    commands = [each for each in sorted(COMMANDS, key=_order) if each not in NOT_RUN]
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / documented.RESULTS).exists():
            shutil.rmtree(folder, ignore_errors=True)  # another worker may have failed there
            folder.mkdir()
            _run_all(commands, folder, warm_server)
        found = msgspec.json.decode((folder / documented.RESULTS).read_bytes(), type=list[Ran])
    return dict(zip(commands, found[len(FIRST) :], strict=True))


def _run_all(commands: list[str], folder: Path, warm_server: WarmServer | None) -> None:
    documented.make(folder)
    words = [[_folder(each), *shlex.split(INSTEAD.get(each, each))] for each in commands]
    variables = {} if warm_server is None else warm_server.variables
    subprocess.run(
        [sys.executable, "-m", "tests.support.documented", str(folder)],
        cwd=ROOT,
        env={**os.environ, **variables, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")},
        pass_fds=() if warm_server is None else warm_server.inherited,
        input=json.dumps([*FIRST, *words]),
        text=True,
        check=True,
    )


_LATE = (
    "kernels apply",
    "kernels edit",
    "kernels tune",
    "check --init",
    "check",
    "fix --undo",
    "runs --keep",
    "runs --rename",
    "runs --prune",
)
"""The beginnings of commands that run after the others, in this order."""


def _order(command: str) -> tuple[int, bool, str]:
    """Sort what names no target first, since it shows the last run; then what makes a package before what uses it."""
    words = shlex.split(INSTEAD.get(command, command))
    late = next((at for at, each in enumerate(_LATE, 1) if command.startswith(each)), 0)
    name, *rest = joined(separated(words))
    command_of = TYPER[name]
    found = command_of.make_context(name, rest).params
    named = [found[each.name] for each in command_of.params if each.param_type_name == "argument" or each.name == "of"]
    is_of_kernel = name == "kernels eject" and not found["of"]  # it names a kernel of the last run
    return late, name == "run" or (any(named) and not is_of_kernel), " ".join(words)


def _folder(command: str) -> str:
    if INSTEAD.get(command, command) == "check --init --github net.py":
        return "started"
    is_of_break = command.partition(" ")[0] in ("fix", "repro", "breaks", "check") and "sample_models" not in command
    return "branch" if is_of_break else ""


@pytest.mark.timeout(1500)  # the first one waits for all, on a busy machine for long
@pytest.mark.parametrize("command", [each for each in COMMANDS if each not in NOT_RUN])
def test_it_runs(command: str, ran: dict[str, Ran]) -> None:
    done = ran[command]
    assert done.code in (0, 1), done.err or done.out


OTHERS = {
    "git add ctrace.yaml ctrace.lock": "git's",
    "zcat job.log.gz | ctrace explain -": "runs below",
    "python -m pytest ops/gelu_1": "tests/integration/test_eject.py runs the tests of packages",
    "TORCH_TRACE=trace_dir/ python train.py": "torch's; tests/data has such logs",
    "TORCH_TRACE=logs/ torchrun --nproc-per-node 8 train.py": "needs a job",
    "TORCH_TRACE=traces/ torchrun train.py": "needs a job",
}
"""The other lines of shell on the pages."""


def _shell_lines() -> set[str]:
    """Return the lines of shell that do not begin with ctrace, without their comments."""
    bodies = [body for path in PAGES.values() for _, body in blocks(path.read_text(), "sh")]
    lines = (re.sub(r"\s+#.*", "", line).strip() for body in bodies for line in body.splitlines())
    return {line for line in lines if line and not line.startswith(("ctrace", "#"))}


def test_every_other_line_of_shell_is_known() -> None:
    assert {line for line in _shell_lines() if not line.startswith(("make", "pip install"))} == set(OTHERS)


@pytest.mark.parametrize("line", sorted(line for line in _shell_lines() if line.startswith("make")))
def test_make_knows_the_targets(line: str) -> None:
    """What they do takes minutes: `make -n` shows it."""
    done = subprocess.run(["make", "-n", *shlex.split(line)[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_pip_finds_the_extras() -> None:
    """Installing needs a network; tests/test_packaging.py installs a wheel."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {each for path in PAGES.values() for each in re.findall(r"pip\s+install '(.+?)'", path.read_text())}
    assert {re.sub(r"\[.*", "", each) for each in named} <= {".", "ctrace"}
    assert {extra for each in named for extra in re.findall(r"\[(.*)\]", each)} <= set(extras)
    assert {line for line in _shell_lines() if line.startswith("pip")} <= {
        "pip install .",
        *(f"pip install '{each}'" for each in named),
    }


def test_a_log_from_standard_input(tmp_path: Path) -> None:
    documented.make(tmp_path)
    line = f"zcat job.log.gz | {shlex.quote(sys.executable)} -m ctrace explain -"
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("COMPILED")


def test_lists_name_only_commands_of_the_pages() -> None:
    assert {*INSTEAD, *NOT_RUN} <= set(COMMANDS)
    assert not {*INSTEAD} & {*NOT_RUN}
