"""Measure how true `ctrace explain` is on models that nobody here wrote, beside plain torch.

Each case is a model file. A process that knows nothing of ctrace says what torch.compile does to it
(`_truth_oracle.py`); `ctrace explain --json` runs on the same file; differences are counted by kind, and the first line
of advice is judged by carrying it out in plain torch with ten calls. Results are kept in FOLDER/results, one JSON a
case: a case with a result is not run again, so a study can be stopped and continued.

A source is one or more of:
  packages[:NAME,...]           the models of truth_models/, from PyPI packages (truth_packages.txt)
  paritybench[:FILE#N,...]      the cases of a clone of jansel/pytorch-jit-paritybench, in PARITYBENCH
  kernelbench[:level/FILE,...]  the models of a clone of ScalingIntelligence/KernelBench, in KERNELBENCH
  transformers:TYPE,...         small models of these types, or a random sample of all types
  timm:NAME,...                 models of timm, or a random sample of all
Packages are installed outside of the project, without their dependencies on another torch:
  pip install --no-deps --target LIBS/site-packages -r benchmarks/truth_packages.txt
"""

import argparse
import ast
import contextlib
import json
import os
import queue
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _truth_compare import (
    KINDS,
    Judgement,
    change_of,
    changes_results,
    differences,
    has_findings,
    judged,
    same_prints,
    vector,
    verdict_of,
)

HERE = Path(__file__).resolve().parent
MODELS = HERE / "truth_models"
KNOWN = HERE / "truth_known.toml"
_GIB = 1 << 30
_CALLS = 10
_COUNTED_AT = (2, 10)
_FILLS = (0xC3, 0x96)
"""As floats, memory of their complements is 0.0115 (0x3c3c3c3c) and about 1.8e25 (0x69696969), no NaN."""
_WIDE = 4000
_CELL = 160
_WITHOUT_ADVICE = """\
import sys
del sys.path[0]
from ctrace.inspector.diagnosis import advise
advise.MOST_TRIALS = 0
from ctrace.__main__ import main
main()
"""
"""Runs ctrace with no trial but that of ten unchanged calls, which `outlook` reports."""
Data = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A model file to write, and how to call it."""

    name: str
    text: str
    train: bool = False
    packages: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return self.name.partition("/")[0]


def main() -> int:
    """Run the study; return 1 if a difference was found."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started ends, too
    asked = _arguments()
    cases = [each for source in asked.sources for each in _cases(source, asked)]
    results = asked.folder / "results"
    results.mkdir(parents=True, exist_ok=True)
    print(f"{len(cases)} cases, seed {asked.seed}; results in {results}", flush=True)
    todo = cases if asked.again or asked.recount else [each for each in cases if not _file(results, each.name).exists()]
    if not asked.only_table:
        _run_all(todo, asked, results)
    done = [json.loads(file.read_text()) for each in cases if (file := _file(results, each.name)).exists()]
    print("\n".join(table(done)))
    if asked.write:
        asked.write.write_text("\n".join(page(done, _results_of(asked.before, done))) + "\n", encoding="utf-8")
    return int(any(each.get("differences") for each in done))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", metavar="SOURCE", help="default: those whose folder is named")
    parser.add_argument("--folder", type=Path, default=Path("build/truth"), help="work and results (build/truth)")
    parser.add_argument("--libs", type=Path, default=_variable("TRUTH_LIBS"), help="the folder with site-packages")
    parser.add_argument("--paritybench", type=Path, default=_variable("PARITYBENCH"))
    parser.add_argument("--kernelbench", type=Path, default=_variable("KERNELBENCH"))
    parser.add_argument("--sample", type=int, help="so many cases of each source, at random")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 16))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--backend", default="eager", help="of `ctrace explain`: eager, which builds no code (default)")
    parser.add_argument("--python", default=sys.executable, help="of the ctrace to measure")
    parser.add_argument("--seconds", type=float, default=90, help="limit for the calls of one case in torch")
    parser.add_argument("--explain-seconds", type=float, default=300, help="limit for one `ctrace explain`")
    parser.add_argument("--memory", type=float, default=10, help="limit of address space, in GiB")
    parser.add_argument("--findings", action="store_true", help="run ctrace only where torch has findings")
    parser.add_argument("--again", action="store_true", help="run cases that have a result, too")
    parser.add_argument("--facts", action="store_true", help="compare facts only: try and judge no advice")
    parser.add_argument("--torch-of", type=Path, metavar="FOLDER", help="take what torch did from another study")
    parser.add_argument("--recount", action="store_true", help="ask torch again, and keep what ctrace said")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the facts as a page of Markdown")
    parser.add_argument(
        "--before", type=Path, metavar="FOLDER", help="another study, of an earlier ctrace, for --write"
    )
    parser.add_argument("--only-table", action="store_true", help="run nothing")
    asked = parser.parse_args()
    asked.folder = asked.folder.resolve()
    known = {"packages": asked.libs, "paritybench": asked.paritybench, "kernelbench": asked.kernelbench}
    asked.sources = asked.sources or [source for source, folder in known.items() if folder is not None]
    if not asked.sources:
        parser.error("no source has a folder\nName one with --libs, --paritybench or --kernelbench; see --help.")
    return asked


def _variable(name: str) -> Path | None:
    return Path(os.environ[name]) if os.environ.get(name) else None


# Sources


def _cases(source: str, asked: argparse.Namespace) -> list[Case]:
    kind, _, rest = source.partition(":")
    names = [each for each in rest.split(",") if each]
    makers = {
        "packages": _packages,
        "paritybench": _paritybench,
        "kernelbench": _kernelbench,
        "transformers": _by_name,
        "timm": _by_name,
    }
    if kind not in makers:
        sys.exit(f"{source}: no such source. Name one of {', '.join(makers)}.")
    found = list(makers[kind](kind, names, asked))
    if asked.sample is not None and not names:
        found = random.Random(asked.seed).sample(found, min(asked.sample, len(found)))
    return found


def _packages(_kind: str, names: list[str], _asked: argparse.Namespace) -> Iterator[Case]:
    for file in sorted(MODELS.glob("*.py")):
        if not names or file.stem in names:
            text = file.read_text(encoding="utf-8")
            about = _constants(text)
            yield Case(f"packages/{file.stem}", text, bool(about.get("TRAIN")), tuple(about["PACKAGES"]))


def _constants(text: str) -> Data:
    """Return the constants in capitals of a model file, without running it."""
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper()
    }


def _paritybench(kind: str, names: list[str], asked: argparse.Namespace) -> Iterator[Case]:
    folder = _corpus(asked.paritybench, "--paritybench", "generated")
    for name in names or [f"{file.name}#{at}" for file in sorted(folder.glob("test_*.py")) for at in _entries(file)]:
        file, _, number = name.partition("#")
        call = f"paritybench({str(folder / file)!r}, {int(number)})"
        yield Case(f"{kind}/{file.removesuffix('.py')}-{number}", _loading("paritybench", call))


def _entries(file: Path) -> range:
    """Return the numbers of a generated file's test cases, as the generator lays them out (to parse takes minutes)."""
    listed = file.read_text(encoding="utf-8", errors="replace").partition("\nTESTCASES = [\n")[2].partition("\n]\n")[0]
    return range(len(re.findall(r"^    \(", listed, re.MULTILINE)))


def _kernelbench(kind: str, names: list[str], asked: argparse.Namespace) -> Iterator[Case]:
    folder = _corpus(asked.kernelbench, "--kernelbench", "KernelBench")
    files = [folder / each for each in names] or sorted(folder.glob("level[1-4]/*.py"))
    for file in files:
        call = f"kernelbench({str(file)!r})"
        yield Case(f"{kind}/{file.parent.name}-{file.stem}", _loading("kernelbench", call))


def _by_name(kind: str, names: list[str], asked: argparse.Namespace) -> Iterator[Case]:
    for name in names or _known(kind, asked):
        text = _loading(kind, f"{kind}({name!r})")
        yield Case(f"{kind}/{name}", text, packages=(kind,))


_LISTS = {
    "transformers": "from transformers import MODEL_MAPPING\nfrom transformers.models.auto.modeling_auto import "
    "MODEL_MAPPING_NAMES\nprint(*sorted(MODEL_MAPPING_NAMES))",
    "timm": "from _truth_foreign import stub\nstub('torchvision')\nimport timm\nprint(*timm.list_models())",
}


def _known(kind: str, asked: argparse.Namespace) -> list[str]:
    environment = {**os.environ, **_paths(asked, HERE), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _LISTS[kind]], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{kind} cannot be imported: {done.stderr.strip().splitlines()[-1]}\nInstall it into --libs.")
    return done.stdout.split()


def _corpus(folder: Path | None, option: str, below: str) -> Path:
    if folder is None or not (folder / below).is_dir():
        sys.exit(f"{folder or option}: no clone of the corpus there.\nClone it, and name the folder with {option}.")
    return (folder / below).resolve()


def _loading(function: str, call: str) -> str:
    return f'"""A foreign case."""\n\nfrom _truth_foreign import {function}, seal\n\nseal()\nmodel, inputs = {call}\n'


# Running


class Oracle:
    """A process that answers requests about cases with plain torch; also runs the commands that it is compared with."""

    def __init__(self, prefix: list[str]) -> None:
        self._prefix = prefix
        self._process: subprocess.Popen[str] | None = None
        self._command: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def ask(self, request: Data) -> Data:
        self._check()
        if self._process is None or self._process.poll() is not None:
            # Variables that torch reads when it is imported; those of one case come with its request.
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1"}
            self._process = subprocess.Popen(
                [*self._prefix, sys.executable, "-W", "ignore", str(HERE / "_truth_oracle.py")],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        self._check()
        if not line:
            self._process.wait()
            return {"ended": f"the process that counts ended: {self._process.returncode}"}
        answered: Data = json.loads(line)
        return answered

    def run(
        self, command: list[str], folder: Path, environment: dict[str, str], limits: "Limits", output: str
    ) -> int | None:
        """Run a command in a process group that ends with it; return its exit code, None if out of time."""
        self._check()
        with (folder / output).open("wb") as out, (folder / "stderr.txt").open("wb") as err:
            child = self._command = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                start_new_session=True, preexec_fn=limits.apply,
            )  # fmt: skip
            try:
                return child.wait(limits.seconds)
            except subprocess.TimeoutExpired:
                child.terminate()  # so that it reports what it saw until then
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(20)
                return None
            finally:
                _kill(child)
                self._check()

    def _check(self) -> None:
        """Raise KeyboardInterrupt if the study ends, so that a case which was cut off gets no result."""
        if self._is_closed:
            raise KeyboardInterrupt

    def close(self) -> None:
        """End what runs, at once, and start nothing more."""
        self._is_closed = True
        for each in (self._process, self._command):
            if each is not None:
                _kill(each)


@dataclass(frozen=True)
class Limits:
    """What a command may take."""

    seconds: float
    memory: int
    """Bytes of address space."""

    def apply(self) -> None:
        """Limit this process, and those that it starts."""
        resource.setrlimit(resource.RLIMIT_AS, (self.memory, self.memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _kill(child: subprocess.Popen[Any]) -> None:
    """End a process and its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _run_all(cases: list[Case], asked: argparse.Namespace, results: Path) -> None:
    prefix = ["unshare", "-n", "--"] if _can_unshare() else []
    if not prefix:
        print("no network namespace can be made here: cases are only refused connections by Python", flush=True)
    oracles: queue.SimpleQueue[Oracle] = queue.SimpleQueue()
    every = [Oracle(prefix) for _ in range(asked.jobs)]
    for each in every:
        oracles.put(each)
    lock, began, done = threading.Lock(), time.monotonic(), 0

    def run(case: Case) -> None:
        nonlocal done
        oracle = oracles.get()
        try:
            result = _measured(case, asked, oracle, prefix)
        finally:
            oracles.put(oracle)
        with lock:
            done += 1
            _write(_file(results, case.name), result)
            print(f"[{done}/{len(cases)} {time.monotonic() - began:.0f} s] {line_of(result)}", flush=True)

    with ThreadPoolExecutor(asked.jobs) as pool:
        futures = [pool.submit(run, each) for each in cases]
        try:
            for future in futures:
                future.result()
        finally:  # also when this is interrupted or ended: nothing goes on
            for future in futures:
                future.cancel()
            for each in every:
                each.close()


def _can_unshare() -> bool:
    command = shutil.which("unshare")
    return (
        bool(command) and not subprocess.run([str(command), "-n", "true"], capture_output=True, check=False).returncode
    )


def _measured(case: Case, asked: argparse.Namespace, oracle: Oracle, prefix: list[str]) -> Data:
    """Run one case in both worlds."""
    folder = _folder(case, asked)
    if not asked.recount:
        shutil.rmtree(folder, ignore_errors=True)
    for each in ("home", "tmp"):
        (folder / each).mkdir(parents=True, exist_ok=True)
    file = folder / "case.py"
    file.write_text(case.text, encoding="utf-8")
    shutil.copy(HERE / "_truth_foreign.py", folder)
    request = {
        "folder": str(folder),
        "file": str(file),
        "train": case.train,
        "seconds": asked.seconds,
        "memory": int(asked.memory * _GIB),
        "environment": _isolated(folder),
        "paths": [str(asked.libs.resolve() / "site-packages")] if asked.libs and case.packages else [],
        "packages": list(case.packages),
        "counted_at": _COUNTED_AT,
        "calls": _CALLS,
    }
    result: Data = {"case": case.name, "source": case.source, "backend": asked.backend, "seed": asked.seed}
    earlier = _earlier(case, asked)
    truth = earlier.get("torch") or oracle.ask({**request, "what": "compiled"})
    if asked.findings and _is_sound(truth):
        return {**result, "torch": truth, "findings": False, "not_explained": True}
    eager = earlier.get("eager") or oracle.ask({**request, "what": "eager", "calls": 3})
    result["eager"] = eager
    if why := _left_out(eager):
        return {**result, "left_out": why}
    result["torch"] = truth
    if "last" not in truth:
        if "after_2" not in truth:
            return {**result, "left_out": f"compiled: {truth.get('ended') or truth.get('not_loaded')}"}
        truth["last"] = truth["after_2"]
    result["findings"] = has_findings(truth)
    return {**result, **_explained(case, asked, oracle, prefix, request, result)}


def _earlier(case: Case, asked: argparse.Namespace) -> Data:
    """Return another study's result for a case."""
    file = _file(asked.torch_of / "results", case.name) if asked.torch_of else None
    found: Data = json.loads(file.read_text()) if file is not None and file.exists() else {}
    return found


def _is_sound(truth: Data) -> bool:
    """Whether torch compiled a case without a finding, so that it does not fail in eager either."""
    return "last" in truth and not truth.get("ended") and not has_findings(truth)


def _folder(case: Case, asked: argparse.Namespace) -> Path:
    work: Path = asked.folder / "work"
    return work / case.name.replace("/", "-")


def _left_out(eager: Data) -> str:
    """Return why a case says nothing about torch.compile; each is counted."""
    if error := eager.get("not_loaded"):
        if error["type"] in ("ModuleNotFoundError", "ImportError"):
            return f"cannot be imported: {error['message'].splitlines()[0][:80]}" if error["message"] else "import"
        return f"not loaded: {error['type']}"
    if ended := eager.get("ended"):
        return f"eager: {ended}"
    if error := eager.get("error"):
        if "allocate memory" in error["message"] or error["type"] == "MemoryError":
            return "needs more memory"
        is_gpu = re.search(r"CUDA|NVIDIA|cuda", error["message"]) is not None
        return "needs a GPU" if is_gpu else f"fails in eager: {error['type']}"
    if any("MagicMock" in leaf for call in eager["prints"] for leaf in call):
        return "computes with a stub of a package that is not installed"
    return ""


def _isolated(folder: Path) -> dict[str, str]:
    return {
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "XDG_CACHE_HOME": str(folder / "home"),
        "MPLCONFIGDIR": str(folder / "home"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "tmp" / "inductor"),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }


def _paths(asked: argparse.Namespace, *folders: Path) -> dict[str, str]:
    libs = [str(asked.libs.resolve() / "site-packages")] if asked.libs else []
    return {"PYTHONPATH": os.pathsep.join([*map(str, folders), *libs])}


def _explained(
    case: Case, asked: argparse.Namespace, oracle: Oracle, prefix: list[str], request: Data, result: Data
) -> Data:
    """Run ctrace on a case; compare, and carry out its first advice."""
    folder = Path(request["folder"])
    options = ["--backend", asked.backend, *(["--train"] if case.train else [])]
    found: Data = {}
    if not (asked.recount and (folder / "report.json").exists()):
        found = _run_ctrace(case, asked, oracle, prefix, options)
    if not (folder / "report.json").exists():
        return {**found, "no_report": (folder / "stderr.txt").read_text(errors="replace")[-600:]}
    shutil.rmtree(folder / "tmp", ignore_errors=True)
    report = json.loads((folder / "report.json").read_text())
    first = _first(report, folder / "screen.txt")
    truth, eager = result["torch"], result["eager"]
    facts = {
        **found,
        "verdict": report["verdict"],
        "differences": differences(truth, eager, report),
        "problems": [str(each)[:300] for each in report["problems"]],
        "first": first,
        "advice": report["advice"][:1],
    }
    if asked.facts:
        return facts
    change = change_of(report, first, _trials(folder / "runs"))
    now = oracle.ask({**request, "what": "compiled", "change": change}) if change else None
    before = {**truth, "eager_prints": eager.get("prints")}
    if now and "last" in now and changes_results(before, now):
        before["reads_unwritten"] = _reads_unwritten(oracle, request)
    judgement, why = judged(before, now, report, first, options, has_change=change is not None)
    return {
        **facts,
        "change": change,
        "now": now and _short(now),
        "judgement": judgement,
        "why": why,
    }


def _reads_unwritten(oracle: Oracle, request: Data) -> bool:
    """Whether eager results depend on what new memory holds, as those of a parameter made by `torch.empty`."""
    asked = {**request, "what": "eager", "calls": 2}
    first, second = (oracle.ask({**asked, "fill": fill}) for fill in _FILLS)
    return "prints" in first and "prints" in second and not same_prints(first, second)


def _run_ctrace(case: Case, asked: argparse.Namespace, oracle: Oracle, prefix: list[str], options: list[str]) -> Data:
    """Write report.json, and screen.txt where the report has no advice: the screen still says something."""
    folder, limits = _folder(case, asked), Limits(asked.explain_seconds, int(asked.memory * _GIB))
    own = {name: value for name, value in os.environ.items() if not name.startswith(("CTRACE_", "TORCH"))}
    libs = _paths(asked) if case.packages else {}
    environment = {**own, **_isolated(folder), **libs, "CTRACE_DIR": str(folder / "runs"), "COLUMNS": str(_WIDE)}
    start = ["-c", _WITHOUT_ADVICE] if asked.facts else ["-m", "ctrace"]
    command = [*prefix, asked.python, *start, "explain"]
    began = time.monotonic()
    words = [*command, "case.py", *options, "--json", "-o", "report.json"]
    status = oracle.run(words, folder, environment, limits, "stdout.txt")
    found = {"exit": status, "explain_seconds": round(time.monotonic() - began, 1)}
    file = folder / "report.json"
    if file.exists() and not asked.facts and not json.loads(file.read_text())["advice"]:
        oracle.run(command, folder, environment, limits, "screen.txt")
    return found


def _first(report: Data, screen: Path) -> str:
    """Return the first line of advice; the screen has one where the report has none."""
    if report["advice"]:
        return str(report["advice"][0]["text"])
    return first_item(screen.read_text()) if screen.exists() else ""


def _short(now: Data) -> Data:
    return {"vector": vector(now) if "last" in now else None, "error": now.get("error"), "change": now.get("change")}


def first_item(screen: str) -> str:
    """Return the line below "What to do", without its number; without that heading, a line that says there is nothing.

    A screen that asks for nothing says so without the heading.
    """
    lines = iter(screen.splitlines())
    found = next((next(lines, "") for line in lines if line.strip() == "What to do"), None)
    if found is None:
        found = next((line for line in screen.splitlines() if line.startswith("Nothing to ")), "")
    return re.sub(r"^\s*(?:1\. )?", "", found).strip()


def _trials(runs: Path) -> list[Data]:
    """Return the trials that the last run recorded."""
    logs = sorted(runs.glob("*/trace.log"))
    found, is_next = [], False
    for line in logs[-1].open(errors="replace") if logs else ():
        if is_next:
            found.append(json.loads(line))
        is_next = '"name": "ctrace_trial"' in line
    return found


def _file(results: Path, name: str) -> Path:
    return results / f"{name.replace('/', '-')}.json"


def _write(file: Path, result: Data) -> None:
    partial = file.with_suffix(".new")
    partial.write_text(json.dumps(result, indent=1) + "\n")
    partial.replace(file)


# Results


def line_of(result: Data) -> str:
    name = result["case"]
    if "left_out" in result:
        return f"{name}: left out: {result['left_out']}"
    counted = ", ".join(f"{what} {value}" for what, value in vector(result["torch"]).items() if value)
    if result.get("not_explained"):
        return f"{name}: {counted}; no findings, ctrace not run"
    if "no_report" in result:
        return f"{name}: {counted}; NO REPORT (exit {result['exit']})"
    said = "; ".join(
        f"{each['kind']}: torch {each['torch']}, ctrace {each['ctrace']}" for each in result["differences"]
    )
    if "judgement" not in result:
        return f"{name}: {counted}; {said or 'no difference'}"
    why = f" ({result['why']})" if result["why"] else ""
    return f"{name}: {counted}; {said or 'no difference'}; {result['judgement']}{why}; {result['first'][:200]!r}"


def table(results: list[Data]) -> Iterator[str]:
    """Yield the tables of a study."""
    left = Counter(f"{each['source']}: {each['left_out']}" for each in results if "left_out" in each)
    yield ""
    yield f"{len(results)} cases, of which {left.total()} say nothing about torch.compile:"
    for why, number in left.most_common():
        yield f"  {number:4} {why}"
    by_source: dict[str, list[Data]] = defaultdict(list)
    for each in results:
        if "left_out" not in each:
            by_source[each["source"]].append(each)
    for source, found in by_source.items():
        yield from _of_source(source, found)


def _of_source(source: str, results: list[Data]) -> Iterator[str]:
    explained = [each for each in results if "differences" in each]
    verdicts = Counter("raises" if each["torch"]["error"] else verdict_of(each["torch"]["last"]) for each in results)
    yield ""
    yield f"{source}: {len(results)} cases run by torch ({_counts(verdicts)}), {len(explained)} explained by ctrace"
    if failed := [each for each in results if "no_report" in each]:
        yield f"  without a report: {', '.join(_short_name(each) for each in failed)}"
    if not explained:
        return
    yield f"  facts equal: {_equal_facts(explained)}"
    for kind in KINDS:
        wrong = [one for one in explained if any(each["kind"] == kind for each in one["differences"])]
        if wrong:
            yield f"    {kind:11} differs in {len(wrong):3}: {', '.join(map(_short_name, wrong[:12]))}"
    if "judgement" not in explained[0]:
        return
    yield "  first line of advice, where torch has findings:"
    yield from _judgements([each for each in explained if each["findings"]])
    yield "  and where it has none:"
    yield from _judgements([each for each in explained if not each["findings"]])


def _judgements(results: list[Data]) -> Iterator[str]:
    for judgement in Judgement:
        those = [each for each in results if each["judgement"] == judgement]
        share = f"{len(those) / len(results):.0%}" if results else ""
        if those:
            yield f"    {judgement:40} {len(those):3} {share:>5}  {', '.join(map(_short_name, those[:8]))}"


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{number} {what}" for what, number in counter.most_common())


def _results_of(folder: Path | None, like: list[Data]) -> list[Data]:
    """Return another study's results for the same cases."""
    files = [_file(folder / "results", each["case"]) for each in like] if folder else []
    return [json.loads(file.read_text()) for file in files if file.exists()]


def page(now: list[Data], before: list[Data]) -> Iterator[str]:
    """Yield a page of Markdown: versions and seeds, facts equal to torch's, and every difference with its reason."""
    versions: dict[str, str] = {}
    for each in now:
        versions |= each.get("eager", {}).get("versions", {})
    known = {(each["case"], each["kind"]): each["reason"] for each in tomllib.loads(KNOWN.read_text()).get("known", [])}
    yield "# Facts of `ctrace explain` beside plain torch"
    yield ""
    yield "Made by `benchmarks/truth.py --write`. Each case has these facts: " + ", ".join(KINDS) + "."
    yield f"Versions: {', '.join(f'{name} {version}' for name, version in sorted(versions.items()))}."
    yield ""
    yield "| source | seeds | cases | say nothing | no findings, not run | explained | facts equal | before, same |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for source in dict.fromkeys(each["source"] for each in now):
        yield _page_row(source, now, before)
    yield ""
    yield "| kind | case | torch | ctrace | reason |"
    yield "| --- | --- | --- | --- | --- |"
    for each in now:
        for difference in each.get("differences", []):
            cells = [difference["kind"], each["case"], difference["torch"], difference["ctrace"]]
            reason = known.get((each["case"], difference["kind"]), "not explained")
            yield f"| {' | '.join(_cell(cell) for cell in (*cells, reason))} |"
    yield from _first_lines(now, before)
    if left := Counter(f"{each['source']}: {each['left_out']}" for each in now if "left_out" in each):
        yield ""
        yield "Cases that say nothing about torch.compile:"
        yield ""
        yield from (f"- {number} {why}" for why, number in left.most_common())
    yield ""
    yield "Cases that ctrace explained: " + ", ".join(_short_name(each) for each in now if "differences" in each) + "."


def _first_lines(now: list[Data], before: list[Data]) -> Iterator[str]:
    """Yield how the first line of advice was judged where torch has findings, and each that was not good."""
    judged_now, judged_before = (
        [each for each in results if each.get("findings") and "judgement" in each] for results in (now, before)
    )
    if not judged_now:
        return
    yield ""
    yield "| first line of advice, where torch has findings | now | before |"
    yield "| --- | --- | --- |"
    for judgement in Judgement:
        cells = [_share(judgement, judged_now), _share(judgement, judged_before)]
        yield f"| {judgement} | {' | '.join(cells)} |"
    yield ""
    yield "| case | judgement | first line |"
    yield "| --- | --- | --- |"
    for each in judged_now:
        if not Judgement(each["judgement"]).is_good:
            yield f"| {_short_name(each)} | {each['judgement']} | {_cell(each['first'])} |"


def _share(judgement: Judgement, results: list[Data]) -> str:
    number = sum(each["judgement"] == judgement for each in results)
    return f"{number} of {len(results)} ({number / len(results):.0%})" if results else "not measured"


def _page_row(source: str, now: list[Data], before: list[Data]) -> str:
    those = [each for each in now if each["source"] == source]
    explained = [each for each in those if "differences" in each]
    names = {each["case"] for each in explained}
    earlier = [each for each in before if each["case"] in names and "differences" in each]
    cells = [
        source,
        ", ".join(sorted({str(each["seed"]) for each in those})),
        len(those),
        sum("left_out" in each for each in those),
        sum(bool(each.get("not_explained")) for each in those),
        len(explained),
        _equal_facts(explained),
        f"{_equal_facts(earlier)} ({len(earlier)} cases)" if earlier else "not measured",
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _equal_facts(results: list[Data]) -> str:
    of = len(results) * len(KINDS)
    equal = of - sum(len({each["kind"] for each in result["differences"]}) for result in results)
    return f"{equal} of {of} ({equal / of:.1%})" if of else "0"


def _cell(value: Any) -> str:
    text = " ".join(str(value).split()).replace("|", "\\|")
    return text if len(text) <= _CELL else f"{text[:_CELL]}…"


def _short_name(result: Data) -> str:
    return str(result["case"]).partition("/")[2]


if __name__ == "__main__":
    sys.exit(main())
