"""Advice on breaks in torch's modules: wrappers, optimizers and quantized layers, which users cannot edit."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.diagnosis.naming import at
from ctrace.inspector.facts.findings import Break, Owner

_KNOWN = (
    (
        ("torch/ao/nn/quantized", "torch/ao/nn/intrinsic/quantized", "torch.ao.nn.quantized", "ScriptObject"),
        "Run this model eagerly: its quantized layers keep packed weights in script objects, which Dynamo cannot "
        "put in a graph. To compile it, quantize with torchao's quantize_, whose weights are tensors.",
    ),
    (
        ("torch/nn/parallel/distributed", "torch.nn.parallel.distributed", "torch/nn/parallel/data_parallel"),
        "Nothing to change in DistributedDataParallel, whose forward breaks by design; or compile the model before "
        "you wrap it: DistributedDataParallel(torch.compile(model)).",
    ),
    (
        ("torch/distributed/fsdp", "torch.distributed.fsdp"),
        "Compile each block by itself (block.compile(), before or after FSDP wraps it) in place of the whole model: "
        "FSDP's hooks break the graph by design.",
    ),
    (
        ("torch/optim/", "torch.optim."),
        "Compile the model, not the step: torch wraps an optimizer's step() in graph breaks.",
    ),
)
"""The advice on breaks, keyed by parts of a path, or of a name in torch's reason."""


def torchs_own(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer advice on intentional breaks in torch's code."""
    for cause in scene.causes:
        if cause.expected:
            continue
        breaks = [each for each in scene.breaks(cause) if each.owner is Owner.TORCH or _in_torch(each)]
        found = next((text for each in breaks for words, text in _KNOWN if _mentions(each, words)), None)
        if found is not None:
            place = at(cause) if scene.is_users(cause.file) else ""
            yield Candidate(f"{place}: {found[:1].lower()}{found[1:]}" if place else found, (cause.id,))


def _in_torch(each: Break) -> bool:
    return any(word in each.called for words, _ in _KNOWN for word in words)


def _mentions(each: Break, words: tuple[str, ...]) -> bool:
    frames = [each.file, *(path[-1].file for path in each.paths if path)]
    texts = [each.called, *(file.replace("\\", "/") for file in frames)]
    return any(word in text for word in words for text in texts)
