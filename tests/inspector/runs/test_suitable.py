"""Which captures may be forks of a process that has imported torch; files are read, never run."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from ctrace.inspector.runs.suitable import why_new_process

GRAPHS = Options(trace_only=True)


def why(folder: Path, text: str, options: Options = GRAPHS, kind: str = "model") -> str:
    path = folder / "model.py"
    path.write_text(text)
    return why_new_process(CaptureRequest(kind, str(path), None, None, (), options, ""))


@pytest.mark.parametrize(
    "text",
    [
        "import torch",
        '"""A model."""\nfrom __future__ import annotations\nimport os, sys\nfrom torch import nn\n',
        "import math\nSIZES = (1, 2)\nWIDTH: int = 4\ndef f(): pass\nimport torch\nmodel = torch.nn.Linear(4, 4)",
        "try:\n    import numpy\nexcept ImportError:\n    numpy = None\nimport torch",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import x\nimport torch",
        "import os\nimport torch\nSIZE = int(os.environ.get('SIZE', 4)) + ('A' in os.environ) + len(os.environ['B'])",
        "import torch\nimport sys\nsys.path.insert(0, 'x')\ntorch._dynamo.config.recompile_limit = 2",
        "import torch\ntorch.backends.cuda.matmul.allow_tf32 = True\nx = torch",
        "import transformers\nimport torch",
    ],
)
def test_a_file_that_imports_torch_first_may_be_a_fork(text: str, tmp_path: Path) -> None:
    assert why(tmp_path, text) == ""


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("model = None", "does not import torch"),
        ("model = print()\nimport torch", "line 1, runs code before"),
        ("def model(): import torch", "does not import torch"),
        ("import os\nos.environ['TORCH_LOGS'] = 'x'\nimport torch", "may change environment variables"),
        ("import os\nimport torch\nos.environ.setdefault('A', 'x')", "line 3, may change environment"),
        ("import os\nimport torch\ndel os.environ['A']", "may change environment"),
        ("import torch\ndef inputs():\n    import os\n    os.putenv('A', 'x')", "may change environment"),
        ("import torch\nfrom os import environ as e\ne['A'] = 'x'", "may change environment"),
        ("import torch\nimport os\nmine = os.environ", "may change environment"),
        ("import sys\nsys.path.insert(0, 'x')\nimport torch", "line 2, runs code before torch"),
        ("import warnings\nwarnings.simplefilter('error')\nimport torch", "runs code before torch"),
        ("if True:\n    import torch", "runs code before torch"),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None", "does not import torch"),
        ("def f(x=print()): pass\nimport torch", "runs code before torch"),
        ("@print\ndef f(): pass\nimport torch", "runs code before torch"),
        ("class A(print()): pass\nimport torch", "runs code before torch"),
        ("import torch\ntorch.nn.Module.__call__ = None", "replaces torch.nn.Module.__call__"),
        ("import torch\n(", "cannot be read"),
    ],
)
def test_in_doubt_it_is_a_new_process(text: str, doubt: str, tmp_path: Path) -> None:
    assert doubt in why(tmp_path, text)


def test_the_files_beside_it_count_too(tmp_path: Path) -> None:
    (tmp_path / "pkg" / "deep").mkdir(parents=True)
    (tmp_path / "pkg" / "__init__.py").write_text("from . import deep\n")
    (tmp_path / "pkg" / "deep" / "__init__.py").write_text("from ..other import x\nimport pkg\n")
    (tmp_path / "pkg" / "other.py").write_text("import torch\nx = 1\n")
    assert why(tmp_path, "from pkg import x\nx.y()\n") == ""
    (tmp_path / "pkg" / "other.py").write_text("import torch\nimport os\nos.environ.update(A='1')\n")
    assert "other.py, line 3, may change" in why(tmp_path, "import torch\ndef f():\n    import pkg.deep")
    (tmp_path / "pkg" / "other.py").write_text("print(1)\nimport torch\n")
    assert "other.py, line 1, runs code" in why(tmp_path, "import pkg.deep\nimport torch")


def test_a_module_is_read_where_it_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("import torch\n")
    request = CaptureRequest("model", None, "mine", "net", (), GRAPHS, "")
    assert why_new_process(request) == ""
    assert "does not import torch" in why_new_process(replace(request, module="not_there"))


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (Options(), "model"),
        (Options(trace_only=True, build=True), "model"),
        (Options(trace_only=True, gpu="h100"), "model"),
        (GRAPHS, "program"),
    ],
)
def test_only_what_captures_graphs_of_a_model_is_a_fork(options: Options, kind: str, tmp_path: Path) -> None:
    assert why(tmp_path, "import torch", options, kind)
