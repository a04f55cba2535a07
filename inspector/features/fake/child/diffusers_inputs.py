"""Make inputs for the parts of diffusion pipelines that `hf:./folder` names: their configs say how large they are.

The arguments are those of `forward` in diffusers 0.42 (models/unets, models/transformers, models/autoencoders).
"""

from collections.abc import Callable
from typing import Any

from ctrace.inspector.errors import TargetError

_TOKENS = 512
"""Tokens of a prompt: FLUX's and Stable Diffusion 3's pipelines take that many at most."""
_CLIP_TOKENS = 77
_PATCHES = 64
"""Patches of a side of an image of 1024 pixels: 16 pixels each, after the autoencoder and the patches."""
_SIDE = 64
"""Side of an image or of latents, if the config names none."""


def inputs_of_diffusers(model: Any) -> dict[str, Any]:
    """Return the inputs of a model of diffusers.

    Raises:
        TargetError: nothing is known of its class.
    """
    import torch

    make = _INPUTS.get(type(model).__name__)
    if make is None:
        what = f"it is not known which inputs {type(model).__name__} takes"
        raise TargetError(what, 'pass each, as in --input "hidden_states=bfloat16[1,4096,64]"')

    def randn(*size: int) -> Any:
        return torch.randn(*size, dtype=model.dtype)

    return make(model.config, randn)


Randn = Callable[..., Any]


def _flux(config: Any, randn: Randn) -> dict[str, Any]:
    patches = _PATCHES * _PATCHES
    made = {
        "hidden_states": randn(1, patches, config.in_channels),
        "encoder_hidden_states": randn(1, _TOKENS, config.joint_attention_dim),
        "pooled_projections": randn(1, config.pooled_projection_dim),
        "timestep": randn(1),
        "img_ids": randn(patches, len(config.axes_dims_rope)),
        "txt_ids": randn(_TOKENS, len(config.axes_dims_rope)),
    }
    return made | ({"guidance": randn(1).float()} if config.guidance_embeds else {})


def _stable_diffusion_3(config: Any, randn: Randn) -> dict[str, Any]:
    return {
        "hidden_states": randn(1, config.in_channels, config.sample_size, config.sample_size),
        "encoder_hidden_states": randn(1, _TOKENS, config.joint_attention_dim),
        "pooled_projections": randn(1, config.pooled_projection_dim),
        "timestep": randn(1),
    }


def _unet(config: Any, randn: Randn) -> dict[str, Any]:
    return {"sample": _image(config, randn), "timestep": randn(1)}


def _conditioned_unet(config: Any, randn: Randn) -> dict[str, Any]:
    if config.addition_embed_type or config.class_embed_type:
        what = "it is not known which conditions this UNet2DConditionModel takes"
        raise TargetError(what, "write a model file with def inputs()")
    return _unet(config, randn) | {"encoder_hidden_states": randn(1, _CLIP_TOKENS, config.cross_attention_dim)}


def _autoencoder(config: Any, randn: Randn) -> dict[str, Any]:
    return {"sample": _image(config, randn)}


def _image(config: Any, randn: Randn) -> Any:
    side = config.sample_size or _SIDE
    return randn(1, config.in_channels, *(side if isinstance(side, list | tuple) else (side, side)))


_INPUTS: dict[str, Callable[[Any, Randn], dict[str, Any]]] = {
    "FluxTransformer2DModel": _flux,
    "SD3Transformer2DModel": _stable_diffusion_3,
    "UNet2DConditionModel": _conditioned_unet,
    "UNet2DModel": _unet,
    "AutoencoderKL": _autoencoder,
}
