#!/usr/bin/env bash
# A first conversation: starts a daemon on a private home, imports the starter model, asks it a question, and stays
# in the foreground unless ONCE=1.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# A socket's path may have about 100 bytes, so a deep checkout gets its home elsewhere.
home=$PWD/.deps/home
[ ${#home} -le 80 ] || home=${TMPDIR:-/tmp}/ingot-$(id -u)
export INGOT_HOME=${INGOT_HOME:-$home}
model=smollm2-135m
question="What is the capital of France?"

bin/ingotd & daemon=$!
stop() { kill "$daemon" 2>/dev/null || true; wait "$daemon" 2>/dev/null || true; }
trap stop EXIT
trap 'exit 130' INT TERM

wait_for() {
  local tries=0
  until "$@" >/dev/null 2>&1; do
    kill -0 "$daemon" 2>/dev/null || die "the daemon ended; its log is in $INGOT_HOME/logs"
    tries=$((tries + 1)); [ $tries -lt 100 ] || die "the daemon does not answer on $INGOT_HOME/run/ingot.sock"
    sleep 0.1
  done
}
wait_for bin/ingot status --json

if ! bin/ingot show "$model" --json >/dev/null 2>&1; then
  gguf=$(find "$PWD/.deps/starter" -name '*.gguf' | head -n 1)
  [ -n "$gguf" ] || die "the starter model is missing from .deps/starter: run 'make deps'"
  bin/ingot pull "$gguf" --as "$model"
fi

say "> $question"
# Greedy: so small a model wanders when it is left to chance.
bin/ingot run --temperature 0 "$model" "$question"

[ "${ONCE:-0}" = 1 ] && exit 0
cat >&2 <<TXT

The daemon runs on $INGOT_HOME/run/ingot.sock until you press Ctrl-C. In another terminal:

  export INGOT_HOME=$INGOT_HOME
  bin/ingot run $model          # a conversation
  bin/ingot ps                  # what is loaded, and what it uses
  bin/ingot --help
TXT
wait "$daemon"
