"""Text stubs (.tbd, version 4) of the macOS system libraries that a build on Linux links against.

    stubs.py OUT LIBMLX GOROOT

A stub names symbols only. Those of libc++ are what the pinned libmlx.dylib itself takes from it, so they exist on the oldest
macOS that it runs on, and a short list that is as old (libcxx.syms); those of CoreFoundation and Security are read from Go's
own import lines, so that a new Go cannot get ahead of them.
"""
import pathlib
import re
import sys

import lief

FRAMEWORKS = "/System/Library/Frameworks"


def write(path, install_name, symbols):
    path.parent.mkdir(parents=True, exist_ok=True)
    listed = ",\n               ".join(f"'{s}'" for s in sorted(set(symbols)))
    path.write_text(
        "--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-macos, arm64e-macos ]\n"
        f"install-name: '{install_name}'\ncurrent-version: 1\ncompatibility-version: 1\n"
        f"exports:\n  - targets: [ arm64-macos, arm64e-macos ]\n    symbols: [ {listed} ]\n...\n"
    )


def framework(out, name, symbols, version="A"):
    write(out / f"frameworks/{name}.framework/{name}.tbd", f"{FRAMEWORKS}/{name}.framework/Versions/{version}/{name}", symbols)


def go_imports(goroot, framework_name):
    """What Go's crypto/x509 binds from a framework."""
    for f in pathlib.Path(goroot, "src/crypto/x509/internal/macos").glob("*.go"):
        for m in re.finditer(r'cgo_import_dynamic \S+ (\S+) "[^"]*/(\w+)\.framework', f.read_text()):
            if m.group(2) == framework_name:
                yield "_" + m.group(1)


def libcxx(libmlx):
    fat = lief.MachO.parse(libmlx)  # slices dangle without it
    for s in fat.at(0).imported_symbols:
        if s.library and "libc++" in s.library.name:
            yield s.name


def main():
    out, libmlx, goroot = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    framework(out, "CoreFoundation", [*go_imports(goroot, "CoreFoundation"), "___CFConstantStringClassReference"])
    framework(out, "Security", list(go_imports(goroot, "Security")))
    write(out / "stubs/libresolv.tbd", "/usr/lib/libresolv.9.dylib", ["_res_9_nclose", "_res_9_ninit", "_res_9_nsearch"])
    known = [*libcxx(libmlx), *pathlib.Path(__file__).with_name("libcxx.syms").read_text().split()]
    write(out / "stubs/libapplecxx.tbd", "/usr/lib/libc++.1.dylib", known)
    (out / "libcxx.syms").write_text("\n".join(sorted(set(known))))


main()
