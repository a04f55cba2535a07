"""Breaks inside of `with torch.no_grad()`, which resumes, and inside of a context manager of the user's, which does not."""

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def noisy() -> Iterator[None]:
    print("enter")
    yield


@torch.compile(backend="eager")
def resumes(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    with torch.no_grad():
        print("inside")
        x = x * 2
    return x + 3


@torch.compile(backend="eager")
def gives_up(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    with noisy():
        x = x * 2
    return x + 3


for _ in range(2):
    resumes(torch.ones(3))
    gives_up(torch.ones(3))
