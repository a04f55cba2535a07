"""Measures `ctrace kernels eject`: ejects every generated kernel of some models, and runs the tests of each package.

    python benchmarks/eject.py --out /tmp/ejected                  capture for a virtual h100, eject, test
    python benchmarks/eject.py --out /tmp/ejected --device cuda    capture on the GPU of this machine
    python benchmarks/eject.py --packages /tmp/ejected             only run the tests of packages that exist

With a GPU, the tests compare the kernels on it; without one, Triton's interpreter runs those that it can.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SAMPLES = ("attention", "attention_training", "batch_sizes", "conv_net", "embedding_loss", "mlp", "transformer_stack")
MODELS = ("conv", "gpt2", "llama")
DEADLINE = 240


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="folder for the packages")
    parser.add_argument("--packages", type=Path, help="folder with packages: capture nothing")
    parser.add_argument("--only", default="", help="names of models, separated by commas")
    parser.add_argument("--target", default="h100", help="the GPU to generate code for")
    parser.add_argument("--device", default="", help="capture on this device instead, such as cuda")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-tests", action="store_true", help="eject only")
    parser.add_argument("--static", action="store_true", help="capture with fixed sizes only")
    found = parser.parse_args()
    if (found.out is None) == (found.packages is None):
        parser.error("pass --out or --packages")
    return found


def captures(options: argparse.Namespace) -> list[tuple[str, list[str], dict[str, str]]]:
    """Return the name, arguments and environment of each capture."""
    wanted = set(options.only.split(",")) - {""}
    on = [] if options.device else ["--target", options.target]
    found = []
    for name in MODELS:
        environment = {"CTRACE_BENCH_MODEL": name, "CTRACE_BENCH_DEVICE": options.device or "cpu"}
        words = [str(HERE / "_eject_models.py"), "--train", *on]
        found.append((name, words, environment))
        if not options.static:
            found.append((f"{name}_dynamic", [*words, "--dynamic"], environment))
    if not options.device:  # the samples are written for the CPU
        for name in SAMPLES:
            file = HERE.parent / "sample_models" / f"{name}.py"
            found.append((name, [str(file), "--train", *on], {}))
    return [each for each in found if not wanted or each[0] in wanted]


def eject(capture: tuple[str, list[str], dict[str, str]], out: Path) -> dict[str, Any]:
    """Capture a model and eject all its kernels; return what the command reports."""
    name, words, environment = capture
    folder = out / name
    command = [sys.executable, "-m", "ctrace", "kernels", "eject", "--all", "--json", "-o", str(folder), "--of", *words]
    out.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, cwd=out, check=False
    )
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return {"model": name, "kernels": [], "failed": done.stderr.strip().splitlines()[-2:]}
    (out / f"{name}.json").write_text(done.stdout)
    return {"model": name, **found}


def test(package: Path) -> dict[str, Any]:
    """Run a package's own test."""
    start = time.perf_counter()
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "--tb=line", str(package)]
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            cwd=package.parent,
            timeout=DEADLINE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"package": package.name, "passed": False, "why": [f"took more than {DEADLINE} s"]}
    failures = re.findall(r"^(?:FAILED|ERROR) \S*?(?:::(\S+))?(?: - (.*))?$", done.stdout, re.MULTILINE)
    skipped = re.search(r"(\d+) skipped", done.stdout)
    return {
        "package": package.name,
        "passed": done.returncode == 0,
        "skipped": int(skipped[1]) if skipped else 0,
        "seconds": time.perf_counter() - start,
        "why": [f"{name}: {why[:150]}" for name, why in failures] or done.stdout.splitlines()[-1:],
    }


def show(reports: list[dict[str, Any]], results: dict[str, dict[str, Any]]) -> None:
    """Print the table, the refusals and the failures."""
    print(f"{'model':20} {'kernels':>7} {'ejected':>7} {'packages':>8} {'pass':>5}")
    total: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    for report in reports:
        if report.get("failed"):
            print(f"{report['model']:20} not captured: {' '.join(report['failed'])[:150]}")
            continue
        kernels = [each for each in report["kernels"] if not each["kernel"].startswith("cpp_")]
        ejected = [each for each in kernels if each["package"]]
        packages = {each["package"] for each in ejected}
        passed = {each for each in packages if results.get(each, {}).get("passed")}
        whole = sum(1 for each in ejected if each["package"] in passed)
        print(f"{report['model']:20} {len(kernels):7} {len(ejected):7} {len(packages):8} {len(passed):5}")
        total.update(
            kernels=len(kernels), ejected=len(ejected), packages=len(packages), passed=len(passed), whole=whole
        )
        refusals.update(each["refused"] for each in kernels if each["refused"])
    print(f"{'all':20} {total['kernels']:7} {total['ejected']:7} {total['packages']:8} {total['passed']:5}")
    if total["kernels"]:
        print(f"ejected: {total['ejected'] / total['kernels']:.1%} of the generated Triton kernels;", end=" ")
        print(f"ejected, and their tests pass: {total['whole'] / total['kernels']:.1%}" if results else "not tested")
    for why, count in refusals.most_common():
        print(f"  refused {count}: {why}")


def show_failures(results: dict[str, dict[str, Any]]) -> None:
    """Print the share of packages that pass, and each failing test."""
    passed = sum(each["passed"] for each in results.values())
    print(f"{passed} of {len(results)} packages pass their tests")
    for each in results.values():
        if not each["passed"]:
            print(f"  FAILED {each['package']}")
            for why in each["why"][:6]:
                print(f"    {why}")


def main() -> None:
    """Capture, eject, test and print."""
    options = parsed()
    root = (options.out or options.packages).resolve()
    reports = []
    if options.out:
        with ThreadPoolExecutor(max(options.jobs // 4, 1)) as pool:
            reports = list(pool.map(lambda each: eject(each, root), captures(options)))
    else:
        reports = [{"model": file.stem, **json.loads(file.read_text())} for file in sorted(root.glob("*.json"))]
        for report in reports:  # the folder may have moved since
            for each in report["kernels"]:
                each["package"] = each["package"] and str(root / report["model"] / each["op"])
    packages = sorted(each.parent for each in root.glob("*/*/ctrace.json"))
    results = {}
    if not options.no_tests:
        with ThreadPoolExecutor(options.jobs) as pool:
            results = {str(package): found for package, found in zip(packages, pool.map(test, packages), strict=True)}
    show(reports, results)
    if results:
        show_failures(results)


if __name__ == "__main__":
    main()
