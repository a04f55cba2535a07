"""Imports go one way: cli -> reports -> inspector, and only what runs in the child process imports torch."""

import ast
import io
import re
import tokenize
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.places import ROOT

LAYERS = {"cli": 3, "reports": 2, "inspector": 1}  # a layer may import itself and lower layers
HEAVY = {"torch", "triton"}
CAPTURE = "ctrace.inspector.capture"
API = "ctrace.inspector.api"


@dataclass(frozen=True)
class Import:
    """One imported name: `from a.b import c` is `a.b.c`, since `c` may be a module."""

    name: str
    line: int
    relative: bool
    lazy: bool  # inside a function, or for type checkers only


def within(name: str, package: str) -> bool:
    """Whether a dotted name is the package or lies below it."""
    return name == package or name.startswith(package + ".")


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def dynamic_import(node: ast.Call) -> str | None:
    """Return what `import_module("x")` or `__import__("x")` imports."""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called not in {"import_module", "__import__"} or not node.args:
        return None
    name = node.args[0]
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None


def named_imports(node: ast.AST) -> list[str]:
    """Return the dotted names that one node imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module or ''}.{alias.name}".strip(".") for alias in node.names]
    if isinstance(node, ast.Call):
        return [name for name in [dynamic_import(node)] if name is not None]
    return []


def laid_out(tree: ast.AST) -> list[tuple[ast.AST, bool]]:
    """List a node and all below it in the order of the source, each with whether it runs later than its module."""
    found = []
    waiting = [(tree, False)]
    while waiting:
        node, lazy = waiting.pop()
        found.append((node, lazy))
        deferred = lazy or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        guarded = node.body if isinstance(node, ast.If) and is_type_checking(node) else []
        below = [(child, deferred or child in guarded) for child in ast.iter_child_nodes(node)]
        waiting += reversed(below)
    return found


def imports(nodes: Iterable[tuple[ast.AST, bool]]) -> Iterator[Import]:
    """Yield every import among some nodes."""
    for node, lazy in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Call)):
            relative = isinstance(node, ast.ImportFrom) and node.level > 0
            yield from (Import(name, node.lineno, relative, lazy) for name in named_imports(node))


def imports_in(source: str) -> tuple[Import, ...]:
    return tuple(imports(laid_out(ast.parse(source))))


def layer(module: str) -> str | None:
    """Return the layer of a module; ctrace/ itself (version, entry point) is above all layers."""
    return next((name for name in LAYERS if within(module, f"ctrace.{name}")), None)


def is_torch_side(name: str) -> bool:
    """Whether a name is of the child process: in inspector/capture, or in the folder `child` of a feature."""
    parts = name.split(".")
    return within(name, CAPTURE) or (parts[:3] == ["ctrace", "inspector", "features"] and parts[4:5] == ["child"])


def complaint(module: str, found: Import) -> str | None:
    """Say what is wrong with one import in a module, or return None."""
    here, there = layer(module), layer(found.name)
    if found.relative:
        return "relative import"
    if found.name.split(".")[0] in LAYERS:
        return "bare import: write ctrace." + found.name
    if here and there and LAYERS[there] > LAYERS[here]:
        return f"{here} imports {there}"
    if found.name.split(".")[0] in HEAVY and not is_torch_side(module):
        return "torch and triton belong in inspector/capture, and in the folder `child` of a feature"
    if is_torch_side(found.name) and not is_torch_side(module) and not (module == API and found.lazy):
        return "capture is loaded by inspector/api.py only, inside a function"
    return None


def imports_of(path: Path) -> tuple[Import, ...]:
    """Return all imports of a module of the house."""
    return summary(path).imports


def complaints(source: str, module: str) -> list[str]:
    """Return `line: what is wrong` for every bad import in the source of a module."""
    return complained(imports_in(source), module)


def complained(found_imports: Iterable[Import], module: str) -> list[str]:
    """Return `line: what is wrong` for each bad import among some imports of a module."""
    found = ((one, complaint(module, one)) for one in found_imports)
    return [f"{one.line}: {text}: {one.name}" for one, text in found if text]


@cache
def modules() -> Mapping[str, Path]:
    """Return the file of every module in the tree, by its installed name."""
    found = {}
    for folder in ("ctrace", *LAYERS):
        prefix = () if folder == "ctrace" else ("ctrace",)
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = (*prefix, *path.relative_to(ROOT).with_suffix("").parts)
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


@dataclass(frozen=True)
class Summary:
    """What the rules ask about a module."""

    imports: tuple[Import, ...]
    nested: list[int]
    crowded: list[int]
    by_position: list[int]
    writing: list[str]
    classes: list[str]
    docstring: str | None


@cache
def summary(path: Path) -> Summary:
    """Take a module apart once for all rules; its tree is not kept, since those of the house would fill the memory."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    with_laziness = laid_out(tree)
    nodes = [node for node, _ in with_laziness]
    return Summary(
        imports=tuple(imports(with_laziness)),
        nested=nested_conditionals(nodes),
        crowded=crowded_statements(nodes),
        by_position=records_by_position(nodes),
        writing=written_files(nodes),
        classes=[node.name for node in tree.body if isinstance(node, ast.ClassDef)],
        docstring=ast.get_docstring(tree),
    )


def nodes_of(source: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(source)))


def test_modules_import_downwards_only():
    found = {module: complained(imports_of(path), module) for module, path in modules().items()}
    assert {module: bad for module, bad in found.items() if bad} == {}


def test_every_layer_is_checked():
    assert {layer(module) for module in modules()} == {None, *LAYERS}


BARE = re.compile(rf"(?<![\w./])(?:{'|'.join(LAYERS)})\b(?!/)")
"""A layer's name without `ctrace.` before it: text without one imports none by it, and is not taken apart."""


def bare_imports(source: str) -> list[str]:
    """Return the imports of a layer by its bare name."""
    if not BARE.search(source):
        return []
    return [one.name for one in imports_in(source) if one.name.split(".")[0] in LAYERS]


def test_tests_use_the_installed_names():
    found = {path: bare_imports(path.read_text(encoding="utf-8")) for path in (ROOT / "tests").rglob("*.py")}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from ctrace.cli import console\nimport ctrace.reports", []),
        ("import reports", ["reports"]),
        ("def f():\n    from cli.console import out", ["cli.console.out"]),
        ("import_module(\n    'inspector.facts'\n)", ["inspector.facts"]),
    ],
)
def test_a_bare_name_is_found(source: str, names: list[str]):
    assert bare_imports(source) == names


OF_TORCH = re.compile(r"""^(?:import torch|from torch\b|(?:\w+ = )?pytest\.importorskip\(["']torch)""", re.MULTILINE)


def needs_torch(source: str) -> bool:
    """Whether to collect the tests of a file is to import torch."""
    at_top = ast.parse(source).body if OF_TORCH.search(source) else []
    return any(OF_TORCH.match(ast.unparse(node)) for node in at_top)


def test_make_check_imports_no_torch():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    patterns = re.findall(r"tests/[\w/*.]+", makefile.partition("\nWITH_TORCH :=")[2].partition("\nUNITS :=")[0])
    left_out = {path for pattern in patterns for path in ROOT.glob(pattern)}
    assert len(left_out) >= len(patterns) > 5
    tests = [path for folder in LAYERS for path in (ROOT / "tests" / folder).rglob("test_*.py")]
    collected = [path for path in tests if not left_out & {path, *path.parents}]
    bad = [path for path in collected if needs_torch(path.read_text(encoding="utf-8"))]
    assert bad == [], "import it in the test, and mark that `thorough`, or name the file in WITH_TORCH of the Makefile"


@pytest.mark.parametrize(
    ("source", "needs"),
    [
        ("import torch._dynamo", True),
        ("torch = pytest.importorskip('torch')", True),
        ("def test():\n    torch = pytest.importorskip('torch')", False),
        ("SOURCE = '''\nimport torch\n'''", False),
    ],
)
def test_what_needs_torch(source: str, needs: bool):
    assert needs_torch(source) == needs


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("ctrace.inspector.log.reader", "from ctrace.reports.format import number"),
        ("ctrace.inspector.log.reader", "from ctrace import reports"),
        ("ctrace.inspector.log.reader", "import ctrace.cli.main as main"),
        ("ctrace.inspector.log.reader", "def f():\n    from ctrace.cli import console"),
        ("ctrace.inspector.capture.run", "from ctrace.reports import text"),
        ("ctrace.reports.html", "from ctrace.cli.command_options import Output"),
        ("ctrace.reports.html", "if TYPE_CHECKING:\n    from ctrace.cli.command_options import Output"),
        ("ctrace.inspector.facts.session", "import torch"),
        ("ctrace.inspector.findings.graphs.graph_view", "from torch.fx import Graph"),
        ("ctrace.inspector.capture_extra", "import torch"),
        ("ctrace.inspector.api", "def trace():\n    import torch"),
        ("ctrace.inspector.runs.target", "import importlib\nimportlib.import_module('torch._dynamo')"),
        ("ctrace.cli.commands.doctor", "import triton"),
        ("ctrace.inspector.api", "from ctrace.inspector.capture.run import main"),
        ("ctrace.inspector.api", "if TYPE_CHECKING:\n    pass\nelse:\n    from ctrace.inspector import capture"),
        ("ctrace.inspector.runs.store", "def f():\n    from ctrace.inspector import capture"),
        ("ctrace.inspector.features.time.measuring", "import torch"),
        ("ctrace.inspector.features.time.measuring", "from ctrace.inspector.features.time.child import main"),
        ("ctrace.cli.commands.run", "from ctrace.inspector.capture import run"),
        ("ctrace.inspector.findings.breaks.break_view", "from . import graphs"),
        ("ctrace.inspector.findings.breaks.break_view", "from ..model import Session"),
        ("ctrace.cli.main", "from inspector.facts import Session"),
        ("ctrace.cli.main", "import reports"),
    ],
)
def test_bad_import_is_found(module: str, source: str):
    assert len(complaints(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "ctrace.cli.commands.explain",
            "from ctrace.reports import text\nfrom ctrace.inspector.runs.store import load",
        ),
        (
            "ctrace.reports.wording",
            "from ctrace.inspector.facts.session import Session\nfrom ctrace.inspector.version import __version__",
        ),
        ("ctrace.inspector.capture.run", "import torch\nimport triton.knobs\nfrom ctrace.inspector.capture import log"),
        ("ctrace.inspector.capture", "from torch._logging import trace_log"),
        ("ctrace.inspector.capture.calls.timed_rounds", "import torch"),
        ("ctrace.inspector.api", "def trace():\n    from ctrace.inspector.capture.run import watch"),
        ("ctrace.inspector.api", "if TYPE_CHECKING:\n    from ctrace.inspector.capture.run import Watch"),
        ("ctrace.inspector.runs.target", "import inspect\nfrom importlib import import_module\nimport_module(name)"),
        ("ctrace.__main__", "from ctrace.cli.main import app"),
    ],
)
def test_good_import_passes(module: str, source: str):
    assert complaints(source, module) == []


ORDER = (
    ("errors", "grouping", "version", "install_folders"),
    ("features.doors",),
    ("files", "processes", "facts"),
    ("knowledge", "log", "source"),
    ("edits", "findings"),
    ("session",),
    ("diagnosis",),
    ("runs",),
    ("self_check", "features.accuracy", "features.bytecode", "features.check", "features.memory", "features.time"),
    (
        "features.cluster",
        "features.compare",
        "features.fake",
        "features.fix",
        "features.gpus",
        "features.upgrade",
        "features.workshop",
    ),
    ("capture.core",),
    ("capture.isolation",),
    ("capture.dynamo", "capture.kernels"),
    ("capture.calls", "capture.inductor"),
    ("features.cluster.child", "features.fake.child", "features.gpus.child"),
    ("capture.comparing",),
    (
        "capture.capture_hooks",
        "capture.scenario_runs",
        "features.accuracy.child",
        "features.fix.child",
        "features.memory.child",
        "features.time.child",
        "features.upgrade.child",
    ),
    ("features.workshop.child",),
    ("capture.inprocess", "capture.child_main", "capture.probe"),
    ("capture.fork_server",),
    ("api",),
)
"""The rooms of inspector/, lowest first; a room imports from lower rows only, and from itself.

A feature's `child` is a room of its own: it is of the child process, where the order is that of the stages of a compile.
"""
INSPECTOR = "ctrace.inspector"
FEATURES = f"{INSPECTOR}.features"
DOORS = f"{FEATURES}.doors"
FACES = {INSPECTOR, CAPTURE, FEATURES}
"""Packages that hold rooms and nothing else."""


def room(name: str) -> str:
    """Return the room of a module of inspector/ or of something in it: the longest name in ORDER; "" if none has it."""
    within_rooms = [one for row in ORDER for one in row if within(name, f"{INSPECTOR}.{one}")]
    return max(within_rooms, key=len, default="")


def upwards() -> list[str]:
    """List imports from a higher row, or from another room of the same row."""
    rows = {one: row for row, rooms in enumerate(ORDER) for one in rooms}
    found = []
    for module, path in modules().items():
        here = room(module)
        for one in imports_of(path) if here else ():
            there = room(one.name)
            if there and there != here and rows[there] >= rows[here]:
                found.append(f"{module}:{one.line} imports {one.name}")
    return found


def test_rooms_import_downwards_only():
    assert upwards() == []


def test_every_module_has_its_room():
    names = {name for name in modules() if within(name, INSPECTOR)} - FACES
    assert {name for name in names if not room(name)} == set()
    assert {room(name) for name in names} == {one for row in ORDER for one in row}


def test_every_room_is_on_the_map():
    the_map = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    places = {
        f"inspector/{one.replace('.', '/')}" for row in ORDER for one in row if "." not in one or "features" in one
    }
    assert {place for place in places if f"`{place}/`" not in the_map and f"`{place}.py`" not in the_map} == set()


def feature(name: str) -> str:
    """Return the feature that a name belongs to; "" for the core, which has the list of doors."""
    if not name.startswith(f"{FEATURES}.") or within(name, DOORS):
        return ""
    return name.removeprefix(f"{FEATURES}.").partition(".")[0]


def past_doors() -> Counter[str]:
    """Count the pairs of modules of which one imports the other, in a feature that is not its own."""
    pairs = set()
    for module, path in modules().items():
        here = feature(module) or room(module)
        for one in imports_of(path) if here else ():
            if feature(one.name) not in ("", here):
                pairs.add((here, module, closest(one.name, modules()), feature(one.name)))
    return Counter(f"{here} -> {there}" for here, _, _, there in pairs)


def test_the_core_imports_no_feature():
    """And a feature imports no other one."""
    assert past_doors() == {}


def circle(found: Mapping[str, Iterable[Import]]) -> list[str]:
    """Return modules that import each other in a circle, given what each imports; nothing if there is no circle."""
    graph = {}
    for module, imported in found.items():
        names = {closest(one.name, found) for one in imported}
        graph[module] = names - {module, None}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the module that an imported name is, or is defined in; None if it is foreign."""
    return next((module for module in (name, name.rpartition(".")[0]) if module in known), None)


def test_no_module_imports_in_a_circle():
    """Lazy imports count, too: a circle in them is one thought in two places, or a callee that knows its caller."""
    assert circle({module: imports_of(path) for module, path in modules().items()}) == []


@pytest.mark.parametrize(
    "source",
    ["import ctrace.b", "from ctrace import b", "def f():\n    from ctrace.b import g", "import_module('ctrace.b')"],
)
def test_a_circle_is_found(source: str):
    texts = {"ctrace.a": source, "ctrace.b": "from ctrace.c import h", "ctrace.c": "def f():\n    import ctrace.a"}
    found = {module: imports_in(text) for module, text in texts.items()}
    assert set(circle(found)) == set(texts)
    assert circle({**found, "ctrace.c": ()}) == []


def is_fold(module: str) -> bool:
    return module.endswith("_fold") or module == f"{INSPECTOR}.session.build"


def is_view(module: str) -> bool:
    return module.endswith("_view") or module == f"{INSPECTOR}.session.summary"


def test_building_a_session_imports_no_view():
    """A fold decides once; a view answers questions about the decisions."""
    assert sum(map(is_fold, modules())) > 5
    assert sum(map(is_view, modules())) > 10
    bad = [
        f"{module}:{one.line} imports {one.name}"
        for module, path in modules().items()
        if is_fold(module)
        for one in imports_of(path)
        if is_view(one.name) or is_view(one.name.rpartition(".")[0])
    ]
    assert bad == []


WRITING = {"write_text", "write_bytes", "mkdtemp", "mkstemp", "TemporaryDirectory", "NamedTemporaryFile"}
"""Methods that write a file or make a temporary one, past `inspector/files/`."""
OWN_WRITERS = {"ctrace.inspector.features.fix.repairs.trial_runs"}
"""Modules that may: a folder inside of one that `files/scratch.py` made."""


def loading(name: str) -> set[str]:
    """Return the modules that load a package when they are imported, themselves or through others."""
    found: set[str] = {name}
    larger = True
    while larger:
        importing = {
            module
            for module, path in modules().items()
            for one in imports_of(path)
            if not one.lazy and (within(one.name, name) or closest(one.name, found) is not None)
        }
        larger = not importing <= found
        found |= importing
    return found - {name}


def test_only_repairs_load_libcst():
    """It takes 0.4 seconds, and no view edits: `all_repairs` imports the repairs when they are to run."""
    places = ("ctrace.inspector.edits", "ctrace.inspector.features.fix.repairs.source")
    found = loading("libcst")
    assert "ctrace.inspector.edits.syntax_code" in found
    assert {one for one in found if not any(within(one, place) for place in places)} == set()


def test_files_are_written_in_one_place():
    """A full disk, a folder that vanished and a cut write are handled there; the child process has no such care."""
    bad = [
        f"{module}: {text}"
        for module, path in modules().items()
        if not module.startswith("ctrace.inspector.files") and not is_torch_side(module) and module not in OWN_WRITERS
        for text in summary(path).writing
    ]
    assert bad == []


def written_files(nodes: Iterable[ast.AST]) -> list[str]:
    """Return the expressions that name one of the methods."""
    return [ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute) and node.attr in WRITING]


def test_what_writes_a_file_is_found():
    assert written_files(nodes_of("path.write_text(text)\npath.read_text()")) == ["path.write_text"]


def nested_conditionals(nodes: Iterable[ast.AST]) -> list[int]:
    """Return the lines of conditional expressions that have another one inside."""
    return sorted(
        node.lineno
        for node in nodes
        if isinstance(node, ast.IfExp)
        and any(isinstance(below, ast.IfExp) for below in ast.walk(node) if below is not node)
    )


def test_conditional_expressions_are_not_nested():
    """`a if x else b if y else c` is said in statements: if and return, a match, or a mapping."""
    bad = [f"{module}:{line}" for module, path in modules().items() for line in summary(path).nested]
    assert bad == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("a if x else b", []),
        ("(a if x else b, c if y else d)", []),
        ("a if x else b if y else c", [1]),
        ("f'{a if x else b}' if y else (\n    c\n)", [1]),
        ("x = 1\n[each if x else f(b if y else c) for each in z]", [2]),
    ],
)
def test_a_nested_conditional_expression_is_found(source: str, lines: list[int]):
    assert nested_conditionals(nodes_of(source)) == lines


def crowded_statements(nodes: Sequence[ast.AST]) -> list[int]:
    """Return the lines of statements with two conditional expressions or more."""
    lines = sorted(node.lineno for node in nodes if isinstance(node, ast.IfExp))
    return sorted(
        node.lineno
        for node in nodes
        if isinstance(node, ast.stmt)
        and bisect_right(lines, node.end_lineno or node.lineno) - bisect_left(lines, node.lineno) > 1
        and sum(isinstance(each, ast.IfExp) for each in own_expressions(node)) > 1
    )


def own_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the expressions of a statement, without those of statements inside it."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.stmt)]


def test_a_statement_has_one_conditional_expression():
    """Facts that are there or not are found in statements, and then put into a record or a sentence."""
    bad = {module: lines for module, path in modules().items() if (lines := summary(path).crowded)}
    assert bad == {}


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("a if x else b", []),
        ("f(a if x else b, c if y else d)", [1]),
        ("if x:\n    y = a if b else c\nelse:\n    y = d if e else f", []),
        ("def f():\n    return {\n        'a': b if c else d,\n        'e': [f if g else h for i in j],\n    }", [2]),
    ],
)
def test_a_crowded_statement_is_found(source: str, lines: list[int]):
    assert crowded_statements(nodes_of(source)) == lines


_MOST_BY_POSITION = 8


def records_by_position(nodes: Iterable[ast.AST]) -> list[int]:
    """Return the lines of calls of a class with more values by position than a reader can count."""
    return sorted(
        node.lineno
        for node in nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id.lstrip("_")[:1].isupper()
        and len(node.args) > _MOST_BY_POSITION
    )


BY_POSITION = {
    "ctrace.inspector.features.fix.repairs.fixing",
}
"""Modules with records that are still to be built by name; none may be added."""


def test_long_records_are_built_by_name():
    bad = {module: lines for module, path in modules().items() if (lines := summary(path).by_position)}
    assert {module: lines for module, lines in bad.items() if module not in BY_POSITION} == {}
    assert bad.keys() >= BY_POSITION, "a module is done: leave it out of BY_POSITION"


@pytest.mark.parametrize(
    ("source", "lines"),
    [("_Row(1, 2, 3, 4, 5, 6, 7, 8)", []), ("Row(1, 2, 3, 4, 5, 6, 7, 8, 9)", [1]), ("f(*range(9), 1)", [])],
)
def test_a_long_record_by_position_is_found(source: str, lines: list[int]):
    assert records_by_position(nodes_of(source)) == lines


def test_every_package_has_a_docstring():
    for module, path in modules().items():
        if path.name == "__init__.py":
            assert summary(path).docstring, module


GUIDES = ("ARCHITECTURE.md", "CONTRIBUTING.md")


def named_places(text: str) -> list[tuple[str, str]]:
    """Return the files of the checkout that a guide names, each with the function or class behind a colon."""
    return re.findall(r"`((?:[\w.]+/)+[\w.]*|[\w]+\.(?:md|toml|yaml))(?::(\w+))?`", text)


@pytest.mark.parametrize("guide", GUIDES)
def test_files_named_in_guides_exist(guide: str):
    places = named_places((ROOT / guide).read_text(encoding="utf-8"))
    assert len(places) > 10
    for file, name in places:
        assert (ROOT / file).exists(), file
        if name:
            text = (ROOT / file).read_text(encoding="utf-8")
            assert re.search(rf"^\s*(?:def|class) {name}\b|^{name}\b", text, re.MULTILINE), f"{file}:{name}"


FILES = [path.relative_to(ROOT) for path in modules().values()]
FOLDERS = {part for file in FILES for part in file.parts[:-1]}


PLACE = re.compile(rf"(?<![\w/.])((?:{'|'.join(sorted(FOLDERS))})/(?:\w+/)*\w+\.py)\b")
"""A path that begins with a folder of the house: a name alone, and every other path, may be one of torch."""


def remarks(source: str) -> str:
    """Return the docstrings and comments of a module."""
    found = [
        node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return "\n".join([*found, *(each.string for each in tokens if each.type == tokenize.COMMENT)])


def lost_files(source: str) -> list[str]:
    """Return the files of the house that docstrings and comments of a module name, and that do not exist."""
    if all(is_there(file) for file in PLACE.findall(source)):
        return []  # most modules name none, and to take a module apart takes time
    return [file for file in PLACE.findall(remarks(source)) if not is_there(file)]


def is_there(file: str) -> bool:
    """Whether a file of the house has this path, or one that ends so."""
    return any(f"/{each.as_posix()}".endswith(f"/{file}") for each in FILES)


def test_files_named_in_docstrings_and_comments_exist():
    outside = [path for folder in ("tests", "tools", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    lost = {path: lost_files(path.read_text(encoding="utf-8")) for path in (*modules().values(), *outside)}
    assert {path: files for path, files in lost.items() if files} == {}


def test_packages_name_their_files():
    """The docstring of a package says where to start; what it names in backticks lies in the package."""
    for module, path in modules().items():
        if path.name != "__init__.py":
            continue
        named = re.findall(r"`(\w+\.py)`", summary(path).docstring or "")
        assert {name for name in named if not (path.parent / name).exists()} == set(), module


@pytest.mark.parametrize(
    ("source", "lost"),
    [
        ('"""See `inspector/errors.py`, `log/reader.py` and _inductor/codegen/cpp.py."""', []),
        ('"""See `log/gone.py`."""', ["log/gone.py"]),
        ("x = 'log/gone.py'  # log/lost.py:12", ["log/lost.py"]),
    ],
)
def test_a_lost_file_is_found(source: str, lost: list[str]):
    assert lost_files(source) == lost


SAME_NAMED = ("__init__", "__main__", "door")


def test_a_file_name_occurs_once():
    """A tab of an editor, or a traceback, that says `view.py` says nothing."""
    names = Counter(path.stem for path in modules().values() if path.stem not in SAME_NAMED)
    assert [name for name, times in names.items() if times > 1] == []


def test_a_public_class_name_occurs_once():
    """So that a name in a message, a review or a search means one thing."""
    names: Counter[str] = Counter()
    for path in modules().values():
        names.update(name for name in summary(path).classes if not name.startswith("_"))
    assert [name for name, times in names.items() if times > 1] == []
