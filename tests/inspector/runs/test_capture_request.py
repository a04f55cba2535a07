"""A request reaches the child process as JSON."""

from pathlib import Path

import pytest

from ctrace.inspector.runs.capture_request import CaptureRequest, Options


@pytest.mark.parametrize(
    "sent",
    [
        CaptureRequest("program", "train.py", None, None, ("--epochs", "1"), Options(build=True), "/tmp/trace.log"),
        CaptureRequest(
            "model",
            None,
            "pkg.net",
            "Net",
            (),
            Options(
                ("x=float32[2,n]",),
                ("0=1,2",),
                train=True,
                mode="default",
                dynamic=False,
                fullgraph=True,
                backend="eager",
            ),
            "/tmp/trace.log",
            ("/home/user/project/lib", "/venv/lib/mine"),
        ),
    ],
    ids=["program", "model"],
)
def test_the_child_reads_the_request_that_was_sent(sent: CaptureRequest, tmp_path: Path):
    path = tmp_path / "order.json"
    path.write_text(sent.to_json())
    assert CaptureRequest.from_file(path) == sent
