"""Make the logs of reading.py: records of real compilations, repeated as further compilations of one job.

`python _logs.py training` and `python _logs.py recompiling` compile; run them with TORCH_TRACE=DIR.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_FRAME = re.compile(rb'"frame_id": (\d+)')
_RANK = re.compile(rb'"rank": \d+')
FUNCTIONS = 90
"""Functions of the recompiling program; each one recompiles seven times, the most that torch's default allows."""

_FUNCTION = """
def step_{0}(x, scale):
    y = x * scale + {0}
    return y.relu() if scale > 1 else y.sin()
"""


def train() -> None:
    """Train small models: layers with attention, a convolutional net, one with a graph break and new batch sizes."""
    import torch
    from torch import nn

    class Breaking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = self.first(x).relu()
            print("hidden", tuple(hidden.shape))
            return self.second(hidden)  # type: ignore[no-any-return]

    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.1)
    convolutions = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
    models: list[tuple[nn.Module, list[torch.Tensor]]] = [
        (nn.TransformerEncoder(layer, 4), [torch.rand(2, 16, 64), torch.rand(2, 16, 64)]),
        (convolutions, [torch.rand(2, 3, 8, 8), torch.rand(4, 3, 8, 8)]),
        (Breaking(), [torch.rand(size, 32) for size in (2, 5, 9)]),
    ]
    for model, inputs in models:
        compiled = torch.compile(model)
        optimizer = torch.optim.AdamW(model.parameters())
        for x in inputs:
            compiled(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()


def recompile() -> None:
    """Call many small functions with new numbers, so that each one recompiles."""
    import torch

    torch._dynamo.config.automatic_dynamic_shapes = False
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "steps.py")
        source.write_text("".join(_FUNCTION.format(number) for number in range(FUNCTIONS)))
        names: dict[str, object] = {}
        exec(compile(source.read_text(), str(source), "exec"), names)
        for number in range(FUNCTIONS):
            compiled = torch.compile(names[f"step_{number}"], backend="eager")  # type: ignore[call-overload]
            for scale in range(8):
                compiled(torch.rand(4), scale)


def recorded(program: str, folder: Path) -> bytes:
    """Run one of the programs above with torch's own log on, and return the log."""
    environment = {**os.environ, "TORCH_TRACE": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    subprocess.run([sys.executable, __file__, program], env=environment, check=True, stdout=subprocess.DEVNULL)
    (log,) = folder.glob("*.log")
    return log.read_bytes()


def repeated(log: bytes, copies: int) -> Iterator[bytes]:
    """Yield copies of a log's records in which only the numbers of frames differ, so that each compiles other code."""
    pieces = _FRAME.split(log)
    numbers = [int(each) for each in pieces[1::2]]
    step = max(numbers) + 1
    for copy in range(copies):
        pieces[1::2] = [b'"frame_id": %d' % (number + copy * step) for number in numbers]
        yield b"".join(pieces)


def write_repeated(log: bytes, path: Path, size: int) -> int:
    """Write copies of a log until the file has a size; return how many bytes it has."""
    written = 0
    with path.open("wb") as file:
        for copy in repeated(log, max(1, -(-size // len(log)))):
            written += file.write(copy)
    return written


def of_rank(log: bytes, rank: int) -> bytes:
    """Return a log as another rank would write it."""
    return _RANK.sub(b'"rank": %d' % rank, log)


if __name__ == "__main__":
    {"training": train, "recompiling": recompile}[sys.argv[1]]()
