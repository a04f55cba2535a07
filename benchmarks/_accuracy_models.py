"""Small models for the study of `ctrace accuracy`: each a forward whose lines are one operation or few."""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everyone writes it

DEVICE = os.environ.get("ACCURACY_DEVICE", "cpu")


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(48, 96), nn.Linear(96, 10)

    def forward(self, x: Any) -> Any:
        h = self.first(x)
        h = torch.relu(h)
        h = h * 0.7 + 0.1
        h = torch.tanh(h)
        return self.second(h)


class ConvBn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)

    def forward(self, x: Any) -> Any:
        h = self.conv(x)
        h = self.norm(h)
        h = F.leaky_relu(h, 0.1)
        h = F.max_pool2d(h, 2)
        return h.mean((2, 3))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(x).chunk(3, -1)
        s = q @ k.transpose(-2, -1)
        s = s / 5.6
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        s = s.masked_fill(~mask, float("-inf"))
        p = torch.softmax(s, -1)
        return self.out(p @ v)


class LayerNormBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x: Any) -> Any:
        h = self.norm(x)
        h = self.up(h)
        h = F.gelu(h, approximate="tanh")
        h = self.down(h)
        return x + h


class SoftmaxLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(24, 37)

    def forward(self, x: Any, y: Any) -> Any:
        logits = self.head(x)
        logits = logits * 1.5
        return F.cross_entropy(logits, y)


class RmsRope(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.project = nn.Parameter(torch.rand(32) + 0.5), nn.Linear(32, 32)

    def forward(self, x: Any) -> Any:
        size = x.pow(2).mean(-1, keepdim=True)
        h = x * torch.rsqrt(size + 1e-6)
        h = h * self.weight
        h = self.project(h)
        turn = torch.arange(x.shape[1], device=x.device)[:, None] * 0.3
        one, two = h.chunk(2, -1)
        first = one * turn.cos() - two * turn.sin()
        second = one * turn.sin() + two * turn.cos()
        return torch.cat((first, second), -1)


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(40, 80), nn.Linear(40, 80), nn.Linear(80, 40)

    def forward(self, x: Any) -> Any:
        g = self.gate(x)
        g = F.silu(g)
        h = g * self.up(x)
        h = h.clamp(-3.0, 3.0)
        return self.down(h)


class Statistics(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(70))

    def forward(self, x: Any) -> Any:
        h = x * self.scale
        mean = h.mean(-1, keepdim=True)
        spread = h.std(-1, keepdim=True)
        z = (h - mean) / (spread + 0.01)
        high = z.amax(-1, keepdim=True)
        total = torch.exp(z - high).sum(-1)
        return torch.log1p(total) + high[..., 0]


class Embeddings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.places, self.head = nn.Embedding(50, 32), nn.Embedding(20, 32), nn.Linear(32, 5)

    def forward(self, i: Any) -> Any:
        h = self.table(i)
        h = h + self.places.weight[: i.shape[1]]
        h = F.layer_norm(h, (32,))
        pooled = h.sum(1)
        return torch.sigmoid(self.head(pooled))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(64, 64), nn.Linear(64, 64)
        self.norm = nn.GroupNorm(4, 64)

    def forward(self, x: Any) -> Any:
        h = self.one(x)
        h = F.elu(h)
        h = self.norm(h)
        h = self.two(h)
        h = torch.where(x > 0, h, x * 0.25)
        return F.softplus(h)


class Drops(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 8)

    def forward(self, x: Any) -> Any:
        h = self.first(x)
        h = F.dropout(h, 0.2, self.training)
        h = torch.cumsum(h, 1)
        h = h.abs().sqrt()
        return F.log_softmax(self.second(h), -1)


class Distances(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.centers = nn.Parameter(torch.randn(6, 20))

    def forward(self, x: Any) -> Any:
        d = x[:, None, :] - self.centers
        d = d.square().sum(-1)
        d = torch.sqrt(d + 1e-3)
        w = torch.exp(-d)
        return (w / w.sum(-1, keepdim=True)) @ self.centers


class GruCell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gates, self.candidate = nn.Linear(48, 48), nn.Linear(48, 24)

    def forward(self, x: Any, h: Any) -> Any:
        both = self.gates(torch.cat((x, h), -1))
        both = torch.sigmoid(both)
        reset, update = both.chunk(2, -1)
        fresh = self.candidate(torch.cat((x, reset * h), -1))
        fresh = torch.tanh(fresh)
        h = h + update * (fresh - h)
        return h * 1.1


class AudioGlu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.back = nn.Conv1d(4, 16, 5, padding=2), nn.Conv1d(8, 4, 1)

    def forward(self, x: Any) -> Any:
        h = self.conv(x)
        h = F.glu(h, 1)
        h = self.back(h)
        h = h - h.mean(-1, keepdim=True)
        loud = (h * h).mean(-1, keepdim=True)
        h = h / torch.sqrt(loud + 1e-4)
        return x + h * 0.5


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inward, self.outward = nn.Linear(36, 16), nn.Linear(8, 36)

    def forward(self, x: Any) -> Any:
        mean, spread = self.inward(x).chunk(2, -1)
        spread = spread.clamp(-4.0, 4.0)
        code = mean + torch.exp(0.5 * spread) * 0.3
        again = torch.sigmoid(self.outward(code))
        apart = (again - x).square().sum(-1)
        prior = (mean.square() + spread.exp() - 1.0 - spread).sum(-1)
        return apart + 0.25 * prior


class Upsampling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 12, 3, stride=2, padding=1), nn.Conv2d(12, 3, 3, padding=1)

    def forward(self, x: Any) -> Any:
        h = self.down(x)
        h = F.hardswish(h)
        h = F.interpolate(h, scale_factor=2.0, mode="bilinear")
        h = self.up(h)
        h = h * 0.8 + x * 0.2
        return F.avg_pool2d(h, 2)


class Routed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router, self.experts = nn.Linear(20, 4), nn.Parameter(torch.randn(4, 20, 12) * 0.2)

    def forward(self, x: Any) -> Any:
        scores = self.router(x)
        weights = torch.softmax(scores * 0.9, -1)
        best = weights.amax(-1, keepdim=True)
        weights = torch.where(weights > 0.5 * best, weights, weights * 0.0)
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-5)
        each = torch.einsum("bi,eio->beo", x, self.experts)
        each = torch.relu(each)
        return (each * weights[..., None]).sum(1)


class Contrastive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(28, 16), nn.Linear(30, 16)

    def forward(self, x: Any, y: Any) -> Any:
        a, b = self.left(x), self.right(y)
        a = a * torch.rsqrt(a.square().sum(-1, keepdim=True) + 1e-6)
        b = b / torch.sqrt(b.square().sum(-1, keepdim=True) + 1e-6)
        alike = a @ b.t()
        alike = alike / 0.2
        one = torch.logsumexp(alike, 0)
        other = torch.logsumexp(alike, 1)
        return (one + other) * 0.5 - alike.diagonal()


class GraphSum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(18, 18), nn.Linear(18, 18)

    def forward(self, x: Any, edges: Any) -> Any:
        sent = self.message(x)
        sent = F.leaky_relu(sent, 0.2)
        got = torch.zeros_like(sent).index_add(0, edges[1], sent[edges[0]])
        h = self.update(got)
        h = torch.tanh(h)
        h = x + h
        return h / (1.0 + h.abs())


class Sines(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(2, 32), nn.Linear(32, 32), nn.Linear(32, 3)

    def forward(self, x: Any) -> Any:
        h = torch.sin(self.first(x) * 3.0)
        h = self.second(h)
        h = torch.cos(h * 1.5)
        h = h - 0.1 * h.pow(3)
        h = self.last(h)
        return h.sub(h.mean(0)).expm1()


def _randn(*sizes: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: (torch.randn(*sizes),)


MODELS: dict[str, tuple[type[nn.Module], Callable[[], tuple[Any, ...]]]] = {
    "mlp": (Mlp, _randn(32, 48)),
    "conv_bn": (ConvBn, _randn(4, 3, 18, 18)),
    "attention": (Attention, _randn(3, 20, 32)),
    "layer_norm": (LayerNormBlock, _randn(9, 64)),
    "softmax_loss": (SoftmaxLoss, lambda: (torch.randn(21, 24), torch.randint(0, 37, (21,)))),
    "rms_rope": (RmsRope, _randn(2, 12, 32)),
    "gated": (Gated, _randn(10, 40)),
    "statistics": (Statistics, _randn(11, 70)),
    "embeddings": (Embeddings, lambda: (torch.randint(0, 50, (6, 14)),)),
    "residual": (Residual, _randn(13, 64)),
    "drops": (Drops, _randn(12, 32)),
    "distances": (Distances, _randn(16, 20)),
    "gru_cell": (GruCell, lambda: (torch.randn(7, 24), torch.randn(7, 24))),
    "audio_glu": (AudioGlu, _randn(3, 4, 50)),
    "autoencoder": (Autoencoder, _randn(11, 36)),
    "upsampling": (Upsampling, _randn(2, 3, 20, 20)),
    "routed": (Routed, _randn(15, 20)),
    "contrastive": (Contrastive, lambda: (torch.randn(9, 28), torch.randn(9, 30))),
    "graph_sum": (GraphSum, lambda: (torch.randn(14, 18), torch.randint(0, 14, (2, 40)))),
    "sines": (Sines, _randn(25, 2)),
}


class Casting(nn.Module):
    """A model under autocast."""

    def __init__(self, inner: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.inner, self.dtype = inner, dtype

    def forward(self, *args: Any) -> Any:
        with torch.autocast(DEVICE, dtype=self.dtype):
            return self.inner(*args)


def made(name: str, dtype: str) -> tuple[nn.Module, Callable[[], tuple[Any, ...]]]:
    """Return a model and what makes its inputs; a dtype of 16 bits is that of autocast, and `tf32` that of products."""
    kind, inputs = MODELS[name]
    model: nn.Module = kind().to(DEVICE)
    if dtype == "tf32":
        torch.set_float32_matmul_precision("high")
    elif dtype != "float32":
        model = Casting(model, getattr(torch, dtype))
    return model, lambda: tuple(each.to(DEVICE) for each in inputs())


if "ACCURACY_MODEL" in os.environ:  # what `benchmarks/accuracy.py` runs, with a fault in this process or with none
    if "ACCURACY_FAULT" in os.environ:
        import _accuracy_faults

        _accuracy_faults.install(os.environ["ACCURACY_FAULT"])
    model, inputs = made(os.environ["ACCURACY_MODEL"], os.environ.get("ACCURACY_DTYPE", "float32"))
