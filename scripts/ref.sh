#!/usr/bin/env bash
# Makes .deps/ref, a Python environment with mlx-lm: the reference that tests compare with. Never used at run time.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

rows=$(locked ref)
[ "$(cat .deps/stamp/ref 2>/dev/null)" = "$rows" ] && exit 0

need python3 "the reference is mlx-lm; install Python 3.10 or later"
python3 -c 'import venv, ensurepip' 2>/dev/null || die "python3's venv is missing (Debian: apt-get install python3-venv)"
say "making the reference environment in .deps/ref (minutes, once)"
rm -rf .deps/ref
mkdir -p .deps/stamp
python3 -m venv .deps/ref
printf '%s\n' "$rows" | awk '{ print $2 "==" $3 }' > .deps/ref/requirements
.deps/ref/bin/python -m pip install -q --disable-pip-version-check -r .deps/ref/requirements \
  || die "could not install the reference packages: the network is needed once"
printf '%s\n' "$rows" > .deps/stamp/ref
