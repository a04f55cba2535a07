"""The odd inputs of a program's proof come after its threads have ended."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
import threading

from ctrace.inspector.facts.trial import ProofRequest
from ctrace.inspector.features.fix.child.observation import observe_program

for name in [each for each in sys.modules if each.startswith("concurrent.futures.")]:
    del sys.modules[name]
observe_program(threading._shutdown, ProofRequest(sys.argv[1]))
import concurrent.futures.process, concurrent.futures.thread
print("imported")
"""


def test_what_registers_itself_with_threads_can_still_be_imported(tmp_path: Path) -> None:
    """Torch imports Inductor there, with some versions for the first time."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "observed.json")], capture_output=True, text=True, check=False
    )
    assert done.stdout == "imported\n", done.stderr
