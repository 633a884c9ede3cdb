#!/usr/bin/env bash
# lint.sh GO CARGO PURE...: formatting, vet, staticcheck, clippy, and that the pure packages build for macOS.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
go=$1 cargo=$2; shift 2

unformatted=$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l)
[ -z "$unformatted" ] || die "gofmt would change: $unformatted"
"$go" vet ./...
"$go" tool staticcheck ./...
if [ $# -gt 0 ]; then GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 "$go" vet "$@"; fi
if [ -f runtime/textkit/rs/Cargo.toml ]; then
  (cd runtime/textkit/rs && "$cargo" clippy --release --locked --quiet --all-targets -- -D warnings)
fi
