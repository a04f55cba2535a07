"""Measurements that wait until the program is over."""

import os

from ctrace.inspector.capture.core.postponed import Postponed


class Waiting:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def measure(self) -> None:
        self.seen.append("measured")

    def refuse(self, why: str) -> None:
        self.seen.append(why)


def test_each_is_measured_or_refused_once() -> None:
    postponed, first, second = Postponed(), Waiting(), Waiting()
    postponed.add(first)
    postponed.measure()
    postponed.add(second)
    postponed.refuse("the program failed")
    postponed.measure()
    assert (first.seen, second.seen) == (["measured"], ["the program failed"])


def test_a_fork_of_the_program_measures_nothing() -> None:
    postponed, waiting = Postponed(), Waiting()
    postponed.add(waiting)
    postponed._process = os.getpid() + 1
    postponed.measure()
    postponed.refuse("why")
    assert waiting.seen == []
