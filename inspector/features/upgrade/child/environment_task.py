"""The child process that describes an environment: its packages, and how its torch is configured."""

import importlib
import json
import os
import platform
import re
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Any

from ctrace.inspector.capture.calls.answering import answer
from ctrace.inspector.features.upgrade.upgrade_model import EnvironmentFacts, EnvironmentRequest

CONFIGS = (
    "torch._dynamo.config",
    "torch._inductor.config",
    "torch._functorch.config",
    "torch.fx.experimental._config",
    "torch.compiler.config",
)
"""The modules of torch's configuration (2.11 to 2.15); each is a ConfigModule (utils/_config_module.py)."""
_SOURCES = ("_dynamo", "_inductor", "_functorch", "compiler", "fx", "utils", "_logging")
"""The folders of torch that read environment variables for torch.compile."""
_VARIABLE = re.compile(r"""["']([A-Z][A-Z0-9_]{3,})["']""")


def main(_loaded: frozenset[str]) -> None:
    """Describe this environment."""
    answer(EnvironmentRequest, lambda _request: _described())


def _described() -> EnvironmentFacts:
    packages = dict[str, str]()
    folders = dict[str, str]()
    modules = dict[str, tuple[str, ...]]()
    for each in metadata.distributions():
        # Metadata spells names as the author likes, and this is the form in which two of them are equal.
        name = re.sub(r"[-_.]+", "-", str(each.metadata["Name"] or "")).lower()
        if name and name not in packages:  # the first one on the path is the one that is imported
            packages[name] = each.version
            folders[name] = str(each.locate_file(""))
            modules[name] = _tops(each)
    torch = packages.get("torch", "")
    folder = ""
    if torch:
        folder = _folder()
    config, lines = _config() if torch else ({}, {})
    return EnvironmentFacts(
        python=platform.python_version(),
        suffix=str(sysconfig.get_config_var("EXT_SUFFIX")),
        torch=torch,
        torch_folder=folder,
        packages=packages,
        folders=folders,
        modules=modules,
        config=config,
        lines=lines,
        variables=_variables(Path(folder)) if torch else {},
    )


def _tops(found: metadata.Distribution) -> tuple[str, ...]:
    """Return the top-level files and folders of a package."""
    # Scripts lie outside of the folder of packages.
    tops = {file.parts[0] for file in found.files or () if file.parts and file.parts[0] != ".."}
    return tuple(sorted(each for each in tops if each != "__pycache__" and not each.endswith((".pth", ".dist-info"))))


def _folder() -> str:
    """Return torch's folder.

    Importing it, not looking for it: an environment whose torch does not import must say why.
    """
    import torch

    return str(Path(torch.__file__ or "").parent)


def _config() -> tuple[dict[str, str], dict[str, str]]:
    """Return torch's options with values that JSON has, and where each is declared."""
    config, lines = dict[str, str](), dict[str, str]()
    for name in CONFIGS:
        try:
            module: Any = importlib.import_module(name)
        except ImportError:  # a release without it
            continue
        file = str(module.__file__)
        declared = Path(file).read_text(encoding="utf-8").split("\n")
        home = str(Path(file).parents[len(name.split(".")) - 1])
        for option, entry in module._config.items():
            # Another name of an option that is in the list, or one without any effect, which warns when it is read.
            is_idle = getattr(entry, "alias", None) is not None or getattr(entry, "deprecated", False)
            if is_idle or option.rpartition(".")[2].startswith("_"):  # private: it is how torch keeps its books
                continue
            try:
                value = json.dumps(getattr(module, option), sort_keys=True)
            except (TypeError, ValueError, AttributeError, RuntimeError):  # a function, or what only a GPU knows
                continue
            if home not in value:  # a folder of this environment differs from that of any other one
                config[f"{name}.{option}"] = value
                lines[f"{name}.{option}"] = f"{os.path.relpath(file, home)}:{_line_of(option, declared)}"
    return config, lines


def _line_of(option: str, declared: list[str]) -> int:
    last = option.rpartition(".")[2]
    # An option may be declared with a type or without.
    pattern = re.compile(rf"\s*{re.escape(last)}\s*(?::[^=]*)?=")
    return next((number for number, line in enumerate(declared, 1) if pattern.match(line)), 1)


def _variables(torch: Path) -> dict[str, str]:
    """Return the set environment variables that torch's sources name, each with its first place."""
    files = [torch / "__init__.py", *(file for name in _SOURCES for file in sorted((torch / name).rglob("*.py")))]
    found: dict[str, str] = {}
    for file in files:
        text = file.read_text(encoding="utf-8", errors="replace")
        for match in _VARIABLE.finditer(text):
            # The first place is enough to find the rest.
            if match[1] in os.environ and match[1] not in found:
                line = text.count("\n", 0, match.start()) + 1
                found[match[1]] = f"torch/{file.relative_to(torch)}:{line}"
    return dict(sorted(found.items()))
