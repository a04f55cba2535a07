"""An order travels to the child process as JSON."""

from pathlib import Path

import pytest

from ctrace.inspector.runs.order import Options, Order


@pytest.mark.parametrize(
    "order",
    [
        Order("program", "train.py", None, None, ("--epochs", "1"), Options(build=True), "/tmp/trace.log"),
        Order(
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
def test_what_was_ordered_is_what_arrives(order: Order, tmp_path: Path):
    path = tmp_path / "order.json"
    path.write_text(order.to_json())
    assert Order.from_file(path) == order
