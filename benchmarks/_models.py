"""The models of virtual_gpu.py and architectures.py: CTRACE_BENCH_MODEL selects one, CTRACE_BENCH_DEVICE its device.

CTRACE_BENCH_TRAIN=1 leaves parameters trainable for `ctrace --train`; otherwise they are frozen, because a graph
without gradients is compiled for inference. Nothing is downloaded: weights are random.
"""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

DEVICE = os.environ.get("CTRACE_BENCH_DEVICE", "cpu")
TRAIN = os.environ.get("CTRACE_BENCH_TRAIN") == "1"
BATCH, SEQUENCE, WIDTH, HEADS = 4, 128, 256, 4


class Attention(nn.Module):
    """Causal self-attention, with SDPA or written by hand; takes (batch, sequence, width)."""

    def __init__(self, *, sdpa: bool) -> None:
        super().__init__()
        self.sdpa = sdpa
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        per_head = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        attended = self.attend(*per_head.unbind(0))
        result: Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return result

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if self.sdpa:
            return nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        return torch.softmax(scores.masked_fill(hidden, float("-inf")), -1) @ value


class Mlp(nn.Module):
    """Two layers between norms; returns probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.down(nn.functional.gelu(self.up(self.before(x))))
        return torch.softmax(self.after(x), -1)


class ConvNet(nn.Module):
    """Convolutions with BatchNorm, pooling and a classifier; takes (batch, 3, height, width)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(32), nn.BatchNorm2d(64)])
        self.classes = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.norms[0](self.first(x))), 2)
        x = torch.relu(self.norms[1](self.second(x)))
        result: Tensor = self.classes(x.mean((2, 3)))
        return result


class Classified(nn.Module):
    """Embedding, one layer, and the cross-entropy of its prediction of the next token."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(1000, WIDTH)
        self.layer, self.norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.classes = nn.Linear(WIDTH, 1000)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        hidden = self.norm(torch.relu(self.layer(self.table(tokens))))
        return nn.functional.cross_entropy(self.classes(hidden).flatten(0, 1), targets.flatten())


class UNet(nn.Module):
    """Two levels of convolutions with a skip connection between them; takes (batch, 3, height, width)."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle, self.up = self._level(3, 16), self._level(16, 32), self._level(48, 16)
        self.out = nn.Conv2d(16, 3, 1)

    @staticmethod
    def _level(taken: int, made: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(taken, made, 3, padding=1), nn.GroupNorm(4, made), nn.SiLU(), nn.Conv2d(made, made, 3, padding=1)
        )

    def forward(self, x: Tensor) -> Tensor:
        fine = self.down(x)
        coarse = self.middle(nn.functional.avg_pool2d(fine, 2))
        result: Tensor = self.out(self.up(torch.cat([fine, nn.functional.interpolate(coarse, scale_factor=2)], 1)))
        return result


class Diffusion(nn.Module):
    """Two transformer blocks whose norms are modulated by the time step; takes (batch, sequence, width)."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Attention(sdpa=True) for _ in range(2)])
        self.modulations = nn.ModuleList([nn.Linear(WIDTH, 3 * WIDTH) for _ in range(2)])
        self.norm = nn.LayerNorm(WIDTH, elementwise_affine=False)

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        for block, modulation in zip(self.blocks, self.modulations, strict=True):
            shift, scale, gate = modulation(nn.functional.silu(step))[:, None].chunk(3, -1)
            x = x + gate * block(self.norm(x) * (1 + scale) + shift)
        return x


class GraphNet(nn.Module):
    """Two rounds of messages along edges, summed at each node."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        for _ in range(2):
            sums = torch.zeros_like(nodes).index_add(0, target, self.message(nodes[source]))
            nodes = torch.relu(self.update(torch.cat([nodes, sums], -1)))
        return nodes


def _gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=2, n_embd=WIDTH, n_head=HEADS, n_positions=SEQUENCE, use_cache=False)
    model: nn.Module = GPT2LMHeadModel(config)
    return model


def _llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": WIDTH, "intermediate_size": 688, "num_attention_heads": HEADS, "num_key_value_heads": 2}
    model: nn.Module = LlamaForCausalLM(LlamaConfig(num_hidden_layers=2, vocab_size=8000, use_cache=False, **sizes))
    return model


def _t5() -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    sizes = {"d_model": WIDTH, "d_kv": 64, "d_ff": 1024, "num_heads": HEADS}
    config = T5Config(num_layers=2, vocab_size=8064, use_cache=False, decoder_start_token_id=0, **sizes)
    model: nn.Module = T5ForConditionalGeneration(config)
    return model


def _bert() -> nn.Module:
    from transformers import BertConfig, BertForMaskedLM

    sizes = {"hidden_size": WIDTH, "intermediate_size": 1024, "num_attention_heads": HEADS}
    model: nn.Module = BertForMaskedLM(BertConfig(num_hidden_layers=2, vocab_size=8002, **sizes))
    return model


def _vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"hidden_size": WIDTH, "intermediate_size": 1024, "num_attention_heads": HEADS}
    model: nn.Module = ViTForImageClassification(ViTConfig(num_hidden_layers=2, image_size=64, num_labels=10, **sizes))
    return model


def _mixtral() -> nn.Module:
    from transformers import MixtralConfig, MixtralForCausalLM

    sizes = {"hidden_size": WIDTH, "intermediate_size": 512, "num_attention_heads": HEADS, "num_key_value_heads": 2}
    config = MixtralConfig(num_hidden_layers=2, vocab_size=8000, num_local_experts=4, use_cache=False, **sizes)
    model: nn.Module = MixtralForCausalLM(config)
    return model


def _whisper() -> nn.Module:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    heads = {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS}
    sizes = {"d_model": WIDTH, "encoder_ffn_dim": 512, "decoder_ffn_dim": 512, "max_source_positions": SEQUENCE}
    config = WhisperConfig(encoder_layers=2, decoder_layers=2, vocab_size=51865, use_cache=False, **heads, **sizes)
    model: nn.Module = WhisperForConditionalGeneration(config)
    return model


def _mamba() -> nn.Module:
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(vocab_size=8000, hidden_size=WIDTH, state_size=16, num_hidden_layers=2, use_cache=False)
    model: nn.Module = MambaForCausalLM(config)
    return model


def _vectors() -> tuple[Tensor, ...]:
    return (torch.rand(BATCH, SEQUENCE, WIDTH),)


def _images() -> tuple[Tensor, ...]:
    return (torch.rand(BATCH, 3, 64, 64),)


def _tokens() -> Tensor:
    return torch.randint(0, 1000, (BATCH, SEQUENCE))


def _text(*, masked: bool = False) -> dict[str, Any]:
    mask = {"attention_mask": torch.ones(BATCH, SEQUENCE, dtype=torch.long)} if masked else {}
    return {"input_ids": _tokens(), "labels": _tokens(), **mask}


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any]]] = {
    "attention": (lambda: Attention(sdpa=False), _vectors),
    "attention_bf16": (lambda: Attention(sdpa=False), _vectors),
    "sdpa": (lambda: Attention(sdpa=True), _vectors),
    "sdpa_bf16": (lambda: Attention(sdpa=True), _vectors),
    "mlp": (Mlp, _vectors),
    "conv": (ConvNet, _images),
    "embedding": (Classified, lambda: (_tokens(), _tokens())),
    "gpt2": (_gpt2, _text),
    "llama": (_llama, _text),
    "t5": (_t5, _text),
    "bert": (_bert, lambda: _text(masked=True)),
    "mixtral": (_mixtral, lambda: {"input_ids": _tokens()}),
    "whisper": (
        _whisper,
        lambda: {"input_features": torch.rand(BATCH, 80, 2 * SEQUENCE), "decoder_input_ids": _tokens()[:, :32]},
    ),
    "mamba": (_mamba, lambda: {"input_ids": _tokens()[:, :32]}),
    "unet": (UNet, _images),
    "dit": (Diffusion, lambda: (*_vectors(), torch.rand(BATCH, WIDTH))),
    "gnn": (GraphNet, lambda: (torch.rand(SEQUENCE, WIDTH), torch.randint(0, SEQUENCE, (2, 4 * SEQUENCE)))),
    "vit": (_vit, lambda: {"pixel_values": _images()[0], "labels": torch.randint(0, 10, (BATCH,))}),
}
"""How to make each model, and its inputs."""

NAME = os.environ.get("CTRACE_BENCH_MODEL", "attention")
DTYPE = torch.bfloat16 if NAME.endswith("_bf16") else torch.float32


def model() -> nn.Module:
    """Make the selected model on its device."""
    torch.manual_seed(0)
    made = MODELS[NAME][0]().to(DEVICE, DTYPE).train(TRAIN)
    return made.requires_grad_(TRAIN)


def inputs() -> Any:
    """Make the selected model's inputs."""
    torch.manual_seed(1)
    return torch.utils._pytree.tree_map(_placed, MODELS[NAME][1]())


def _placed(tensor: Tensor) -> Tensor:
    return tensor.to(DEVICE, DTYPE if tensor.is_floating_point() else tensor.dtype)
