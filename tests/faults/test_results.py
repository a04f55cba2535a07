"""A few tries of results against eager, with real kernels, in one process."""

import json
import sys
from pathlib import Path

import pytest

from tests.faults import results
from tests.faults.results import Order
from tests.faults.study import Bench, Result
from tests.integration.conftest import Command
from tests.support.warm import WarmServer

FEW = [Order("topk_head", "bf16"), Order("mlp_train", "fp32", "relu"), Order("attention_causal", "bf16", "mask")]
MORE = [
    Order("dit", "autocast"),
    Order("conv_batchnorm_train", "fp32"),
    Order("mlp", "fp16", "one"),
    Order("conv_batchnorm_train", "fp32", "stale"),
]


@pytest.mark.integration
@pytest.mark.timeout(900)
@pytest.mark.parametrize("orders", [FEW, pytest.param(MORE, marks=pytest.mark.slow)], ids=["few", "more"])
def test_no_false_alarm_and_no_fault_missed(orders: list[Order], tmp_path: Path, warm_server: WarmServer | None):
    bench = Bench((sys.executable,), len(orders), 18, tmp_path)
    done = Command(tmp_path, warm_server).python(*results.words(bench, orders), timeout=800)
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    tries = [each for each in map(results.judged, said) if each is not None]
    assert [each for each in tries if each.result is not Result.FINE] == []
    assert len(tries) == len(orders)


def test_orders_name_models_and_faults_that_there_are():
    orders = results.orders()
    assert len({each.model for each in orders if not each.fault}) >= 40
    assert {each.model for each in orders if each.fault} <= {each.model for each in orders if not each.fault}


@pytest.mark.parametrize(
    ("said", "result"),
    [
        ({"dangers": [("unexplained", "x")]}, Result.LIE),
        ({}, Result.FINE),
        ({"fault": "exp"}, Result.LIE),
        ({"fault": "exp", "dangers": [("unexplained", "x")]}, Result.FINE),
        ({"fault": "exp", "rule": ["reference", 1.0, 4.0, ""]}, Result.FINE),
        ({"fault": "exp", "rule": ["reference", 1.0, 6.0, ""]}, Result.LIE),
        ({"fault": "exp", "not_compared": "random numbers"}, Result.FINE),
        ({"problems": ["broken"]}, Result.CRASH),
        ({"error": "RuntimeError: no"}, Result.CRASH),
    ],
)
def test_what_counts(said: dict[str, object], result: Result):
    blank: dict[str, object] = {
        "model": "m",
        "precision": "fp32",
        "fault": "",
        "backend": "",
        "dangers": [],
        "not_compared": "",
        "rule": None,
    }
    judged = results.judged({**blank, "put_in": ["x"], "problems": [], **said})
    assert judged is not None
    assert judged.result is result
