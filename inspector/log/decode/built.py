"""Decode the entries about kernels that were built and launched."""

from ctrace.inspector.facts.built import Built, Gpu, Ir, KernelRefusal, LaunchTiming
from ctrace.inspector.facts.events.built import (
    CodeBuilt,
    GpuSeen,
    KernelBuilt,
    KernelChosen,
    KernelRefused,
    LaunchTimed,
)
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.facts.target import Multiprocessor
from ctrace.inspector.log.fields import Fields


def built(graph: str, data: Fields) -> KernelBuilt:
    """Decode a compiled kernel."""
    return KernelBuilt(
        Built(
            graph=graph,
            stage=Stage(data.text("stage")),
            kernel=data.text("kernel"),
            hash=data.text("hash"),
            warps=data.integer("warps"),
            stages=data.integer("stages"),
            blocks=data.maybe_counts("blocks"),
            registers=data.maybe_integer("registers"),
            spills=data.maybe_integer("spills"),
            shared=data.maybe_integer("shared"),
            seconds={each.text("stage"): each.number("seconds") for each in data.maybe_objects("seconds")},
            chosen=data.flag("chosen"),
            open=data.maybe_flag("open"),
            cached=data.maybe_flag("cached"),
        )
    )


def refused(graph: str, data: Fields) -> KernelRefused:
    """Decode a configuration that torch left out."""
    texts = (data.text("kernel"), data.text("configuration"), data.text("reason"))
    return KernelRefused(KernelRefusal(graph, Stage(data.text("stage")), *texts))


def chosen(graph: str, data: Fields) -> KernelChosen:
    """Decode which configuration is launched."""
    return KernelChosen(graph, Stage(data.text("stage")), data.text("kernel"), data.text("hash"))


def code(data: Fields) -> CodeBuilt:
    """Decode the code of a kernel."""
    plain = {stage: Ir(text) for stage, text in data.table("texts").items()}
    packed = {stage: Ir(text, packed=True) for stage, text in data.table("packed").items()}
    return CodeBuilt(data.text("hash"), plain | packed)


def timed(graph: str, data: Fields) -> LaunchTimed:
    """Decode the time of a launch."""
    return LaunchTimed(
        LaunchTiming(
            graph=graph,
            stage=Stage(data.text("stage")),
            kernel=data.text("kernel"),
            launch=data.integer("launch"),
            seconds=data.maybe_number("seconds"),
            launches=data.integer("launches"),
            why=data.maybe_text("why") or "",
        )
    )


def gpu(data: Fields) -> GpuSeen:
    """Decode the facts about the GPU."""
    major, minor = data.integers("capability")
    multiprocessor = Multiprocessor(
        capability=(major, minor),
        registers=data.integer("registers"),
        threads=data.integer("threads"),
        shared=data.integer("shared"),
        warp=data.integer("warp"),
    )
    return GpuSeen(
        Gpu(
            name=data.text("name"),
            processors=data.integer("processors"),
            multiprocessor=multiprocessor,
            clock=data.maybe_number("clock"),
            bandwidth=data.maybe_number("bandwidth"),
            copied=data.maybe_number("copied"),
            empty=data.maybe_number("empty"),
            tf32=data.texts("tf32"),
            target=data.maybe_text("target") or "",
            l2=data.maybe_integer("l2"),
            rates={name: float(rate) for name, rate in data.maybe_numbers("rates").items()},
            vector_rates={name: float(rate) for name, rate in data.maybe_numbers("vector_rates").items()},
            sources=data.maybe_table("sources"),
        )
    )
