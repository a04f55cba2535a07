"""`ctrace kernels --json`."""

import json
from typing import Any

from ctrace.cli.kernel_choice import KernelChoice, document
from ctrace.inspector.facts.session import Session
from ctrace.reports.json.printer import render
from tests.support import kernelsessions as made
from tests.support.explained import explained


def _data(session: Session, **options: Any) -> dict[str, Any]:
    read = json.loads(render(document(session, KernelChoice(**options))))
    assert read["schema"] == 1
    return dict(read)


def test_kernels() -> None:
    first, backward, inference = _data(made.KERNELS)["parts"]
    assert (first["graph"], first["stage"], backward["stage"], inference["stage"]) == (
        "0/0",
        "forward",
        "backward",
        "inference",
    )
    assert [each["name"] for each in first["kernels"]] == ["extern_kernels.mm", made.PER.name, "scale_kernel_0"]
    assert first["known"] == {
        "basis": "computed",
        "read": 73984,
        "written": 40960,
        "flops": 806912,
        "intensity": None,
        "bytes_not_known_of": 1,
    }
    fused = first["kernels"][1]
    assert (fused["read"], fused["written"], fused["flops"], fused["nodes"], fused["user"]) == (
        16640,
        16384,
        20480,
        4,
        False,
    )
    assert [each["name"] for each in fused["fused_from"]] == ["op1", "op2", "op3", "op4"]
    assert [(each["name"], each["shape"]) for each in fused["outputs"]] == [("buf4", ["64", "64"])]
    assert fused["lines"] == ["model.py:5", "model.py:6", "model.py:8", "model.py:7"]
    assert "source" not in fused


def test_each_call() -> None:
    (part,) = _data(made.KERNELS, kernel="mm")["parts"]
    (kernel,) = part["kernels"]
    one, other = kernel["launches"]
    assert (one["flops"], one["lines"], other["arguments"]) == (524288, ["model.py:5"], None)
    assert one["arguments"][0] == {"name": "q", "dtype": "float32", "shape": [64, 64], "stride": [64, 1]}


def test_unknown_values_are_null() -> None:
    (part, *_) = _data(made.OLD)["parts"]
    assert {name: part["known"][name] for name in ("read", "written", "flops")} == dict.fromkeys(
        ("read", "written", "flops")
    )
    kernel = part["kernels"][0]
    assert [kernel[name] for name in ("read", "written", "flops", "nodes", "intensity", "share")] == [None] * 6


def test_source() -> None:
    (part,) = _data(made.KERNELS, kernel="per", source=True)["parts"]
    (kernel,) = part["kernels"]
    assert kernel["source"] == made.TRITON
    assert kernel["statements"][0] == {"line": 5, "lines": ["model.py:5"]}


def test_a_line() -> None:
    read = _data(made.KERNELS, line="model.py:5")
    mm, fused = read["kernels"]
    assert (mm["calls_of_it"], mm["work_of_it"]["flops"], mm["other_lines"]) == (1, 524288, [])
    assert [each["name"] for each in fused["nodes_of_it"]] == ["op1"]
    assert fused["other_lines"] == ["model.py:6", "model.py:7", "model.py:8"]
    assert read["why_none"] is None


def test_a_line_without_kernels() -> None:
    read = _data(made.KERNELS, line="model.py:15")
    assert read["kernels"] == []
    assert read["why_none"].startswith("The graph breaks here:")


def test_wrapper() -> None:
    first, _ = _data(made.KERNELS, wrapper=True)["wrappers"]
    assert first["wrapper"].startswith("def call(self, args):\n    arg0_1")
    assert first["wrapper"].endswith("return (buf0, )")


def test_explain_has_the_bytes_of_kernels() -> None:
    kernels = {each["name"]: each for each in explained(made.KERNELS)["kernels"]}
    assert list(kernels) == [each.name for each in made.KERNELS.kernels]
    assert [kernels["extern_kernels.mm"][name] for name in ("read", "written", "flops", "nodes")] == [
        57344,
        24576,
        786432,
        2,
    ]
    assert kernels["scale_kernel_0"]["user"] is True
    assert kernels["scale_kernel_0"]["read"] is None
