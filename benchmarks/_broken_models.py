"""Public architectures of `transformers` that break graphs, tiny and with random weights.

CTRACE_BENCH_MODEL selects one. Mixtures of experts use the loop over experts with data-dependent routing, which
`transformers` calls the eager implementation; nothing is downloaded.
"""

import inspect
import os
from typing import Any

import torch
from torch import nn

_LOOPS = (
    "mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "phimoe", "granitemoe", "granitemoeshared", "ernie4_5_moe",
    "minimax", "flex_olmo", "gpt_oss", "hunyuan_v1_moe", "glm4_moe", "deepseek_v2",
)  # fmt: skip
"""Mixtures of experts."""
_OTHERS = ("switch_transformers", "longformer", "led", "jetmoe", "xlm", "flaubert", "ctrl")
NAMES = (*_OTHERS, *_LOOPS)
_SIZES = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "d_ff", "dff"), 32),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "intermediate_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("head_dim", "d_kv"), 8),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 16),
    "num_key_value_heads": 2,
    "num_experts_per_tok": 2,
    "vocab_size": 100,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "use_cache": False,
}
_OWN: dict[str, dict[str, Any]] = {
    "longformer": {"attention_window": [8, 8]},
    "led": {"attention_window": [8, 8]},
    "deepseek_v2": {"qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "kv_lora_rank": 16,
                    "q_lora_rank": 16, "first_k_dense_replace": 0, "num_key_value_heads": 4, "head_dim": 8,
                    "topk_method": "greedy"},
}  # fmt: skip
NAME = os.environ.get("CTRACE_BENCH_MODEL", "mixtral")


def model() -> nn.Module:
    """Make the selected model, in evaluation mode and without gradients."""
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(0)
    known = vars(AutoConfig.for_model(NAME))
    sizes = {key: value for key, value in _SIZES.items() if key in known}
    config = AutoConfig.for_model(NAME, **{**sizes, **_OWN.get(NAME, {})})
    if NAME in _LOOPS:
        config._experts_implementation = "eager"
    made: nn.Module = AutoModel.from_config(config)
    return made.eval().requires_grad_(False)


def inputs() -> dict[str, Any]:
    """Make tokens."""
    torch.manual_seed(1)
    tokens = torch.randint(2, 99, (2, 16))
    return {"input_ids": tokens, "decoder_input_ids": tokens} if _is_pair() else {"input_ids": tokens}


def _is_pair() -> bool:
    """Whether the model has an encoder and a decoder."""
    from transformers import AutoConfig, AutoModel

    kind = AutoModel._model_mapping[type(AutoConfig.for_model(NAME))]
    return "decoder_input_ids" in inspect.signature(kind.forward).parameters
