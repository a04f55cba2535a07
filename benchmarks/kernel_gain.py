"""Try to make a generated kernel faster, and measure what the model gains: needs a GPU.

Takes a softmax and a layer norm out of small models, applies the unchanged packages, applies broken ones, tunes them,
and applies the tuned ones. Prints what each command answers, and a table at the end. A gain that is within the noise is
shown as such. The models have several layers, and values that fit into the L2 cache. With CUDA graphs, which a second
application of each tuned package uses, the GPU and not the host limits the time of a call.

    python benchmarks/kernel_gain.py            all steps; takes about 8 minutes
    python benchmarks/kernel_gain.py --quick    only the softmax: eject, tune and apply
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MODEL = """\
import torch
from torch import nn

GROUP = 32

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(GROUP, GROUP) / GROUP**0.5)
        self.norm = nn.LayerNorm({columns})

    def forward(self, x):
        x = (x.view(-1, GROUP) @ self.weight).view(x.shape)
        return {result}

torch.manual_seed(0)
model = nn.Sequential(*(Layer() for _ in range(8))).cuda().eval().requires_grad_(False)

def inputs():
    torch.manual_seed(0)
    return (torch.randn({rows}, {columns}, device="cuda"),)
"""
SOFTMAX = "GROUP * torch.softmax(x * 0.125 + x.sin(), -1)"
NORM = "self.norm(nn.functional.gelu(x))"
MODELS = {
    "softmax 4096x1024": MODEL.format(rows=4096, columns=1024, result=SOFTMAX),
    "gelu and layer norm 4096x1024": MODEL.format(rows=4096, columns=1024, result=NORM),
}


def run(folder: Path, *words: str) -> tuple[int, Any]:
    """Run ctrace with --json; return its exit code and report, and print how long it took."""
    began = time.monotonic()
    command = [sys.executable, "-m", "ctrace", *words, "--json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    print(f"$ ctrace {' '.join(words)}   ({time.monotonic() - began:.0f} s, exit code {done.returncode})", flush=True)
    if not done.stdout:
        print(done.stderr[-2000:])
        return done.returncode, {}
    return done.returncode, json.loads(done.stdout)


def applied(folder: Path, package: Path, *words: str) -> dict[str, Any]:
    """Apply a package; print the answer."""
    _, found = run(folder, "kernels", "apply", str(package), "model.py", *words)
    print(f"  {found.get('summary')}; verdict of the model's times: {found.get('verdict')}")
    for note in found.get("notes", ()):
        print(f"  {note}")
    if found.get("first_difference"):
        print(f"  first difference: {found['first_difference']}")
    for place in found.get("places", ()):
        if not place["applied"]:
            print(f"  not applied in graph {place['graph']}: {place['why']}")
    return dict(found)


def broken(folder: Path, package: Path) -> None:
    """Apply a package with a mask that is off by one; nothing may be timed."""
    copy = folder / "broken" / package.name
    shutil.copytree(package, copy)
    kernel = copy / "kernel.py"
    text = kernel.read_text()
    wrong = re.sub(r"((?:r0_|x)mask = \w+ < \w+)", r"\1 - 1", text, count=1)
    if wrong == text:  # no mask: the sizes are multiples of the blocks
        wrong = re.sub(r"(tl\.store\(.*\n)(?![\s\S]*tl\.store)", r"pass\n", text)
    kernel.write_text(wrong)
    found = applied(folder, copy)
    is_applied = any(each["applied"] for each in found.get("places", ()))
    caught = is_applied and found.get("equal") is False and found.get("before") is None
    print(f"  caught before anything was timed: {caught}")


def by_hand(folder: Path, package: Path) -> None:
    """Change the softmax as a person would: divide the exponentials that were summed, not compute them again."""
    kernel = package / "kernel.py"
    text = kernel.read_text()
    edited = re.sub(r"\bexp_2 / total\b", "exp / total", text)
    if edited == text:
        print("  nothing to change by hand")
        return
    kernel.write_text(edited)
    code, found = run(folder, "kernels", "edit", str(package), "--once")
    print(f"  by hand: correct {found.get('equal')}, exit code {code}")
    applied(folder, package)


def ejected(folder: Path, text: str) -> list[Path]:
    """Write the model, and take its kernels out; return the packages whose kernels reduce rows."""
    folder.mkdir()
    (folder / "model.py").write_text(text)
    run(folder, "kernels", "eject", "--all", "-o", "ops", "--of", "model.py", "--build")
    packages = sorted(each.parent for each in (folder / "ops").glob("*/ctrace.json"))
    return [each for each in packages if "r0_index" in (each / "kernel.py").read_text()]


def tried(name: str, folder: Path, packages: list[Path], *, quick: bool) -> tuple[str, ...]:
    """Take one model's kernel through all steps; return a row of the table."""
    print(f"\n== {name}", flush=True)
    if len(packages) != 1:
        return name, f"{len(packages)} packages"
    package = packages[0]
    before: dict[str, Any] = {}
    if not quick:
        before = applied(folder, package)
        broken(folder, package)
    _, tuned = run(folder, "kernels", "tune", str(package), "--most", "30" if quick else "80")
    for kernel in tuned.get("packages", [{}])[0].get("kernels", ()):
        for size in kernel["sizes"]:
            print(f"  {size['sizes']}: best {size['best']}")
    after = applied(folder, package)
    graphs = applied(folder, package, "--mode", "reduce-overhead")
    if not quick:
        by_hand(folder, package)
    return name, times(before), times(after), times(graphs)


def times(found: dict[str, Any]) -> str:
    """Return kernel and model times of one application, in microseconds."""
    kernel, model = found.get("kernel") or {}, found
    if not model:
        return "not tried"
    if not kernel or model.get("before") is None:
        return f"not measured: {found.get('not_measured')}"
    in_us = [kernel["before"] * 1e6, kernel["after"] * 1e6, model["before"] * 1e6, model["after"] * 1e6]
    shown = "kernel {:.2f} -> {:.2f} us, model {:.2f} -> {:.2f} us".format(*in_us)
    return f"{shown}, {found.get('verdict')}, equal: {found.get('equal')}"


def main() -> None:
    """Run all models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the softmax, with fewer configurations")
    quick = parser.parse_args().quick
    chosen = dict(list(MODELS.items())[: 1 if quick else None])
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor() as pool:
        folders = [Path(place) / f"model{number}" for number in range(len(chosen))]
        packages = list(pool.map(ejected, folders, chosen.values()))  # only compiles, so it disturbs no time
        models = zip(chosen, folders, packages, strict=True)
        rows = [tried(name, folder, found, quick=quick) for name, folder, found in models]
    print("\nmodel | unchanged package | tuned package | tuned package, with CUDA graphs")
    for row in rows:
        print(" | ".join(row))


if __name__ == "__main__":
    main()
