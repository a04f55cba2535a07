"""Events of a run with `--target`."""

from msgspec import Struct

from ctrace.inspector.model.target import DeviceQuestion, Undecided


class ChoiceLeftOpen(Struct, frozen=True):
    """Torch would have timed something on the device."""

    choice: Undecided


class DeviceQueried(Struct, frozen=True):
    """The program queried the device."""

    question: DeviceQuestion


TargetEvent = ChoiceLeftOpen | DeviceQueried
