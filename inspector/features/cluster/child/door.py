"""How the core reaches the feature in the child process: the hooks that make it one rank of a job."""

from collections.abc import Iterator

from ctrace.inspector.capture.core.hook import Hook
from ctrace.inspector.features.cluster.child.called_collectives import CalledCollectives
from ctrace.inspector.features.cluster.child.kept_checkpoints import kept_checkpoints
from ctrace.inspector.features.cluster.child.lone_rank import GpuMeshes, lone_rank, met_shards, stage_votes
from ctrace.inspector.features.cluster.child.lone_rank import refusing_what_lacks as refusing_what_lacks
from ctrace.inspector.runs.capture_request import Options


def hooks(options: Options) -> Iterator[Hook]:
    """Return the hooks for one rank of `options.world`."""
    calls = CalledCollectives()
    yield lone_rank(options, calls)
    yield calls.hook
    meshes = GpuMeshes()
    yield met_shards(options, meshes)
    yield meshes.hook
    yield stage_votes
    yield kept_checkpoints
