#!/usr/bin/env bash
# Builds every program for macOS on arm64 into dist/darwin-arm64 and checks each import. Works on Linux; nothing runs here.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

[ "$(uname -s)" != Darwin ] || { say "on a Mac 'make build' builds for macOS"; exit 0; }
scripts/darwin/toolchain.sh
export DARWIN=$PWD/.deps/darwin MACOS=14.0
export ZIG; ZIG=$(echo "$DARWIN"/venv/lib/python3*/site-packages/ziglang/zig)
export ZIG_GLOBAL_CACHE_DIR=$DARWIN/cache ZIG_LOCAL_CACHE_DIR=$DARWIN/cache
out=dist/darwin-arm64
mkdir -p $out

textkit() {
  local target=aarch64-apple-darwin
  (cd runtime/textkit/rs && env CC_aarch64_apple_darwin="$DARWIN/bin/zcc" \
    CARGO_TARGET_AARCH64_APPLE_DARWIN_LINKER="$DARWIN/bin/rustld" \
    cargo build --release --locked --quiet --lib --target $target)
}

# Programs without cgo link with Go's own linker, which also signs them.
for p in daemon/ingotd daemon/ingot; do
  GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o $out/ ./$p
done

textkit
GOOS=darwin GOARCH=arm64 CGO_ENABLED=1 CC=$DARWIN/bin/zcc CXX=$DARWIN/bin/zcxx \
  CGO_CXXFLAGS="-O2 -w -fvisibility=hidden -I$DARWIN/mlx/include -I$DARWIN/mlx/include/metal_cpp" \
  CGO_LDFLAGS="-F$DARWIN/frameworks -L$DARWIN/stubs -L$DARWIN/mlx/lib $DARWIN/mlx/lib/libmlx.dylib -Wl,-rpath,@loader_path/../Frameworks" \
  go build -trimpath -tags bundle -ldflags='-s -w' -o $out/ ./runtime/runner/ingot-runner
"$DARWIN/venv/bin/python" scripts/darwin/check.py $out/ingot-runner --mlx "$DARWIN/mlx/lib/libmlx.dylib" \
  --libsystem "$(dirname "$ZIG")/lib/libc/darwin/libSystem.tbd" --libcxx "$DARWIN/libcxx.syms" --minos $MACOS
