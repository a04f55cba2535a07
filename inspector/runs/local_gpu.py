"""Write an entry for this machine's GPU as YAML for `--target`; a child process reads the GPU."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from ctrace.inspector.errors import SetupError, TargetError, shown
from ctrace.inspector.knowledge.gpus.gpu_table import NAMES, Listed, TargetGpu, canonical, is_name, same_device
from ctrace.inspector.knowledge.releases import check_environment
from ctrace.inspector.processes.boot import python
from ctrace.inspector.processes.spawned import answer_of
from ctrace.inspector.runs.child import cannot_start

# Importing torch and starting the driver take seconds, and much longer on a busy machine.
_SECONDS = 120
_FACTS = tuple(each for each in TargetGpu.__struct_fields__ if each not in ("name", "rates", "vector_rates", "sources"))


class AtHand(Struct, frozen=True):
    """What torch and the driver report about this machine's GPU, in the units of the table."""

    facts: Mapping[str, Any]
    """The reported facts, by name."""
    by_driver: tuple[str, ...]
    """The names of facts that only the driver reports."""
    torch: str


def at_hand() -> AtHand:
    """Read the GPU of this machine; torch is imported in a child process.

    Raises:
        SetupError: torch is missing, or does not answer.
        TargetError: the machine has no GPU.
    """
    check_environment()
    try:
        written = answer_of(python("ctrace.inspector.capture.kernels.gpu_facts"), _SECONDS)
    except TimeoutError:
        raise SetupError(f"torch did not report the GPU within {_SECONDS} s", "see ctrace doctor") from None
    except OSError as error:
        raise cannot_start(error) from None
    try:
        answer = json.loads(written.out)
    except ValueError:
        raise SetupError(f"the GPU cannot be read: {written.last_line}", "see ctrace doctor") from None
    if "why" in answer:
        raise TargetError(f"--read: {answer['why']}", answer["todo"])
    return AtHand(in_units(answer["facts"]), tuple(answer["by_driver"]), answer["torch"])


def in_units(reported: Mapping[str, Any]) -> dict[str, Any]:
    """Convert torch's clock in kHz and bus width in bits to cycles and bytes per second."""
    facts = {key: reported[key] for key in _FACTS if reported.get(key)}
    if "clock" in facts:
        facts["clock"] *= 1000
    if reported.get("memory_clock") and reported.get("bus"):
        # Twice, as GPU memory moves data at both edges of its clock.
        facts["bandwidth"] = 2 * reported["memory_clock"] * 1000 * reported["bus"] // 8
    return facts


def entry(read: AtHand, table: Mapping[str, Listed], name: str | None = None) -> str:
    """Return the entry as YAML, with rates from the table if it has the GPU.

    Raises:
        TargetError: the name is invalid.
    """
    known = same_device(table, read.facts["title"], read.facts.get("processors"))
    gpu_name = canonical(_slug(read.facts["title"], known) if name is None else name)
    if not is_name(gpu_name):
        raise TargetError(f"--read {shown(name)}: not a valid GPU name", NAMES)
    return "\n".join(_lines(gpu_name, read, known)) + "\n"


def _lines(name: str, read: AtHand, known: TargetGpu | None) -> Iterator[str]:
    yield '# Written by ctrace targets --read. Use it: --target FILE, or gpus = ["FILE"] below [tool.ctrace].'
    yield f"{json.dumps(name)}:"
    yield from (f"  {fact}: {json.dumps(read.facts[fact])}" for fact in _FACTS if fact in read.facts)
    left_out = [fact for fact in _FACTS if fact not in read.facts]
    if left_out:
        yield f"  # torch {read.torch} and the driver do not report: {', '.join(left_out)}"
        yield from (f"  {fact}: {json.dumps(getattr(known, fact))}" for fact in left_out if known is not None)
    rates = {}
    if known is not None:
        rates = {"rates": known.rates, "vector_rates": known.vector_rates}
    for fact, table in rates.items():
        yield f"  {fact}: {{{', '.join(f'{key}: {value:g}' for key, value in table.items())}}}"
    if known is None:
        yield "  # The driver does not report rates. From the data sheet, in operations per second:"
        yield "  # rates: {float16: 1e14}         of the Tensor Cores, without sparsity"
        yield "  # vector_rates: {float32: 1e13}  of the vector units"
    yield "  sources:"
    yield from _sources(read, known)


def _sources(read: AtHand, known: TargetGpu | None) -> Iterator[str]:
    of_torch = [fact for fact in _FACTS if fact in read.facts and fact not in read.by_driver]
    of_driver = [fact for fact in _FACTS if fact in read.facts and fact in read.by_driver]
    for facts, source in ((of_torch, f"driver, reported by torch {read.torch}"), (of_driver, "driver, read directly")):
        if facts:
            yield f"    {json.dumps(', '.join(facts))}: {json.dumps(source)}"
    if known is None:
        return
    for fact in (*(fact for fact in _FACTS if fact not in read.facts), "rates", "vector_rates"):
        if fact in known.sources:
            yield f"    {fact}: {json.dumps(known.sources[fact])}"


def _slug(title: str, known: TargetGpu | None) -> str:
    if known is not None:
        return known.name
    kept = "".join(letter if letter.isalnum() else " " for letter in title)
    return "-".join(word for word in kept.lower().split() if word != "nvidia")[:60] or "gpu"
