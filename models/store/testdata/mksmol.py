#!/usr/bin/env python3
"""Writes the starter model's GGUF as a folder in MLX's layout with MLX's own GGUF reader: what the importer is compared with.

    mksmol.py GGUF OUT
"""
import json
import os
import sys

import mlx.core as mx

NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}


def halves(x, heads):
    """GGUF keeps rotary pairs side by side, MLX in two halves."""
    rows = x.shape[0]
    return x.reshape(heads, rows // heads // 2, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def rename(key, value, heads, kv_heads):
    part = key.split(".")
    if part[0] == "token_embd":
        return f"model.embed_tokens.{part[1]}", value
    if part[0] == "output_norm":
        return "model.norm.weight", value
    if part[2] in ("attn_q", "attn_k"):
        value = halves(value, heads if part[2] == "attn_q" else kv_heads)
    return f"model.layers.{part[1]}.{NAMES[part[2]]}.{part[3]}", value


def config(heads, kv_heads):
    return dict(
        architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
        num_attention_heads=heads, num_key_value_heads=kv_heads, rms_norm_eps=1e-5, rope_theta=100000.0, vocab_size=49152,
        max_position_embeddings=8192, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, pad_token_id=2,
        torch_dtype="float16", quantization={"group_size": 32, "bits": 4, "model.embed_tokens": {"group_size": 32, "bits": 8}},
    )


def tokenizer(meta):
    tokens, kinds = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"].tolist()
    special = [
        dict(id=i, content=t, special=True, single_word=False, lstrip=False, rstrip=False, normalized=False)
        for i, (t, kind) in enumerate(zip(tokens, kinds)) if kind == 3
    ]
    level = dict(type="ByteLevel", trim_offsets=True, use_regex=True)
    digits = dict(type="Digits", individual_digits=True)
    return dict(
        version="1.0", truncation=None, padding=None, added_tokens=special, normalizer=None, post_processor=None,
        pre_tokenizer=dict(type="Sequence", pretokenizers=[digits, dict(level, add_prefix_space=False)]),
        decoder=dict(level, add_prefix_space=True),
        model=dict(
            type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=False,
            byte_fallback=False, vocab={t: i for i, t in enumerate(tokens)}, merges=[m.split(" ") for m in meta["tokenizer.ggml.merges"]],
        ),
    )


def main():
    src, out = sys.argv[1], sys.argv[2]
    weights, meta = mx.load(src, return_metadata=True)
    heads, kv_heads = int(meta["llama.attention.head_count"]), int(meta["llama.attention.head_count_kv"])
    arrays = dict(rename(k, v, heads, kv_heads) for k, v in weights.items())
    os.makedirs(out)
    mx.save_safetensors(f"{out}/model.safetensors", {k: mx.contiguous(v) for k, v in arrays.items()}, metadata={"format": "mlx"})
    files = {
        "config.json": config(heads, kv_heads), "tokenizer.json": tokenizer(meta),
        "generation_config.json": dict(bos_token_id=1, eos_token_id=2),
    }
    for name, value in files.items():
        with open(f"{out}/{name}", "w") as f:
            json.dump(value, f, ensure_ascii=False)


main()
