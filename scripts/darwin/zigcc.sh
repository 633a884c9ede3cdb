#!/bin/sh
# C and C++ compiler and linker of a darwin/arm64 build made on Linux: zig under the names zcc and zcxx (links to this file).
# Needs ZIG (the zig program), DARWIN (the folder that toolchain.sh makes) and MACOS (the oldest version to run on).
target="-target aarch64-macos.$MACOS"
case "$0" in
*zcxx)
  for a in "$@"; do
    case "$a" in
    -c | -E | -S | -M | -MM | -fsyntax-only)
      # The headers must know the deployment target, or they call libc++ functions that old systems lack.
      exec "$ZIG" c++ $target -U_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS -D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=1 "$@"
      ;;
    esac
  done
  # Linked as C against a stub of the system's libc++: zig's own static one beside it would give every exception two types.
  exec "$ZIG" cc $target "$@" -F"$DARWIN/frameworks" -L"$DARWIN/stubs" -lapplecxx
  ;;
*) exec "$ZIG" cc $target "$@" ;;
esac
