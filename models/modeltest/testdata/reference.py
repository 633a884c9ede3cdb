#!/usr/bin/env python3
"""What mlx-lm says, cast to f32: the reference that families are compared with.

    reference.py MODEL OUT < request.json

request: {"prompts": [[token, ...], ...], "steps": n}
OUT gets reference.json {"greedy": [[token, ...], ...], "margin": [[gap, ...], ...], "vocab": V} (the gap between the
two best logits at each greedy step) and logits.f32: for each prompt the logits of all its rows, row by row, little-endian.
"""
import json
import os
import sys

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model
from pathlib import Path


def greedy(model, prompt, steps):
    """Logits of the prompt's rows, then `steps` greedy tokens and their margins."""
    cache = make_prompt_cache(model)
    rows = model(mx.array([prompt]), cache=cache)[0].astype(mx.float32)
    last, tokens, margins = rows[-1], [], []
    for _ in range(steps):
        best = mx.sort(last)[-2:]
        tokens.append(mx.argmax(last).item())
        margins.append((best[1] - best[0]).item())
        last = model(mx.array([[tokens[-1]]]), cache=cache)[0, -1].astype(mx.float32)
        mx.eval(last, [c.state for c in cache])
    return np.array(rows), tokens, margins


def main():
    folder, out = sys.argv[1], sys.argv[2]
    request = json.load(sys.stdin)
    model, _ = load_model(Path(folder))
    model.set_dtype(mx.float32)
    os.makedirs(out, exist_ok=True)
    answer = dict(greedy=[], margin=[], vocab=0)
    with open(f"{out}/logits.f32", "wb") as f:
        for prompt in request["prompts"]:
            rows, tokens, margins = greedy(model, prompt, request["steps"])
            f.write(rows.astype("<f4").tobytes())
            answer["greedy"].append(tokens)
            answer["margin"].append(margins)
            answer["vocab"] = rows.shape[-1]
    with open(f"{out}/reference.json", "w") as f:
        json.dump(answer, f)


main()
