"""Print the size and the density of the code, package by package, beside another commit.

    make size                    this tree beside the last commit
    make size BASE=v0.1.0        beside another one
    python tools/size.py --names list the repeated names and the modules with one importer

Lines of code are physical lines without blank lines, comments and docstrings; densities are per 1,000 physical lines. A
module has one importer if exactly one other module of the house imports it, at its head or inside a function. CI prints
this table, so that a reviewer sees what a change costs; CONTRIBUTING.md says what a new fact, command, hook or repair
may cost.

Below the packages, what existed at the start is counted apart from each capability added since: every feature except
those of `FIRST_FEATURES`, and what serves it alone elsewhere (see `capabilities`). What a capability added to modules
that others use, too, cannot be separated, and is counted as existing.
"""

import argparse
import ast
import io
import subprocess
import tarfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").exists())
HOUSE = ("ctrace", "cli", "reports", "inspector")
SAME_NAMED = ("__init__", "__main__", "door")
"""File names that may occur more than once."""
FEATURES = "inspector.features."
FIRST_FEATURES = ("bytecode", "check", "compare", "fix", "gpus", "time", "workshop")
"""The features that were there when the aims for the size of the code were set; every other one came later."""


@dataclass
class Module:
    """What is counted in one module; `code` is in lines, `imports` are dotted names without `ctrace.`."""

    name: str
    lines: int = 0
    code: int = 0
    comments: int = 0
    conditionals: int = 0
    functions: int = 0
    imports: set[str] = field(default_factory=set)
    classes: list[str] = field(default_factory=list)
    commands: tuple[str, ...] = ()
    """In the door of a feature: the commands that it adds."""


@dataclass
class Count:
    """The sum of some modules."""

    modules: int = 0
    lines: int = 0
    code: int = 0
    comments: int = 0
    conditionals: int = 0
    lonely: int = 0

    def add(self, module: Module, alone: bool) -> None:
        """Count one module, which has one importer or not."""
        self.modules += 1
        self.lines += module.lines
        self.code += module.code
        self.comments += module.comments
        self.conditionals += module.conditionals
        self.lonely += alone

    def per_thousand(self, number: int) -> float:
        """Return a number of things in 1,000 physical lines."""
        return 1000 * number / max(1, self.lines)


def main() -> None:
    """Print the table, or the names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", nargs="?", default="HEAD", help="the commit to print beside this tree")
    parser.add_argument("--names", action="store_true", help="list what is repeated and what has one importer")
    options = parser.parse_args()
    now = measured(tree_files())
    if options.names:
        print_names(now)
        return
    print_table(now, measured(commit_files(options.base)), options.base)


def tree_files() -> Iterable[tuple[str, str]]:
    """Yield path and text of each file of the house in this tree."""
    for folder in HOUSE:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def commit_files(commit: str) -> Iterable[tuple[str, str]]:
    """Yield path and text of each file of the house in a commit."""
    packed = subprocess.run(["git", "archive", commit, *HOUSE], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        for member in files:
            content = files.extractfile(member)
            if member.name.endswith(".py") and content is not None:
                yield member.name, content.read().decode()


def measured(files: Iterable[tuple[str, str]]) -> dict[str, Module]:
    """Count each file; imports of names are resolved to the modules that exist."""
    found = {}
    for path, text in files:
        name = path.removesuffix(".py").replace("/", ".")
        found[name] = module_of(name, text)
    for module in found.values():
        module.imports = {known for each in module.imports if (known := _existing(each, found))} - {module.name}
    return found


def module_of(name: str, text: str) -> Module:
    """Count one file."""
    tree, module = ast.parse(text), Module(name)
    docstrings = _docstring_lines(tree)
    with_code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            module.comments += token.line.lstrip().startswith("#")
        elif token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
            with_code.update(range(token.start[0], token.end[0] + 1))
    module.lines = text.count("\n")
    module.code = len(with_code - docstrings)
    for node in ast.walk(tree):
        module.conditionals += isinstance(node, ast.IfExp)
        module.functions += isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        module.imports.update(_imported(node))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Door":
            module.commands = _commands(node)
    module.classes = [each.name for each in tree.body if isinstance(each, ast.ClassDef)]
    return module


def _commands(door: ast.Call) -> tuple[str, ...]:
    """Return the names of commands that a door is made with."""
    named = {each.arg: each.value for each in door.keywords}
    return tuple(ast.literal_eval(named["commands"])) if "commands" in named else ()


def _docstring_lines(tree: ast.Module) -> set[int]:
    """Return the lines of docstrings, those under fields and constants included."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _imported(node: ast.AST) -> set[str]:
    """Return the dotted names that a statement imports from the house, as `inspector.errors.Exit`."""
    if isinstance(node, ast.Import):
        names = {each.name for each in node.names}
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        names = {f"{node.module}.{each.name}" for each in node.names}
    else:
        names = set()
    return {name.removeprefix("ctrace.") for name in names if name.startswith("ctrace.")}


def _existing(name: str, found: Mapping[str, Module]) -> str:
    """Return the module that a dotted name is in; the package where the name is one of its own."""
    for candidate in (name, name.rpartition(".")[0]):
        for spelled in (candidate, f"{candidate}.__init__"):
            if spelled in found:
                return spelled
    return ""


def importers(modules: Mapping[str, Module]) -> dict[str, set[str]]:
    """Map each imported module to the modules that import it."""
    by_imported: dict[str, set[str]] = defaultdict(set)
    for module in modules.values():
        for imported in module.imports:
            by_imported[imported].add(module.name)
    return by_imported


def lonely(modules: Mapping[str, Module]) -> dict[str, str]:
    """Map each module with exactly one importer to that importer."""
    return {name: next(iter(by)) for name, by in importers(modules).items() if len(by) == 1}


def package_of(name: str) -> str:
    """Return the package under which a module is counted: two levels, three below `features` and `findings`."""
    parts = name.split(".")[:-1]
    depth = 3 if parts[1:2] in (["features"], ["findings"]) else 2
    return ".".join(parts[:depth])


def summed(modules: Mapping[str, Module]) -> dict[str, Count]:
    """Sum up the modules of each package."""
    counts = {name: Count() for name in sorted({package_of(name) for name in modules})}
    alone = lonely(modules)
    for module in modules.values():
        counts[package_of(module.name)].add(module, module.name in alone)
    return counts


def total(counts: Iterable[Count]) -> Count:
    """Sum up counts."""
    found = Count()
    for each in counts:
        for name in vars(found):
            setattr(found, name, getattr(found, name) + getattr(each, name))
    return found


def capabilities(modules: Mapping[str, Module]) -> dict[str, str]:
    """Map each module that belongs to a capability added since the start to the capability's name.

    To a capability belong the modules of its folder, those of the commands that its door names, and then, again and
    again, each module whose importers all belong to it: its screen, its wording, its document. A module that only
    several of them use belongs to their names, joined by `+`. Nothing imports a command or a door: ctrace finds both
    by name.
    """
    owners: dict[str, str] = {}
    for name, module in modules.items():
        feature = name.removeprefix(FEATURES).partition(".")[0]
        if not name.startswith(f"{FEATURES}{feature}.") or feature in FIRST_FEATURES:
            continue
        owners[name] = feature
        owners.update({f"cli.commands.{command}": feature for command in module.commands})
    by_imported = importers(modules)
    grown = True
    while grown:
        grown = False
        for name, users in by_imported.items():
            if name not in owners and users <= owners.keys():
                owners[name] = _joined(owners[user] for user in users)
                grown = True
    return owners


def _joined(owners: Iterable[str]) -> str:
    return "+".join(sorted({part for owner in owners for part in owner.split("+")}))


def by_capability(modules: Mapping[str, Module]) -> dict[str, Count]:
    """Sum up what existed at the start, the capabilities added since, and each of them."""
    owners, alone = capabilities(modules), lonely(modules)
    counts: dict[str, Count] = {"at the start": Count(), "added since": Count()}
    for owner in sorted(set(owners.values())):
        counts[f"  {owner}"] = Count()
    for module in modules.values():
        names = ["at the start"]
        if module.name in owners:
            names = ["added since", f"  {owners[module.name]}"]
        for name in names:
            counts[name].add(module, module.name in alone)
    return counts


def repeated_files(modules: Mapping[str, Module]) -> dict[str, list[str]]:
    """Map each file name that occurs more than once to the modules that have it."""
    by_name = defaultdict(list)
    for name in modules:
        by_name[name.rpartition(".")[2]].append(name)
    return {name: where for name, where in by_name.items() if len(where) > 1 and name not in SAME_NAMED}


def repeated_classes(modules: Mapping[str, Module]) -> dict[str, int]:
    """Count each public class name that several modules define."""
    names = Counter(name for module in modules.values() for name in module.classes if not name.startswith("_"))
    return {name: times for name, times in names.items() if times > 1}


def print_table(now: Mapping[str, Module], base: Mapping[str, Module], commit: str) -> None:
    """Print a row for each package, the sums, and what existed at the start beside what was added."""
    after, before = summed(now), summed(base)
    print(
        f"{'package':32}{'modules':>9}{'':>7}{'code':>8}{'':>8}{'cond/1000':>11}{'comm/1000':>11}{'one importer':>14}"
    )
    _print_rows(after, before)
    _print_rows({"all": total(after.values())}, {"all": total(before.values())})
    print()
    _print_rows(by_capability(now), by_capability(base))
    imported = len(importers(now))
    alone, packages = len(lonely(now)), sum(name.endswith(".__init__") for name in now)
    features = total(count for name, count in after.items() if name.startswith(FEATURES))
    print(f"\nbeside {commit}; {packages} packages; {features.code} lines in features")
    print(f"one importer: {alone} of {imported} imported modules ({100 * alone / imported:.0f}%)")
    print(f"file names used more than once: {len(repeated_files(now))} ({len(repeated_files(base))})")
    print(f"public class names used more than once: {len(repeated_classes(now))} ({len(repeated_classes(base))})")


def _print_rows(after: Mapping[str, Count], before: Mapping[str, Count]) -> None:
    """Print the rows of one part of the table, those of this tree in their order."""
    for name in [*after, *(each for each in before if each not in after)]:
        count, old = after.get(name, Count()), before.get(name, Count())
        print(
            f"{name:32}{count.modules:>9}{_difference(count.modules, old.modules):>7}"
            f"{count.code:>8}{_difference(count.code, old.code):>8}{count.per_thousand(count.conditionals):>11.1f}"
            f"{count.per_thousand(count.comments):>11.1f}{count.lonely:>14}"
        )


def _difference(now: int, before: int) -> str:
    return f"{now - before:+}" if now != before else ""


def print_names(modules: Mapping[str, Module]) -> None:
    """List what is repeated, and each module with one importer."""
    for name, where in sorted(repeated_files(modules).items()):
        print(f"{name}.py: {', '.join(where)}")
    for name, times in sorted(repeated_classes(modules).items()):
        print(f"class {name}: {times} times")
    for name, by in sorted(lonely(modules).items()):
        print(f"{name}: only {by}")


if __name__ == "__main__":
    main()
