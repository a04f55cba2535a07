"""Record the logs of jobs with two ranks in tests/data/ranks, from tests/scripts/ranks_job.py.

    python tests/support/record_ranks.py                 all cases
    python tests/support/record_ranks.py equal shape     some of them

Torch writes the logs, as TORCH_TRACE has it do in a production job; see record.py for what is replaced in them.
"""

import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.record import DATA, ROOT, SCRIPTS, neutral

CASES = (
    "equal", "shape", "recompile", "branch", "killed", "ddp", "fsdp", "tensor_parallel", "order", "environment",
    "collectives",
)  # fmt: skip
RANKS = 2
SECONDS = 300


def main() -> None:
    for case in sys.argv[1:] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            script = Path(shutil.copy(SCRIPTS / "ranks_job.py", Path(folder).resolve() / "train.py"))
            logs = record(script, case)
            kept = DATA / "ranks" / case
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir(parents=True)
            for log in logs:
                text = neutral(log.read_text(encoding="utf-8"), script)
                name = re.sub(r"(rank_\d+).*", r"\1.log.gz", log.name)
                (kept / name).write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"wrote {kept.relative_to(ROOT)}, {len(logs)} logs")


def record(script: Path, case: str) -> list[Path]:
    """Run a job, and return the logs of its ranks."""
    folder = script.parent / "logs"
    environment = {
        **os.environ,
        "TORCH_TRACE": str(folder),
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(script.parent / "cache"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
    words = [*launch, script.name, case]
    try:
        done = subprocess.run(
            words, cwd=script.parent, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        print(f"{case}: stopped after {SECONDS} s", file=sys.stderr)
    else:
        if done.returncode and case != "killed":
            print(done.stderr[-2000:], file=sys.stderr)
    return sorted(folder.glob("*.log"))


if __name__ == "__main__":
    main()
