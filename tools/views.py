"""Render every view of every recorded log and saved run, and compare it byte for byte with another commit.

    make views                          this tree against the last commit
    make views BASE=v0.1.0              against another one
    python tools/views.py render DIR    write every view into DIR

A view is a command with its options on one log, at 80 and 140 columns, as JSON and as Markdown where it has them; the
data of the HTML page; each schema; each help. Nothing is captured and torch is not imported. A change of layout, names
or structure leaves no difference here; a change that users see leaves exactly the differences that its commit names.
"""

import argparse
import contextlib
import difflib
import filecmp
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").exists())
WIDTHS = (80, 140)
NOW = "1700086400"
"""A day after the recorded runs were made, for screens that say how old a run is."""
VIEWS: dict[str, tuple[str, ...]] = {
    "explain": ("", "-v"),
    "breaks": ("", "--all", "--owner user", "--owner library", "--owner torch"),
    "recompiles": ("", "--all"),
    "guards": (
        "",
        "--by-line",
        "--by-kind",
        "--by-object",
        "--tree",
        "--cost",
        "--all",
        "--kind TENSOR",
        "--name self",
    ),
    "shapes": ("", "--all"),
    "bytecode": ("", "--all", "--side-by-side", "--source"),
    "graphs": (
        "",
        "--ops",
        "--passes",
        "--all",
        "--dot",
        "--svg",
        "--stage dynamo",
        "--stage joint",
        "--stage forward",
        "--stage backward",
        "--stage post_grad",
        "--diff dynamo..post_grad",
        "--diff pre_grad",
    ),
    "fusion": ("", "--rounds", "--nodes", "--all", "-v"),
    "kernels": ("", "--all", "--source", "--wrapper", "--stage forward", "--stage backward", "--ir ptx", "--ir ttir"),
    "cudagraphs": ("", "--all"),
    "autotune": ("", "--all"),
}
"""The options with which each view is rendered, on each log."""
BY_GRAPH = ("guards", "bytecode", "graphs", "fusion", "kernels", "cudagraphs")
BY_LINE = ("guards", "kernels")
MOST_GRAPHS = 2
MOST_LINES = 3
MOST_KERNELS = 4
NO_JSON = ("--dot", "--svg", "--ir", "--wrapper")
MARKDOWN = ("explain", "diff")
MOST_SHOWN = 12
"""How many differing files are shown, and how many lines of each."""


def main() -> None:
    """Read the command line, and render or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    rendering = commands.add_parser("render", help="write every view into a folder")
    rendering.add_argument("folder", type=Path)
    rendering.add_argument("--tree", type=Path, default=ROOT, help="the checkout whose code renders")
    rendering.add_argument("--only", default="", help="only logs whose name contains this")
    comparing = commands.add_parser("compare", help="compare this tree with a commit")
    comparing.add_argument("base", nargs="?", default="HEAD")
    comparing.add_argument("--only", default="", help="only logs whose name contains this")
    options = parser.parse_args()
    if options.command == "render":
        render(options.folder.resolve(), options.only)
    else:
        sys.exit(compare(options.base, options.only))


def compare(base: str, only: str) -> int:
    """Render both trees from the logs of this one, print what differs, and return the exit code.

    The base's views are kept in build/views, by commit, since they are needed again after each edit.
    """
    commit = _git("rev-parse", "--short", base)
    kept = ROOT / "build" / "views"
    before = kept / f"{commit}-{_inputs_digest()}{'-' + only if only else ''}"
    after = kept / "now"
    if not before.exists():
        with _worktree(commit) as tree:
            _render_with(tree, before, only)
    shutil.rmtree(after, ignore_errors=True)
    _render_with(ROOT, after, only)
    return _print_differences(before, after, commit)


@contextlib.contextmanager
def _worktree(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        _git("worktree", "add", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def _inputs_digest() -> str:
    """Return what the recorded logs and this script are, so that kept views are not compared with views of others."""
    import hashlib

    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted(_recorded()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _render_with(tree: Path, folder: Path, only: str) -> None:
    """Render in a process whose `ctrace` is that of a tree."""
    words = [sys.executable, str(Path(__file__).resolve()), "render", str(folder), "--only", only]
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    words[3] = str(unfinished)
    subprocess.run(words, env={**os.environ, "PYTHONPATH": str(tree)}, cwd=tree, check=True)
    unfinished.rename(folder)


def _print_differences(before: Path, after: Path, commit: str) -> int:
    names = sorted({str(path.relative_to(side)) for side in (before, after) for path in side.rglob("*.txt")})
    differing = [name for name in names if not _equal(before / name, after / name)]
    for name in differing[:MOST_SHOWN]:
        old, new = (_lines(side / name) for side in (before, after))
        print("\n".join(list(difflib.unified_diff(old, new, f"{commit}/{name}", name, lineterm="", n=1))[:MOST_SHOWN]))
    for name in differing[MOST_SHOWN:]:
        print(f"differs: {name}")
    print(f"{len(names)} views, {len(differing)} differ from {commit}")
    return 1 if differing else 0


def _equal(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and filecmp.cmp(one, other, shallow=False)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else ["(not there)"]


def _recorded() -> list[Path]:
    data = ROOT / "tests" / "data"
    kinds = ("*.log", "diff/*.log.gz", "ranks/*/*", "runs/*.tar.gz")
    return sorted(path for kind in kinds for path in data.glob(kind))


def render(folder: Path, only: str) -> None:
    """Write each view of each recorded log into a file of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        work = _laid_out(Path(scratch))
        jobs = [(work, folder, name) for name in _sources(work) if only in name]
        jobs += [(work, folder, name) for name in ("=diff", "=ranks", "=rest") if only in name]
        with ProcessPoolExecutor(2) as pool:
            for name, count in pool.map(_rendered, jobs):
                print(f"{name}: {count}", file=sys.stderr)


def _laid_out(scratch: Path) -> Path:
    """Copy the logs and unpack the runs into a folder whose name never differs, and return that folder."""
    data, work = ROOT / "tests" / "data", scratch / "work"
    (work / ".ctrace").mkdir(parents=True)
    for path in data.glob("*.log"):
        shutil.copy(path, work)
    for name in ("diff", "ranks"):
        shutil.copytree(data / name, work / name)
    for path in (data / "runs").glob("*.tar.gz"):
        with tarfile.open(path) as packed:
            packed.extractall(work / ".ctrace", filter="data")
    return work


def _sources(work: Path) -> list[str]:
    """Name what can be opened, the largest first, so that both processes end at the same time."""
    logs = [(path.stat().st_size, path.name) for path in work.glob("*.log")]
    runs = [((path / "trace.log").stat().st_size, path.name) for path in (work / ".ctrace").iterdir()]
    return [name for _, name in sorted(logs + runs, reverse=True)]


def _rendered(job: tuple[Path, Path, str]) -> tuple[str, int]:
    work, folder, name = job
    os.chdir(work)
    os.environ.update(SOURCE_DATE_EPOCH=NOW, NO_COLOR="1")
    makers = {"=diff": _diffs, "=ranks": _ranks, "=rest": _rest}
    words = makers[name]() if name in makers else _views(name)
    count = 0
    place = folder / name.lstrip("=")
    place.mkdir(exist_ok=True)
    for each in words:
        for shown, text in _forms(each):
            (place / f"{_file_name(shown)}.txt").write_text(text, encoding="utf-8", errors="surrogateescape")
            count += 1
    return name, count


def _file_name(words: list[str]) -> str:
    return re.sub(r"[^\w.=-]+", "_", " ".join(words))[:150]


def _views(name: str) -> Iterator[list[str]]:
    for command, variants in VIEWS.items():
        for variant in variants:
            yield [command, name, *variant.split()]
    explained = _data(["explain", name, "--json"])
    graphs = [str(graph["id"]) for graph in explained.get("graphs", ())]
    for graph in graphs[:MOST_GRAPHS]:
        for command in BY_GRAPH:
            yield [command, name, "--graph", graph]
    for place in sorted(_lines_of(explained))[:MOST_LINES]:
        for command in BY_LINE:
            yield [command, name, "--line", place]
        yield ["graphs", name, "--line", place]
    kernels = dict.fromkeys(str(kernel["name"]) for kernel in explained.get("kernels", ()))
    for kernel in list(kernels)[:MOST_KERNELS]:
        yield ["kernels", name, "--kernel", kernel]
        yield ["kernels", name, "--kernel", kernel, "--source"]
    yield ["report", name, "-o", "-"]


def _lines_of(explained: dict[str, Any]) -> set[str]:
    found = {(graph["file"], graph["line"]) for graph in explained.get("graphs", ())}
    found |= {(each["file"], each["line"]) for each in explained.get("breaks", ())}
    lines = {line for kernel in explained.get("kernels", ()) for line in kernel["lines"]}
    return lines | {f"{Path(file).name}:{line}" for file, line in found if file and line}


def _diffs() -> Iterator[list[str]]:
    logs = sorted(Path("diff").iterdir())
    for log in logs:
        yield ["diff", "diff/base.log.gz", str(log)]
        yield ["diff", "diff/base.log.gz", str(log), "--all"]
    runs = sorted(path.name for path in Path(".ctrace").iterdir())
    for before, after in pairwise(runs):
        yield ["diff", before, after]
        yield ["report", before, after, "-o", "-"]


def _ranks() -> Iterator[list[str]]:
    for job in sorted(Path("ranks").iterdir()):
        yield ["ranks", str(job)]
        yield ["ranks", str(job), "--all"]
        yield ["report", "--ranks", str(job), "-o", "-"]


def _rest() -> Iterator[list[str]]:
    """Yield what belongs to no log: helps, schemas, lessons, GPUs, runs."""
    from ctrace.cli.main import command_line

    yield ["--help"]
    for command in (str(each.name) for each in command_line().registered_commands):  # in the trees of all commits
        yield [*command.split(), "--help"]
        yield ["schema", command]
    for name in ("targets", "runs"):
        yield [name]
    for gpu in ("h100", "a100", "l4"):
        yield ["targets", gpu]
    for lesson in ("GB0170", "GB0059", "GB0087", "loop", "nothing"):
        yield ["breaks", "--explain", lesson]
    for kind in ("size", "identity", "zero_one", "attribute_value", "nothing"):
        yield ["recompiles", "--explain", kind]


def _forms(words: list[str]) -> Iterator[tuple[list[str], str]]:
    """Yield a view at both widths, and as JSON and Markdown."""
    if words[0] == "report":
        yield words, _page_data(_shown(words, WIDTHS[0]))
        return
    if words[0] == "schema" or words[-1] == "--help":
        yield words, _shown(words, WIDTHS[0])
        return
    for width in WIDTHS:
        yield [*words, str(width)], _shown(words, width)
    if not any(word in NO_JSON for word in words):
        yield [*words, "--json"], _shown([*words, "--json"], WIDTHS[0])
    if words[0] in MARKDOWN:
        yield [*words, "--markdown"], _shown([*words, "--markdown"], WIDTHS[0])


def _page_data(page: str) -> str:
    """Return the data in a page, one value a line, without its style and scripts."""
    blocks = re.findall(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    if not blocks:
        return page
    return "\n".join(json.dumps(json.loads(block), indent=1, ensure_ascii=False) for block in blocks)


def _data(words: list[str]) -> dict[str, Any]:
    """Return what a command prints as JSON; nothing if the log is refused."""
    try:
        found = json.loads(_shown(words, WIDTHS[0]).rpartition("\nexit ")[0])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _shown(words: list[str], width: int) -> str:
    """Run a command in this process; return what it prints, its error and its exit code."""
    from ctrace.cli.main import command_line, joined
    from ctrace.inspector.errors import CtraceError

    os.environ["COLUMNS"] = str(width)
    text, said = io.StringIO(), ""
    words = joined(words)
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(io.StringIO()) as talk:
        try:
            code = command_line(words)(words, standalone_mode=False)
        except CtraceError as error:
            code, said = error.exit_code, f"{error.what}\n{error.todo}\n"
        except SystemExit as end:
            code = end.code
        except Exception as error:
            code, said = type(error).__name__, f"{error}\n"
    return f"{text.getvalue()}{said}{talk.getvalue()}\nexit {code or 0}\n"


if __name__ == "__main__":
    main()
