"""A capture when torch is not what its hooks expect."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ctrace.inspector.capture import capture_hooks as session
from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.log.reader import LogEntry, read


def test_a_hook_that_finds_nothing_is_a_problem_and_the_import_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "moved.py").write_text("here = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def hook(_recorder: Recorder, when: When):
        from contextlib import nullcontext

        def install(module: ModuleType) -> None:
            module.gone  # noqa: B018 - torch has moved it

        when("moved", install)
        return nullcontext()

    monkeypatch.setattr(session, "_hooks", lambda **_kinds: [hook])
    with session.capturing(tmp_path / "trace.log", build=False):
        import moved  # type: ignore[import-not-found]

        assert moved.here
    monkeypatch.delitem(sys.modules, "moved")
    entries = [entry for entry in read(tmp_path / "trace.log") if isinstance(entry, LogEntry)]
    (problem,) = (json.loads(entry.payload)["what"] for entry in entries if entry.kind == "artifact:ctrace_problem")
    assert problem.startswith("what happens in moved could not be recorded: AttributeError")
    assert entries[-1].kind == "artifact:ctrace_end"
