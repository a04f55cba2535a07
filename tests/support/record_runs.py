"""Record saved runs in tests/data/runs, one archive each, from the sample models and what `make views` needs besides.

    python tests/support/record_runs.py              all of them
    python tests/support/record_runs.py trained      one of them

A run is captured by the command that a user would type, in a folder of its own. Paths of this machine, times and
process ids are replaced; the archive holds the run's folder as `Store` wrote it.
"""

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").exists())
sys.path.insert(0, str(ROOT))

from tests.support.record import neutral  # noqa: E402

RUNS = ROOT / "tests" / "data" / "runs"
CREATED = 1_700_000_000.0
RECORDED = {
    "advised": ["explain", "attention_print.py"],
    "compared": ["explain", "--build", "mlp.py"],
    "failed": ["explain", "failing.py"],
    "fast": ["explain", "--fast", "item_sync.py"],
    "h100": ["explain", "--target", "h100", "conv_net.py"],
    "h100_trained": ["explain", "--target", "h100", "--train", "embedding_loss.py"],
    "h100_graphs": ["explain", "--target", "h100", "--mode", "reduce-overhead", "data_dependent.py"],
    "program": ["run", "training.py"],
    "provoked": ["explain", "--provoke", "batch_sizes.py"],
    "stepped": ["explain", "step_counter.py"],
    "skipped": ["explain", "skipped_loop.py"],
    "trained": ["explain", "--train", "attention_training.py"],
    "triton": ["explain", "--target", "a100", "triton_kernel.py"],
    "tuned": ["explain", "--build", "--mode", "max-autotune-no-cudagraphs", "mlp.py"],
    "varied": ["explain", "--vary", "0=1,2,8,16", "mlp.py"],
}
"""The command that made each run; `failing.py` and `training.py` are in tests/scripts/runs."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(RECORDED))
    for name in parser.parse_args().names:
        with tempfile.TemporaryDirectory() as folder:
            archive(name, captured(RECORDED[name], Path(folder).resolve()))
        print(
            f"wrote {(RUNS / name).relative_to(ROOT)}.tar.gz, {(RUNS / f'{name}.tar.gz').stat().st_size / 1000:.0f} kB"
        )


def captured(words: list[str], folder: Path) -> Path:
    """Run a command in a folder that holds its target, and return the folder of the saved run with neutral paths."""
    script = words[-1]
    source = next(
        where / script for where in (ROOT / "sample_models", ROOT / "tests/scripts/runs") if (where / script).exists()
    )
    shutil.copy(source, folder)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "-m", "ctrace", *words], cwd=folder, env=environment, capture_output=True, check=False
    )
    (saved,) = (each for each in (folder / ".ctrace").iterdir() if each.is_dir() and (each / "run.json").exists())
    log = saved / "trace.log"
    log.write_text(neutral(log.read_text(encoding="utf-8"), folder / script), encoding="utf-8")
    for file in saved.rglob("*.json"):
        file.write_text(neutral_json(file.read_text(encoding="utf-8"), folder), encoding="utf-8")
    return saved


def neutral_json(text: str, folder: Path) -> str:
    """Replace paths, and when and by which process the run was made."""
    data = json.loads(text.replace(str(folder), "/home/user/project").replace(sys.prefix, "/venv"))
    for name, value in (("created", CREATED), ("pid", 1), ("seconds", 5.0)):
        if name in data:
            data[name] = value
    return json.dumps(data, indent=1)


def archive(name: str, saved: Path) -> None:
    """Pack a run's folder, with nothing in it that differs from one recording to the next without reason."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime, member.uid, member.gid, member.uname, member.gname = int(CREATED), 0, 0, "", ""
        return member

    RUNS.mkdir(exist_ok=True)
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz", compresslevel=9) as packed:
        for file in sorted(saved.rglob("*")):
            packed.add(file, arcname=f"{name}/{file.relative_to(saved)}", recursive=False, filter=plain)
    (RUNS / f"{name}.tar.gz").write_bytes(content.getvalue())


if __name__ == "__main__":
    main()
