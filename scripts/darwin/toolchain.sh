#!/usr/bin/env bash
# Makes .deps/darwin: what it takes to build for macOS on arm64 from Linux (zig as C++ compiler, stubs of the system's
# libraries, MLX's Metal wheel, Rust's library for that target). Pinned in deps.lock, platform "cross".
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

out=$PWD/.deps/darwin
here=scripts/darwin
rows=$(locked cross)
stamp="$rows $(go version) $(cat $here/* | sha256sum)"
[ "$(cat "$out/stamp" 2>/dev/null)" = "$stamp" ] && exit 0

say "making the toolchain for macOS in .deps/darwin (minutes, once)"
rm -rf "$out"; mkdir -p "$out/bin"
python3 -m venv "$out/venv"
# install PACKAGE VERSION SHA256: into the toolchain's own Python; "-" where a wheel for each Python exists.
install() {
  printf '%s==%s%s\n' "$1" "$2" "$([ "$3" = - ] || echo " --hash=sha256:$3")" > "$out/requirements"
  "$out/venv/bin/pip" install -q --disable-pip-version-check --no-deps --only-binary=:all: -r "$out/requirements" \
    || die "could not fetch $1 $2: the network is needed once"
}
while read -r _ name version _ sum; do
  [ "$name" = mlx-metal ] || install "$name" "$version" "$sum"
done <<< "$rows"
# The Mac's wheel is fetched, not installed: pip on Linux would refuse it.
read -r _ name version tag sum <<< "$(printf '%s\n' "$rows" | awk '$2 == "mlx-metal"')"
printf '%s==%s --hash=sha256:%s\n' "$name" "$version" "$sum" > "$out/requirements"
"$out/venv/bin/pip" download -q --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes --platform "$tag" \
  -d "$out/wheel" -r "$out/requirements" || die "could not fetch $name $version: the network is needed once"
python3 -m zipfile -e "$out"/wheel/*.whl "$out/unpacked"
mv "$out/unpacked/mlx" "$out/mlx"; rm -rf "$out/wheel" "$out/unpacked"

"$out/venv/bin/python" $here/stubs.py "$out" "$out/mlx/lib/libmlx.dylib" "$(go env GOROOT)"
for n in zcc zcxx; do cp $here/zigcc.sh "$out/bin/$n"; chmod +x "$out/bin/$n"; done
cp $here/rustld.sh "$out/bin/rustld"; chmod +x "$out/bin/rustld"
need rustup "it brings Rust's library for macOS"
rustup target add aarch64-apple-darwin >/dev/null 2>&1 || die "rustup could not add aarch64-apple-darwin: the network is needed once"
printf '%s' "$stamp" > "$out/stamp"
