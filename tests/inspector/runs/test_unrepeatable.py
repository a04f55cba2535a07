"""Code whose questions nobody can ask again."""

from itertools import count
from pathlib import Path

import pytest

from ctrace.inspector.runs.answers import unrepeatable

NUMBERS = count()


def found(code: str, folder: Path, name: str = "net{}.py") -> tuple[int, str] | None:
    path = folder / name.format(next(NUMBERS))
    path.write_text(code)
    return unrepeatable(path)


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import time\nx = time.time()", "clock"),
        ("import time as t\nx = t.time()", "clock"),
        ("from time import time", "clock"),
        ("from time import *", "clock"),
        ("import datetime\nx = datetime.datetime.now()", "clock"),
        ("from datetime import date as d\nx = d.today()", "clock"),
        ("import pandas\nx = pandas.Timestamp.now()", "clock"),
        ("import numpy\nx = numpy.datetime64('now')", "clock"),
        ("import time\nx = getattr(time, 'time_ns')()", "clock"),
        ("x = __import__('time').time()", "clock"),
        ("import random\nx = random.choice([1, 2])", "random"),
        ("from random import choice", "random"),
        ("import random\nx = random.Random().random()", "random"),
        ("import os\nx = os.urandom(1)", "random"),
        ("import secrets\nx = secrets.choice([1])", "random"),
        ("from uuid import uuid4", "random"),
        ("import os\nx = os.cpu_count()", "cores"),
        ("import torch\nx = torch.get_num_threads()", "cores"),
        ("import os\nx = os.path.getmtime('f')", "time"),
        ("from pathlib import Path\nx = Path('f').stat().st_mtime", "time"),
        ("import os\nx = os.stat('f')[8]", "time"),
        ("import torch\nx = torch.cuda.mem_get_info()", "free"),
        ("import os\nx = os.getpid()", "process"),
    ],
)
def test_such_a_question_is_found(code: str, what: str, tmp_path: Path) -> None:
    told = found(code, tmp_path)
    assert told is not None
    assert what in told[1]
    assert told[0] == len(code.splitlines())


@pytest.mark.parametrize(
    "code",
    [
        "import time\nbegan = time.perf_counter()\ntime.sleep(0)",
        "import random\nrandom.seed(0)\nx = random.random()",
        "import random\nx = random.Random(3).random()",
        "import torch\nx = torch.rand(3); torch.manual_seed(0)",
        "import uuid\nx = uuid.uuid5(uuid.NAMESPACE_DNS, 'x')",
        "x = {'time': 3}['time']",
        "class A:\n    def time(self): ...\nA().time()",
        "from datetime import timedelta\nx = timedelta(1)",
        "this is no Python",
    ],
)
def test_ordinary_code_is_not(code: str, tmp_path: Path) -> None:
    assert found(code, tmp_path) is None


def test_code_under_another_name_counts_and_data_do_not(tmp_path: Path) -> None:
    assert found("import time\nx = time.time()", tmp_path, "code{}.txt") is not None
    assert found('{"getmtime": 1}', tmp_path, "data{}.json") is None
