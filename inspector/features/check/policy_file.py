"""Find and read the policy, `ctrace.yaml`, and report every mistake in it with its line.

Its `scenarios` are ways to capture each model, given as options of `ctrace explain`.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ctrace.inspector.errors import PolicyError, TargetError, near, shown
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.features.check.policy_model import BREAKS_OF, CPU, Allow, CheckPolicy, Count, Limits, ModelRule
from ctrace.inspector.features.check.policy_values import (
    Flag,
    Percent,
    Size,
    Whole,
    entries,
    name,
    read,
    read_fields,
    refused,
    table,
    text,
)
from ctrace.inspector.files.yaml_file import YamlNode, read_yaml, wrong
from ctrace.inspector.knowledge.gpus.gpu_table import TargetGpu, gpu_named
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.options import parse_assumption, parse_input, parse_vary
from ctrace.inspector.runs.settings import owned_places, settings_at

_COVERAGE = "coverage"
_BY_OWNER = {BREAKS_OF[owner]: f"breaks: {{{owner}: 0}}" for owner in (Owner.LIBRARY, Owner.TORCH)}
"""For each count of breaks outside of user code, how the policy writes its limit."""
_COUNTS = {
    **{each: Whole for each in Count if each not in BREAKS_OF.values()},
    Count.MISSED_BYTES: Size,
    Count.PEAK_BYTES: Size,
}
_Value = TypeVar("_Value")
_ALLOW = ("gb", "place", "text", "reason", "expires")


def _limits(node: YamlNode) -> Limits:
    """Read the limits of the policy or of one model."""
    for key, child in table(node).items():
        if key in _BY_OWNER:
            raise wrong(child, f"unknown key {key} in limits", f"write it as {_BY_OWNER[Count(key)]}")
    keys = table(node, (Count.BREAKS, *_COUNTS, _COVERAGE))
    most = {count: read(keys[count], kind) for count, kind in _COUNTS.items() if count in keys}
    if Count.BREAKS in keys:
        most = {**_breaks(keys[Count.BREAKS]), **most}
    if _COVERAGE not in keys:
        return Limits(most)
    return Limits(most, read(keys[_COVERAGE], Percent))


def _breaks(node: YamlNode) -> Mapping[Count, int]:
    """Read the limit of breaks; a single number limits breaks in user code."""
    if not isinstance(node.value, dict):
        return {Count.BREAKS: read(node, Whole)}
    keys = table(node, BREAKS_OF)
    return {BREAKS_OF[Owner(owner)]: read(child, Whole) for owner, child in keys.items()}


def _allow(node: YamlNode) -> tuple[Allow, ...]:
    return tuple(_entry(each) for each in entries(node))


def _entry(node: YamlNode) -> Allow:
    keys = table(node, _ALLOW)
    if not {"gb", "place", "text"} & set(keys):
        todo = "add gb: GB0170, place: file.py::Class.method or text: a part of the line"
        raise wrong(node, "this entry of allow names no site", todo)
    if "reason" not in keys:
        todo = "add reason: with a few words on why these sites are allowed"
        raise wrong(node, "this entry of allow has no reason", todo)
    return Allow(**read_fields(node, Allow, _ALLOW), line=node.line)


NAMES = ("ctrace.yaml", "ctrace.yml")
_VERSION = 1
"""Raised when a key changes its meaning, so that an older ctrace refuses the file."""
_KEYS = ("version", *(each for each in CheckPolicy.__struct_encode_fields__ if each != "file"))
_MODEL_KEYS = tuple(each for each in ModelRule.__struct_encode_fields__ if each != "line")


def find_policy(folder: Path) -> Path | None:
    """Find the policy for a folder: in that folder or in the nearest parent that has one, within its git repository."""
    full = folder.absolute()
    for each in (full, *full.parents):
        found = next((each / file for file in NAMES if (each / file).is_file()), None)
        if found is not None or (each / ".git").exists():
            return found
    return None


def load_policy(path: Path) -> CheckPolicy:
    """Read and check a policy.

    Raises:
        PolicyError: it cannot be read, or it is invalid.
        SettingsError: it names a GPU, and the project's pyproject.toml is invalid.
    """
    root, folder = read_yaml(path), path.absolute().parent
    keys = table(root, _KEYS)
    _check_version(keys.get("version"))
    default = CheckPolicy()
    # The scenarios come first: entries of models name them.
    ways = default.scenarios
    if "scenarios" in keys:
        ways = _scenarios(keys["scenarios"]) or ways
    targets = partial(_targets, folder=folder)
    values = read_fields(
        root,
        CheckPolicy,
        _KEYS,
        models=lambda node: tuple(_model(each, ways, targets) for each in entries(node)),
        scenarios=lambda _: ways,
        targets=lambda node: targets(node) or default.targets,
        owned=partial(_owned, folder=folder),
        limits=_limits,
        allow=_allow,
    )
    return CheckPolicy(**values, file=str(path))


def target_gpu(target: str, folder: Path) -> TargetGpu:
    """Find the GPU for a target in a policy; paths are relative to `folder`, the policy's folder.

    Raises:
        TargetError: there is no GPU of that name, or a file of GPUs is wrong.
        SettingsError: the project's pyproject.toml is wrong.
    """
    return gpu_named(target, settings_at(folder).gpus, folder)


def target_name(name: str, folder: Path) -> str:
    """Return a target's name in the lock: for a GPU in the table, the table's name; for one in a file, the text as
    written.

    Raises:
        TargetError: there is no GPU of that name, or a file of GPUs is wrong.
        SettingsError: the project's pyproject.toml is wrong.
    """
    if name.lower() == CPU:
        return CPU
    gpu = target_gpu(name, folder)
    if re.search(r"\.ya?ml(:|$)", name, re.IGNORECASE):
        return name
    return gpu.name


def _check_version(node: YamlNode | None) -> None:
    if node is None or (node.value == _VERSION and not isinstance(node.value, bool)):
        return
    if isinstance(node.value, int) and node.value > _VERSION:
        what = f"it has version {shown(node.value)}, but this ctrace reads version {_VERSION}"
        raise wrong(node, what, "update ctrace: pip install -U ctrace")
    raise refused(node, f"{_VERSION}", f"write version: {_VERSION}")


def _model(node: YamlNode, ways: Mapping[str, Options], targets: Callable[[YamlNode], tuple[str, ...]]) -> ModelRule:
    if not isinstance(node.value, dict):
        return ModelRule(name(node), line=node.line)
    if "path" not in table(node, _MODEL_KEYS):
        raise wrong(node, "this entry of models has no path", "write path: models/*.py, or package.module:name")
    chosen = partial(_chosen, ways=ways)
    values = read_fields(node, ModelRule, _MODEL_KEYS, scenarios=chosen, targets=targets, limits=_limits)
    return ModelRule(**values, line=node.line)


def _chosen(node: YamlNode, ways: Iterable[str]) -> tuple[str, ...]:
    """Return the scenarios that an entry of models names, and check that they exist."""
    named = {name(each): each for each in entries(node)}
    for way, each in named.items():
        if way not in ways:
            raise wrong(each, f"there is no scenario {shown(way)} in this policy", near(way, ways))
    return tuple(named)


def _targets(node: YamlNode, folder: Path) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_target(each, folder) for each in entries(node)))


def _target(node: YamlNode, folder: Path) -> str:
    target = name(node)
    try:
        return target_name(target, folder)
    except TargetError as error:
        raise _no_target(node, target, error) from None


def _no_target(node: YamlNode, name: str, error: TargetError) -> PolicyError:
    if difflib.get_close_matches(name.lower()[:100], [CPU]):
        return wrong(node, f"there is no target {shown(name)}", f"did you mean {CPU}?")
    todo = error.todo.replace("--target ", "").replace("there are: ", f"there are: {CPU}, ", 1)
    return wrong(node, f"target {error.what.removeprefix('--target ')}", todo)


def _owned(node: YamlNode, folder: Path) -> tuple[str, ...]:
    return tuple(dict.fromkeys(place for each in entries(node) for place in _places(each, folder)))


def _places(node: YamlNode, folder: Path) -> list[str]:
    found = owned_places(name(node), folder)
    if not found:
        what = f"owned names {shown(node.value)}, which is neither a path nor an installed package"
        raise wrong(node, what, "name a folder or file beside the policy, or a package that can be imported")
    return found


MODES = ("default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""The modes of torch.compile; torch/_inductor/__init__.py, `list_mode_options` (2.13)."""
_SCENARIO_KEYS = ("inputs", "vary", "provoke", "train", "mode", "dynamic", "fullgraph", "fake", "assume", "layers")
_ELSEWHERE = {
    "target": "name GPUs in the policy's targets: every scenario runs for each of them",
    "targets": "name GPUs in the targets of the policy or of a model",
    "backend": "remove it: a check chooses the backend that it needs",
    "build": "remove it: a check does not build or run kernels",
    "timeout": "write it at the top of the policy, or for a model",
}
"""Options that a scenario cannot have, with advice on where to set them."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


def _scenarios(node: YamlNode) -> dict[str, Options]:
    """Read all scenarios, by name."""
    ways = table(node)
    for key, child in ways.items():
        if not _NAME.fullmatch(key):
            what = f"{shown(key) or 'an empty text'} is not a scenario name"
            raise wrong(child, what, "use letters from A to Z, digits, - and _; at most 60")
    return {key: _options(child) for key, child in ways.items()}


def _options(node: YamlNode) -> Options:
    for key, child in table(node).items():
        if key in _ELSEWHERE:
            raise wrong(child, f"a scenario has no option {key}", _ELSEWHERE[key])
    return Options(**read_fields(node, Options, _SCENARIO_KEYS, **_READERS))


def _texts(node: YamlNode, parse: Callable[[str], object]) -> tuple[str, ...]:
    """Return the entries of a list as written, once `parse` accepts each."""
    for each in entries(node):
        _parsed(each, parse)
    return tuple(text(each) for each in entries(node))


def _parsed(node: YamlNode, parse: Callable[[str], _Value]) -> _Value:
    """Parse an option of the command line, and name the line in the policy if it is wrong."""
    try:
        return parse(text(node))
    except TargetError as error:
        raise wrong(node, _bare(error.what), _bare(error.todo)) from None


def _bare(words: str) -> str:
    return re.sub(r"--(input|vary|assume) ", "", words)


def _unless_null(node: YamlNode, read_value: Callable[[YamlNode], Any]) -> Any:
    if node.value is None:
        return None
    return read_value(node)


def _layers(node: YamlNode) -> int:
    if node.value == 0:
        raise wrong(node, "layers is 0", "write how many layers to keep of each list, such as 2")
    layers: int = read(node, Whole)
    return layers


def _mode(node: YamlNode) -> str:
    mode = name(node)
    if mode not in MODES:
        raise wrong(node, f"torch.compile has no mode {shown(mode)}", near(mode, MODES))
    return mode


def _inputs(node: YamlNode) -> tuple[str, ...]:
    """Return the inputs as written, and refuse two inputs of the same name."""
    lines: dict[str, int] = {}
    for each in entries(node):
        argument = _parsed(each, parse_input).name
        if argument is None:
            continue
        if argument in lines:
            what = f"the input {shown(argument)} is defined twice, the first time in line {lines[argument]}"
            raise wrong(each, what, "take one of them out")
        lines[argument] = each.line
    return tuple(text(each) for each in entries(node))


_flag = partial(read, kind=Flag)
_READERS: Mapping[str, Callable[[YamlNode], Any]] = {
    "inputs": _inputs,
    "vary": partial(_texts, parse=parse_vary),
    "assume": partial(_texts, parse=parse_assumption),
    "mode": partial(_unless_null, read_value=_mode),
    "layers": partial(_unless_null, read_value=_layers),
    "dynamic": partial(_unless_null, read_value=_flag),
    **dict.fromkeys(("provoke", "train", "fullgraph", "fake"), _flag),
}
"""What reads the options of a scenario, which are texts and flags of the command line in `Options`."""
