"""Find the reason of each change by trying (`ReasonSearch`): put a difference back, and see what is gone.

A *difference* is an option of torch's configuration, a package or an environment variable in which the two environments
differ. Differences are put back all at once first; only for changes that are gone then, halves are tried, down to a
single difference. What stays with everything put back is torch's own, if torch differs, and unknown if it does not. Of
torch itself, the functions that differ between two releases and that a model calls are found (`differing_functions`).
"""

import ast
import builtins
import copy
import difflib
import filecmp
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.features.upgrade.upgrade_model import EnvironmentFacts, Reason, ReasonKind, UpgradeChange
from ctrace.inspector.runs.capture_request import TorchSetting, TorchSource

_LOCAL = ".<locals>."
_WORD = re.compile(r"\w+")


_Function = ast.FunctionDef | ast.AsyncFunctionDef


class TorchFunction(Struct, frozen=True):
    """A function of torch that has other code in the later release."""

    file: str
    """Below torch's folder."""
    name: str
    """Qualified, such as `GuardBuilder.TENSOR_MATCH`."""
    before: int
    """The line of its definition in the earlier release."""
    after: int
    words: frozenset[str] = frozenset()
    """The names and words of texts that only one of the two has."""
    other_words: frozenset[str] = frozenset()
    """Those that both have."""

    @property
    def module(self) -> str:
        """The module, such as `torch._dynamo.guards`."""
        parts = ("torch", *Path(self.file).with_suffix("").parts)
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def called_functions(record: Path) -> Mapping[str, list[str]]:
    """Read which functions a process called, by file; none if it wrote no record."""
    found: dict[str, list[str]] = {}
    try:
        lines = record.read_text("utf-8").splitlines()
    except OSError:
        return found
    for line in lines:
        file, _, name = line.partition("\t")
        found.setdefault(file, []).append(name)
    return found


def differing_functions(
    before: Path, after: Path, called: Mapping[str, list[str]], folders: Iterable[str]
) -> Iterator[TorchFunction]:
    """Yield the called functions that differ.

    Args:
        before: Torch's folder of the earlier environment.
        after: That of the later one.
        called: The functions to look at; of a function in another one, the outer one.
        folders: With what the names of the files to look at start.
    """
    starts = tuple(folders)
    for file, names in sorted(called.items()):
        if not file.startswith(starts):
            continue
        try:
            sources = (before / file).read_bytes(), (after / file).read_bytes()
            # Equal files are one key, and so one tree.
            trees = [ast.parse(each) for each in dict.fromkeys(sources)]
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
        if len(trees) == 1:
            continue
        one, other = (dict(_defined(each, "")) for each in trees)
        # What the earlier module imports or defines at its top comes with the code (`earlier_functions.put_back`).
        bound = {*_bound(trees[1]), *dir(builtins), *_imported(trees[0]), *_helpers(trees[0])}
        for name in sorted({name.partition(_LOCAL)[0] for name in names} & one.keys() & other.keys()):
            old, new = (_without_annotations(each[name]) for each in (one, other))
            # The quick comparison first: most functions are equal as they are.
            differs = ast.dump(old) != ast.dump(new) and _dumped(old) != _dumped(new)
            # A caller of the later release has to be able to call it, and every name that it reads has to be there.
            if differs and _parameters(old) == _parameters(new) and _free(old) <= bound:
                words = _words(old), _words(new)
                yield TorchFunction(file, name, old.lineno, new.lineno, words[0] ^ words[1], words[0] & words[1])


def mentioned_names(torch: Path, called: Mapping[str, list[str]]) -> set[str]:
    """Return the names that called functions read, and those that modules read while they are imported.

    Attributes and words of texts count, too: options are read as `config.x`, and set by their names.

    Args:
        torch: Torch's folder.
        called: The functions by file; of a function in another one, the outer one counts.
    """
    found = set[str]()
    for file, names in called.items():
        try:
            tree = ast.parse((torch / file).read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
        functions = dict(_defined(tree, ""))
        outer = {name.partition(_LOCAL)[0] for name in names}
        skipped = {id(node) for name, node in functions.items() if name not in outer}
        todo: list[ast.AST] = [tree]
        while todo:
            node = todo.pop()
            if id(node) in skipped:
                continue
            if not isinstance(node, ast.Name) or isinstance(node.ctx, ast.Load):  # else every option would name itself
                found |= _own_words(node)
            todo += ast.iter_child_nodes(node)
    return found


def _free(node: ast.AST) -> set[str]:
    """Return the names that a function reads and does not bind: without one of them, its code cannot run."""
    read, bound = set[str](), set[str]()
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name) | ast.arg(arg=name) | ast.ExceptHandler(name=str() as name):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.alias(name=name, asname=other):
                bound.add(other or name.partition(".")[0])
            case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
                bound.add(name)
            case _:
                pass
    return read - bound


def _defined(node: ast.AST, prefix: str) -> Iterator[tuple[str, _Function]]:
    for each in ast.iter_child_nodes(node):
        match each:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield f"{prefix}{each.name}", each
            case ast.ClassDef():
                yield from _defined(each, f"{prefix}{each.name}.")
            case ast.If() | ast.Try() | ast.With():
                yield from _defined(each, prefix)


def _bound(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module binds at its top, also in branches."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
                # What a function or a class binds inside is not bound at the top.
                continue
            case ast.alias(name=name, asname=other):
                yield other or name.partition(".")[0]
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case _:
                pass
        todo += ast.iter_child_nodes(node)


def _helpers(tree: ast.Module) -> Iterator[str]:
    """Yield the names of plain functions at the top of a module."""
    # A decorator may register a function, which would then be there twice.
    yield from (each.name for each in tree.body if isinstance(each, ast.FunctionDef) and not each.decorator_list)


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module imports, other than in branches."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (each.asname or each.name.partition(".")[0] for each in node.names)


def _without_annotations(node: _Function) -> _Function:
    node.returns = None
    for each in ast.walk(node):
        if isinstance(each, ast.arg):
            each.annotation = None
    return node


def _dumped(node: _Function) -> str:
    """Return the code of a function without its docstring and decorators: what a trial can put back.

    Assertions and annotations are left out: they make no graph, guard or kernel. torch 2.14 writes `if not x: raise
    AssertionError` where 2.13 has `assert x` in most of torch/_inductor, which would be hundreds of functions to try.
    """
    is_text = ast.get_docstring(node, clean=False) is not None
    # A transformer changes trees in place.
    parts = copy.deepcopy((ast.Module(node.body[is_text:], []), node.args))
    return "".join(ast.dump(_Plain().visit(each)) for each in parts)


class _Plain(ast.NodeTransformer):
    """Leaves out assertions and annotations."""

    def visit_Assert(self, _node: ast.Assert) -> None:
        return

    def visit_If(self, node: ast.If) -> ast.AST | None:
        match node:
            case ast.If(
                body=[ast.Raise(exc=ast.Call(func=ast.Name(id="AssertionError")) | ast.Name(id="AssertionError"))],
                orelse=[],
            ):
                return None
            case _:
                return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return None
        return self.generic_visit(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node


def _parameters(node: _Function) -> tuple[object, ...]:
    """Return what must be equal for the later function to take the earlier code, as `earlier_functions` does it."""
    each = node.args
    names = [arg.arg for arg in (*each.posonlyargs, *each.args, *each.kwonlyargs)]
    counts = len(each.posonlyargs), len(each.args)
    return type(node), names, counts, each.vararg is None, each.kwarg is None


def _words(node: ast.AST) -> frozenset[str]:
    """Return the names, attributes and words of texts in a piece of code."""
    return frozenset(word for each in ast.walk(node) for word in _own_words(each))


def _own_words(node: ast.AST) -> set[str]:
    match node:
        case ast.Name(id=text) | ast.Attribute(attr=text):
            return {text}
        case ast.Constant(value=str() as text):
            return words_of(text)
        case _:
            return set()


def words_of(text: str) -> set[str]:
    """Return the words of a text."""
    return set(_WORD.findall(text))


MOST_TRIALS = 48
"""How many further runs of one model may look for reasons; each costs about as much as the first."""
MOST_OPTION_TRIALS = 12
"""How many of them may look among the options that only the later torch has."""
MOST_FUNCTION_TRIALS = 8
"""How many of them may look among torch's functions."""
MOST_PAIR_TRIALS = 6
"""How many of them one pair of functions may take: the two, each alone, and without each."""
_MOST_PARTNERS = 3
"""Each costs a run where it explains nothing."""
MOST_FILE_TRIALS = 16
"""How many of them may look among the functions that share no word with a change, file by file."""
MOST_TRIALS_OF_FILE = 8
"""How many of those one file may take, so that one whose earlier code does not run leaves some for the next."""
MOST_KNOWN_TRIALS = 8
"""How many of them may look among what explained changes of earlier models."""
_MOST_FUNCTIONS = 8
"""The likeliest functions that are tried, by the words that they share with a change."""
_MOST_FILES = 4000
"""Files of a package that are compared: transformers has nearly 3,000."""
_LONGEST = 200
"""Characters of a line of code that a reason shows."""
_OF_TORCH = re.compile(r"torch|torchgen|functorch|triton|pytorch-triton|nvidia-.*|cuda-.*|intel-.*|mkl|tbb")
"""Packages that are torch, or that each torch brings along."""
_OURS = frozenset(("ctrace", "msgspec", "libcst", "pip", "setuptools", "wheel", "uv"))
Key = tuple[str, str, str, str]


class Difference(Struct, frozen=True):
    """One thing in which the environments differ, and what puts it back."""

    reason: Reason
    setting: TorchSetting | None = None
    tops: tuple[tuple[str, str], ...] = ()
    """The files and folders of the earlier package, by the names under which they are imported."""
    variable: str = ""
    function: TorchSource | None = None

    @property
    def name(self) -> str:
        """The name of the option, package or variable."""
        return self.reason.name or ""


def differences_of(before: EnvironmentFacts, after: EnvironmentFacts, imported: Collection[str]) -> list[Difference]:
    """Return what differs between two environments and can be put back; of packages, those in `imported`."""
    return [*_libraries(before, after, imported), *_options(before, after)]


def _options(before: EnvironmentFacts, after: EnvironmentFacts) -> Iterator[Difference]:
    for name, was in before.config.items():
        now = after.config.get(name)
        if now is not None and now != was:
            line, advice = after.lines.get(name), f"{name} = {_shown(was)} keeps the old behavior"
            reason = Reason(ReasonKind.CONFIG, name, _shown(was), _shown(now), line, advice=advice)
            yield Difference(reason, TorchSetting(name, was))


def new_options(before: EnvironmentFacts, after: EnvironmentFacts) -> Iterator[Difference]:
    """Yield the switches that only the later torch has, turned over: what they do is then as it was without them."""
    for name, now in after.config.items():
        # Other values have no opposite to try.
        if name not in before.config and now in ("true", "false"):
            other = "false" if now == "true" else "true"
            note = f"only torch {after.torch} has it; at {_shown(other)}, the change is gone"
            advice = f"{name} = {_shown(other)} keeps the old behavior"
            reason = Reason(ReasonKind.CONFIG, name, None, _shown(now), after.lines.get(name), note, advice)
            yield Difference(reason, TorchSetting(name, other))


def partners_of(known: Iterable[Difference]) -> list[Difference]:
    """Return functions of torch that explained changes of earlier models, to be put back together with another one."""
    return [each for each in known if each.function is not None][:_MOST_PARTNERS]


def earlier_function(found: TorchFunction, before: EnvironmentFacts, after: EnvironmentFacts) -> Difference:
    """Return the difference that gives a function of torch its earlier code."""
    was, now = (f"torch/{found.file}:{line}" for line in (found.before, found.after))
    note = "with its earlier code, the change is gone"
    advice = f"torch=={before.torch} keeps the old behavior"
    reason = Reason(ReasonKind.TORCH, found.name, was, now, now, note, advice)
    source = TorchSource(found.module, str(Path(before.torch_folder) / found.file), (found.name,))
    return Difference(reason, function=source)


_STAGES = {
    "guard": ("_dynamo/guards", "_dynamo/variables/", "_dynamo/source", "_dynamo/", "fx/experimental/symbolic_shapes"),
    "break": ("_dynamo/variables/", "_dynamo/symbolic_convert", "_dynamo/"),
    "graph": ("_inductor/fx_passes/", "_decomp/", "_inductor/decomposition", "_refs/", "_functorch/", "_inductor/"),
    "kernel": ("_inductor/codegen/", "_inductor/scheduler", "_inductor/lowering", "_inductor/ir", "_inductor/"),
}
"""Where torch makes what a kind of change is about, the most likely places first."""
_STAGES |= {"skip": _STAGES["break"], "recompile": _STAGES["guard"], "fusion": _STAGES["kernel"]}
_WITHOUT_WORDS = {"graph": ("_functorch/", *_STAGES["graph"])}
"""The order where no word is shared, if it is another one."""
STAGE_FOLDERS = frozenset(folder for folders in _STAGES.values() for folder in folders)


def likely_functions(changes: Iterable[UpgradeChange], functions: Sequence[TorchFunction]) -> list[TorchFunction]:
    """Return the functions that most likely made some changes, to be tried.

    A function is likely if it is of the stage that the change is of, and shares rare words with it: the name of an op,
    a piece of generated code.
    """
    owners: dict[str, int] = {}
    for each in functions:
        for word in each.words | each.other_words:
            owners[word] = owners.get(word, 0) + 1
    best: dict[TorchFunction, float] = {}
    for change in changes:
        # Of a kernel's source, what did not change says nothing.
        edited = [line for line in change.detail if line.startswith(("+", "-"))]
        words = words_of(" ".join(edited or (change.was or "", change.now or "")))
        folders = _STAGES.get(change.what, ())
        for each in functions:
            rank = next((at for at, folder in enumerate(folders) if each.file.startswith(folder)), None)
            if rank is None:
                continue
            # What only one of the two codes says counts more, and a word that many functions have counts little.
            shared = sum(4 / owners[word] for word in words & each.words)
            shared += sum(1 / owners[word] for word in words & each.other_words)
            best[each] = max(best.get(each, 0.0), shared / (1 + rank / 4))
    likely = [each for each in best if best[each] > 0]
    return sorted(likely, key=lambda each: (-best[each], each.file, each.name))[:_MOST_FUNCTIONS]


def likely_files(changes: Iterable[UpgradeChange], functions: Sequence[TorchFunction]) -> list[list[TorchFunction]]:
    """Return the functions of the stages that some changes are of, by file; the likeliest file first.

    What a change shows need not share a word with the code that made it: a partition that merges equal nodes names no
    op. Files of the most likely place come first; of one place, the file with the largest edit. For a graph, that is
    AOTAutograd: a pass or a decomposition names the ops that it is about, so that `likely_functions` has it.
    """
    ranks: dict[str, int] = {}
    files: dict[str, list[TorchFunction]] = {}
    for each in functions:
        files.setdefault(each.file, []).append(each)
    for change in changes:
        for rank, folder in enumerate(_WITHOUT_WORDS.get(change.what, _STAGES.get(change.what, ()))):
            for file in files:
                if file.startswith(folder):
                    ranks[file] = min(ranks.get(file, rank), rank)
    edits = {file: sum(len(each.words) for each in found) for file, found in files.items()}
    return [files[file] for file in sorted(ranks, key=lambda file: (ranks[file], -edits[file], file))]


def _shown(value: str) -> str:
    """Write a value of an option as in Python."""
    return repr(json.loads(value))


def _libraries(before: EnvironmentFacts, after: EnvironmentFacts, imported: Collection[str]) -> Iterator[Difference]:
    for name in sorted(imported):
        if name in _OURS or _OF_TORCH.fullmatch(name) or name not in before.packages or name not in after.packages:
            continue
        tops = tuple(_existing(before, name))
        changed = list(changed_files(before, after, name))
        was, now = before.packages[name], after.packages[name]
        is_elsewhere = before.folders[name] != after.folders[name]
        # A package may consist of extension modules, which are not compared.
        if tops and (changed or (was != now and is_elsewhere)):  # without a changed file, it is a compiled one
            if was != now:
                pin = f"{name}=={was} keeps the old behavior"
            else:
                pin = f"the {name} of before keeps the old one"
            yield Difference(Reason(ReasonKind.LIBRARY, name, was, now, (*changed, None)[0], advice=pin), tops=tops)


def _existing(facts: EnvironmentFacts, name: str) -> Iterator[tuple[str, str]]:
    """Yield the files and folders of a package that can be imported from elsewhere, and its metadata."""
    folder = Path(facts.folders[name])
    for top in facts.modules.get(name, ()):
        if (folder / top).exists() and top not in ("bin", "share", "include"):
            yield top, str(folder / top)
    pattern = f"{name.replace('-', '_')}-{facts.packages[name]}.dist-info"
    # Installers write the name with other dashes and capitals.
    for each in folder.glob("*.dist-info"):
        if each.name.lower().replace("-", "_") == pattern.replace("-", "_"):
            yield each.name, str(each)


def changed_files(before: EnvironmentFacts, after: EnvironmentFacts, name: str) -> Iterator[str]:
    """Yield the Python files of a package that differ, relative to the folder of packages."""
    one, other = Path(before.folders[name]), Path(after.folders[name])
    if one == other:
        return
    tops = sorted({*before.modules.get(name, ()), *after.modules.get(name, ())})
    for top in tops:
        for file in sorted({*_python_files(one, top), *_python_files(other, top)})[:_MOST_FILES]:
            if not _is_same(one / file, other / file):
                yield file


def _python_files(folder: Path, top: str) -> Iterator[str]:
    at = folder / top
    if at.suffix == ".py":
        yield top
    elif at.is_dir():
        yield from (str(file.relative_to(folder)) for file in at.rglob("*.py"))


def _is_same(one: Path, other: Path) -> bool:
    """Whether two files have the same code; comments, docstrings and layout do not count."""
    try:
        # The cheap comparisons first: most files of a package are equal.
        if one.samefile(other) or filecmp.cmp(one, other, shallow=False):
            return True
        return _code(one) == _code(other)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return False


def _code(file: Path) -> str:
    """Return the code of a file without comments and docstrings.

    Raises:
        SyntaxError: it is for another Python.
    """
    tree = ast.parse(file.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body
            has_docstring = ast.get_docstring(node, clean=False) is not None
            if has_docstring:
                body = body[1:]
            node.body = body or [ast.Pass()]
    return ast.dump(tree)


def library_reason(
    reason: Reason, change: UpgradeChange, before: EnvironmentFacts, after: EnvironmentFacts, loaded: Collection[str]
) -> Reason:
    """Return a package's reason with the line that differs, nearest to the change; versions where no line is known.

    Args:
        reason: The reason, which names the package.
        change: What it explains.
        before: The earlier environment.
        after: The later one.
        loaded: The files that the model loads, of the later environment.
    """
    name = str(reason.name)
    one, other = Path(before.folders[name]), Path(after.folders[name])
    files = list(changed_files(before, after, name))
    place, _, rest = change.where.partition(":")
    line = 0
    if digits := re.match(r"\d+", rest):
        line = int(digits[0])
    named = [file for file in files if file == place]
    used = [file for file in files if str(other / file) in loaded]
    for file in (*named, *used, *files):
        found = _nearest_lines(_read(one / file), _read(other / file), line if file == place else 0)
        if found is not None:
            at, was, now = found
            return replace(reason, before=was, after=now, source=f"{file}:{at}")
    return reason


def _read(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError):
        return []


def _nearest_lines(before: list[str], after: list[str], line: int) -> tuple[int, str | None, str | None] | None:
    """Return the differing lines nearest to a line of the later file: its number, the old text, the new text."""
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    found = [
        (low2 + 1, _text(before[low:high]), _text(after[low2:high2]))
        for tag, low, high, low2, high2 in blocks
        if tag != "equal"
    ]
    real = [each for each in found if each[1] or each[2]]
    return min(real, key=lambda each: abs(each[0] - line) if line else 0, default=None)


def _text(lines: Iterable[str]) -> str | None:
    """Return the first lines of code among some lines, without comments."""
    code = [each.strip() for each in lines if each.strip() and not each.strip().startswith("#")]
    text = "; ".join(code[:3])
    return (text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…") or None


def variables_gone(before: EnvironmentFacts, after: EnvironmentFacts) -> list[Difference]:
    """Return the environment variables that are set and that only the earlier torch reads."""
    found = []
    for name, place in before.variables.items():
        if name not in after.variables:
            advice = f"{name} has no effect any more: look for an option of torch that took its place"
            values = "read by torch", "not read by torch"
            reason = Reason(ReasonKind.ENVIRONMENT, name, *values, place, advice=advice)
            found.append(Difference(reason, variable=name))
    return found


class ReasonSearch:
    """Tries differences on one model until it is known which change each of them explains.

    Args:
        changes_with: Runs the model with some differences put back, and returns what still differs from before; None:
            the run failed, and says nothing.
        most: How many runs it may make.
    """

    def __init__(self, changes_with: Callable[[tuple[Difference, ...]], set[Key] | None], most: int) -> None:
        self._changes_with = changes_with
        self._most = most
        self.trials = 0
        self.explained: dict[Key, tuple[Difference, ...]] = {}
        self.unsteady = set[Key]()
        """Changes that a further run of the later environment does not have."""
        self._seen = set[Key]()
        self.is_complete = True
        """Whether a run with everything put back says what is left."""
        self.is_cut = False
        """Whether there were too many runs to finish."""

    def take_back(self, keys: Collection[Key]) -> None:
        """Forget the reasons of changes that are not there in each run."""
        for key in keys:
            del self.explained[key]
        self.unsteady |= set(keys)

    def followed_by(self, changes_with: Callable[[tuple[Difference, ...]], set[Key] | None]) -> "ReasonSearch":
        """Return a search that tries in another way, and knows what this one found."""
        other = ReasonSearch(changes_with, self._most)
        other.trials, other.explained = self.trials, self.explained
        other._seen = self._seen
        other.is_complete, other.is_cut = self.is_complete, self.is_cut
        return other

    def more(
        self,
        keys: Collection[Key],
        differences: Sequence[Difference],
        most: int,
        *,
        alone: bool = False,
        works: bool = False,
    ) -> None:
        """Search on, in a few runs, among differences whose effect the search can do without.

        Args:
            keys: The changes to explain.
            differences: What to try.
            most: How many runs to make.
            alone: Whether a run says something only if nothing else changes in it: to turn over a switch is not to put
                it back, and may hide a change behind another one.
            works: Whether a run says something only if as much compiles in it: earlier code may not work with the rest
                of the later release, and a change is gone, too, where nothing is compiled any more.
        """

        def changes_with(among: tuple[Difference, ...]) -> set[Key] | None:
            left = self._changes_with(among)
            if left is None:
                return None
            new = left - self._seen
            if (alone and new) or (works and any(key[0] in _LESS_COMPILED for key in new)):
                return None
            return left

        self._seen |= set(keys)
        other = ReasonSearch(changes_with, min(most, self._most - self.trials))
        other.search(keys, differences)
        self.trials += other.trials
        self.explained |= other.explained

    def search(self, keys: Collection[Key], differences: Sequence[Difference]) -> None:
        """Find the differences that explain some changes."""
        self._seen |= set(keys)
        if keys and differences:
            self._narrow(set(keys), tuple(differences), is_all=True)

    def _narrow(self, keys: set[Key], among: tuple[Difference, ...], *, is_all: bool = False) -> set[Key]:
        """Explain changes by differences among some; return the changes that are gone with all of these."""
        left = self._left(among)
        if is_all:
            self.is_complete = left is not None
        # A run that failed says nothing, so both halves are tried for all changes.
        if left is None:
            gone = keys
        else:
            gone = keys - left
        if not gone or (left is None and len(among) == 1):
            return set()
        if len(among) == 1:
            self.explained |= dict.fromkeys(gone, among)
            return gone
        middle = len(among) // 2
        explained = self._narrow(gone, among[:middle])
        if gone - explained:
            explained |= self._narrow(gone - explained, among[middle:])
        together = gone - explained
        # What is gone with all and with neither half takes some of both.
        if together and left is not None and not self.is_cut:
            fewest = self._fewest(together, among)
            if not self.is_cut:  # else it is not known which of them matter
                self.explained |= dict.fromkeys(together, fewest)
                explained |= together
        return explained

    def _fewest(self, keys: set[Key], among: tuple[Difference, ...]) -> tuple[Difference, ...]:
        """Return a small set of differences that only together explain changes."""
        # Large pieces are left out first, as in delta debugging.
        step = max(1, len(among) // 2)
        while step:
            at = 0
            while at < len(among) and len(among) > 1:
                without = (*among[:at], *among[at + step :])
                left = None
                if without:
                    left = self._left(without)
                if left is not None and not keys & left:
                    among = without
                else:
                    at += step
            step //= 2
        return among

    def _left(self, among: tuple[Difference, ...]) -> set[Key] | None:
        if self.trials >= self._most:
            self.is_cut = True
            return None
        self.trials += 1
        return self._changes_with(among)


def still_there(changes: Collection[Key], found: set[Key]) -> set[Key]:
    """Return the changes of a further run, and those of the first run that only look different in it.

    A change is not gone if another one of its kind is at its place: then the same thing differs in another form.
    """
    places = {key[:3:2] for key in found.difference(changes)}
    return found | {key for key in changes if key[:3:2] in places}


_LESS_COMPILED = frozenset(("verdict", "break", "skip", "coverage", "eager"))
"""Kinds of changes that show that code put back does not work."""
_ALONE = "put back alone, the change is gone"


def reason_of(found: tuple[Difference, ...]) -> Reason:
    """Return one reason for differences that explain a change together."""
    if len(found) == 1:
        reason = found[0].reason
        is_variable = reason.kind is ReasonKind.ENVIRONMENT
        note = "without it, the earlier environment does the same"
        if not is_variable:
            note = _ALONE
        return replace(reason, note=reason.note or note)
    first = found[0].reason
    names = ", ".join(each.name for each in found)
    advice = "; ".join(dict.fromkeys(each.reason.advice for each in found if each.reason.advice))
    return replace(first, name=names, before=None, after=None, source=None, note="only together", advice=advice or None)


def remaining_reason(
    before: EnvironmentFacts, after: EnvironmentFacts, tried: Sequence[Difference], *, is_complete: bool
) -> Reason:
    """Return the reason of what stays with everything put back: torch itself, if it differs, else unknown."""
    count = "the one other difference"
    if len(tried) != 1:
        count = f"{len(tried)} other differences"
    with_all = "the environments differ in nothing else that was loaded"
    if tried:
        with_all = f"with {count} put back"
    if not is_complete:
        return Reason(note="the model does not run with the other differences put back, or it takes too many runs")
    if before.torch == after.torch:
        return Reason(note=f"it stays {with_all}" if tried else "no difference of the environments was found")
    # Another minor version has other bytecode, which Dynamo reads.
    if before.python.rpartition(".")[0] != after.python.rpartition(".")[0]:
        return Reason(note=f"Python {before.python} and {after.python} differ, too")
    return Reason(
        ReasonKind.TORCH,
        "torch",
        before.torch,
        after.torch,
        note=f"it stays {with_all}" if tried else with_all,
        advice=f"torch=={before.torch} keeps the old behavior",
    )


_GB = re.compile(r"\bGB\d{4,}\b")
_STATE = "___check_global_state()"
_JSON = re.compile(r"\{.*\}")


def located_in_torch(
    reason: Reason, change: UpgradeChange, before: EnvironmentFacts, after: EnvironmentFacts
) -> Reason:
    """Return torch's reason with what is known of it without a trial.

    That is the place of a graph break whose code only one of the two has.
    """
    gbs = _GB.findall(f"{change.was or ''} {change.now or ''}")
    for gb in dict.fromkeys(gbs):
        places = [_break_place(Path(facts.torch_folder), gb) for facts in (before, after)]
        if (places[0] is None) != (places[1] is None):
            was, now = places
            source = (now or was or ("", ""))[0]
            return replace(reason, name=f"graph break {gb}", before=was and was[1], after=now and now[1], source=source)
    return reason


def known_without_trial(change: UpgradeChange, before: EnvironmentFacts, after: EnvironmentFacts) -> Reason | None:
    """Return the reason of a change that nothing but another torch can make; None: it takes trials.

    That is another set of fields of the state that a guard compares, if the fields of both are equal otherwise: the
    class that writes it is compiled (torch._C._dynamo.guards.GlobalStateGuard), so that no line can be named.
    """
    if before.torch == after.torch or before.python.rpartition(".")[0] != after.python.rpartition(".")[0]:
        return None
    texts = change.was or "", change.now or ""
    if not all(each.startswith(_STATE) for each in texts):
        return None
    was, now = map(_fields, texts)
    if was.keys() == now.keys() or any(was[name] != now[name] for name in was.keys() & now.keys()):
        return None
    gone, new = (", ".join(sorted(one.keys() - other.keys())) or None for one, other in ((was, now), (now, was)))
    advice = f"torch=={before.torch} keeps the old behavior"
    note = "compiled code of torch chooses the fields"
    return Reason(ReasonKind.TORCH, f"fields of {_STATE}", gone, new, note=note, advice=advice)


def _fields(text: str) -> Mapping[str, object]:
    match = _JSON.search(text)
    try:
        found: object = {}
        if match:
            found = json.loads(match[0])
    except ValueError:  # another form
        return {}
    if isinstance(found, dict):
        return found
    return {}


def _break_place(torch: Path, gb: str) -> tuple[str, str] | None:
    """Return where torch raises a graph break, as `file:line`, and its title; None: it does not."""
    try:
        registry: Mapping[str, list[dict[str, str]]] = json.loads(
            (torch / "_dynamo" / "graph_break_registry.json").read_text(encoding="utf-8")
        )
        title = registry[gb][0]["Gb_type"]
    except (OSError, ValueError, KeyError, IndexError):
        return None
    for file in sorted((torch / "_dynamo").rglob("*.py")):
        for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
            if title in line and "gb_type" in line:
                return f"torch/{file.relative_to(torch)}:{number}", title
    return None
