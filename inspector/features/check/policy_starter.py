"""What `ctrace check --init` writes: a commented `ctrace.yaml`, and with `--github` a workflow."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import asdict

from ctrace.inspector.errors import PolicyError
from ctrace.inspector.features.check.policy_model import CPU
from ctrace.inspector.runs.capture_request import Options

_HEAD = """\
# The policy of ctrace check.
# Lines such as "#targets:" are examples: remove the # to use them.
version: 1

# What to check: paths from here, with * or :name, or package.module:name.
models:
"""
_REST = """\
#  - path: pkg.models:tiny        # a model with different settings
#    scenarios: [training]
#    targets: [cpu]
#    limits: {breaks: 2}
#    timeout: 2m

# Ways to call each model: options of ctrace explain. By default one, base.
"""
_SCENARIOS = """\
#scenarios:
#  base: {}
"""
_OTHER_SCENARIOS = """\
#  training: {train: true}
#  sizes:
#    vary: ["0=1,2,8"]            # sizes of dimension 0; or dtype=, mode=...
#    inputs: ["float32[8,128]"]   # instead of the file's; a letter: dynamic
#    provoke: false               # also try what often makes it recompile
#    mode: default                # of torch.compile, as are the next two
#    dynamic: null
#    fullgraph: false
#    fake: false                  # without weights, for models that do not fit
#    assume: []                   # then: "model.py:31:12=True,False"
#    layers: null                 # or keep so many of each list of layers

# What to generate code for. ctrace targets lists the GPUs; none is required.
"""
_TARGETS = "#targets: [cpu, h100]\n"
_LIMITS = """
# Folders, files or packages whose code counts as yours, installed or not.
#owned: [src/mylib]

# Maximum values. A count without a limit may not exceed the one in ctrace.lock.
#limits:
#  breaks: {user: 0, library: 3, torch: 0}  # graph breaks, by whose code
#  skipped: 0             # functions that run eagerly as a whole
#  recompiles: 0          # after warm-up
#  graphs: 1              # of a model
#  eager_ops: 0           # ops that are in no graph
#  limit_hits: 0          # functions at the recompile limit
#  coverage: 100          # minimum percentage of ops in graphs
#  kernels: 12            # generated kernels
#  culprits: 0            # operations with wrong results, with accuracy: true
#  peak_bytes: 2GiB       # computed peak of a step's memory, with memory: true
"""
_OF_GPU = """\
#  spills: 0              # spilled registers of kernels
#  missed_bytes: 1MiB     # what missed fusions would save
#  cuda_graph_skips: 0    # with mode: reduce-overhead, for a GPU
#  cuda_graph_rerecordings: 0  # in the log of a run on a GPU
"""
_END = """
# Allowed sites, and why: by gb id, place (* for any text), part of the line.
#allow:
#  - gb: GB0170
#    place: mask.py::Mask.forward
#    text: if is_pad.any()
#    reason: the mask is read once per batch; see issue 12
#    expires: 2027-01-31          # the last day on which it is allowed

# For one model in one scenario and target: seconds, or 90s, 10m.
"""
_ACCURACY = """
# true: build the kernels of each model, and compare them with eager in float64.
# Needs a C++ compiler; an operation whose result is wrong fails the check.
"""
_MEMORY = """
# true: follow the memory of a step of each model; a higher computed peak than
# in the lock fails the check.
"""
_TIMEOUT = "#timeout: 600\n"
_GUARDS = """
# false: graphs with symbolic sizes are not lowered to record Inductor's guards.
# Faster, but recompilations that these guards cause are not shown.
"""
_NAME = Path(".github", "workflows", "ctrace.yml")
_TEXT = """\
# Fails a pull request that makes a model compile worse: ctrace.yaml is the policy, ctrace.lock the accepted state.
name: ctrace
on: [pull_request]
permissions:
  contents: read
jobs:
  check:
    runs-on: ubuntu-latest
    env:
      # The runner has no GPU. pip takes torch's small CPU build if the repository variable TORCH_CPU_INDEX has the
      # address after --index-url in the command that "Get started" on PyTorch's site prints for CPU (Settings > Secrets
      # and variables > Actions > Variables). While it is not set, pip installs 2 GB of CUDA.
      PIP_EXTRA_INDEX_URL: ${{{{ vars.TORCH_CPU_INDEX }}}}
    steps:
      - uses: actions/checkout@v5
      - uses: actions/setup-python@v6
        with:
          python-version: "{python}"
      - name: Install torch and what the models need
        run: |
          python -m pip install {packages}
      - uses: OWNER/ctrace@v0.1.0  # OWNER: where your copy of ctrace lives
        with:
          policy: {policy}
"""


def starter(
    models: Sequence[str],
    options: Options | None = None,
    targets: Sequence[str] = (),
    timeout: float | None = None,
    inductor_guards: bool = True,
    accuracy: bool = False,
    memory: bool = False,
) -> str:
    """Return the text of a policy that captures models with `options`; comments show all other settings."""
    parts = [_HEAD]
    parts.append("".join(f"  {line}\n" for line in _listed(models)) if models else "#  - models/*.py\n")
    parts.append(_REST)
    parts.append(_SCENARIOS if options in (None, Options()) else f"scenarios:\n  base: {_flow(_set_of(options))}\n")
    parts.append(_OTHER_SCENARIOS)
    parts.append(f"targets: {_flow(list(targets))}\n" if targets else _TARGETS)
    parts.append(_LIMITS)
    if not set(targets) <= {CPU}:
        parts.append(_OF_GPU)
    parts.append(_END)
    parts.append(_TIMEOUT if timeout is None else f"timeout: {_flow(timeout)}\n")
    parts.append(_GUARDS)
    parts.append("#inductor_guards: true\n" if inductor_guards else "inductor_guards: false\n")
    parts.append(_ACCURACY)
    parts.append("accuracy: true\n" if accuracy else "#accuracy: false\n")
    parts.append(_MEMORY)
    parts.append("memory: true\n" if memory else "#memory: false\n")
    return "".join(parts)


def _set_of(options: Options | None) -> dict[str, Any]:
    """Return the options that differ from their defaults, by name."""
    values = asdict(options or Options())
    # A starter names what differs, so that later defaults hold for the rest.
    return {name: _plain(value) for name, value in values.items() if value != getattr(Options(), name)}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return value


def _flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    text = yaml.safe_dump(value, allow_unicode=True, default_flow_style=True, sort_keys=False, width=1 << 16)
    # PyYAML ends a document that is a single value with this mark.
    return text.removesuffix("...\n").strip()


def _listed(models: Sequence[str]) -> list[str]:
    """Return the lines of a YAML list, quoted where necessary."""
    return yaml.safe_dump(list(models), allow_unicode=True, width=1 << 16).splitlines()


def workflow_path(policy: Path) -> Path:
    """Return the place of the workflow: in the repository around the policy, or else beside the policy.

    Raises:
        PolicyError: there is such a file already.
    """
    folder = policy.absolute().parent
    # In a worktree of git, `.git` is a file.
    root = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)
    path = Path(os.path.relpath(root / _NAME))
    if path.exists():
        raise PolicyError(f"{path} already exists", "edit it, or leave out --github")
    return path


def workflow_text(workflow: Path, policy: Path, torch: str) -> str:
    """Return the workflow: the Python and the torch of this machine, whose state the lock has."""
    root = workflow.absolute().parents[2]
    required = root / "requirements.txt"
    version = torch.partition("+")[0]  # the build for CPUs is enough, and so is any other
    packages = [f'"torch=={version}"', *(["-r requirements.txt"] if required.is_file() else [])]
    return _TEXT.format(
        python="{}.{}".format(*sys.version_info),
        packages=" ".join(packages),
        # Each JSON string is one of YAML, too.
        policy=json.dumps(Path(os.path.relpath(policy, root)).as_posix()),
    )
