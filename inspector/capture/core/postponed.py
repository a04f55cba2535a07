"""Measurements that would disturb the program wait until it is over."""

from collections.abc import Callable
from os import getpid
from typing import Protocol


class Measurement(Protocol):
    """What a hook wants to measure once the program is over."""

    def measure(self) -> None:
        """Measure; nothing of the program runs afterwards."""

    def refuse(self, why: str) -> None:
        """Record why this is never measured."""


class Postponed:
    """The measurements that wait in this process."""

    def __init__(self) -> None:
        self._process = getpid()
        self._waiting: list[Measurement] = []

    def add(self, measurement: Measurement) -> None:
        """Let a measurement wait."""
        self._waiting.append(measurement)

    def measure(self) -> None:
        """Measure what waits: the program, its threads and its exit functions have ended."""
        self._each(lambda waiting: waiting.measure())

    def refuse(self, why: str) -> None:
        """Give up what still waits."""
        self._each(lambda waiting: waiting.refuse(why))

    def _each(self, act: Callable[[Measurement], None]) -> None:
        if getpid() != self._process:  # a fork of the program: its parent goes on
            return
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            act(each)
