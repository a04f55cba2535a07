"""Small models for the study of results against eager, one for each kind of rounding.

The worker imports this file in the interpreter of the ctrace under test, so it must not import `tests`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


@dataclass(frozen=True)
class Made:
    model: Any
    args: tuple[Any, ...]
    train: bool = False


MODELS: dict[str, Callable[[], Made]] = {}


def model(made: Callable[[], Made]) -> Callable[[], Made]:
    MODELS[made.__name__] = made
    return made


class Net(nn.Module):
    """A function with the modules that it uses."""

    def __init__(self, forward: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self._forward = forward
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, *args: Any) -> Any:
        return self._forward(self, *args)


def ids(*sizes: int, most: int = 100) -> Any:
    return torch.randint(0, most, sizes)


@model
def mlp() -> Made:
    return Made(nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)), (torch.randn(32, 64),))


@model
def mlp_train() -> Made:
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 8))
    return Made(net, (torch.randn(32, 64),), train=True)


@model
def deep_mlp() -> Made:
    layers = [part for _ in range(12) for part in (nn.Linear(64, 64), nn.SiLU())]
    return Made(nn.Sequential(*layers), (torch.randn(16, 64),))


@model
def conv_batchnorm_train() -> Made:
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4)
    )
    return Made(net, (torch.randn(4, 3, 16, 16),), train=True)


@model
def conv_batchnorm_eval() -> Made:
    net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 8, 3))
    return Made(net.eval(), (torch.randn(4, 3, 16, 16),))


@model
def conv_groupnorm() -> Made:
    net = nn.Sequential(nn.Conv2d(4, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU(), nn.Conv2d(16, 4, 3, padding=1))
    return Made(net, (torch.randn(2, 4, 16, 16),))


@model
def unet() -> Made:
    def forward(net: Any, x: Any) -> Any:
        low = F.silu(net.down(x))
        mid = F.silu(net.mid(low))
        up = F.interpolate(mid, scale_factor=2, mode="nearest")
        return net.out(torch.cat([up, x], 1))

    parts = {
        "down": nn.Conv2d(4, 16, 3, stride=2, padding=1), "mid": nn.Conv2d(16, 16, 3, padding=1),
        "out": nn.Conv2d(20, 4, 3, padding=1),
    }  # fmt: skip
    return Made(Net(forward, **parts), (torch.randn(2, 4, 16, 16),))


@model
def conv1d_transpose() -> Made:
    net = nn.Sequential(nn.Conv1d(4, 8, 5), nn.LeakyReLU(), nn.ConvTranspose1d(8, 4, 5))
    return Made(net, (torch.randn(2, 4, 40),))


class DiT(nn.Module):
    def __init__(self, wide: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.first = nn.LayerNorm(wide, elementwise_affine=False)
        self.second = nn.LayerNorm(wide, elementwise_affine=False)
        self.qkv, self.proj = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
        self.mlp = nn.Sequential(nn.Linear(wide, 4 * wide), nn.GELU("tanh"), nn.Linear(4 * wide, wide))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(wide, 6 * wide))

    def forward(self, x: Any, c: Any) -> Any:
        a, b, g, a2, b2, g2 = (each[:, None] for each in self.ada(c).chunk(6, -1))
        y = self.first(x) * (1 + b) + a
        batch, tokens, wide = y.shape
        q, k, v = self.qkv(y).view(batch, tokens, 3, self.heads, wide // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, wide)
        x = x + g * self.proj(y)
        return x + g2 * self.mlp(self.second(x) * (1 + b2) + a2)


@model
def dit() -> Made:
    return Made(DiT(), (torch.randn(2, 16, 64), torch.randn(2, 64)))


@model
def dit_train() -> Made:
    return Made(DiT(), (torch.randn(2, 16, 64), torch.randn(2, 64)), train=True)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    return torch.softmax(scores, -1) @ v


@model
def attention_plain() -> Made:
    return Made(attention, tuple(torch.randn(2, 4, 32, 16) for _ in range(3)))


@model
def attention_causal() -> Made:
    def forward(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.transpose(-1, -2) / 4
        places = torch.arange(q.shape[-2])
        return torch.softmax(scores.masked_fill(places[None] > places[:, None], float("-inf")), -1) @ v

    return Made(forward, tuple(torch.randn(2, 4, 32, 16) for _ in range(3)))


@model
def attention_sdpa_causal_train() -> Made:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(32, 96)

        def forward(self, x: Any) -> Any:
            q, k, v = self.qkv(x).chunk(3, -1)
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return Made(Attention(), (torch.randn(2, 16, 32),), train=True)


@model
def multihead() -> Made:
    net = nn.MultiheadAttention(32, 4, batch_first=True)
    return Made(Net(lambda net, x: net.at(x, x, x)[0], at=net), (torch.randn(2, 16, 32),))


@model
def encoder_layer_train() -> Made:
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    return Made(layer, (torch.randn(2, 8, 32),), train=True)


@model
def linear_attention() -> Made:
    def forward(q: Any, k: Any, v: Any) -> Any:
        q, k = F.elu(q) + 1, F.elu(k) + 1
        return q @ (k.transpose(-1, -2) @ v) / (q * k.sum(-2, keepdim=True)).sum(-1, keepdim=True)

    return Made(forward, tuple(torch.randn(2, 4, 32, 16) for _ in range(3)))


@model
def rnn() -> Made:
    return Made(nn.RNN(16, 16, batch_first=True), (torch.randn(2, 6, 16),))


@model
def lstm() -> Made:
    return Made(nn.LSTM(16, 16, batch_first=True), (torch.randn(2, 6, 16),))


@model
def gru_cell() -> Made:
    def forward(net: Any, x: Any) -> Any:
        state = torch.zeros_like(x[:, 0])
        for step in range(x.shape[1]):
            state = net.cell(x[:, step], state)
        return state

    return Made(Net(forward, cell=nn.GRUCell(16, 16)), (torch.randn(4, 6, 16),), train=True)


@model
def softmax_chain() -> Made:
    return Made(lambda x: torch.softmax(torch.softmax(x * 3, -1) * 50, 0).log_softmax(-1), (torch.randn(64, 128),))


@model
def log_softmax_loss_train() -> Made:
    net = Net(lambda net, x, y: F.cross_entropy(net.head(x), y), head=nn.Linear(32, 100))
    return Made(net, (torch.randn(64, 32), ids(64)), train=True)


@model
def losses_train() -> Made:
    def forward(net: Any, x: Any, y: Any) -> Any:
        out = net.head(x)
        return (
            F.mse_loss(out, y),
            F.smooth_l1_loss(out, y),
            F.huber_loss(out, y),
            F.kl_div(out.log_softmax(-1), y.softmax(-1)),
        )

    return Made(Net(forward, head=nn.Linear(32, 16)), (torch.randn(64, 32), torch.randn(64, 16)), train=True)


@model
def contrastive_train() -> Made:
    def forward(net: Any, x: Any, y: Any) -> Any:
        a, b = F.normalize(net.head(x), dim=-1), F.normalize(net.head(y), dim=-1)
        return F.cross_entropy(a @ b.T / 0.07, torch.arange(len(a)))

    return Made(Net(forward, head=nn.Linear(32, 16)), (torch.randn(48, 32), torch.randn(48, 32)), train=True)


@model
def layernorm_chain_train() -> Made:
    net = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64), nn.LayerNorm(64), nn.Sigmoid(), nn.LayerNorm(64))
    return Made(net, (torch.randn(32, 64),), train=True)


@model
def rmsnorm() -> Made:
    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.rand(64) + 0.5)

        def forward(self, x: Any) -> Any:
            wide = x.float()
            return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

    return Made(nn.Sequential(Norm(), nn.Linear(64, 64), Norm()), (torch.randn(32, 64),))


@model
def mean_of_a_layernorm() -> Made:
    return Made(lambda x: F.layer_norm(x, (256,)).mean(-1), (torch.randn(32, 256),))


@model
def large_sums() -> Made:
    return Made(lambda x: (x.sum(), x.mean(), x.var(), x.exp().sum(), x.sum(0)), (torch.rand(64, 16384),))


@model
def large_sum_of_signed() -> Made:
    return Made(lambda x: (x.sum(-1), (x * x).sum(-1).sqrt(), x.std(-1), x.logsumexp(-1)), (torch.randn(4, 1 << 17),))


@model
def square_reductions() -> Made:
    return Made(lambda x: (x.sum(-1), (x * x).sum(-1, keepdim=True) * x), (torch.randn(64, 64),))


@model
def cumulative() -> Made:
    return Made(lambda x: (x.cumsum(-1), (x * 0.1).exp().cumprod(-1), x.logcumsumexp(-1)), (torch.randn(8, 512),))


@model
def einsum() -> Made:
    return Made(
        lambda a, b, c: torch.einsum("bij,bjk,bkl->bil", a, b, c).relu(),
        tuple(torch.randn(3, 32, 32) for _ in range(3)),
    )


@model
def complex_rotary() -> Made:
    def forward(x: Any) -> Any:
        angles = torch.outer(torch.arange(x.shape[-2]).float(), 10000 ** -(torch.arange(0, 16, 2) / 16))
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], 8, 2))
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2).to(x.dtype)

    return Made(forward, (torch.randn(2, 32, 16),))


@model
def rotary() -> Made:
    def forward(x: Any) -> Any:
        angles = torch.outer(torch.arange(x.shape[-2]).float(), 10000 ** -(torch.arange(0, 16, 2) / 16))
        cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
        return x * cos + torch.cat([-x[..., 8:], x[..., :8]], -1) * sin

    return Made(forward, (torch.randn(2, 512, 16),))


@model
def topk_head() -> Made:
    net = Net(lambda net, x: torch.topk(net.head(x).softmax(-1), 5), head=nn.Linear(32, 200))
    return Made(net, (torch.randn(64, 32),))


@model
def argmax_head() -> Made:
    def forward(net: Any, x: Any) -> Any:
        out = net.head(x)
        return out.argmax(-1), out > 0.1, out.sort(-1).values

    return Made(Net(forward, head=nn.Linear(32, 500)), (torch.randn(64, 32),))


@model
def embedding_bag_train() -> Made:
    net = Net(lambda net, x: net.head(net.bag(x)), bag=nn.EmbeddingBag(100, 32, mode="mean"), head=nn.Linear(32, 4))
    return Made(net, (ids(16, 8),), train=True)


@model
def experts() -> Made:
    def forward(net: Any, x: Any) -> Any:
        weights, chosen = net.gate(x).softmax(-1).topk(2)
        each = torch.stack([net.a(x), net.b(x), net.c(x), net.d(x)], 1)
        return (each.gather(1, chosen[..., None].expand(-1, -1, 32)) * weights[..., None]).sum(1)

    parts = {name: nn.Linear(32, 32) for name in "abcd"}
    return Made(Net(forward, gate=nn.Linear(32, 4), **parts), (torch.randn(64, 32),))


@model
def scatter_pooling() -> Made:
    def forward(x: Any, index: Any) -> Any:
        return torch.zeros(10, 16, dtype=x.dtype).index_add(0, index, x), x.new_zeros(10, 16).scatter_add(
            0, index[:, None].expand(-1, 16), x
        )

    return Made(forward, (torch.randn(200, 16), ids(200, most=10)))


@model
def fake_quantized() -> Made:
    net = Net(lambda net, x: torch.round(net.one(x) / 0.05).clamp(-128, 127) * 0.05, one=nn.Linear(64, 64))
    return Made(net, (torch.randn(64, 64),))


@model
def branches_on_data() -> Made:
    def forward(net: Any, x: Any) -> Any:
        y = net.one(x)
        return net.two(y) if y.mean() > -10 else y

    return Made(Net(forward, one=nn.Linear(32, 32), two=nn.Linear(32, 32)), (torch.randn(8, 32),))


@model
def item_result() -> Made:
    return Made(
        Net(lambda net, x: (net.one(x).norm().item(), net.one(x)), one=nn.Linear(32, 32)), (torch.randn(8, 32),)
    )


@model
def small_and_large_values() -> Made:
    return Made(
        lambda x, y: (x * torch.logspace(-3, 3, 16, dtype=x.dtype)[:, None]).tanh() * y.exp(),
        (torch.randn(16, 64), torch.randn(16, 64) * 3),
    )


@model
def special_functions() -> Made:
    return Made(
        lambda x: (torch.erf(x), torch.lgamma(x.abs() + 1), torch.expm1(x), torch.log1p(x.abs()), x.sigmoid().logit()),
        (torch.randn(64, 64),),
    )


@model
def interpolation_and_pooling() -> Made:
    return Made(
        lambda x: F.avg_pool2d(F.interpolate(x, scale_factor=1.7, mode="bilinear"), 3), (torch.randn(2, 3, 16, 16),)
    )


@model
def checkpointed_train() -> Made:
    from torch.utils.checkpoint import checkpoint

    net = Net(
        lambda net, x: checkpoint(net.block, x, use_reentrant=False),
        block=nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)),
    )
    return Made(net, (torch.randn(8, 32),), train=True)


@model
def checkpointed_dropout_train() -> Made:
    from torch.utils.checkpoint import checkpoint

    net = Net(
        lambda net, x: checkpoint(net.block, x, use_reentrant=False),
        block=nn.Sequential(nn.Linear(32, 64), nn.Dropout(0.5), nn.Linear(64, 32)),
    )
    return Made(net, (torch.randn(8, 32),), train=True)


def _transformers(
    config: str, net: str, inputs: Callable[[], tuple[Any, ...]] = lambda: (ids(2, 12),), **sizes: Any
) -> Callable[[], Made]:
    def made() -> Made:
        import transformers

        built = getattr(transformers, net)(getattr(transformers, config)(**sizes)).eval()
        return Made(Net(lambda net, *args: net.at(*args, return_dict=False)[0], at=built), inputs())

    return made


_SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 100,
}
FROM_TRANSFORMERS = {
    "gpt2": _transformers("GPT2Config", "GPT2LMHeadModel", n_embd=32, n_layer=2, n_head=4, vocab_size=100, n_positions=32, use_cache=False),
    "llama": _transformers("LlamaConfig", "LlamaForCausalLM", num_key_value_heads=2, use_cache=False, **_SMALL),
    "bert": _transformers("BertConfig", "BertModel", max_position_embeddings=32, **_SMALL),
    "mixtral": _transformers(
        "MixtralConfig", "MixtralForCausalLM", num_key_value_heads=2, num_local_experts=4, use_cache=False, **_SMALL
    ),
    "qwen3": _transformers("Qwen3Config", "Qwen3ForCausalLM", num_key_value_heads=2, head_dim=8, use_cache=False, **_SMALL),
    "t5_encoder": _transformers("T5Config", "T5EncoderModel", d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=100),
    "vit": _transformers(
        "ViTConfig", "ViTModel", lambda: (torch.randn(2, 3, 16, 16),), image_size=16, patch_size=4,
        **{**_SMALL, "vocab_size": 100},
    ),
}  # fmt: skip
"""Small models of the transformers package, which the study tries where it is installed."""
