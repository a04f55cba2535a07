"""From the findings of a run to candidates: changed files and settings that are worth a proof.

Candidates come from rewrites (the folder `source`), from edits of advice that are repairs, and from settings (the
folder `configuration`). Each has new texts of files, or what its trial changes besides, and what its proof has to know:

- *conditions*: the tests in the lines that it replaces, of which calls must reach both sides, and lines that must run:
  those that it replaces, and those that write what it reads, also in other files that the target has loaded;
- *asks*: what reading the change leaves to the author.

For example, where `y = x * 2` below `if x.sum() > 0:` becomes torch.where, `x.sum() > 0` must be true in one call and
false in another one, and the line of the product must run.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene, package_of
from ctrace.inspector.edits.eager_only import IS_COMPILING
from ctrace.inspector.facts.diagnosis import Finding, RootCause
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.facts.trial import Condition, NewText, Trial
from ctrace.inspector.features.fix.repairs.configuration import all_settings
from ctrace.inspector.features.fix.repairs.mining import writers
from ctrace.inspector.features.fix.repairs.neighbor_files import read_neighbors
from ctrace.inspector.features.fix.repairs.obligations import COST, DTYPE, EXCEPTIONS
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, Setting, SourceRewrite
from ctrace.inspector.features.fix.repairs.source import all_repairs
from ctrace.inspector.files.disk_errors import reason
from ctrace.inspector.source.open_questions import open_questions
from ctrace.inspector.source.text import parsed, python_lines, replaced_lines

_LEFT_OUT = frozenset(("buffers", "kept_numbers", "used_numbers", "choices", "printing"))
"""Rules whose edit only approximates the advised change; the folder `source` has the real one."""

_QUESTIONS = {
    "branched_numbers": "Does none of your calls need the other case?",
    "filters": "Does your program set these filters of warnings elsewhere?",
}
"""Rules whose edit leaves something out: one case of several, where the calls that a proof makes may all be of the
other; a filter, which warnings outside of the calls need."""
_DROPPED = "May compiled calls leave out what only eager calls do now: `{}`?"

_CONTROL = (ast.If, ast.IfExp, ast.While, ast.Assert)
_NOT_RUN = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal)


class RepairCandidate(Struct, frozen=True):
    """A change that may remove findings."""

    finding: str
    findings: tuple[str, ...]
    name: str
    kind: str
    """`configuration` or `source`."""
    summary: str
    files: tuple[NewText, ...] = ()
    trial: Trial = Trial()
    """What a setting changes besides files."""
    conditions: tuple[Condition, ...] = ()
    how: str = ""
    question: str = ""
    removes: bool = True
    changes_arithmetic: bool = False
    may_drop_output: bool = False
    drops_gradients: bool = False
    library: str = ""
    """The package that it changes; empty: the user's own files."""
    asks: tuple[tuple[str, str], ...] = ()
    """Questions that reading leaves open, with their obligations: values that may be missing, rounds of a loop."""


class Files:
    """Texts of source files, as they are on disk or after an accepted change."""

    def __init__(self, changed: Mapping[str, str] | None = None) -> None:
        self._texts: dict[str, str] = dict(changed or {})
        self.problems: list[str] = []

    def text(self, file: str) -> str | None:
        """Return a file's text; None: it cannot be read or is not Python, as `problems` then says."""
        if file not in self._texts:
            why = ""
            try:
                # With `newline=""`, the line ends stay as they are: a patch must not change all lines.
                with Path(file).open(encoding="utf-8", newline="") as opened:
                    text = opened.read()
            except OSError as error:
                why = reason(error)
            except UnicodeDecodeError:
                why = "it is not in UTF-8"
            else:
                why = "" if parsed(text) is not None else "Python cannot parse it"
            if why:
                problem = f"{file} is not changed: {why}"
                if problem not in self.problems:
                    self.problems.append(problem)
                return None
            self._texts[file] = text
        return self._texts[file]

    def all(self) -> dict[str, str]:
        """Return all texts that were read."""
        return dict(self._texts)


def candidates(scene: DiagnosisScene, files: Files, target: str | None) -> Iterator[RepairCandidate]:
    """Yield candidates that may remove the findings of a run, source changes first.

    Args:
        scene: the run.
        files: the texts to change.
        target: the target's own file, where settings are written; None: it has none.
    """
    # A repair and a piece of advice may write the same text; the repair, which comes first, knows more about it.
    seen: set[tuple[NewText, ...]] = set()
    for each in (*_of_source(scene, files), *_of_advice(scene, files), *_of_settings(scene, files, target)):
        if each.files and each.trial == Trial():
            if each.files in seen:
                continue
            seen.add(each.files)
        yield each


def _of_source(scene: DiagnosisScene, files: Files) -> Iterator[RepairCandidate]:
    for cause in scene.causes:
        if cause.expected:
            continue
        # Several paths may lead to one place, where the same rewrites would be proved again.
        for place in dict.fromkeys(places(scene, cause, files)):
            package = ""
            if not scene.is_users(place.file):
                package = package_of(place.file) or "the standard library"
            is_users = not package
            for repair in all_repairs():
                for rewrite in _found(repair.find, place, repair.name, files):
                    yield RepairCandidate(
                        cause.id,
                        (cause.id,),
                        repair.name,
                        "source",
                        rewrite.summary,
                        (NewText(place.file, rewrite.source),),
                        conditions=_conditions(scene, place, rewrite, is_users=is_users),
                        question=rewrite.question or "",
                        changes_arithmetic=rewrite.changes_arithmetic,
                        may_drop_output=rewrite.question is not None,
                        library=package,
                        asks=_open(
                            scene, place.file, place.source, rewrite.source, rewrite.costs, is_users=not package
                        ),
                    )


def _conditions(
    scene: DiagnosisScene, place: RepairPlace, rewrite: SourceRewrite, *, is_users: bool
) -> tuple[Condition, ...]:
    """Return the conditions that calls must reach: those of the rewrite, and those in the lines that it changes."""
    declared = [Condition(place.file, place.line, each) for each in rewrite.needs_inputs]
    # By their normal form: the repair may have written the condition with other spaces or quotes.
    known = {_plain(each.expression) for each in declared}
    changed = conditions_of(place.file, place.source, rewrite.source)
    others = _writers(scene, place.file, place.source, rewrite.source, is_users=is_users)
    return (*declared, *(each for each in (*changed, *others) if _plain(each.expression) not in known))


def _writers(scene: DiagnosisScene, file: str, before: str, after: str, *, is_users: bool) -> tuple[Condition, ...]:
    """Return the lines that write what a change reads, also those of other files that the target has loaded."""
    mine = writers(file, before, after)
    if not is_users:  # the files beside a package's are its own
        return tuple(mine)
    return (*mine, *read_neighbors(file, before, after).must_run(_loaded(scene)))


def _loaded(scene: DiagnosisScene) -> set[str]:
    """Return the files that a target has loaded."""
    return {*scene.session.listings, *scene.session.made_of}


def _open(
    scene: DiagnosisScene, file: str, before: str, after: str, costs: str = "", *, is_users: bool
) -> tuple[tuple[str, str], ...]:
    """Return the questions that reading a change leaves open, with their obligations."""
    questions = [*open_questions(before, after)]
    if is_users:
        questions += read_neighbors(file, before, after).questions(_loaded(scene))
    found = []
    for each in questions:
        obligation = DTYPE if "autocast" in each else EXCEPTIONS  # a value that is not there raises
        found.append((obligation, each))
    if costs:
        found.append((COST, costs))
    return tuple(found)


def _plain(expression: str) -> str:
    tree = parsed(expression.strip())
    if tree is not None:
        return ast.unparse(tree)
    return expression


def conditions_of(file: str, before: str, after: str) -> tuple[Condition, ...]:
    """Return the conditions in the lines that a change replaces, and these lines, which must also run."""
    tree = parsed(before)
    lines = replaced_lines(before, after)
    found: dict[Condition, None] = {}
    if tree is None:
        return ()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in _inside(function):
            if isinstance(node, _CONTROL) and node.test.lineno in lines:
                found[Condition(file, node.test.lineno, ast.unparse(node.test))] = None
                found |= dict.fromkeys(_parts(file, node.test))
            elif (
                isinstance(node, ast.stmt)
                and node.lineno in lines
                and _does_something(node)
                and function.name != "__init__"  # it has run when the calls begin
            ):
                found[Condition(file, node.lineno, "")] = None
    return tuple(found)


def _parts(file: str, test: ast.expr) -> Iterator[Condition]:
    """Yield what decides whether the rest of a condition is evaluated: of `a and b and c`, `a` and `a and b`."""
    match test:
        case ast.BoolOp(op=op, values=values):
            for end in range(1, len(values)):
                first = ast.BoolOp(op, values[:end]) if end > 1 else values[0]
                yield Condition(file, test.lineno, ast.unparse(first), is_part=True)


def _inside(function: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs as part of a function, without the functions defined in it."""
    for child in ast.iter_child_nodes(function):
        # Defaults and decorators run once, where the function is defined: no call has to reach them.
        if isinstance(child, ast.arguments) or child in getattr(function, "decorator_list", ()):
            continue
        yield child
        # A function inside is a function of its own in `conditions_of`, with calls of its own.
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _inside(child)


def _does_something(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return not isinstance(node, (*_NOT_RUN, ast.Pass, ast.Try, ast.With)) and not is_text


def _found(find: object, place: RepairPlace, name: str, files: Files) -> Iterator[SourceRewrite]:
    """Yield the rewrites that change something; a rewrite that is not Python is the repair's fault."""
    for rewrite in find(place):  # type: ignore[operator]
        if rewrite.source == place.source:
            continue
        if parsed(rewrite.source) is None:
            files.problems.append(f"the repair {name} wrote something at line {place.line} that Python cannot parse")
            continue
        yield rewrite


def places(scene: DiagnosisScene, cause: RootCause, files: Files) -> Iterator[RepairPlace]:
    """Yield where a cause shows, in files that can be read."""
    # What resumes after another break recompiles at that break's line: a repair there is of that break.
    others = [other for other in scene.causes if other.id != cause.id]
    broken = {(each.file, each.line) for other in others for each in scene.breaks(other)}
    own = [each for each in _of_others(scene, cause) if each[:2] not in broken]
    for found in (*_of_breaks(scene, cause), *own):
        file, line, function, names = found
        text = None
        # Code without a file, e.g. `<string>` of exec or `<frozen importlib._bootstrap>`.
        if not file.startswith("<"):
            text = files.text(file)
        # The file may have become shorter since the run.
        if text is not None and 0 < line <= len(python_lines(text)):
            yield RepairPlace(file, text, line, function, names)


_Found = tuple[str, int, str, tuple[str, ...]]
"""File, line, function and names."""


def _of_breaks(scene: DiagnosisScene, cause: RootCause) -> Iterator[_Found]:
    for each in scene.breaks(cause):
        in_code = _names(each.expression or each.source)
        names = tuple(dict.fromkeys(filter(None, (*in_code, each.called))))
        yield each.file, each.line, each.function, names
        # The break's own line, then the user's line that led there, then a library's that broke.
        for path in each.paths:
            for frame in reversed(path):
                if scene.is_users(frame.file) and (frame.file, frame.line) != (each.file, each.line):
                    yield frame.file, frame.line, frame.function, names
                    break
            if each.owner is Owner.LIBRARY and path and not scene.is_users(path[-1].file):
                yield path[-1].file, path[-1].line, path[-1].function, names


def _of_others(scene: DiagnosisScene, cause: RootCause) -> Iterator[_Found]:
    for skip in scene.skips(cause):
        if skip.break_index is None:  # else the break has the place
            yield skip.file, skip.line, skip.function, ()
    for recompile in scene.recompiles(cause):
        for each in recompile.causes:
            names: tuple[str, ...] = ()
            if each.subject:
                names = (each.subject,)
            file, line = each.file or recompile.file, each.line or recompile.line
            yield file, line, recompile.function, names
    for danger in scene.dangers(cause):
        if danger.file and danger.line:
            yield danger.file, danger.line, "", (danger.subject,)
    kinds = {each.what for each in cause.symptoms}
    if kinds & {Finding.ATTENTION, Finding.FAILURE} and cause.file and cause.line:
        yield cause.file, cause.line, cause.function or "", ()


@lru_cache(maxsize=256)
def _names(source: str) -> tuple[str, ...]:
    """Return the names and attributes that a piece of source reads."""
    tree = parsed(source.strip().rstrip(":"))
    if tree is None:
        return ()
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute))
    return tuple(dict.fromkeys(map(ast.unparse, names)))


def _of_advice(scene: DiagnosisScene, files: Files) -> Iterator[RepairCandidate]:
    """Yield the edits that check advice, if they are repairs."""
    from ctrace.inspector.diagnosis.rules import RULES

    for rule in RULES:
        if rule.__name__ in _LEFT_OUT:
            continue
        for each in rule(scene):
            trial = each.trial
            if trial is None or not trial.edits or not each.causes:
                continue
            texts = _edited(trial, files)
            if texts is None:
                continue
            own = all(scene.is_users(text.file) for text in texts)
            yield RepairCandidate(
                each.causes[0],
                each.causes,
                rule.__name__,
                "source",
                each.text,
                texts,
                question=_QUESTIONS.get(rule.__name__, "") or _dropped(texts, files),
                library="" if own else package_of(texts[0].file) or "a library",
                asks=tuple(
                    ask
                    for text in texts
                    for ask in _open(scene, text.file, files.text(text.file) or "", text.text, is_users=own)
                ),
                conditions=tuple(
                    condition
                    for text in texts
                    for condition in (
                        *conditions_of(text.file, files.text(text.file) or "", text.text),
                        *_writers(scene, text.file, files.text(text.file) or "", text.text, is_users=own),
                    )
                ),
            )


def _dropped(texts: Iterable[NewText], files: Files) -> str:
    """Return the question about statements that compiled calls leave out, by the edit; empty if there are none.

    What they would have done may show later, or elsewhere: a clock that compiled code does not read never reaches the
    time of a check.
    """
    for each in texts:
        before, lines = files.text(each.file) or "", python_lines(each.text)
        for line in sorted(replaced_lines(each.text, before)):
            if IS_COMPILING in lines[line - 1]:
                return _DROPPED.format(lines[line - 1].strip())
    return ""


def _edited(trial: Trial, files: Files) -> tuple[NewText, ...] | None:
    """Return the files after a trial's edits; None: a file cannot be read, or a line differs."""
    changed: dict[str, list[str]] = {}
    for edit in trial.edits:
        text = files.text(edit.file)
        if text is None:
            return None
        lines = changed.setdefault(edit.file, text.split("\n"))
        # The run recorded the line; the file may have been edited since.
        if edit.line > len(lines) or (edit.was and lines[edit.line - 1].strip() != edit.was.strip()):
            return None
        lines[edit.line - 1] = edit.text
    return tuple(NewText(file, "\n".join(lines)) for file, lines in changed.items())


def _of_settings(scene: DiagnosisScene, files: Files, target: str | None) -> Iterator[RepairCandidate]:
    for repair in all_settings():
        for setting in repair.find(scene):
            if setting.findings:
                yield from _of_setting(repair.name, setting, files, target)


def _of_setting(name: str, setting: Setting, files: Files, target: str | None) -> Iterator[RepairCandidate]:
    text = None
    if target is not None:
        text = files.text(target)
    changed: tuple[NewText, ...] = ()
    trial, how = setting.trial, setting.how
    if setting.line:
        new = None
        if text is not None:
            new = with_line(text, setting.line, setting.needs)
        if new is None or target is None:
            return
        changed = (NewText(target, new),)
    elif setting.compile_argument and text is not None and target is not None:
        new = with_compile_argument(text, setting.compile_argument)
        if new is not None:
            changed, trial, how = (NewText(target, new),), Trial(), ""
    yield RepairCandidate(
        setting.findings[0],
        setting.findings,
        name,
        "configuration",
        setting.summary,
        changed,
        trial=trial,
        how=how,
        question=setting.question,
        removes=setting.removes,
        changes_arithmetic=setting.changes_arithmetic,
        may_drop_output=setting.may_drop_output,
        drops_gradients=setting.drops_gradients,
    )


def with_line(text: str, line: str, needs: Iterable[str] = ()) -> str | None:
    """Return a file with lines after the imports at its top, and imports of what they need; None: it has no imports."""
    tree = parsed(text)
    if tree is None:
        return None
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    if not imports:
        return None
    names = [alias for node in imports if isinstance(node, ast.Import) for alias in node.names]
    known = {alias.asname or alias.name for alias in names}
    torch = ""
    for alias in names:
        # `import torch.nn` binds `torch`, `import torch.nn as nn` does not.
        if alias.name == "torch" or (alias.name.startswith("torch.") and alias.asname is None):
            torch = alias.asname or "torch"
    end = _end_of_imports(tree, imports[0])
    ending = "\r\n" if "\r\n" in text else "\n"
    wanted = [*needs]
    if not torch:
        wanted.insert(0, "torch")
    added = [f"import {each}" for each in wanted if each not in known]
    renamed = line
    if torch:
        renamed = line.replace("torch.", f"{torch}.")
    lines = text.splitlines(keepends=True)
    if not lines[end - 1].endswith(("\n", "\r")):
        lines[end - 1] += ending
    new = [f"{each}{ending}" for each in (*added, "", *renamed.split("\n"))]
    if end < len(lines) and lines[end].strip():
        new.append(ending)
    return "".join([*lines[:end], *new, *lines[end:]])


def _end_of_imports(tree: ast.Module, first: ast.stmt) -> int:
    """Return the last line of the first block of imports: what follows may already compile."""
    after = first
    for statement in tree.body[tree.body.index(first) :]:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            break
        after = statement
    return after.end_lineno or after.lineno


def with_compile_argument(text: str, argument: str) -> str | None:
    """Add an argument to every call of torch.compile in a file; None: no call, or one has it already."""
    tree = parsed(text)
    name = argument.partition("=")[0]
    found: list[tuple[int, int, str]] = []
    if tree is None:
        return None
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="compile"), keywords=keywords):
                # None is `**options`: they may have the argument, and twice is a TypeError.
                if any(each.arg in (name, None) for each in keywords):
                    return None
                separator = ", " if node.args or keywords else ""
                found.append((node.end_lineno or 0, (node.end_col_offset or 0) - 1, f"{separator}{argument}"))
            case ast.FunctionDef(decorator_list=decorators):
                found += [
                    (each.end_lineno or 0, each.end_col_offset or 0, f"({argument})")
                    for each in decorators
                    if isinstance(each, ast.Attribute) and ast.unparse(each) == "torch.compile"
                ]
    if not found:
        return None
    lines = text.splitlines(keepends=True)
    # From the end, so that what is added leaves the earlier columns right.
    for line, column, added in sorted(found, reverse=True):
        # Columns of Python's trees count bytes of UTF-8.
        data = lines[line - 1].encode()
        before, behind = data[:column].decode(), data[column:].decode()
        if added.startswith(", ") and before.rstrip().endswith(","):
            added = f" {added[2:]}"
        lines[line - 1] = f"{before}{added}{behind}"
    made = "".join(lines)
    # A generator that is the only argument has no parentheses: `torch.compile(f for f in parts)` takes no second one.
    if parsed(made) is None:
        return None
    return made
