package server_test

import (
	"os"
	"testing"
)

// descriptors counts this process's open files.
func descriptors(t *testing.T) int {
	t.Helper()
	es, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(es)
}
