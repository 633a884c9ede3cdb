# Shared by the scripts beside it, all of which run from the project's root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() { printf 'error: %s\n' "$*" >&2; exit 1; }
say() { printf '%s\n' "$*" >&2; }

# need COMMAND HOW: ends with a clear word where COMMAND is missing.
need() { command -v "$1" >/dev/null 2>&1 || die "$1 is missing: $2"; }

# locked PLATFORM...: the lock file's rows of these platforms.
locked() {
  awk -v want=" $* " '!/^#/ && NF && index(want, " " $1 " ")' deps.lock
}

# version_at_least HAVE WANT, dotted numbers.
version_at_least() {
  [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}
