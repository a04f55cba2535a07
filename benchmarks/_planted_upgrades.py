"""Two cheap environments that differ in one planted thing, and the reason that `ctrace upgrade` has to find for it.

Both are virtual environments of this Python with hard links to this environment's torch, and a small package of their
own; the later one is edited. Each pair also has two differences that explain nothing: an option of torch that does not
matter, and a package with another docstring. Nothing is downloaded.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

TORCH = "torch/"
LIBRARY = "planted/layers.py"
DISTRACTOR = "distractor/__init__.py"
SOURCE = '''\
"""Layers of a package that is not torch."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.scale = 2.0
        self.calls = 0

    def forward(self, x):
        hidden = self.fc(x)
        hidden = torch.relu(hidden)
        return hidden * self.scale


def mixed(x):
    noise = torch.rand_like(x)
    return torch.nn.functional.hardswish(x + noise)
'''
OTHER = '"""A package that explains nothing."""\n\n\ndef same(x):\n    return x\n'
MODEL = """\
import torch
from distractor import same
from planted.layers import Block, mixed


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block(16)
        self.second = Block(16)

    def forward(self, x):
        x = self.second(self.first(same(x)))
        x = mixed(x)
        return (x.sum(dim=0) * 2).cumsum(0).softmax(0) + x.mean()


model = Net().requires_grad_(False)


def inputs():
    return (torch.randn(8, 16),)
"""
SEVERAL = f"""{MODEL}

scenarios = {{"wide": lambda: (torch.randn(12, 16),), "wider": lambda: (torch.randn(20, 16),)}}
"""
"""The same with other sizes, which recompile."""
IDLE = (f"{TORCH}_dynamo/config.py", "accumulated_recompile_limit = 256", "accumulated_recompile_limit = 300")
"""An option that the model does not come near."""
Edit = tuple[str, str, str]
"""A file in the folder of packages, a text in it, and the text in its place."""


@dataclass(frozen=True)
class Planted:
    """One planted change."""

    name: str
    what: str
    """The kind of change that has to be reported."""
    kind: str
    """The kind of its reason."""
    cause: str
    """A part of the reason's name or source."""
    after: tuple[Edit, ...] = ()
    before: tuple[Edit, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    worse: bool | None = None
    """What `worse` of one of the changes has to be."""
    model: str = MODEL
    versions: tuple[str, str] = ("1.0", "1.0")
    """Of the small package."""


_INDUCTOR, _DYNAMO = f"{TORCH}_inductor/config.py", f"{TORCH}_dynamo/config.py"
_HARDSWISH = (
    "return self * torch.clamp(torch.clamp(self + 3, min=0), max=6) / 6",
    "return self * (torch.clamp(self + 3, min=0, max=6) / 6)",
)
PLANTED = (
    Planted(
        "inductor-default",
        "graph",
        "config",
        "torch._inductor.config.fallback_random",
        ((_INDUCTOR, "fallback_random = False", "fallback_random = True"),),
    ),
    Planted(
        "dynamo-default",
        "verdict",
        "config",
        "torch._dynamo.config.recompile_limit",
        ((_DYNAMO, "\nrecompile_limit = 8", "\nrecompile_limit = 1"),),
        worse=True,
        model=SEVERAL,
    ),
    Planted(
        "environment-variable",
        "graph",
        "environment",
        "TORCHINDUCTOR_PLANTED_RANDOM",
        before=(
            (
                _INDUCTOR,
                "fallback_random = False",
                'fallback_random = os.environ.get("TORCHINDUCTOR_PLANTED_RANDOM") == "1"',
            ),
        ),
        variables={"TORCHINDUCTOR_PLANTED_RANDOM": "1"},
    ),
    Planted(
        "library-edit",
        "eager",
        "library",
        "planted/layers.py:16",
        ((LIBRARY, "torch.relu(hidden)", "torch.nn.functional.gelu(hidden)"),),
    ),
    Planted(
        "library-dtype",
        "eager",
        "library",
        "planted/layers.py:17",
        ((LIBRARY, "return hidden * self.scale", "return (hidden * self.scale).double().mul(1.0).float().add(0.5)"),),
    ),
    Planted(
        "renamed-module",
        "graph",
        "library",
        "planted/layers.py",
        ((LIBRARY, "self.fc", "self.projection"),),
    ),
    Planted(
        "graph-break",
        "break",
        "library",
        "planted/layers.py:15",
        ((LIBRARY, "        hidden = self.fc(x)\n", '        print("layer", end="")\n        hidden = self.fc(x)\n'),),
        worse=True,
    ),
    Planted(
        "break-removed",
        "break",
        "library",
        "planted/layers.py",
        before=(
            (LIBRARY, "        hidden = self.fc(x)\n", '        print("layer", end="")\n        hidden = self.fc(x)\n'),
        ),
        worse=False,
    ),
    Planted(
        "slower-guard",
        "guard",
        "library",
        "planted/layers.py",
        (
            (LIBRARY, "        self.calls = 0\n", "        self.table = {n: float(n) for n in range(30)}\n"),
            (LIBRARY, "return hidden * self.scale", "return hidden * (self.scale + sum(self.table.values()) * 0)"),
        ),
    ),
    Planted(
        "recompilation",
        "recompile",
        "library",
        "planted/layers.py",
        (
            (LIBRARY, "        hidden = self.fc(x)\n", "        self.calls += 1\n        hidden = self.fc(x)\n"),
            (LIBRARY, "return hidden * self.scale", "return hidden * self.scale if self.calls % 2 else hidden * 3"),
        ),
        worse=True,
    ),
    Planted(
        "skipped-function",
        "break",
        "library",
        "planted/layers.py",
        ((LIBRARY, "\ndef mixed(x):", "\n@torch.compiler.disable\ndef mixed(x):"),),
    ),
    Planted(
        "torch-decomposition",
        "graph",
        "torch",
        "hardswish torch/_decomp/decompositions.py:",
        (
            (f"{TORCH}_decomp/decompositions.py", *_HARDSWISH),
            (f"{TORCH}version.py", "__version__ = '", "__version__ = '9."),
        ),
    ),
)  # fmt: skip
EQUAL = Planted("equal", "", "", "")


def make_pair(folder: Path, planted: Planted, *, idle: bool = True) -> tuple[Path, Path]:
    """Make both environments, and return their Pythons."""
    edits = (IDLE, (DISTRACTOR, "explains nothing", "still explains nothing")) if idle else ()
    before = _environment(folder / "before", planted.before, planted.versions[0])
    after = _environment(folder / "after", (*planted.after, *edits), planted.versions[1])
    return before, after


def _environment(folder: Path, edits: tuple[Edit, ...], version: str) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = next((folder / "lib").glob("python*")) / "site-packages"
    ours = Path(sysconfig.get_paths()["purelib"])
    edited = {file for file, _, _ in edits}
    for each in ours.iterdir():
        if each.name == "torch":
            _linked(each, packages / "torch")
        elif not each.name.startswith(("__editable__", "ctrace", "torch-", "distutils-precedence")):
            (packages / each.name).symlink_to(each)
    about = next(ours.glob("torch-*.dist-info"))
    (packages / about.name).mkdir()
    for file in ("METADATA", "RECORD", "top_level.txt"):
        if (about / file).exists():
            shutil.copy2(about / file, packages / about.name / file)
    for name, text in (("planted", SOURCE), ("distractor", OTHER)):
        module = "layers.py" if name == "planted" else "__init__.py"
        _write(packages / name / "__init__.py", "")
        _write(packages / name / module, text)
        number = version if name == "planted" else "1.0"
        info = packages / f"{name}-{number}.dist-info"
        _write(info / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
        _write(info / "RECORD", f"{name}/__init__.py,,\n{name}/{module},,\n{info.name}/METADATA,,\n")
    for file in sorted(edited):
        _edit(packages / file, [(old, new) for each, old, new in edits if each == file])
    if f"{TORCH}version.py" in edited:
        text = (packages / about.name / "METADATA").read_text()
        (packages / about.name / "METADATA").write_text(re.sub(r"(?m)^Version: ", "Version: 9.", text, count=1))
    return folder / "bin" / "python"


def _linked(source: Path, target: Path) -> None:
    def link(one: str, other: str) -> None:
        try:
            os.link(one, other)
        except OSError:  # another disk
            Path(other).symlink_to(one)

    shutil.copytree(source, target, copy_function=link, ignore=shutil.ignore_patterns("include", "test"))
    if (source / "include").is_dir():
        (target / "include").symlink_to(source / "include")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _edit(path: Path, changes: list[tuple[str, str]]) -> None:
    """Edit a file that is a link to ours, which stays as it is."""
    text = path.read_text()
    for old, new in changes:
        assert old in text, (path, old)
        text = text.replace(old, new)
    path.unlink()
    path.write_text(text)
