"""Read or capture the two runs that `ctrace diff` compares."""

import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ctrace.cli.run_request import FollowedMemory, Request, saved, session_of
from ctrace.inspector.errors import RunError, TargetError, did_you_mean
from ctrace.inspector.files.scratch import scratch

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session
    from ctrace.inspector.features.compare.changes import RunDiff, What
    from ctrace.inspector.runs.capture_request import Options
    from ctrace.inspector.runs.store import Store

NOTHING: Mapping[str, Any] = MappingProxyType({})
_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""The modes of torch.compile (2.13, _inductor/__init__.py:list_mode_options)."""


def kinds(text: str | None) -> "tuple[What, ...]":
    """Parse the value of `--fail-on`: kinds of changes, in the singular or plural, or `any`.

    Raises:
        TargetError: there is no such kind.
    """
    from ctrace.inspector.features.compare.changes import What

    if text is None:
        return ()
    known = {each.value: each for each in What}
    several = {f"{name}s": each for name, each in known.items()} | known
    found: list[What] = []
    for name in filter(None, (part.strip().lower() for part in text.split(","))):
        if name == "any":
            found += list(What)
        elif name in several:
            found.append(several[name])
        else:
            todo = did_you_mean(name, [*known, "any"], f"choose from: {', '.join(known)}, or any")
            raise TargetError(f"--fail-on {name}: there is no such kind of change", todo)
    if not found:
        raise TargetError("--fail-on names no kind of change", f"choose from: {', '.join(known)}, or any")
    return tuple(dict.fromkeys(found))


_HOW = ("inputs", "vary", "provoke", "train", "mode", "dynamic", "fullgraph", "backend", "build", "gpu", "fast",
        "fake", "layers", "assume")  # fmt: skip
"""The options of a capture that a user names, in the order in which their differences are listed."""
_FLAGS = {"inputs": "--input", "gpu": "--target"}
"""How the command line spells them where it differs."""
_CALLS = ("inputs", "vary", "provoke", "train", "layers")
"""The options that change which calls a run makes."""


def with_settings(
    found: "RunDiff", before: tuple[str, "Session"], after: tuple[str, "Session"], options: Mapping[str, Any] = NOTHING
) -> "RunDiff":
    """Add which options differ, if both sides are captures of one target: they explain the rest.

    Each side is its name on the command line, and what was captured; `options` are those of new captures.
    """
    from msgspec.structs import replace

    from ctrace.inspector.features.compare.changes import DIFFERENT_CALLS, without_direction

    # Two targets differ in everything, whatever their options.
    first, second = _capture_of(before[0], options), _capture_of(after[0], options)
    if first is None or second is None or first.target != second.target:
        return found
    listed = [
        f"{_FLAGS.get(name, f'--{name}')} {_option(name, first.options)}, then {_option(name, second.options)}"
        for name in _HOW
        if _differ(name, first, second)
    ]
    if first.args != second.args:
        listed.insert(0, f"arguments {shlex.join(first.args) or 'none'}, then {shlex.join(second.args) or 'none'}")
    if not listed:
        return found
    note = f"one target under other settings: {'; '.join(listed)}"
    # Where the code differs, too, kernels may have changed because of it.
    found = replace(found, notes=(note, *found.notes), by_settings=_is_same_code(before[1], after[1]))
    if first.args != second.args or any(_differ(name, first, second) for name in _CALLS):
        return replace(found, judgement=without_direction(found.judgement, DIFFERENT_CALLS))
    return found


def _differ(option: str, first: "_Capture", second: "_Capture") -> bool:
    return bool(getattr(first.options, option) != getattr(second.options, option))


class _Capture(NamedTuple):
    """What one side of a diff captured, and how."""

    target: tuple[str, str | None, str | None]
    """The file, the module and the name of the object."""
    args: tuple[str, ...]
    options: "Options"


def _capture_of(text: str, given: Mapping[str, Any]) -> _Capture | None:
    """Return how one side was captured; None: it is not known, as for a log."""
    from ctrace.inspector.errors import CtraceError
    from ctrace.inspector.runs.capture_request import Options
    from ctrace.inspector.runs.rerun import request_of, resolved_of
    from ctrace.inspector.runs.store import Store
    from ctrace.inspector.runs.target import ModelTarget, resolve

    try:
        request = request_of(Store().load(text))
        target, options = resolved_of(request), request.options
    except RunError:  # no saved run, or one that cannot be run again
        path, chosen = _with_mode(text)
        try:
            target, options = resolve(path), Options(**given, **chosen)
        except CtraceError:  # a log
            return None
    # Two spellings of one file are one target.
    key = str(target.path and target.path.resolve()), target.module
    if isinstance(target, ModelTarget):
        return _Capture((*key, target.name), (), options)
    return _Capture((*key, None), target.args, options)


def _is_same_code(before: "Session", after: "Session") -> bool:
    """Whether the same source ran with the same versions, as far as both runs recorded them."""
    one, other = before.environment, after.environment
    versions = all(getattr(one, name) == getattr(other, name) for name in ("ctrace", "torch", "triton", "python"))
    shared = before.listings.keys() & after.listings.keys()
    return versions and bool(shared) and all(before.listings[file] == after.listings[file] for file in shared)


def _option(name: str, options: "Options") -> str:
    """Write an option's value; what is not set is torch's default."""
    value = getattr(options, name)
    if value == getattr(type(options)(), name):
        return "not set"
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


class Side(NamedTuple):
    """One side of a diff."""

    session: "Session"
    run: str | None
    """What other commands take for it: the name of a saved run, or a log; None if the run could not be saved."""


def side(
    text: str,
    timeout: float | None,
    options: Mapping[str, Any] = NOTHING,
    followed: FollowedMemory | None = None,
) -> Side:
    """Read a saved run or a log; capture a model or program, or `model.py@MODE`, with options.

    Raises:
        CtraceError: it cannot be read or captured.
    """
    from ctrace.inspector.runs.store import Store

    store = Store()
    found = saved(text, store)
    if found is not None:
        return Side(found, text if text != "-" else None)
    target, chosen = _with_mode(text)
    return _captured(Request(target, timeout=timeout, options={**options, **chosen}), store, followed)


def _captured(request: Request, store: "Store", followed: FollowedMemory | None) -> Side:
    session, _ = session_of(request, store, follow_memory=followed)
    return Side(session, store.last_saved.name if store.last_saved is not None else None)


def _with_mode(text: str) -> tuple[str, dict[str, Any]]:
    """Split `model.py@MODE`; return the target and the options of its capture.

    Raises:
        TargetError: there is no such mode.
    """
    from ctrace.inspector.runs.target import holds

    target, at, mode = text.rpartition("@")
    # A file may have an `@` in its name.
    if not at or holds(Path(text).exists):
        return text, {}
    if mode not in _MODES:
        raise TargetError(
            f"{text}: there is no mode {mode}", did_you_mean(mode, _MODES, f"choose one of: {', '.join(_MODES)}")
        )
    return target, {"mode": mode}


@contextmanager
def worktrees(range_: str) -> "Iterator[tuple[Path, Path]]":
    """Check out both ends of `BEFORE..AFTER` in worktrees, which are removed at the end; an empty end is HEAD.

    Raises:
        TargetError: it is not a range of revisions, or this is no repository.
    """
    before, dots, after = range_.partition("..")
    if not dots:
        raise TargetError(f"--git {range_}: not a range", "write two revisions: --git main..HEAD")
    # `^{commit}` finds the commit of a tag as well, which is an object that names one.
    revisions = [_git("rev-parse", "--verify", "--quiet", f"{each or 'HEAD'}^{{commit}}") for each in (before, after)]
    top = Path(_git("rev-parse", "--show-toplevel"))
    # The command may be typed below the top of the repository: both sides run in the same folder.
    inside = Path.cwd().resolve().relative_to(top.resolve())
    with scratch("git") as folder:
        made: list[Path] = []
        try:
            for name, revision in zip(("before", "after"), revisions, strict=True):
                path = folder / name
                _git("worktree", "add", "--quiet", "--detach", str(path), revision)
                made.append(path)
            yield made[0] / inside, made[1] / inside
        finally:
            for path in made:
                # By git, which keeps a list of its worktrees.
                subprocess.run(["git", "worktree", "remove", "--force", str(path)], capture_output=True, check=False)


def _git(*words: str) -> str:
    """Run git, and return what it prints.

    Raises:
        TargetError: git is missing, or refuses.
    """
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise TargetError("--git needs git, which is not installed", "compare two saved runs instead") from None
    if done.returncode:
        # The last line is git's reason; with `--quiet`, git may give none.
        why = done.stderr.strip().splitlines()[-1:] or [f"git {words[0]} finds no {words[-1]}"]
        raise TargetError(f"--git: {why[0]}", "run it in a repository, with two revisions such as main..HEAD")
    return done.stdout.strip()


def in_folder(
    folder: Path,
    target: str,
    timeout: float | None,
    options: Mapping[str, Any] = NOTHING,
    followed: FollowedMemory | None = None,
) -> Side:
    """Capture a target as it is in a folder, with options.

    Raises:
        CtraceError: the target is missing there, or cannot be captured.
    """
    from ctrace.inspector.runs.store import Store

    here = Path.cwd()
    if not folder.is_dir():
        raise RunError(
            f"{folder.name} has no such folder at that revision", "run it in a folder that both revisions have"
        )
    store = os.environ.get("CTRACE_DIR")
    # Runs are saved here, since the worktree will be removed; resolved before the working directory changes.
    os.environ["CTRACE_DIR"] = str(Path(store).resolve() if store else here / ".ctrace")
    try:
        os.chdir(folder)
        return _captured(Request(target, timeout=timeout, options=dict(options)), Store(), followed)
    finally:
        os.chdir(here)
        if store is None:
            del os.environ["CTRACE_DIR"]
        else:
            os.environ["CTRACE_DIR"] = store
