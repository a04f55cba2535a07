"""Put together what the log says of a device that was not there."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from ctrace.inspector.virtual import DeviceQuestion


def questions_of(asked: Iterable[DeviceQuestion]) -> tuple[DeviceQuestion, ...]:
    """Give each question once, with how often it was asked."""
    counted = Counter(asked)
    return tuple(replace(each, times=times) for each, times in counted.items())
