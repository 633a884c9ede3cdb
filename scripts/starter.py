"""starter.py GGUF OUT: writes the starter model's weights and configuration in MLX's layout. For tests only; the store
imports the same file at run time without Python. Needs mlx.

GGUF of a llama: blk.N.attn_q and the like; the rows of q and k are stored in pairs of rotary halves, MLX's are split.
"""
import json
import os
import sys

import mlx.core as mx

LAYER = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}
TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}


def split_halves(x, heads):
    rows = x.shape[0] // heads
    return x.reshape(heads, rows // 2, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def renamed(weights, heads):
    for name, x in weights.items():
        parts = name.split(".")
        if parts[0] != "blk":
            yield f"{TOP[parts[0]]}.{parts[1]}", x
            continue
        if parts[2] in heads:
            x = split_halves(x, heads[parts[2]])
        yield f"model.layers.{parts[1]}.{LAYER[parts[2]]}.{parts[3]}", x


def config(meta, heads):
    number = lambda key: meta[f"llama.{key}"].item()
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float16",
        "hidden_size": number("embedding_length"), "intermediate_size": number("feed_forward_length"),
        "num_hidden_layers": number("block_count"), "num_attention_heads": heads["attn_q"], "num_key_value_heads": heads["attn_k"],
        "rms_norm_eps": 1e-5, "rope_theta": number("rope.freq_base"), "max_position_embeddings": number("context_length"),
        "vocab_size": len(meta["tokenizer.ggml.tokens"]), "tie_word_embeddings": True,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2,
        "quantization": {"group_size": 32, "bits": 4, "model.embed_tokens": {"group_size": 32, "bits": 8}},
    }


def main(source, out):
    weights, meta = mx.load(source, return_metadata=True)
    heads = {"attn_q": meta["llama.attention.head_count"].item(), "attn_k": meta["llama.attention.head_count_kv"].item()}
    os.makedirs(out, exist_ok=True)
    laid = {name: mx.contiguous(x) for name, x in renamed(weights, heads)}
    mx.save_safetensors(os.path.join(out, "model.safetensors"), laid, metadata={"format": "mlx"})
    for name, data in (("config.json", config(meta, heads)), ("generation_config.json", {"bos_token_id": 1, "eos_token_id": 2})):
        with open(os.path.join(out, name), "w") as file:
            json.dump(data, file, indent=1)


main(*sys.argv[1:])
