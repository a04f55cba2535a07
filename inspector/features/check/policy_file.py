"""Find and read the policy, `ctrace.yaml`, and report every mistake in it with its line.

Its `scenarios` are ways to capture each model, given as options of `ctrace explain`.

A function for each kind of value returns the typed value, or raises an error that names the line.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import TypeVar

from ctrace.inspector.errors import PolicyError, TargetError, near, shown
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.features.check.policy_model import BREAKS_OF, CPU, Allow, CheckPolicy, Count, Limits, ModelRule
from ctrace.inspector.files.yaml_file import YamlNode, read_yaml, wrong
from ctrace.inspector.knowledge.gpus.gpu_table import TargetGpu, gpu_named
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.options import InputSpec, parse_assumption, parse_input, parse_vary
from ctrace.inspector.runs.settings import owned_places, settings_at

_COVERAGE = "coverage"
_BY_OWNER = {BREAKS_OF[owner]: f"breaks: {{{owner}: 0}}" for owner in (Owner.LIBRARY, Owner.TORCH)}
"""For each count of breaks outside of user code, how the policy writes its limit."""
_COUNTS = tuple(each for each in Count if each not in BREAKS_OF.values())
_ALLOW = ("gb", "place", "text", "reason", "expires")
_GB = re.compile(r"GB[0-9]{1,9}", re.IGNORECASE)
_Value = TypeVar("_Value")
_Default = TypeVar("_Default")
_LONGEST_NAME = 300
"""Maximum length of a path or a name."""
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
# Chosen: a week; a longer timeout is a slip, such as milliseconds.
_LONGEST = 7 * 24 * 3600
_UNITS = {"": 0, "b": 0, "kib": 10, "mib": 20, "gib": 30}
"""Powers of two."""
_MEASURE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z]*)")


def limits(node: YamlNode) -> Limits:
    """Read the limits of the policy or of one model.

    Raises:
        PolicyError: a key or a number is wrong.
    """
    for key, child in any_table(node).items():
        if key in _BY_OWNER:
            raise wrong(child, f"unknown key {key} in limits", f"write it as {_BY_OWNER[Count(key)]}")
    keys = table(node, (Count.BREAKS, *_COUNTS, _COVERAGE))
    most = {count: _most(count, keys[count]) for count in _COUNTS if count in keys}
    breaks = optional(keys, Count.BREAKS, _breaks, {})
    return Limits({**breaks, **most}, optional(keys, _COVERAGE, percent, None))


def _most(count: Count, node: YamlNode) -> int:
    if count in (Count.MISSED_BYTES, Count.PEAK_BYTES):
        return size(node)
    return whole(node)


def _breaks(node: YamlNode) -> Mapping[Count, int]:
    """Read the limit of breaks; a single number limits breaks in user code."""
    if not isinstance(node.value, dict):
        return {Count.BREAKS: whole(node)}
    keys = table(node, BREAKS_OF)
    return {BREAKS_OF[Owner(owner)]: whole(child) for owner, child in keys.items()}


def allow(node: YamlNode) -> tuple[Allow, ...]:
    """Read the allowed sites.

    Raises:
        PolicyError: an entry is incomplete or invalid.
    """
    return tuple(_entry(each) for each in entries(node))


def _entry(node: YamlNode) -> Allow:
    keys = table(node, _ALLOW)
    if not {"gb", "place", "text"} & set(keys):
        todo = "add gb: GB0170, place: file.py::Class.method or text: a part of the line"
        raise wrong(node, "this entry of allow names no site", todo)
    if "reason" not in keys:
        todo = "add reason: with a few words on why these sites are allowed"
        raise wrong(node, "this entry of allow has no reason", todo)
    return Allow(
        reason=text(keys["reason"]),
        gb=optional(keys, "gb", _gb, None),
        place=optional(keys, "place", name, None),
        text=optional(keys, "text", text, None),
        expires=optional(keys, "expires", day, None),
        line=node.line,
    )


def _gb(node: YamlNode) -> str:
    written = name(node)
    if not _GB.fullmatch(written):
        raise wrong(node, f"{shown(written)} is not a gb id", "write it as ctrace breaks shows it, such as GB0170")
    return written.upper()


NAMES = ("ctrace.yaml", "ctrace.yml")
_VERSION = 1
"""Raised when a key changes its meaning, so that an older ctrace refuses the file."""
_KEYS = (
    "version", "models", "scenarios", "targets", "owned", "limits", "allow", "timeout", "inductor_guards", "accuracy",
    "memory",
)  # fmt: skip
_MODEL_KEYS = ("path", "scenarios", "targets", "limits", "timeout", "accuracy", "memory")


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
    ways = optional(keys, "scenarios", scenarios, {}) or {"base": Options()}
    default = CheckPolicy()
    return CheckPolicy(
        models=optional(keys, "models", lambda node: _models(node, ways, folder), ()),
        scenarios=ways,
        targets=optional(keys, "targets", lambda node: _targets(node, folder), ()) or default.targets,
        owned=optional(keys, "owned", lambda node: _owned(node, folder), ()),
        limits=optional(keys, "limits", limits, default.limits),
        allow=optional(keys, "allow", allow, ()),
        timeout=optional(keys, "timeout", seconds, default.timeout),
        inductor_guards=optional(keys, "inductor_guards", flag, default.inductor_guards),
        accuracy=optional(keys, "accuracy", flag, default.accuracy),
        memory=optional(keys, "memory", flag, default.memory),
        file=str(path),
    )


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


def _models(node: YamlNode, ways: Mapping[str, Options], folder: Path) -> tuple[ModelRule, ...]:
    return tuple(_model(each, ways, folder) for each in entries(node))


def _model(node: YamlNode, ways: Mapping[str, Options], folder: Path) -> ModelRule:
    if not isinstance(node.value, dict):
        return ModelRule(name(node), line=node.line)
    keys = table(node, _MODEL_KEYS)
    if "path" not in keys:
        raise wrong(node, "this entry of models has no path", "write path: models/*.py, or package.module:name")
    rule = ModelRule(name(keys["path"]), line=node.line)
    return ModelRule(
        rule.models,
        scenarios=optional(keys, "scenarios", lambda node: _chosen(node, ways), rule.scenarios),
        targets=optional(keys, "targets", lambda node: _targets(node, folder), rule.targets),
        limits=optional(keys, "limits", limits, rule.limits),
        timeout=optional(keys, "timeout", seconds, rule.timeout),
        accuracy=optional(keys, "accuracy", flag, rule.accuracy),
        memory=optional(keys, "memory", flag, rule.memory),
        line=rule.line,
    )


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


def scenarios(node: YamlNode) -> dict[str, Options]:
    """Read all scenarios, by name.

    Raises:
        PolicyError: a name, an option or its value is wrong.
    """
    found = any_table(node)
    for key, child in found.items():
        if not _NAME.fullmatch(key):
            what = f"{shown(key) or 'an empty text'} is not a scenario name"
            raise wrong(child, what, "use letters from A to Z, digits, - and _; at most 60")
    return {key: _options(child) for key, child in found.items()}


def _options(node: YamlNode) -> Options:
    for key, child in any_table(node).items():
        if key in _ELSEWHERE:
            raise wrong(child, f"a scenario has no option {key}", _ELSEWHERE[key])
    keys = table(node, _SCENARIO_KEYS)
    return Options(
        inputs=optional(keys, "inputs", _inputs, ()),
        vary=optional(keys, "vary", _vary, ()),
        provoke=optional(keys, "provoke", flag, False),
        train=optional(keys, "train", flag, False),
        mode=optional(keys, "mode", _mode, None),
        dynamic=optional(keys, "dynamic", _dynamic, None),
        fullgraph=optional(keys, "fullgraph", flag, False),
        fake=optional(keys, "fake", flag, False),
        assume=optional(keys, "assume", _assume, ()),
        layers=optional(keys, "layers", _layers, None),
    )


def _assume(node: YamlNode) -> tuple[str, ...]:
    return tuple(_parsed(each, parse_assumption) for each in entries(node))


def _layers(node: YamlNode) -> int | None:
    if node.value is None:
        return None
    if node.value == 0:
        raise wrong(node, "layers is 0", "write how many layers to keep of each list, such as 2")
    return whole(node)


def _vary(node: YamlNode) -> tuple[str, ...]:
    return tuple(_parsed(each, parse_vary) for each in entries(node))


def _mode(node: YamlNode) -> str | None:
    if node.value is None:
        return None
    mode = name(node)
    if mode not in MODES:
        raise wrong(node, f"torch.compile has no mode {shown(mode)}", near(mode, MODES))
    return mode


def _dynamic(node: YamlNode) -> bool | None:
    if node.value is None:
        return None
    return flag(node)


def _inputs(node: YamlNode) -> tuple[str, ...]:
    """Return the inputs as written, and refuse two inputs of the same name."""
    lines: dict[str, int] = {}
    for each in entries(node):
        argument = _input(each)
        if argument.name is not None and argument.name in lines:
            what = f"the input {shown(argument.name)} is defined twice, the first time in line {lines[argument.name]}"
            raise wrong(each, what, "take one of them out")
        if argument.name is not None:
            lines[argument.name] = each.line
    return tuple(text(each) for each in entries(node))


def _input(node: YamlNode) -> InputSpec:
    try:
        return parse_input(text(node))
    except TargetError as error:
        raise _refused(node, error) from None


def _parsed(node: YamlNode, parse: Callable[[str], object]) -> str:
    try:
        parse(text(node))
    except TargetError as error:
        raise _refused(node, error) from None
    return text(node)


def _refused(node: YamlNode, error: TargetError) -> Exception:
    """Raise an error about an input or a `vary` option as an error in the policy."""
    return wrong(node, _bare(error.what), _bare(error.todo))


def _bare(words: str) -> str:
    return re.sub(r"--(input|vary|assume) ", "", words)


def table(node: YamlNode, known: Iterable[str]) -> Mapping[str, YamlNode]:
    """Return a table with known keys only; an empty value is an empty table.

    Raises:
        PolicyError: it is not a table, or has an unknown key.
    """
    names = tuple(known)
    for key, child in any_table(node).items():
        if key not in names:
            raise wrong(
                child, f"unknown key {shown(key) or 'without a name'} in {node.name or 'the policy'}", near(key, names)
            )
    return any_table(node)


def any_table(node: YamlNode) -> Mapping[str, YamlNode]:
    """Return a table with any keys; an empty value is an empty table.

    Raises:
        PolicyError: it is not a table.
    """
    if node.value is None:
        return {}
    if not isinstance(node.value, dict):
        raise refused(node, "a table", "write it as lines of key: value")
    return node.value


def optional(
    keys: Mapping[str, YamlNode], key: str, read: Callable[[YamlNode], _Value], default: _Default
) -> _Value | _Default:
    """Read the value of a key, or return the default if the table does not have it.

    Raises:
        PolicyError: `read` refuses the value.
    """
    if key in keys:
        return read(keys[key])
    return default


def entries(node: YamlNode) -> tuple[YamlNode, ...]:
    """Return the entries of a list; a single value counts as a list of one, an empty value as an empty list."""
    if isinstance(node.value, tuple):
        return node.value
    if node.value is None:
        return ()
    return (node,)


def text(node: YamlNode) -> str:
    """Return non-empty text.

    Raises:
        PolicyError: it is not text, or empty.
    """
    if isinstance(node.value, str) and node.value.strip():
        return node.value.strip()
    todo = "put it in quotes" if isinstance(node.value, bool | int | float) else "write a text"
    raise refused(node, "a text", todo)


def name(node: YamlNode) -> str:
    """Return text that can be a name or a path.

    Raises:
        PolicyError: it is not text, empty, or has characters that no name has.
    """
    found = text(node)
    if not found.isprintable() or len(found) > _LONGEST_NAME:
        raise refused(
            node, "a name", f"write it on one line, with at most {_LONGEST_NAME} characters and no invisible ones"
        )
    return found


def flag(node: YamlNode) -> bool:
    """Return true or false.

    Raises:
        PolicyError: it is something else.
    """
    if isinstance(node.value, bool):
        return node.value
    raise refused(node, "true or false", "write true or false")


def whole(node: YamlNode) -> int:
    """Return a whole number, 0 or more.

    Raises:
        PolicyError: it is something else.
    """
    if isinstance(node.value, int) and not isinstance(node.value, bool) and node.value >= 0:
        return node.value
    raise refused(node, "a whole number of 0 or more", "write one, such as 0, or remove the line for no limit")


def percent(node: YamlNode) -> float:
    """Return a number from 0 to 100.

    Raises:
        PolicyError: it is something else.
    """
    if isinstance(node.value, int | float) and not isinstance(node.value, bool) and 0 <= node.value <= 100:
        return float(node.value)
    raise refused(node, "a percentage", "write a number from 0 to 100, such as 99.5")


def size(node: YamlNode) -> int:
    """Return a number of bytes, written as 4096 or as 1.5MiB.

    Raises:
        PolicyError: it is something else.
    """
    measured = _measure(node, _UNITS)
    if measured is not None:
        return int(measured[0] * 2 ** measured[1])
    raise refused(node, "a number of bytes", "write 0, 4096, 64KiB, 1MiB or 2GiB")


def seconds(node: YamlNode) -> float:
    """Return a duration in seconds, written as 600, 90s, 10m or 1h.

    Raises:
        PolicyError: it is something else, zero, or longer than a week.
    """
    measured = _measure(node, _SECONDS)
    if measured is not None and 0 < measured[0] * measured[1] <= _LONGEST:
        return measured[0] * measured[1]
    raise refused(node, "a time", "write seconds, such as 600, or 90s, 10m or 1h; at most a week")


def day(node: YamlNode) -> date:
    """Return a day, written as 2027-01-31.

    Raises:
        PolicyError: it is something else.
    """
    if isinstance(node.value, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", node.value):
        try:
            return date.fromisoformat(node.value)
        except ValueError:
            raise refused(node, "a valid date", "write year, month and day, such as 2027-01-31") from None
    raise refused(node, "a day", "write year, month and day, such as 2027-01-31")


def refused(node: YamlNode, expected: str, todo: str) -> PolicyError:
    """Return an error that says what a value is and what it should be."""
    return wrong(node, f"{node.name or 'the file'} is {_kind_words(node.value)}, not {expected}", todo)


def _measure(node: YamlNode, units: Mapping[str, int]) -> tuple[float, int] | None:
    """Split a measure into its number and the factor of its unit; return None for any other text."""
    if isinstance(node.value, bool) or not isinstance(node.value, int | float | str):
        return None
    found = _MEASURE.fullmatch(str(node.value))
    if found is None or found[2].lower() not in units:
        return None
    return float(found[1]), units[found[2].lower()]


def _kind_words(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case tuple():
            return "a list"
        case dict():
            return "a table"
        case str() if not value.strip():
            return "an empty text"
    return shown(value)
