"""Collect the events of a log by subject (`CollectedLog`); `session/build.py` builds a Session from them.

Begin and end marks of compile steps, of which a log may have millions, are kept in columns (`Marks`).
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.errors import RunError
from ctrace.inspector.facts import bytecode_facts, run_events
from ctrace.inspector.facts import compile_time as ct
from ctrace.inspector.facts import guard_facts as ge
from ctrace.inspector.facts import run_events as ev
from ctrace.inspector.facts.accuracy_facts import Accuracy
from ctrace.inspector.facts.autotuning import AutotuningEvent, AutotuningRecord
from ctrace.inspector.facts.built import (
    Built,
    BuiltEvent,
    Gpu,
    KernelChosen,
    KernelCode,
    KernelRefusal,
    LaunchTiming,
)
from ctrace.inspector.facts.cluster_facts import (
    CollectiveCalled,
    CollectivesCut,
    GraphCalled,
    GroupMade,
    MeshMade,
    RankBegan,
    StageMade,
    UnevenShard,
)
from ctrace.inspector.facts.compile_time import CacheLookup, EarlierKey, MarkColumns, Speed, TorchCachesUsed
from ctrace.inspector.facts.cuda_graphs import CudaGraphEvent
from ctrace.inspector.facts.fake_facts import Assumed, ModelLoaded, Stopped
from ctrace.inspector.facts.findings import Danger
from ctrace.inspector.facts.fusion_facts import FusionDone, FusionRecord
from ctrace.inspector.facts.graph_facts import AliasesFound, GraphPrinted, Module, Printed, Unrolled
from ctrace.inspector.facts.guard_facts import GuardCost
from ctrace.inspector.facts.kernel_facts import (
    CodeWritten,
    KernelCall,
    KernelMade,
    KernelStacksSeen,
    PartGenerated,
    Stage,
    TorchCodeSeen,
)
from ctrace.inspector.facts.memory_facts import FoundMemory
from ctrace.inspector.facts.outcome import Asked
from ctrace.inspector.facts.passes import AttentionFound, Pass
from ctrace.inspector.facts.run_events import SpanMarked
from ctrace.inspector.facts.scenario_facts import DangerFound, Outcome, ScenarioDone
from ctrace.inspector.facts.session import Failure, FailurePhase, Problem, Scenario
from ctrace.inspector.facts.shape_facts import (
    ConditionMet,
    ShapesSeen,
    SymbolEvent,
    SymbolFixed,
    SymbolMade,
    UnbackedMade,
)
from ctrace.inspector.facts.target_gpu import DeviceQuestion, Undecided
from ctrace.inspector.facts.trial import Part, Tried
from ctrace.inspector.facts.user_kernels import UserKernel, UserKernelEvent, UserKernelWritten
from ctrace.inspector.log.decode_sessions import danger_of, fusion_of, parts_of, scenario_of
from ctrace.inspector.log.dispatch import decode, family
from ctrace.inspector.log.headers import Context
from ctrace.inspector.log.log_line import LOG_SCHEMA
from ctrace.inspector.log.reader import Broken, Generations, LogEntry

_NEVER = float("nan")


class _Numbers(dict[str | None, int]):
    """Numbers texts in the order in which they come."""

    def __missing__(self, text: str | None) -> int:
        """Return the next number."""
        found = self[text] = len(self)
        return found


class Marks:
    """The begin and end marks of a log, in its order."""

    def __init__(self) -> None:
        self._numbers = _Numbers()
        self._rows = array("I")
        """For each mark the numbers of its thread, name and compilation, then whether it begins a step."""
        self._times = array("d")
        """NaN: the log has no time."""

    def append(self, mark: SpanMarked) -> None:
        """Add a mark."""
        numbers = self._numbers
        self._rows.extend((numbers[mark.thread], numbers[mark.name], numbers[mark.compilation], mark.begins))
        self._times.append(_NEVER if mark.at is None else mark.at)

    def columns(self) -> MarkColumns:
        """Return all marks, as a session keeps them."""
        return MarkColumns(tuple(self._numbers), self._rows.tobytes(), self._times.tobytes())

    def __len__(self) -> int:
        return len(self._times)


def marks_of(columns: MarkColumns) -> Iterator[SpanMarked]:
    """Yield the marks of a log, in its order."""
    rows, texts = iter(array("I", columns.rows)), columns.texts
    for at, thread, name, compilation, begins in zip(array("d", columns.times), rows, rows, rows, rows, strict=True):
        time = None
        # NaN, the only value that differs from itself, stands for a time that the log does not have.
        if at == at:
            time = at
        yield SpanMarked(texts[thread] or "", texts[name] or "", bool(begins), texts[compilation], None, time)


MOST_PROBLEMS = 1_000
"""How many unreadable or odd entries are kept one by one."""
# The names come from the log: beyond these, and beyond `_LONGEST` letters, they would cost memory and say nothing.
_MOST_KINDS = 1_000
_LONGEST = 300
"""Letters of the name of a kind."""
_OTHERS = "others"


def _count(kinds: Counter[str], kind: str) -> None:
    """Count an entry; a damaged log may have any number of kinds, of any length."""
    name = kind[:_LONGEST]
    kinds[name if name in kinds or len(kinds) < _MOST_KINDS else _OTHERS] += 1


class WrittenPart(Struct):
    """What Inductor wrote for one part of a graph, in the order of the records of one thread."""

    id: str
    stage: Stage
    fusion: int | None = None
    """Its index in `CollectedLog.fusions`."""
    kernels: list[KernelMade] = field(default_factory=list)
    generated: PartGenerated | None = None
    code: CodeWritten | None = None


class CollectedLog(Struct):
    """All events read so far, grouped by subject."""

    environment: dict[str, Any] = field(default_factory=dict)
    settings: Mapping[str, bool] = field(default_factory=dict)
    """Settings of Dynamo in the metrics of the last compilation that has them."""
    prefixes: dict[str, str] = field(default_factory=dict)
    home: str = ""
    """The folder of ctrace's own code in the process that captured the run."""
    wrapped: dict[str, str] = field(default_factory=dict)
    """By compilation, the name that `findings/functions.py` found for what torch's wrapper calls."""
    files: dict[int, str] = field(default_factory=dict)
    scenarios: list[Scenario] = field(default_factory=list)
    dangers: list[Danger] = field(default_factory=list)
    trials: list[Tried] = field(default_factory=list)
    parts: tuple[Part, ...] = ()
    calls: Counter[str] = field(default_factory=Counter)
    ops: list[run_events.OpsCounted] = field(default_factory=list)
    unrolled: dict[str, tuple[Unrolled, ...]] = field(default_factory=dict)
    """The unrolled loops of each graph, keyed by compilation."""
    left: list[run_events.FrameLeft] = field(default_factory=list)
    listings: dict[str, str] = field(default_factory=dict)
    """Source text, keyed by file."""
    starts: dict[str, ev.CompileStarted] = field(default_factory=dict)
    during: dict[str, run_events.CallBegan] = field(default_factory=dict)
    """The call during which each compilation started, keyed by compile id; empty for a program."""
    seen: dict[str, None] = field(default_factory=dict)
    """Compile ids in order of first appearance."""
    of_frame: dict[str, list[str]] = field(default_factory=dict)
    """The same by frame id, which is the part before the slash."""
    breaks: list[ev.BreakReported] = field(default_factory=list)
    graphs: dict[str, list[bytecode_facts.GraphMade | bytecode_facts.GraphTraced]] = field(default_factory=dict)
    printed: dict[str, list[Printed]] = field(default_factory=dict)
    """The graphs of each compilation's last attempt, in torch's order."""
    aliases: dict[str, AliasesFound] = field(default_factory=dict)
    modules: dict[tuple[str, bool], dict[str, Module]] = field(default_factory=dict)
    """By compile id, and whether Dynamo traced the nodes; the joint graph comes before its parts and is kept."""
    inductor_guards: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    late_guards: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bytecode: dict[str, bytecode_facts.BytecodeSeen] = field(default_factory=dict)
    metrics: dict[str, ev.MetricsMeasured] = field(default_factory=dict)
    backward_metrics: dict[str, ev.MetricsMeasured] = field(default_factory=dict)
    reasons: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unmet: dict[str, ge.GuardsFailed] = field(default_factory=dict)
    guards: dict[str, ge.GuardsPrinted] = field(default_factory=dict)
    guard_places: dict[str, ge.GuardsPlaced] = field(default_factory=dict)
    guard_costs: dict[str, GuardCost] = field(default_factory=dict)
    symbols: dict[str, list[SymbolEvent]] = field(default_factory=dict)
    """Torch's events about sizes in each compilation's last attempt, in order."""
    shapes: dict[str, ShapesSeen] = field(default_factory=dict)
    passes: list[Pass] = field(default_factory=list)
    attention: list[AttentionFound] = field(default_factory=list)
    fusions: list[FusionDone] = field(default_factory=list)
    kernels: list[KernelMade] = field(default_factory=list)
    written: list[WrittenPart] = field(default_factory=list)
    """Of one id and stage, there are several if DDP cut the graph into parts (DDPOptimizer, 2.11 to 2.13)."""
    open_parts: dict[tuple[str, Stage, str], WrittenPart] = field(default_factory=dict)
    """Parts of `written` whose code is still to come, by thread: forks write side by side."""
    torch_code: list[tuple[TorchCodeSeen, tuple[str, ...]]] = field(default_factory=list)
    """Modules in a log that only torch wrote, each with the names of the phases that were open."""
    kernel_stacks: dict[tuple[str, int], str] = field(default_factory=dict)
    """Torch's stack traces of kernels, by compilation and by how many modules the log had until then."""
    kernel_calls: list[KernelCall] = field(default_factory=list)
    user_kernels: list[UserKernelEvent] = field(default_factory=list)
    cuda_graphs: list[CudaGraphEvent] = field(default_factory=list)
    autotuning: list[AutotuningEvent] = field(default_factory=list)
    builds: list[BuiltEvent] = field(default_factory=list)
    refused: list[KernelRefusal] = field(default_factory=list)
    gpu: Gpu | None = None
    undecided: list[Undecided] = field(default_factory=list)
    device_questions: list[DeviceQuestion] = field(default_factory=list)
    codegen: list[run_events.CodegenEnded] = field(default_factory=list)
    forked: set[tuple[str, Stage]] = field(default_factory=set)
    """Graph parts whose code was generated in parallel with the program."""
    unfinished: set[tuple[str, Stage]] = field(default_factory=set)
    """Graph parts in `forked` whose code is not complete yet."""
    counted: run_events.Counted | None = None
    model: ModelLoaded | None = None
    assumed: list[Assumed] = field(default_factory=list)
    stopped: list[Stopped] = field(default_factory=list)
    rank: RankBegan | None = None
    meshes: list[MeshMade] = field(default_factory=list)
    uneven: list[UnevenShard] = field(default_factory=list)
    groups: list[GroupMade] = field(default_factory=list)
    stages: list[StageMade] = field(default_factory=list)
    communicated: list[CollectiveCalled | GraphCalled] = field(default_factory=list)
    """What ran on this rank of a virtual cluster, in order; of several calls in a scenario, the last one."""
    communicated_cut: CollectivesCut | None = None
    failure: Failure | None = None
    codegen_failure: Failure | None = None
    """The failure of code generation that ran in parallel with the program; a real compile would have raised there."""
    ended: bool = False
    exited: run_events.ProgramExited | None = None
    """How a program ended its own process, so that its log has no end."""
    made_of: dict[str, str] = field(default_factory=dict)
    asked: Asked = Asked()
    """Digests of the files that the model was loaded from, keyed by path."""
    planned: dict[str, Scenario] = field(default_factory=dict)
    """Scenarios that the capture planned to call, keyed by name."""
    spans: dict[str, list[ev.SpanMarked]] = field(default_factory=dict)
    """Compilation phases that have begun and not ended, keyed by thread, outermost first."""
    marks: Marks = field(default_factory=Marks)
    """The begin and end marks of all compilation phases, in the log's order."""
    lookups: list[tuple[CacheLookup, tuple[str, ...]]] = field(default_factory=list)
    """Cache look-ups, each with the names of the phases that were open."""
    stored: list[ct.CacheStored] = field(default_factory=list)
    keyed: dict[tuple[str, str], ct.CacheKeyed] = field(default_factory=dict)
    """Components of keys, by cache and key."""
    caches: TorchCachesUsed | None = None
    earlier: list[EarlierKey] = field(default_factory=list)
    speed: Speed | None = None
    accuracy: Accuracy | None = None
    memory: FoundMemory | None = None
    records: int = 0
    stops_at: int | None = None
    """The line at which the last record starts, if the log stops in the middle of a line."""
    broken: list[Broken] = field(default_factory=list)
    """The first lines that cannot be read."""
    broken_count: int = 0
    changed: list[int] = field(default_factory=list)
    """The first lines of records whose payloads were changed after torch wrote them."""
    changed_count: int = 0
    problems: list[Problem] = field(default_factory=list)
    doubted: int = 0
    """How many entries are not as expected; the first have a problem."""
    unknown: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    """How many entries there are of each kind that ctrace knows and does not show."""
    recorded: list[ev.RecordSeen] = field(default_factory=list)
    _call: run_events.CallBegan | None = None
    _call_start: int = 0
    """Where in `communicated` the call began."""
    """The current call; between calls, the previous one."""
    _is_in_eager: bool = False
    _of_eager: set[str] = field(default_factory=set)
    """Compile ids that started in an eager call."""
    _generations: Generations = field(default_factory=Generations)

    def has_entry(self, compile_id: str) -> bool:
        """Whether a compilation made a cache entry; without a graph, a log of torch shows its guards only."""
        return compile_id in self.graphs or compile_id in self.bytecode or compile_id in self.guards

    def add(self, item: LogEntry | Broken) -> ev.Event | None:
        """Add one entry; return its event, for readers that follow a growing log."""
        self.records += 1
        if item.is_last:
            self.stops_at = item.number
        if isinstance(item, Broken):
            self.broken_count += 1
            # The last line is kept in any case: it shows where the log stops.
            if self.broken_count <= MOST_PROBLEMS or item.is_last:
                self.broken.append(item)
            return None
        if item.changed is not None or item.has_odd_bytes:
            self._look_at(item)
        try:
            entry = item
            if self._generations.number != 1 or item.kind == "dynamo_start":  # few entries
                entry = self._in_generation(item)
            if (self._is_in_eager or self._of_eager) and self._is_of_eager(entry):
                return None
            event = decode(entry)
            if type(event) is ev.SpanMarked:  # most entries are these
                self._mark(event)
            else:
                self._fold(event, item.thread, item.kind)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            self._doubt(item, f"is not as expected ({type(error).__name__}: {str(error)[:_LONGEST]})")
            return None
        return event

    def _look_at(self, entry: LogEntry) -> None:
        """Keep that an entry is not as torch wrote it."""
        if entry.changed is not None:
            self.changed_count += 1
            if self.changed_count <= MOST_PROBLEMS:
                self.changed.append(entry.number)
        if entry.has_odd_bytes:
            self._doubt(entry, "has bytes that are not text (UTF-8), so one of its values may be wrong")

    def _doubt(self, entry: LogEntry, what: str) -> None:
        """Add a problem of an entry; of endlessly many, only the number."""
        self.doubted += 1
        if self.doubted <= MOST_PROBLEMS:
            self.problems.append(Problem(f"a {entry.kind[:_LONGEST]} entry {what}", entry.number, is_doubt=True))

    def _in_generation(self, entry: LogEntry) -> LogEntry:
        """Make compile ids unique across resets: after the first reset, `0/0` becomes `2.0/0`."""
        generation = self._generations.generation_of(entry)
        # Ids of the first generation stay as they are, so that most logs show the ids that torch prints.
        if generation == 1 or entry.compile_id is None:
            return entry
        context = entry.context
        frame_id = f"{generation}.{context.frame_id}"
        return replace(entry, context=Context(frame_id, context.frame_compile_id, context.attempt))

    def _is_of_eager(self, entry: LogEntry) -> bool:
        """Whether an entry is about a compilation that started in an eager call; its phases still take time."""
        if self._is_in_eager and entry.kind == "dynamo_start" and entry.compile_id is not None:
            self._of_eager.add(entry.compile_id)
        # The time of a compilation counts as waiting, whoever called the model.
        return entry.compile_id in self._of_eager and entry.kind != "chromium_event"

    def _part_of(self, compile_id: str, stage: Stage, thread: str) -> WrittenPart:
        """Return the part that a thread is writing."""
        key = compile_id, stage, thread
        if key not in self.open_parts:
            self.open_parts[key] = WrittenPart(compile_id, stage)
            self.written.append(self.open_parts[key])
        return self.open_parts[key]

    def _fold(self, event: ev.Event, thread: str, kind: str) -> None:  # noqa: C901, PLR0915 - one case an event
        match event:
            case ev.Ignored():
                _count(self.ignored, family(kind))
            case ev.UnknownEvent():  # early, since any number of entries may be such
                _count(self.unknown, event.kind)
            case ev.FileName():
                self.files[event.number] = event.name
            case run_events.Started():
                self._start(event)
            case run_events.TorchFound():
                self.environment["torch"] = event.version
                self.prefixes.update(event.prefixes)
            case run_events.ModeChosen():
                self.environment |= {"built": event.build, "fast": event.fast}
            case run_events.DeviceUsed():
                self.environment["device"] = event.device
            case run_events.CallBegan():
                if self._call is not None and self._call.scenario == event.scenario:
                    del self.communicated[self._call_start :]  # an earlier call also sets things up
                self._call_start = len(self.communicated)
                self.calls[event.scenario] += 1
                self._call = event
            case run_events.EagerCall():
                self._is_in_eager = not event.ends
            case ScenarioDone():
                self.scenarios.append(scenario_of(event))
            case Tried():
                self.trials.append(event)
            case run_events.PartsSeen():
                self.parts = parts_of(event)
            case ModelLoaded():
                self.model = event
            case Assumed():
                self.assumed.append(event)
            case Stopped():
                self.stopped.append(event)
            case RankBegan():
                self.rank = event
            case MeshMade():
                self.meshes.append(event)
            case GroupMade():
                self.groups.append(event)
            case StageMade():
                self.stages.append(event)
            case UnevenShard():
                self.uneven.append(event)
            case CollectiveCalled() | GraphCalled():
                if not self._is_in_eager:
                    # An eager call communicates as well, and a compiled call would seem to send everything twice.
                    self.communicated.append(event)
            case CollectivesCut():
                self.communicated_cut = event
            case DangerFound():
                self.dangers.append(danger_of(event))
            case run_events.DangersWithdrawn():
                self.dangers = [each for each in self.dangers if each.proven]
            case run_events.OpsCounted():
                self.ops.append(event)
            case bytecode_facts.LoopsUnrolled():
                self.unrolled[event.id] = tuple(replace(each, graph=event.id) for each in event.loops)
            case run_events.FrameLeft():
                self.left.append(event)
            case run_events.Listing():
                self.listings[event.file] = event.text
            case ev.CompileStarted():
                self._meet(event.id)
                self.starts[event.id] = event
                self._forget(event.id)
                if self._call is not None:
                    # A compilation that restarts belongs to the call in which it began.
                    self.during.setdefault(event.id, self._call)
            case ev.BreakReported():
                self.breaks.append(event)
            case bytecode_facts.GraphMade() | bytecode_facts.GraphTraced():
                self._meet(event.id)
                self.graphs.setdefault(event.id, []).append(event)
                if isinstance(event, bytecode_facts.GraphTraced) and event.printed is not None:
                    self._print(event.id, event.printed)
            case GraphPrinted():
                self._print(event.id, event.printed)
            case AliasesFound():
                self.aliases[event.id] = event
            case bytecode_facts.ModulesSeen():
                known = self.modules.setdefault((event.id, event.traced), {})
                self.modules[event.id, event.traced] = {**event.by_node, **known}
            case run_events.InductorGuardsSeen(whole=True):
                self.late_guards[event.id] = event.added if event.seen else ()
            case run_events.InductorGuardsSeen():
                self.inductor_guards[event.id] = event.added if event.seen else None
            case bytecode_facts.BytecodeSeen():
                self.bytecode[event.id] = event
            case ev.MetricsMeasured():
                self._meet(event.id)
                (self.backward_metrics if event.backward else self.metrics)[event.id] = event
                # What ctrace recorded goes before the metrics, which a log of torch 2.11 has in place of its version
                # record.
                self.environment = {**event.versions, **self.environment}
                self.settings = event.settings or self.settings
            case ge.RecompileExplained():
                self.reasons[event.id] = event.reasons
            case ge.GuardsFailed():
                self.unmet[event.id] = event
            case ge.GuardsPrinted():
                self.guards[event.id] = event
            case ge.GuardsPlaced():
                self.guard_places[event.id] = event
            case GuardCost():
                self.guard_costs[event.id] = event
            case SymbolMade() | UnbackedMade() | SymbolFixed() | ConditionMet():
                self.symbols.setdefault(event.id, []).append(event)
            case ShapesSeen():
                self.shapes[event.id] = event
            case Pass():
                self.passes.append(event)
            case AttentionFound():
                self.attention.append(event)
            case FusionRecord():
                # By number, because the fold adds the user's lines to the fusions of the whole log later.
                self.fusions.append(fusion_of(event))
                self._part_of(event.graph, event.stage, thread).fusion = len(self.fusions) - 1
            case KernelMade():
                self.kernels.append(event)
                self._part_of(event.id, event.stage, thread).kernels.append(event)
            case PartGenerated():
                self._part_of(event.id, event.stage, thread).generated = event
            case CodeWritten():
                self._part_of(event.id, event.stage, thread).code = event
                self.open_parts.pop((event.id, event.stage, thread))
            case TorchCodeSeen():
                self.torch_code.append((event, tuple(each.name for each in self.spans.get(thread, ()))))
            case KernelStacksSeen():
                # Torch writes the stacks just after the module that they are about, without its stage.
                self.kernel_stacks[event.id, len(self.torch_code)] = event.text
            case KernelCall():
                self.kernel_calls.append(event)
            case UserKernel() | UserKernelWritten():
                self.user_kernels.append(event)
            case CudaGraphEvent():
                self.cuda_graphs.append(event)
            case AutotuningRecord():
                self.autotuning.append(event)
            case Built() | KernelChosen() | KernelCode() | LaunchTiming():
                self.builds.append(event)
            case KernelRefusal():
                self.refused.append(event)
            case Gpu():
                self.gpu = event
            case Undecided():
                self.undecided.append(event)
            case DeviceQuestion():
                self.device_questions.append(event)
            case run_events.CodegenStarted():
                self.forked.add((event.id, event.stage))
                self.unfinished.add((event.id, event.stage))
            case run_events.CodegenEnded() | run_events.CodegenFailed():
                self._end_codegen(event)
            case run_events.Counted():
                self.counted = event
            case Failure():
                self.failure = self.failure or event  # later calls may fail too
            case run_events.ProblemMet():
                self.problems.append(Problem(event.what))
            case run_events.Ended():
                # With an end mark, what looked like an exit did not end the process.
                self.ended, self.exited = True, None
            case run_events.ProgramExited():
                self.exited = event
            case run_events.FilesFound():
                self.made_of, self.asked = event.files, event.asked
            case run_events.Planned():
                self.planned = {
                    each.name: Scenario(each.name, kind=each.kind, outcome=Outcome.NOT_RUN) for each in event.scenarios
                }
            case ct.CacheAsked() | ct.OwnCacheAsked():
                self._ask(event.lookup, thread)
            case ct.CacheStored():
                self.stored.append(event)
            case ct.CacheKeyed():
                self.keyed[event.cache, event.key] = event
            case TorchCachesUsed():
                self.caches = event
            case EarlierKey():
                self.earlier.append(event)
            case Speed():
                self.speed = event
            case Accuracy():
                self.accuracy = event
            case FoundMemory():
                self.memory = event
            case ev.RecordSeen():
                self.recorded.append(event)

    def _start(self, event: run_events.Started) -> None:
        if event.schema > LOG_SCHEMA:
            what = f"this run was written by a newer ctrace (schema {event.schema}; this one reads up to {LOG_SCHEMA})"
            raise RunError(what, "upgrade ctrace: pip install --upgrade ctrace")
        self.environment.update(ctrace=event.ctrace, python=event.python, triton=event.triton, cwd=event.cwd)
        self.environment["seed"] = event.seed
        self.prefixes.update(event.prefixes)
        self.home = event.home

    def _meet(self, compile_id: str) -> None:
        if compile_id not in self.seen:
            self.seen[compile_id] = None
            self.of_frame.setdefault(compile_id.partition("/")[0], []).append(compile_id)

    def _print(self, compile_id: str, printed: Printed) -> None:
        """Keep a graph, and drop the graphs of earlier attempts."""
        kept = self.printed.setdefault(compile_id, [])
        # A log without the record of a start still numbers the attempts of each graph.
        if kept and kept[-1].attempt < printed.attempt:
            kept.clear()
        kept.append(printed)

    def _forget(self, compile_id: str) -> None:
        """Drop the data of an attempt that Dynamo abandoned or restarts."""
        self.symbols.pop(compile_id, None)
        self.printed.pop(compile_id, None)
        self.aliases.pop(compile_id, None)
        for traced in (True, False):
            self.modules.pop((compile_id, traced), None)

    def _mark(self, event: ev.SpanMarked) -> None:
        """Open a span, or close the innermost open span of that name and every span inside it, as torch does."""
        if event.sweep is not None:
            self.autotuning.append(event.sweep)
        self.marks.append(event)
        spans = self.spans.get(event.thread)
        if spans is None:
            spans = self.spans[event.thread] = []
        if event.begins:
            spans.append(event)
        elif spans and spans[-1].name == event.name:  # nearly always
            spans.pop()
        else:
            at = next((at for at in reversed(range(len(spans))) if spans[at].name == event.name), None)
            if at is not None:
                del spans[at:]

    def _ask(self, lookup: CacheLookup, thread: str) -> None:
        self.lookups.append((lookup, tuple(each.name for each in self.spans.get(thread, ()))))

    def _end_codegen(self, event: run_events.CodegenEnded | run_events.CodegenFailed) -> None:
        self.unfinished.discard((event.id, event.stage))
        if isinstance(event, run_events.CodegenEnded):
            self.codegen.append(event)
        elif event.error is not None and self.codegen_failure is None:
            kind, _, message = event.error.partition(": ")
            what = f"code of graph {event.id} ({event.stage}) cannot be generated: {message or kind}"
            self.codegen_failure = Failure(FailurePhase.RUN, kind, what)
