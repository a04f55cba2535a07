"""The world of `--world N`: its mesh, and what torchrun would tell each of its ranks.

Torchrun is assumed to start eight ranks on each node, as many as a node with GPUs usually has; a smaller job has one
node.
"""

import re
from collections.abc import Mapping
from math import prod

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.cluster_facts import RANKS_PER_NODE, MeshDim

_FORM = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<size>[0-9]{1,9})")
_MOST = 1_000_000
"""The largest world: above all jobs there are, and small enough to list its ranks."""


def parse_mesh(text: str) -> tuple[MeshDim, ...]:
    """Parse `--mesh dp=128,tp=8`.

    Raises:
        TargetError: it has another form.
    """
    found = []
    for part in text.split(","):
        match = _FORM.fullmatch(part.strip())
        if match is None or not int(match["size"]):
            raise TargetError(f"--mesh {text}: not a mesh", "write NAME=SIZE,..., as in --mesh dp=128,tp=8")
        found.append(MeshDim(match["name"], int(match["size"])))
    if len({each.name for each in found}) < len(found):
        raise TargetError(f"--mesh {text}: two dimensions have one name", "give each dimension a name of its own")
    return tuple(found)


def check_world(world: int | None, mesh: str | None, rank: int | None) -> None:
    """Refuse a rank or a mesh that does not fit the world.

    Raises:
        TargetError: it does not fit, or there is no world.
    """
    if world is None:
        if mesh is not None:
            raise TargetError(f"--mesh {mesh} needs a world", "say how many ranks the job has: --world N")
        if rank is not None:
            raise TargetError(f"--rank {rank} needs a world", "say how many ranks the job has: --world N")
        return
    if world > _MOST:
        raise TargetError(f"--world {world}: more than {_MOST} ranks", "name a world that a job can have")
    if rank is not None and rank >= world:
        raise TargetError(f"--rank {rank}: a world of {world} has ranks 0 to {world - 1}", "name one of them")
    if mesh is not None:
        sizes = [each.size for each in parse_mesh(mesh)]
        if prod(sizes) != world:
            what = f"--mesh {mesh}: {' x '.join(map(str, sizes))} is {prod(sizes)}, and --world is {world}"
            raise TargetError(what, "let the sizes multiply to the number of ranks")


def rank_environment(rank: int, world: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that torchrun gives to a rank (torch/distributed/elastic/agent/server/api.py, 2.11 to 2.13).

    `OMP_NUM_THREADS` is among them: torchrun sets it to 1 for several ranks on a node, unless the user did, and
    Inductor writes the number of threads into the loops of its C++ kernels.
    """
    per_node = min(RANKS_PER_NODE, world)
    node = rank // per_node
    on_node = min(per_node, world - node * per_node)
    values: dict[str, object] = {
        "RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_RANK": rank % per_node,
        "LOCAL_WORLD_SIZE": on_node,
        "GROUP_RANK": node,
        "GROUP_WORLD_SIZE": -(-world // per_node),
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": world,
        "ROLE_NAME": "default",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": 29500,
        "TORCHELASTIC_RESTART_COUNT": 0,
        "TORCHELASTIC_MAX_RESTARTS": 0,
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_USE_AGENT_STORE": True,
    }
    if world > 1 and "OMP_NUM_THREADS" not in environment:
        values["OMP_NUM_THREADS"] = 1
    return {name: str(value) for name, value in values.items()}
