"""mlx-lm behind a line protocol, so that both sides of a benchmark can be measured in turns.

    peer.py FOLDER f16|f32

Each line of standard input is {"prompt": n, "tokens": m}; each line of standard output {"first_s": .., "rest_s": ..}:
seconds until the first token, and from there to the m-th. The prompt is the same ids that the benchmark gives Ingot.
"""
import json
import sys
import time

import mlx.core as mx
from mlx_lm.generate import generate_step
from mlx_lm.utils import load_model
from pathlib import Path


def main():
    model, _ = load_model(Path(sys.argv[1]))
    if sys.argv[2] == "f32":
        model.set_dtype(mx.float32)
    mx.eval(model.parameters())
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        ask = json.loads(line)
        prompt = mx.array([i * 7919 % ask["vocab"] for i in range(ask["prompt"])])
        start = time.perf_counter()
        first = None
        for i, (_tok, _) in enumerate(generate_step(prompt, model, max_tokens=ask["tokens"])):
            if i == 0:
                first = time.perf_counter()
        end = time.perf_counter()
        print(json.dumps({"first_s": first - start, "rest_s": end - first}), flush=True)


main()
