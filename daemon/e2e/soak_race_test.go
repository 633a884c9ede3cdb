//go:build race

package e2e

// raced: the race detector watches the client's side here; the programs are
// built without it. A sip of each soak test will do.
const raced = true
