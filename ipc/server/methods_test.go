package server

import (
	"maps"
	"slices"
	"testing"

	"ingot/ipc"
)

// What is documented is served, and nothing else.
func TestEveryDocumentedMethodIsServed(t *testing.T) {
	var documented []string
	for _, m := range ipc.Methods {
		documented = append(documented, m.Name)
	}
	slices.Sort(documented)
	if served := slices.Sorted(maps.Keys(methods)); !slices.Equal(documented, served) {
		t.Errorf("documented %q\nserved %q", documented, served)
	}
}
