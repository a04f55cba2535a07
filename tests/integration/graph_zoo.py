"""Compile many kinds of models, and write every graph that torch prints: its text, and the content of the live graph.

    python graph_zoo.py OUTPUT.json

Run by test_graphs.py, in a separate process.
"""

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.fx.graph_module as graph_module
from torch import nn
from torch.fx import GraphModule
from torch.fx.node import _get_qualified_name
from torch.nn import functional
from torch.utils._dtype_abbrs import dtype_abbrs
from torch.utils.checkpoint import checkpoint

RECORDS: list[dict[str, Any]] = []
_printing: list[str] = []
_original = graph_module._print_readable


def noted(module: Any, name: str, *args: Any, **options: Any) -> str:
    """Print a graph as torch does, and keep its content."""
    _printing.append(name)
    try:
        text: str = _original(module, name, *args, **options)
    finally:
        _printing.pop()
    if not _printing:
        RECORDS.append({"text": text, "graph": held(module)})
    return text


def held(module: Any) -> dict[str, Any]:
    """Describe a live graph in ctrace's format."""
    children = [held(child) for _, child in module.named_children() if isinstance(child, GraphModule)]
    return {"nodes": [node_of(node) for node in module.graph.nodes], "graphs": children}


def node_of(node: Any) -> dict[str, Any]:
    meta = node.meta.get("val", node.meta.get("tensor_meta", node.meta.get("example_value")))
    is_tensor = isinstance(meta, torch.Tensor)
    return {
        "name": "output" if node.op == "output" else node.name,  # which torch does not print
        "kind": node.op,
        "target": target_of(node),
        "uses": sorted(each.name for each in node.all_input_nodes),
        "dtype": dtype_abbrs[meta.dtype] if is_tensor else None,
        "sizes": [str(size) for size in meta.shape] if is_tensor else None,
        "strides": [str(stride) for stride in meta.stride()] if is_tensor else None,
        "device": str(meta.device) if is_tensor else None,
    }


def target_of(node: Any) -> str:
    if node.op != "call_function":
        return str(node.target)
    return str(_get_qualified_name(node.target)).replace("_operator.", "operator.")


class Attention(nn.Module):
    count: torch.Tensor

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        weights = torch.softmax(self.q(x) @ self.k(x).transpose(-2, -1) / 4.0, -1)
        return self.norm(weights @ self.v(x)).relu()


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.line(x).sin(), lambda x: self.line(x).cos(), (x,)) * 2


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sigmoid() * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grad * x.cos()


class Mixed(nn.Module):
    """A custom function, autocast, a checkpoint, an embedding, nan and infinity, strings, several outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.line, self.conv = nn.Embedding(10, 8), nn.Linear(8, 8), nn.Conv1d(4, 4, 3)

    def part(self, x: torch.Tensor) -> torch.Tensor:
        return functional.gelu(self.line(x), approximate="tanh").tanh()

    def forward(self, index: torch.Tensor) -> Any:
        x = Doubled.apply(self.table(index))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = self.conv(checkpoint(self.part, x, use_reentrant=False))
        a, b = x.float().chunk(2, -1)
        chosen = torch.where(a > 0, a, float("-inf")).clamp(min=-5)
        total = torch.einsum("ijk,ijk->ij", a, b)
        return (
            torch.softmax(chosen, -1),
            b.to(torch.float64),
            {"k": torch.arange(3)},
            torch.full((2,), float("nan")),
            total,
        )


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(functional.max_pool2d(self.norm(self.conv(x)).relu(), 2), 0.3, self.training)


def sliced(x: torch.Tensor, n: int) -> Any:
    x = x.clone()
    x[1:, ::2] = 3.0
    x[..., 0] += n
    x.mul_(2)
    y = x[:, None].expand(-1, 2, -1)
    return y.reshape(-1, y.shape[-1])[: x.shape[0]] + n, x.t(), x.shape[0] * 2, -x, ~(x > 1), x**2, 2 - x, x % 3


def mutated(x: torch.Tensor, y: torch.Tensor) -> Any:
    x.add_(1)
    y.t_()
    return x[1:], y, x.view(-1)


def sized(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x.new_zeros(x.size(0) // 2 + 1, *x.shape[1:])]).sum(0)


def gathered(x: torch.Tensor) -> Any:
    values, order = x.sort(-1)
    return values.topk(2).values, order, x.max(-1), torch.stack([x, x], dim=1).unbind(1)[0], x.T, x.mT


def models() -> Iterator[tuple[str, Callable[..., Any], list[tuple[Any, ...]], bool]]:
    """Return models with calls, and whether they train."""
    mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 4))
    yield "mlp", mlp, [(torch.rand(3, 8),)], True
    yield "mlp inference", mlp.eval(), [(torch.rand(3, 8),)], False
    yield "attention", Attention(), [(torch.rand(2, 5, 16),)], True
    yield "images", Images(), [(torch.rand(2, 3, 9, 9),)], True
    yield "mixed", Mixed(), [(torch.randint(0, 10, (2, 4)),)], True
    yield "cond", Branching(), [(torch.rand(3, 4),)], True
    yield "sliced", sliced, [(torch.rand(4, 6), 3), (torch.rand(5, 6), 7), (torch.rand(6, 6), 8)], False
    yield "mutated", mutated, [(torch.rand(4), torch.rand(2, 3))], False
    yield "sized", sized, [(torch.rand(n, 3, requires_grad=True),) for n in (4, 5, 6)], True
    yield "gathered", gathered, [(torch.rand(3, 4),)], False
    yield from transformers()


def transformers() -> Iterator[tuple[str, Callable[..., Any], list[tuple[Any, ...]], bool]]:
    try:
        from transformers import GPT2Config, GPT2Model, LlamaConfig, LlamaModel
    except ImportError:
        return
    small: dict[str, Any] = {"vocab_size": 20, "bos_token_id": 0, "eos_token_id": 0}
    tokens = [(torch.randint(0, 20, (2, 6)),)]
    yield "gpt2", GPT2Model(GPT2Config(n_layer=1, n_embd=16, n_head=2, n_positions=16, **small)), tokens, True
    sizes: dict[str, Any] = {
        "num_hidden_layers": 1,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_attention_heads": 2,
    }
    yield "llama", LlamaModel(LlamaConfig(**sizes, num_key_value_heads=1, **small)).eval(), tokens, False


def run() -> None:
    graph_module._print_readable = noted  # type: ignore[assignment]  # never restored: the process ends after this
    warnings.simplefilter("ignore")
    for _, model, calls, train in models():
        compiled = torch.compile(model)
        for call in calls:
            with torch.set_grad_enabled(train):
                result = compiled(*call)
            if train:
                sum((each.float().sum() for each in tensors(result) if each.requires_grad), torch.zeros(())).backward()


def tensors(result: Any) -> Iterator[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, tuple | list):
        for each in result:
            yield from tensors(each)
    elif hasattr(result, "last_hidden_state"):
        yield result.last_hidden_state


run()
Path(sys.argv[1]).write_text(json.dumps(RECORDS))
