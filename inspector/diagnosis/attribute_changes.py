"""Write the change that a trial makes as something that a program can carry out without ctrace: `Suggestion.apply`."""

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from ctrace.inspector.edits.torch_options import called_line, ignored_line, marked_line, option_line
from ctrace.inspector.facts.diagnosis import Apply, ApplyKind
from ctrace.inspector.facts.trial import LineEdit, Part, Trial

_HUNK = re.compile(r"^@@ -(\d+)", re.MULTILINE)
LISTS = frozenset(("ModuleList", "ModuleDict"))
"""Classes whose modules a program calls one by one."""
_MODEL = "model"


def apply_of(trial: Trial, texts: Mapping[str, str], parts: Iterable[Part] = ()) -> Apply | None:
    """Return a trial's change; None if it is more than one change of one kind, or if a file's text is not known.

    Args:
        trial: the change.
        texts: the text of each source file, keyed by path.
        parts: the modules of the target.
    """
    # Before edits: a place is where to call torch.compile, and changes no line.
    if trial.parts:
        known = {each.path: each for each in parts}
        roots = dict.fromkeys(path.partition(".")[0] for path in trial.parts)
        # Where the model is a function, the modules that it uses are its globals.
        variables = [f"{root} = model.__globals__[{root!r}]" for root in roots if root != _MODEL]
        return Apply(ApplyKind.PLACE, "\n".join((*variables, *compile_statements(trial.parts, known))))
    if trial.edits or trial.sources:
        return _patch(trial, texts)
    settings = tuple(_settings(trial))
    called = _called(trial)
    if called:
        return Apply(ApplyKind.PLACE, "\n".join((*settings, called)))
    if trial.dynamic is None:
        if settings:
            return Apply(ApplyKind.SETTING, "\n".join(settings))
        return None
    argument = f"dynamic={trial.dynamic}"
    if settings:
        return Apply(ApplyKind.PLACE, "\n".join((*settings, f"model = torch.compile(model, {argument})")))
    return Apply(ApplyKind.ARGUMENT, argument)


def patched_with(edits: Iterable[LineEdit], text: str) -> str:
    """Return the text of a file after its edits."""
    lines = text.split("\n")
    for each in edits:
        lines[each.line - 1] = each.text
    return "\n".join(lines)


def _patch(trial: Trial, texts: Mapping[str, str]) -> Apply | None:
    """Return the patch of the one file that a trial changes; its settings go to the end of that file."""
    files = {each.file: each.text for each in trial.sources}
    for file in dict.fromkeys(each.file for each in trial.edits):
        if file not in texts:
            return None
        files[file] = patched_with([each for each in trial.edits if each.file == file], files.get(file, texts[file]))
    # A patch holds neither changes of two files nor another way to call the model.
    if len(files) != 1 or _called(trial) or trial.dynamic is not None:
        return None
    ((file, after),) = files.items()
    settings = tuple(_settings(trial))
    if settings:
        # The file may not import torch under this name, or at all.
        after = "\n".join((after.rstrip("\n"), "", "import torch._dynamo", *settings, ""))
    patch = unified(texts.get(file, ""), after, file)
    line = _HUNK.search(patch)
    first = min((each.line for each in trial.edits if each.file == file), default=int(line[1]) if line else None)
    if patch:
        return Apply(ApplyKind.PATCH, patch, file, first)
    return None


def compile_statements(paths: Iterable[str], parts: Mapping[str, Part]) -> list[str]:
    """Write the statements that compile modules: one for each, or one for all modules of a list."""
    statements = []
    for parent, members in members_by_list(paths, parts).items():
        if parent:
            # `part.forward = ...` and not `torch.compile(part)`: a wrapper would put `_orig_mod.` into the keys of
            # state_dict().
            listed = expression_of(parent, parts) + (".values()" if parts[parent].kind == "ModuleDict" else "")
            statements.append(f"for part in {listed}: part.forward = torch.compile(part.forward)")
        else:
            modules = (expression_of(each, parts) for each in members)
            statements += [f"{each}.forward = torch.compile({each}.forward)" for each in modules]
    return statements


def members_by_list(paths: Iterable[str], parts: Mapping[str, Part]) -> dict[str, list[str]]:
    """Group the paths by their list, if all members of the list are among them; under "" those that are in none."""
    by_parent: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        by_parent[path.rpartition(".")[0]].append(path)
    grouped: dict[str, list[str]] = {}
    for parent, members in by_parent.items():
        every = [path for path in parts if path.rpartition(".")[0] == parent]
        is_list = parent in parts and parts[parent].kind in LISTS and len(members) > 1 and len(every) == len(members)
        grouped.setdefault(parent if is_list else "", []).extend(members)
    return grouped


def expression_of(path: str, parts: Mapping[str, Part]) -> str:
    """Write how Python reaches a module from `model`, or from the variable that holds it."""
    names = path.split(".")
    written = names[0]
    for number, name in enumerate(names[1:], 1):
        parent = parts.get(".".join(names[:number]))
        if name.isidentifier():
            written += f".{name}" if parent is None or parent.kind != "ModuleDict" else f"[{name!r}]"
        elif name.isdigit() and parent is not None and parent.kind in ("ModuleList", "Sequential"):
            written += f"[{name}]"
        else:
            written += f".get_submodule({name!r})"
    return written


def unified(before: str, after: str, name: str) -> str:
    """Return the unified diff of a file's text; empty if nothing changes."""
    return "\n".join(difflib.unified_diff(before.split("\n"), after.split("\n"), name, name, lineterm=""))


def _settings(trial: Trial) -> Iterator[str]:
    """Write the settings of torch as statements."""
    for name, value in trial.settings:
        yield option_line(name, value)
    for each in trial.ignored:
        yield f"import {each.partition(':')[0]}"
        yield ignored_line(each)


def _called(trial: Trial) -> str:
    """Write how to make and call the model, if a trial changes that; empty if it does not."""
    first = [called_line(*each) for each in trial.calls]
    if trial.evaluate:
        first += ["model.eval()"]
    made = "torch.compile(model)"
    if trial.dynamic is not None:
        made = f"torch.compile(model, dynamic={trial.dynamic})"
    if not trial.marked and trial.grad is None:
        if first:
            return "\n".join((*first, f"model = {made}"))
        return ""
    body = ["    return compiled(*args, **kwargs)"]
    if trial.grad == "off":
        body = ["    with torch.no_grad():", f"    {body[0]}"]
    if trial.marked:
        first += ["import inspect", "signature = inspect.signature(getattr(model, 'forward', model))"]
        marks = tuple((each.argument, each.dim) for each in trial.marked)
        body[:0] = [
            "    passed = signature.bind(*args, **kwargs).arguments",
            f"    for name, dim in {marks!r}:",
            "        value = passed.get(name)",
            # Torch specializes sizes 0 and 1 (2.13), and raises where one of them is marked.
            "        if isinstance(value, torch.Tensor) and value.dim() > dim and value.shape[dim] > 1:",
            f"            {marked_line('value', 'dim')}",
        ]
    return "\n".join((*first, f"compiled = {made}", "def model(*args, **kwargs):", *body))
