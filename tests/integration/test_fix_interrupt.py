"""Ctrl-C during `ctrace fix --apply`, and calls that never end: files as before, and one input costs only itself."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.conftest import Command
from tests.integration.test_fix import BRANCH, fixed

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.name != "posix", reason="there are no such signals"),
]

ENDLESS = BRANCH.replace(
    "        return y\n", "        while y.norm() > 100:\n            y = y / 2\n        return y\n"
)


@pytest.mark.long
@pytest.mark.parametrize("observations", [0, 2])
def test_ctrl_c_leaves_files_and_nothing_behind(tmp_path: Path, observations: int):
    """Interrupt right at the beginning of the search, and in the middle of a proof."""
    (tmp_path / "tmp").mkdir()
    file = tmp_path / "net.py"
    file.write_text(BRANCH)
    command = [sys.executable, "-m", "ctrace", "fix", "net.py", "--apply", "--no-build"]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as running:
        until = time.monotonic() + 200
        while time.monotonic() < until:
            folders = list((tmp_path / "tmp").glob("ctrace-fix-*"))
            if folders and len(list(folders[0].glob("observed-*.json"))) >= observations:
                break
            assert running.poll() is None
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert running.returncode in (3, 130, -signal.SIGINT), err.decode()
    assert file.read_text() == BRANCH
    assert not (tmp_path / ".ctrace" / "fixes").exists()
    assert not list((tmp_path / "tmp").glob("ctrace-fix-*"))
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)


@pytest.mark.long
def test_a_call_that_never_ends_is_named_and_costs_only_itself(ctrace: Command):
    found = fixed(ctrace, ENDLESS, "--only", "tensor_branch")
    tried = [each for each in found["repairs"] if "torch.where" in each["summary"]]
    assert tried
    assert not any(each["proved"] for each in tried)
    assert "infinity did not end within" in tried[0]["why"]
    passed = {each["name"] for each in tried[0]["checks"] if each["passed"]}
    assert {"outputs_equal", "gradients_equal", "both_sides"} <= passed
