"""Whisper's encoder and decoder, one call."""

import torch
from transformers import WhisperConfig, WhisperModel


def model():
    torch.manual_seed(0)
    config = WhisperConfig(
        vocab_size=64, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, num_mel_bins=8,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_source_positions=16,
        max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    return WhisperModel(config).eval().requires_grad_(False)


def inputs():
    features = torch.rand(1, 8, 32)
    return {"input_features": features, "decoder_input_ids": torch.tensor([[1, 5, 6]]), "use_cache": False}
