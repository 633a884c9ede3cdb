#!/usr/bin/env bash
# textkit.sh CARGO: builds the Rust library of runtime/textkit. Go does not look into libraries when it decides what to
# build anew, but it does look into headers: stamp.h (not kept in git) names the library's content.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

(cd runtime/textkit/rs && "${1:-cargo}" build --release --locked --quiet)
sum=$(python3 -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' \
  runtime/textkit/rs/target/release/libingot_textkit.a)
stamp="// $sum"
[ "$(cat runtime/textkit/stamp.h 2>/dev/null)" = "$stamp" ] || printf '%s\n' "$stamp" > runtime/textkit/stamp.h
