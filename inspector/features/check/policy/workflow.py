"""The GitHub workflow that `ctrace check --init --github` writes."""

import json
import os
import sys
from pathlib import Path

from ctrace.inspector.errors import PolicyError

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


def workflow_path(policy: Path) -> Path:
    """Return the place of the workflow: in the repository around the policy, or else beside the policy.

    Raises:
        PolicyError: there is such a file already.
    """
    folder = policy.absolute().parent
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
        policy=json.dumps(Path(os.path.relpath(policy, root)).as_posix()),
    )
