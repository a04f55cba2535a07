"""The policy's `scenarios`: ways to capture each model, as options of `ctrace explain`."""

import re
from collections.abc import Callable

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.check.policy.values import any_table, entries, flag, name, optional, table, text
from ctrace.inspector.features.check.policy.yaml_nodes import Node, wrong
from ctrace.inspector.knowledge.gpus.yaml_file import near, shown
from ctrace.inspector.runs.inputs import Input, parse_input, parse_vary
from ctrace.inspector.runs.request import Options

MODES = ("default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""The modes of torch.compile; torch/_inductor/__init__.py, `list_mode_options` (2.13)."""
_KEYS = ("inputs", "vary", "provoke", "train", "mode", "dynamic", "fullgraph")
_ELSEWHERE = {
    "target": "name GPUs in the policy's targets: every scenario runs for each of them",
    "targets": "name GPUs in the targets of the policy or of a model",
    "backend": "remove it: a check chooses the backend that it needs",
    "build": "remove it: a check does not build or run kernels",
    "timeout": "write it at the top of the policy, or for a model",
}
"""Options that a scenario cannot have, with advice on where to set them."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


def scenarios(node: Node) -> dict[str, Options]:
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


def _options(node: Node) -> Options:
    for key, child in any_table(node).items():
        if key in _ELSEWHERE:
            raise wrong(child, f"a scenario has no option {key}", _ELSEWHERE[key])
    keys = table(node, _KEYS)
    return Options(
        inputs=optional(keys, "inputs", _inputs, ()),
        vary=optional(keys, "vary", _vary, ()),
        provoke=optional(keys, "provoke", flag, False),
        train=optional(keys, "train", flag, False),
        mode=optional(keys, "mode", _mode, None),
        dynamic=optional(keys, "dynamic", _dynamic, None),
        fullgraph=optional(keys, "fullgraph", flag, False),
    )


def _vary(node: Node) -> tuple[str, ...]:
    return tuple(_parsed(each, parse_vary) for each in entries(node))


def _mode(node: Node) -> str | None:
    if node.value is None:
        return None
    mode = name(node)
    if mode not in MODES:
        raise wrong(node, f"torch.compile has no mode {shown(mode)}", near(mode, MODES))
    return mode


def _dynamic(node: Node) -> bool | None:
    return None if node.value is None else flag(node)


def _inputs(node: Node) -> tuple[str, ...]:
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


def _input(node: Node) -> Input:
    try:
        return parse_input(text(node))
    except TargetError as error:
        raise _refused(node, error) from None


def _parsed(node: Node, parse: Callable[[str], object]) -> str:
    try:
        parse(text(node))
    except TargetError as error:
        raise _refused(node, error) from None
    return text(node)


def _refused(node: Node, error: TargetError) -> Exception:
    """Raise an error about an input or a `vary` option as an error in the policy."""
    return wrong(node, _bare(error.what), _bare(error.todo))


def _bare(words: str) -> str:
    return re.sub(r"--(input|vary) ", "", words)
