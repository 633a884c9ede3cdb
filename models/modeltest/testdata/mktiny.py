#!/usr/bin/env python3
"""Writes a tiny checkpoint with random weights in MLX's layout, made by mlx-lm's own model code, which is the reference.

    mktiny.py FAMILY OUT [--seed N] [--layers N] [--hidden N] [--heads N] [--kv N] [--head-dim N] [--vocab N] [--experts N]
              [--bits N] [--group N] [--mode affine|mxfp4|nvfp4|mxfp8] [--none] [--dtype float16|bfloat16|float32]
              [--per TEXT=BITS ...] [--set KEY=JSON ...] [--shards N] [--publisher] [--tokenizer DIR]

--none leaves the weights unpacked; --per packs modules whose path contains TEXT with other bits (0: not at all); --set
puts a key into the config (its text part, where it has one); --publisher (with --none, the qwen3_ families) lays the
weights out as before MLX's conversion, with some that see and some that predict several tokens among them. Weights are scaled so that logits are well apart: greedy
tokens then survive another order of summation in f32.
"""
import argparse
import importlib
import json
import os
import shutil

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_unflatten

GROUPS = {"mxfp4": 32, "mxfp8": 32, "nvfp4": 16}


def dense(a):
    return dict(
        hidden_size=a.hidden, num_hidden_layers=a.layers, intermediate_size=2 * a.hidden, num_attention_heads=a.heads,
        num_key_value_heads=a.kv, head_dim=a.head_dim, rms_norm_eps=1e-6, vocab_size=a.vocab, max_position_embeddings=32768,
        rope_theta=10000.0, tie_word_embeddings=False,
    )


def experts(a):
    return dict(
        num_experts=a.experts, num_experts_per_tok=2, moe_intermediate_size=a.hidden, decoder_sparse_step=1, norm_topk_prob=True,
        mlp_only_layers=[], shared_expert_intermediate_size=a.hidden,
    )


def delta():
    return dict(
        linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=32, linear_value_head_dim=32,
        linear_conv_kernel_dim=4, full_attention_interval=4, partial_rotary_factor=0.25,
    )


def config(a):
    """The config of a family, and the part of it that --set speaks of."""
    base = dense(a)
    if a.family in ("llama", "mistral"):
        c = dict(base, model_type=a.family)
        return c, c
    if a.family == "qwen3_next":
        c = dict(base, **experts(a), **delta(), model_type=a.family)
        return c, c
    if a.family in ("qwen3_5", "qwen3_5_moe"):
        rope = dict(type="default", mrope_section=[2, 2, 2], rope_theta=1e7, partial_rotary_factor=0.25)
        text = dict(base, **delta(), rope_parameters=rope, model_type=a.family + "_text")
        if a.family == "qwen3_5_moe":
            text.update(experts(a))
        return dict(model_type=a.family, text_config=text), text
    raise SystemExit(f"unknown family {a.family}")


def spread(name, v, dtype):
    if v.dtype not in (mx.float32, mx.float16, mx.bfloat16):
        return v
    if v.ndim >= 2:
        return (mx.random.normal(v.shape) * (2.0 / v.shape[-1] ** 0.5)).astype(dtype)
    keep = name.endswith("A_log") or "correction_bias" in name
    return (v + 0.1 * mx.random.normal(v.shape)).astype(mx.float32 if keep else dtype)


def quantize(model, a, cfg):
    default = dict(group_size=GROUPS.get(a.mode, a.group), bits=8 if a.mode == "mxfp8" else a.bits)
    if a.mode != "affine":
        default["mode"] = a.mode
    predicate = getattr(model, "quant_predicate", None) or getattr(getattr(model, "language_model", None), "quant_predicate", None)
    exceptions = {}

    def use(path, module):
        if not hasattr(module, "to_quantized") or module.weight.shape[-1] % default["group_size"]:
            return False
        for text, bits in a.per:
            if text in path:
                exceptions[path] = dict(default, bits=bits) if bits else False
                return exceptions[path]
        verdict = predicate(path, module) if predicate else True
        if isinstance(verdict, dict) and a.mode == "affine":
            exceptions[path] = verdict
            return verdict
        return bool(verdict)

    nn.quantize(model, class_predicate=use, **default)
    cfg["quantization"] = {**default, **exceptions}


def publisher(a, weights):
    """Undoes mlx-lm's conversion of the qwen3_ families."""
    less_one = (".input_layernorm.weight", ".post_attention_layernorm.weight", "model.norm.weight", ".q_norm.weight", ".k_norm.weight")
    out = {"mtp.fc.weight": mx.zeros((2, 2))}
    if a.family != "qwen3_next":
        out["model.visual.patch_embed.weight"] = mx.zeros((2, 2))
    for name, v in weights.items():
        if name.endswith(less_one):
            v = v - 1.0
        if "conv1d.weight" in name:
            v = v.moveaxis(1, 2)
        if a.family != "qwen3_next":
            name = name.replace("language_model.model.", "model.language_model.").replace("language_model.lm_head", "lm_head")
        if ".switch_mlp." not in name:
            out[name] = v
        elif a.family == "qwen3_next":
            out.update({name.replace("switch_mlp", f"experts.{e}"): v[e] for e in range(a.experts)})
        elif "up_proj" in name:
            gate = weights[name_of_gate(name)]
            out[name.replace("switch_mlp.up_proj.weight", "experts.gate_up_proj")] = mx.concatenate([gate, v], axis=-2)
        elif "down_proj" in name:
            out[name.replace("switch_mlp.down_proj.weight", "experts.down_proj")] = v
    return out


def name_of_gate(name):
    return name.replace("model.language_model.", "language_model.model.").replace("up_proj", "gate_proj")


def save(a, cfg, weights):
    os.makedirs(a.out, exist_ok=True)
    names = sorted(weights)
    if a.shards == 1:
        mx.save_safetensors(f"{a.out}/model.safetensors", weights, metadata={"format": "mlx"})
    else:
        where = {}
        for i in range(a.shards):
            file = f"model-{i + 1:05d}-of-{a.shards:05d}.safetensors"
            part = {n: weights[n] for n in names[i :: a.shards]}
            mx.save_safetensors(f"{a.out}/{file}", part, metadata={"format": "mlx"})
            where.update({n: file for n in part})
        with open(f"{a.out}/model.safetensors.index.json", "w") as f:
            json.dump(dict(metadata={}, weight_map=where), f)
    with open(f"{a.out}/config.json", "w") as f:
        json.dump(cfg, f, indent=1)
    if a.tokenizer:
        for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
            shutil.copy(f"{a.tokenizer}/{name}", a.out)


def pair(convert):
    def parse(text):
        key, _, value = text.partition("=")
        return key, convert(value)
    return parse


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("family")
    p.add_argument("out")
    sizes = dict(seed=1, layers=4, hidden=128, heads=4, kv=2, vocab=512, experts=8, bits=4, group=64, shards=1)
    for name, default in sizes.items():
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--head-dim", type=int, default=32)
    p.add_argument("--mode", default="affine")
    p.add_argument("--none", action="store_true")
    p.add_argument("--publisher", action="store_true")
    p.add_argument("--dtype", default="float16")
    p.add_argument("--per", type=pair(int), action="append", default=[])
    p.add_argument("--set", type=pair(json.loads), action="append", default=[])
    p.add_argument("--tokenizer")
    return p.parse_args()


def main():
    a = arguments()
    cfg, text = config(a)
    text.update(dict(a.set))
    cfg["eos_token_id"] = 2
    kind = "llama" if cfg["model_type"] == "mistral" else cfg["model_type"]
    module = importlib.import_module("mlx_lm.models." + kind)
    mx.random.seed(a.seed)
    model = module.Model(module.ModelArgs.from_dict(cfg))
    dtype = getattr(mx, a.dtype)
    model.update(tree_unflatten([(k, spread(k, v, dtype)) for k, v in tree_flatten(model.parameters())]))
    if not a.none:
        quantize(model, a, cfg)
    weights = dict(tree_flatten(model.parameters()))
    if a.publisher:
        weights = publisher(a, weights)
    mx.eval(weights)
    save(a, cfg, weights)


main()
