"""What is run with each pair: a function for each step, which looks at ctrace from outside."""

import json
import re
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from ctrace.inspector.errors import TargetError, did_you_mean
from matrix.environment import Bench
from matrix.pairs import ROOT
from matrix.store import Cell


def _doctor(bench: Bench) -> Cell:
    done = bench.run("-m", "ctrace", "doctor", "--json")
    found = json.loads(done.stdout)
    bad = [f"{each['name']} ({each['found']})" for each in found if not each["ok"]]
    checks = [each for each in found if not each["name"].startswith("torch ")]  # the others list differences
    return _judged(not bad and done.returncode == 0, f"{len(checks)} checks", "; ".join(bad) or _last_line(done))


def _target(bench: Bench) -> Cell:
    sample = ROOT / "sample_models" / "attention.py"
    done = bench.run("-m", "ctrace", "kernels", str(sample), "--target", "h100", "--train", "--json")
    if done.returncode != 0:
        return Cell("failed", _last_line(done))
    report = json.loads(done.stdout)
    kernels = [each for each in report["built"] if each["registers"] is not None]
    wrong = [each["what"] for each in report["problems"]] or ([] if kernels else ["no kernel has machine code"])
    return _judged(not wrong, f"{len(kernels)} kernels compiled", "; ".join(wrong))


def _check(bench: Bench) -> Cell:
    """Check the samples against the lock; a torch without a section is compared with the newest torch that has one."""
    lock = bench.scratch / "ctrace.lock"
    baseline = as_lock_of(bench.torch(), (ROOT / "ctrace.lock").read_text(encoding="utf-8"), lock)
    done = bench.run("-m", "ctrace", "check", "--json", "--no-cache", "--lock", str(lock), cwd=ROOT)
    if not done.stdout.strip():
        return Cell("failed", _last_line(done))
    report = json.loads(done.stdout)
    found = [(each["model"], finding["what"]) for each in report["jobs"] for finding in each["findings"]]
    found += [("the lock or the policy", finding["what"]) for finding in report["findings"]]
    wrong = f"{report['verdict']}: {'; '.join(f'{model}: {what}' for model, what in found)}"
    held = f"{len(report['jobs'])} jobs {report['verdict'].replace('holds', 'hold')} (baseline: torch {baseline})"
    return _judged(done.returncode == 0, held, wrong)


_SECTION = re.compile(r"^\[torch (\d+)\.(\d+)\]$", re.MULTILINE)


def as_lock_of(torch: str, text: str, path: Path) -> str:
    """Write a lock that has a section for a torch; return the torch version that the section was recorded with."""
    minor = ".".join(torch.split(".")[:2])
    sections = sorted((int(major), int(small)) for major, small in _SECTION.findall(text))
    made_with = "{}.{}".format(*sections[-1])
    if f"[torch {minor}]" in text:
        made_with = minor
    path.write_text(text.replace(f"[torch {made_with}]", f"[torch {minor}]"), encoding="utf-8")
    return made_with


def _wheel(bench: Bench) -> Cell:
    """Build a wheel from the sdist, install it into an empty folder, and run it from there."""
    made, site, away = (bench.scratch / name for name in ("dist", "site", "away"))
    done = bench.run("-m", "build", "--outdir", str(made), str(ROOT))
    if done.returncode == 0:
        wheel = next(made.glob("*.whl"))
        done = bench.run("-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel))
    if done.returncode != 0:
        return Cell("failed", _last_line(done))
    away.mkdir()
    (away / "model.py").write_text(_MODEL, encoding="utf-8")
    code = "import ctrace, sys; sys.exit(0 if ctrace.__file__.startswith(sys.argv[1]) else ctrace.__file__)"
    done = bench.run("-c", code, str(site), cwd=away, PYTHONPATH=str(site))
    if done.returncode == 0:
        done = bench.run("-m", "ctrace", "explain", "model.py", "--json", cwd=away, PYTHONPATH=str(site))
    if done.returncode != 0:
        return Cell("failed", _last_line(done))
    report = json.loads(done.stdout)
    right = report["verdict"] == "compiled" and not report["problems"]
    return _judged(right, wheel.name, f"verdict {report['verdict']}, problems {report['problems']}")


_MODEL = textwrap.dedent('''
    """Compiles whole: one graph, no break."""

    import torch

    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


    def inputs():
        return (torch.rand(3, 8),)
''')


def _pytest(*arguments: str) -> Callable[[Bench], Cell]:
    """Return a step that runs tests and counts the results."""

    def run(bench: Bench) -> Cell:
        report = bench.scratch / "junit.xml"
        report.unlink(missing_ok=True)
        done = bench.run("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *arguments, cwd=ROOT)
        if not report.exists():
            return Cell("failed", _last_line(done))
        return counted(report)

    return run


def counted(report: Path) -> Cell:
    """Count the results in pytest's JUnit file."""
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    failed = [_name(each) for each in cases if each.find("failure") is not None or each.find("error") is not None]
    skipped = sum(each.find("skipped") is not None for each in cases)
    passed = len(cases) - len(failed) - skipped
    detail = f"{passed} passed" + (f", {skipped} skipped" if skipped else "")
    if not cases:
        return Cell("failed", "no test ran")
    return _judged(
        not failed, detail, f"{len(failed)} of {len(cases)}: {', '.join(failed[:3])}{' …' * (len(failed) > 3)}"
    )


def _name(case: ElementTree.Element) -> str:
    """Return the file and the name of a test."""
    module = case.get("classname", "").rpartition(".")[2]
    return f"{module}.py::{case.get('name', '')}"


def _judged(right: bool, detail: str, wrong: str) -> Cell:
    return Cell("ok", detail) if right else Cell("failed", wrong)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stderr + "\n" + done.stdout).splitlines() if line.strip()]
    return f"exit code {done.returncode}: {lines[-1][:160] if lines else 'no output'}"


STEPS: dict[str, Callable[[Bench], Cell]] = {
    "doctor": _doctor,
    "samples": _pytest("-m", "slow or not slow", "tests/integration/test_samples.py"),
    "check": _check,
    "target": _target,
    "plugin": _pytest("-m", "not slow", "tests/integration/test_pytest_plugin.py"),
    "wheel": _wheel,
    "situations": _pytest("-n", "0", "-m", "slow or not slow", "tests/integration/situations"),
    "unit tests": _pytest("-n", "2", "-m", "not integration and not slow"),
    "real compiles": _pytest("-n", "2", "-m", "integration and not slow"),
}
"""The steps for each pair, cheapest first."""


def steps_of(names: str) -> list[str]:
    """Return the steps that `--steps` names."""
    selected = [name.strip() for name in names.split(",")]
    for name in selected:
        if name not in STEPS:
            raise TargetError(f"--steps {name}: there is no such step", did_you_mean(name, STEPS))
    return [name for name in STEPS if name in selected]
