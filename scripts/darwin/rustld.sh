#!/bin/bash
# rustc's linker for aarch64-apple-darwin: zig, less the options that it does not know.
args=() skip=
for a in "$@"; do
  if [ -n "$skip" ]; then skip=; continue; fi
  case "$a" in
  -arch | -Wl,-exported_symbols_list) skip=1 ;;
  -mmacosx-version-min=* | -nodefaultlibs) ;;
  *) args+=("$a") ;;
  esac
done
exec "$ZIG" cc -target "aarch64-macos.$MACOS" "${args[@]}"
