"""Follow each storage from its allocation to its end, so that the bytes that are alive at any moment are exact.

A storage is registered when an operator returns it, and its end is the callback of a weak reference to it: torch keeps
the Python object of a storage as long as the storage lives (2.11 to 2.13, torch/csrc/Storage.cpp), so it also fires
for a tensor that only autograd held. Views and aliases share a storage and count once.

While a compiled graph runs, the ledger is closed: what happens inside is added from the plan of Inductor's wrapper
(`wrapper_plan.py`), on top of what is alive when the graph is called.

The functions behind the `Ledger` say what it has seen: what is alive at a peak by kind and line, and how it came to
that.
"""

import linecache
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, NamedTuple

from msgspec import Struct, field

from ctrace.inspector.facts.memory_facts import AliveMemory, KindBytes, MemoryMoment
from ctrace.inspector.features.memory.memory_request import SavedAt

MOST_CHANGES = 2_000_000
"""The most changes to keep of a long program; earlier ones are folded into the moment of the peak so far."""
KINDS = ("parameter", "gradient", "optimizer", "input", "graph_pool", "output", "saved", "other", "temporary")
"""A storage of several kinds counts as the first of these."""


class CodeOrigin(NamedTuple):
    """Where in the user's code something is made."""

    file: str | None = None
    line: int | None = None
    function: str | None = None

    @property
    def text(self) -> str:
        """`file:line`; empty if it is not known."""
        if self.file is None:
            return ""
        return f"{self.file}:{self.line}"


NOWHERE = CodeOrigin()


class TrackedStorage(Struct, eq=False, weakref=True):
    """One storage, or one buffer of a compiled graph."""

    bytes: int
    device: str
    origin: CodeOrigin
    op: str
    """The operator or the kernel that made it."""
    shape: tuple[int, ...]
    dtype: str
    kinds: set[str]
    part: str = "forward"
    name: str = ""
    """The parameter, or the buffer of a graph."""
    born: int = 0
    """How many storages there were before it."""

    @property
    def kind(self) -> str:
        """The first of its kinds, in the order of `KINDS`."""
        return next((each for each in KINDS if each in self.kinds), "temporary")


class StorageChange(NamedTuple):
    """An allocation or an end."""

    stored: TrackedStorage
    bytes: int
    """Negative: freed."""
    part: str
    at: str
    """What runs: `file:line`, or an operator."""


class AliveMoment(NamedTuple):
    """What is alive at some point."""

    bytes: int
    alive: dict[TrackedStorage, int]
    part: str
    at: str


class SavedLine(Struct):
    """What a line saves for the backward."""

    now: int = 0
    most: int = 0
    sizes: set[int] = field(default_factory=set)


class Ledger:
    """The storages of a process."""

    def __init__(self) -> None:
        self.part = "program"
        self.at = ""
        self.is_closed = False
        self.count = 0
        """How many storages there were."""
        self.describe: Callable[[Any], tuple[CodeOrigin, str]] = lambda _tensor: (NOWHERE, "other")
        """Says where a tensor was made that appears without an operator that returned it, and its kind."""
        self.changes: list[StorageChange] = []
        self._storages: dict[int, tuple[TrackedStorage, Any]] = {}
        self._base: dict[TrackedStorage, int] = {}
        """What was alive before the first change."""
        self._earlier: AliveMoment | None = None
        self._aside: dict[int, tuple[TrackedStorage, Any]] = {}
        """What does not count, unless it is used again."""
        self._ended: dict[TrackedStorage, None] = {}
        """What has ended while the ledger was closed."""

    def add(self, tensor: Any, origin: CodeOrigin, op: str, *kinds: str) -> TrackedStorage | None:
        """Register the storage of a tensor, or follow its size; None: it has none that takes memory."""
        storage = storage_of(tensor)
        if storage is None:
            return None
        found = self._found(storage)
        if found is not None:
            stored = found
            stored.kinds.update(kinds)
            self.resize(stored, storage.nbytes())
            return stored
        stored = TrackedStorage(
            0, device_name(storage.device), origin, op, tuple(map(int, tensor.shape)), str(tensor.dtype)[6:], set(kinds)
        )
        stored.part = self.part
        self._follow(storage, stored)
        self.resize(stored, storage.nbytes())
        return stored

    def add_unknown(self, tensor: Any) -> TrackedStorage | None:
        """Register a tensor that was made before, or by code that is not followed; None: it takes no memory."""
        origin, kind = self.describe(tensor)
        return self.add(tensor, origin, "", kind)

    def adopt(self, tensor: Any, stored: TrackedStorage) -> None:
        """Let a buffer of a graph live as long as the storage of the tensor that the graph returns."""
        storage = storage_of(tensor)
        # A graph may return a view of its input, whose storage is followed already.
        if storage is not None and storage._cdata not in self._storages:
            self._follow(storage, stored)

    def of(self, tensor: Any) -> TrackedStorage | None:
        """Return what is registered for a tensor."""
        storage = storage_of(tensor)
        if storage is None:
            return None
        return self._found(storage)

    def _found(self, storage: Any) -> TrackedStorage | None:
        if storage._cdata in self._aside:  # it is used, so it counts
            stored, reference = self._aside.pop(storage._cdata)
            self._storages[storage._cdata] = stored, reference
            self.note(stored, stored.bytes)
            return stored
        found = self._storages.get(storage._cdata)
        if found is None:
            return None
        return found[0]

    def set_aside(self, since: Collection[TrackedStorage]) -> None:
        """Let what is alive and was not before no longer count, unless it is used again.

        So what a call leaves behind, such as a result in a list, is no part of the next one. States of optimizers are.
        """
        # A copy, since the loop takes entries out, and a collection may, too.
        for key, (stored, reference) in tuple(self._storages.items()):
            if stored not in since and stored.kind not in ("parameter", "optimizer"):
                del self._storages[key]
                self._aside[key] = stored, reference

    def resize(self, stored: TrackedStorage, size: int) -> None:
        """Note the size of a storage, if it has changed."""
        if size != stored.bytes:
            self.note(stored, size - stored.bytes)
            stored.bytes = size

    def note(self, stored: TrackedStorage, change: int) -> None:
        """Add a change."""
        self.changes.append(StorageChange(stored, change, self.part, self.at))
        if len(self.changes) > MOST_CHANGES:
            self._fold()

    def _follow(self, storage: Any, stored: TrackedStorage) -> None:
        key = storage._cdata

        def end(_reference: Any) -> None:
            # What is set aside is no longer among what is alive, and ends without a change.
            if self._aside.pop(key, None) is not None or self._storages.pop(key, None) is None:
                return
            # While a graph runs, the plan says when its buffers end, and the caller puts both in order.
            if self.is_closed:
                self._ended[stored] = None
            else:
                self.end(stored)

        stored.born = self.count
        self.count += 1
        self._storages[key] = stored, weakref.ref(storage, end)

    def end(self, stored: TrackedStorage) -> None:
        """Note that a storage is freed."""
        if stored.bytes:
            self.note(stored, -stored.bytes)
            stored.bytes = 0

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Register nothing in the block, and only collect what ends."""
        before, self.is_closed = self.is_closed, True
        try:
            yield
        finally:
            self.is_closed = before

    def ended_inside(self) -> dict[TrackedStorage, None]:
        """Return what has ended while the ledger was closed; the caller notes it."""
        ended, self._ended = self._ended, {}
        return ended

    def alive(self) -> dict[TrackedStorage, int]:
        """Return what is alive now, with its bytes."""
        # A storage may be emptied and filled again, as FSDP does between layers.
        return {stored: stored.bytes for stored, _ in self._storages.values() if stored.bytes}

    def total(self) -> int:
        """Return how many bytes are alive now."""
        return sum(self.alive().values())

    def addresses(self) -> dict[TrackedStorage, int]:
        """Return the address of each storage that is alive, by which torch knows it (`_cdata`)."""
        return {stored: key for key, (stored, _) in self._storages.items() if stored.bytes}

    def begin(self) -> None:
        """Forget what was before: the next peak is of what follows."""
        self.changes.clear()
        self._earlier = None
        self._base = self.alive()

    def peak(self, device: str | None = None) -> AliveMoment:
        """Return the moment with the most bytes since `begin`, of one device or of all."""
        latest = self._peak(device)
        # What was folded away may have been the higher peak.
        if self._earlier is not None and self._earlier.bytes > latest.bytes:
            return self._earlier
        return latest

    def before(self, device: str) -> Iterator[tuple[TrackedStorage, int]]:
        """Yield what was alive before the first change."""
        yield from ((stored, size) for stored, size in self._base.items() if stored.device == device)

    def moments(self, device: str) -> Iterator[tuple[StorageChange, int]]:
        """Yield each change of a device with the bytes that are alive after it."""
        now = sum(size for stored, size in self._base.items() if stored.device == device)
        for each in self.changes:
            if each.stored.device == device:
                now += each.bytes
                yield each, now

    def saved(self, device: str) -> "dict[tuple[str | None, int | None], SavedLine]":
        """Return the most that each line saves for the backward at one time since `begin`."""
        found: dict[tuple[str | None, int | None], SavedLine] = {}
        for each in self._saved_changes(device):
            line = found.setdefault(each.stored.origin[:2], SavedLine())
            line.now += each.bytes
            line.most = max(line.most, line.now)
            if each.bytes > 0:
                line.sizes.add(each.bytes)
        return found

    def most_saved(self, device: str) -> int:
        """Return the most that all lines save for the backward at one time since `begin`."""
        return max(accumulate(each.bytes for each in self._saved_changes(device)), default=0)

    def _saved_changes(self, device: str) -> Iterator[StorageChange]:
        for each in (*(StorageChange(stored, size, "", "") for stored, size in self._base.items()), *self.changes):
            stored = each.stored
            if stored.device == device and stored.kind in ("saved", "output") and "saved" in stored.kinds:
                yield each

    def _peak(self, device: str | None) -> AliveMoment:
        now = most = sum(size for stored, size in self._base.items() if device in (None, stored.device))
        until = 0
        for index, each in enumerate(self.changes):
            if device in (None, each.stored.device):
                now += each.bytes
                if now > most:
                    most, until = now, index + 1
        alive = {stored: size for stored, size in self._base.items() if device in (None, stored.device)}
        # Again from the start: to keep what is alive at each new maximum would copy it each time.
        for each in self.changes[:until]:
            if device in (None, each.stored.device):
                alive[each.stored] = alive.get(each.stored, 0) + each.bytes
        part, at = self.part, ""
        if until:
            part, at = self.changes[until - 1].part, self.changes[until - 1].at
        return AliveMoment(most, {stored: size for stored, size in alive.items() if size}, part, at)

    def _fold(self) -> None:
        # The peak so far is kept whole, as its changes are dropped.
        self._earlier = self.peak(self.device())
        self._base = self.alive()
        self.changes.clear()

    def device(self) -> str:
        """Return the device that counts: a GPU if anything lies on one, of several the one with the highest peak."""
        # Of a program with a GPU, what lies on the CPU is rarely what runs out.
        gpus = sorted(self.devices() - {"cpu"})
        if len(gpus) > 1:
            return max(gpus, key=lambda each: self._peak(each).bytes)
        return next(iter(gpus), "cpu")

    def devices(self) -> set[str]:
        """Return the devices that anything lies on."""
        return {each.device for each in (*self._base, *(change.stored for change in self.changes))}

    def mark(self, tensors: Iterable[Any], kind: str) -> None:
        """Say what kind the storages of tensors are of."""
        for tensor in plain_tensors(tensors):
            stored = self.of(tensor)
            if stored is not None:
                stored.kinds.add(kind)

    def follow_size(self, storage: Any) -> None:
        """Note that a storage may have another size now."""
        stored = self._found(storage)
        if stored is not None and not self.is_closed:
            self.resize(stored, storage.nbytes())


def device_name(device: Any) -> str:
    """Return a device as the ledger has it: the first GPU as `cuda`, another one as `cuda:1`."""
    if device.index:
        return f"{device.type}:{device.index}"
    return str(device.type)


def plain_tensors(tensors: Iterable[Any]) -> Iterator[Any]:
    """Yield tensors, and of one that wraps others, such as the DTensor of a shard, those."""
    from torch import Tensor
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    for each in tensors:
        if is_traceable_wrapper_subclass(each):
            names, _ = each.__tensor_flatten__()
            inner = (getattr(each, name) for name in names)
            yield from plain_tensors(found for found in inner if isinstance(found, Tensor))  # others: a device mesh
        else:
            yield each


def storage_of(tensor: Any) -> Any:
    """Return the storage of a tensor; None if it has none that takes memory, such as a fake tensor."""
    import torch

    if tensor.layout is not torch.strided:
        return None
    try:
        storage = tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # a subclass that wraps others: those are registered
        return None
    if storage.device.type == "meta":
        return None
    return storage


_MOST_MOMENTS = 400
"""The most points of a timeline: about as many as a page has pixels."""


def alive_of(alive: Mapping[TrackedStorage, int]) -> tuple[AliveMemory, ...]:
    """Return what is alive, by kind and line, the largest first."""
    grouped: dict[tuple[str, str | None, int | str | None], list[tuple[TrackedStorage, int]]] = {}
    for stored, size in alive.items():
        file, line, function = stored.origin
        # Without a line, what torch.distributed makes is distinguished by its function.
        grouped.setdefault((stored.kind, file, function if file is None else line), []).append((stored, size))
    found = [_group(kind, some) for (kind, _, _), some in grouped.items()]
    return tuple(sorted(found, key=lambda each: (-each.bytes, each.kind, each.file or "", each.line or 0)))


def _group(kind: str, some: list[tuple[TrackedStorage, int]]) -> AliveMemory:
    # The largest one stands for the group, with its shape and the operator that made it.
    first = max(some, key=lambda each: each[1])[0]
    shapes = {each.shape for each, _ in some}
    dtypes = sorted({each.dtype for each, _ in some if each.dtype})
    file, line, function = first.origin
    return AliveMemory(
        bytes=sum(size for _, size in some),
        kind=kind,
        file=file,
        line=line,
        function=function,
        # One shape for all of them, or none: a shape of only some would be wrong of the sum.
        shape=next(iter(shapes)) if len(shapes) == 1 and dtypes else None,
        dtype=", ".join(dtypes),
        count=len(some),
        source=source_line(file, line),
        op=first.op,
    )


def source_line(file: str | None, line: int | None) -> str:
    """Return a line of code; empty if it is not known."""
    if file is not None and line is not None:
        return linecache.getline(file, line).strip()
    return ""


def saved_of(ledger: Ledger, device: str) -> tuple[SavedAt, ...]:
    """Return what each line saves for the backward."""
    return tuple(
        SavedAt(file, line, each.most, tuple(sorted(each.sizes)))
        for (file, line), each in ledger.saved(device).items()
        if each.most
    )


def timeline_of(ledger: Ledger, device: str) -> Iterator[MemoryMoment]:
    """Yield the largest moments of equal stretches of a step, so that none of its peaks is lost."""
    moments = list(ledger.moments(device))
    stretch = max(len(moments) * 2 // _MOST_MOMENTS, 1)
    kinds: dict[str, int] = {}
    for stored, size in ledger.before(device):
        kinds[stored.kind] = kinds.get(stored.kind, 0) + size
    for begin in range(0, len(moments), stretch):
        best = None
        for change, now in moments[begin : begin + stretch]:
            kinds[change.stored.kind] = kinds.get(change.stored.kind, 0) + change.bytes
            # The largest moment of a stretch, and not its mean, which would hide a peak.
            if best is None or now > best.bytes:
                known = tuple(KindBytes(kind, size) for kind, size in sorted(kinds.items()) if size)
                best = MemoryMoment(change.part, change.at, now, known)
        if best is not None:
            yield best
