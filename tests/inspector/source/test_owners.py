"""Who owns a file."""

import pytest

from ctrace.inspector.facts.findings import Frame, Owner
from ctrace.inspector.source.owners import frame_outside_torch, owner_of
from tests.support.helpers import PREFIXES, SITE, TORCH_PREFIXES

KNOWN = {**PREFIXES, **TORCH_PREFIXES}


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        ("/home/user/project/model.py", Owner.USER),
        (f"{SITE}/torch/nn/modules/linear.py", Owner.TORCH),
        (f"{SITE}/transformers/modeling.py", Owner.LIBRARY),
        (f"{SITE}/torchvision/models/resnet.py", Owner.LIBRARY),
        ("/usr/lib/python3.11/contextlib.py", Owner.LIBRARY),
        ("/usr/lib/python3.11.py", Owner.USER),
    ],
)
def test_the_longest_known_folder_decides(file: str, owner: Owner):
    assert owner_of(file, KNOWN) is owner


def test_a_checkout_of_torch_is_torch_where_the_log_says_so():
    file = "/home/user/pytorch/torch/nn/functional.py"
    assert owner_of(file, {}) is Owner.USER
    assert owner_of(file, {"/home/user/pytorch/torch": "torch"}) is Owner.TORCH


def test_a_project_inside_a_library_folder_is_the_users_where_no_folder_is_known():
    assert owner_of("/home/user/lib/model.py", {}) is Owner.USER


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        ("/opt/x/lib/python3.12/site-packages/torch/_dynamo/eval_frame.py", Owner.TORCH),
        ("/usr/lib/python3/dist-packages/torch/nn/functional.py", Owner.TORCH),
        ("C:\\Python\\Lib\\site-packages\\torch\\nn\\functional.py", Owner.TORCH),
        ("/opt/x/lib/python3.12/site-packages/einops/einops.py", Owner.LIBRARY),
        ("/opt/x/lib/python3.12/random.py", Owner.LIBRARY),
        ("<frozen importlib._bootstrap>", Owner.LIBRARY),
        ("<string>", Owner.LIBRARY),
        ("<eval_with_key>.3", Owner.TORCH),
        ("/srv/app/train.py", Owner.USER),
        ("model.py", Owner.USER),
    ],
)
def test_without_known_folders_the_path_decides(file: str, owner: Owner):
    assert owner_of(file, {}) is owner


def test_windows_folders():
    assert owner_of("C:\\env\\torch\\a.py", {"C:\\env\\torch": "torch"}) is Owner.TORCH


def test_the_text_that_starts_a_process_is_no_place():
    """Inside of an autograd.Function, torch's own stack (2.13) has the process that called the compiled function."""
    inner = Frame(f"{SITE}/torch/nn/modules/_functions.py", 232, "forward")
    start, ours = Frame("<string>", 13, "<module>"), Frame("/src/ctrace/child.py", 1, "main")
    assert frame_outside_torch([start, ours, inner], KNOWN, "/src/ctrace") == inner
    user = Frame("/home/user/project/model.py", 7, "forward")
    assert frame_outside_torch([start, ours, user, inner], KNOWN, "/src/ctrace") == user
