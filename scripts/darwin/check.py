"""Check a Mach-O program built without a Mac: everything that it imports must exist on the oldest macOS.

    check.py PROGRAM --mlx libmlx.dylib --libsystem libSystem.tbd --libcxx FILE --minos 14.0

Prints where the imports come from and exits 1 for one that its library is not known to export, for a build path or an
absolute rpath inside, for a missing signature, or for another minimum system.
"""
import argparse
import re
import sys

import lief


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    for name in ("--mlx", "--libsystem", "--libcxx", "--minos"):
        p.add_argument(name, required=True)
    return p.parse_args()


def exports(a):
    """Known exports, by a part of the library's path."""
    fat = lief.MachO.parse(a.mlx)
    system = re.findall(r"[\s\['](_[A-Za-z0-9_$.]+)", open(a.libsystem).read())
    return {
        "libmlx": {s.name for s in fat.at(0).exported_symbols},
        "libSystem": {*system, "dyld_stub_binder"},
        "libc++": set(open(a.libcxx).read().split()),
    }


def libraries(binary):
    own = lief.MachO.LoadCommand.TYPE.ID_DYLIB
    return [lib.name for lib in binary.libraries if lib.command != own]


def imports(binary):
    """(library, symbol) of each import, by the two-level namespace's ordinal."""
    libs = libraries(binary)
    for s in binary.imported_symbols:
        o = (s.description >> 8) & 0xFF
        yield (libs[o - 1] if 0 < o <= len(libs) else f"ordinal {o}"), s.name


def faults(binary, a):
    known, count = exports(a), {}
    for lib, name in imports(binary):
        count[lib] = count.get(lib, 0) + 1
        key = next((k for k in known if k in lib), None)
        if key and name not in known[key]:
            yield f"{lib} does not export {name}"
    for lib, n in sorted(count.items()):
        print(f"{n:6d} imports from {lib}" + ("" if any(k in lib for k in known) else " (not checked)"))
    for c in binary.commands:
        if isinstance(c, lief.MachO.RPathCommand) and not c.path.startswith("@"):
            yield f"absolute rpath {c.path}"
        if isinstance(c, lief.MachO.BuildVersion) and ".".join(map(str, c.minos[:2])) != a.minos:
            yield f"runs on macOS {c.minos}, not on {a.minos}"
    if not binary.has_code_signature:
        yield "not signed"


def main():
    a = arguments()
    fat = lief.MachO.parse(a.program)  # keep it: slices dangle without it
    bad = list(faults(fat.at(0), a))
    for b in bad:
        print("FAULT", a.program, b)
    sys.exit(1 if bad else 0)


main()
