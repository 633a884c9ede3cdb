package mlx

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"ingot/runtime/turn"
)

// outsideCounts names the file of the preloaded instrument's counters, in the
// copy of this test binary that runs under it.
const outsideCounts = "OUTSIDE_COUNTS"

// TestLedgerAgreesWithOutside runs a program under an independent count of the
// same allocations (testdata/outside.cc, put in MLX's allocator's place by the
// dynamic linker) and compares both after every step.
func TestLedgerAgreesWithOutside(t *testing.T) {
	if os.Getenv(outsideCounts) != "" {
		compareWithOutside(t, os.Getenv(outsideCounts))
		return
	}
	dir := t.TempDir()
	so, counts := filepath.Join(dir, "outside.so"), filepath.Join(dir, "counts")
	deps := filepath.Join("..", "..", ".deps", "mlx")
	build := exec.Command("g++", "-std=c++20", "-O2", "-fPIC", "-shared", "testdata/outside.cc",
		"-isystem", filepath.Join(deps, "include"), "-o", so)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(counts, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again := exec.Command(os.Args[0], "-test.run=^TestLedgerAgreesWithOutside$", "-test.v")
	again.Env = append(os.Environ(), "LD_PRELOAD="+so, outsideCounts+"="+counts)
	out, err := again.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func compareWithOutside(t *testing.T, file string) {
	agree := func(when string) error {
		if err := dev.Ledger().Settle(); err != nil {
			return err
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if len(b) < 24 {
			return fmt.Errorf("the instrument wrote %d bytes: it is not in place", len(b))
		}
		outside := [3]turn.Buffers{}
		for i := range outside {
			outside[i] = turn.Buffers(binary.NativeEndian.Uint64(b[8*i:]))
		}
		c := dev.Ledger().Read()
		inside := [3]turn.Buffers{c.Buffers, c.PeakBuffers, c.TotalBuffers}
		if inside != outside {
			return fmt.Errorf("%s: live, peak, total are %v inside and %v outside", when, inside, outside)
		}
		t.Log(when, inside)
		return nil
	}
	withTiny(t, tinyCap, 7, func(m *tiny) error {
		for i := range 8 {
			if i == 5 { // a step that fails half-way
				dev.Ledger().FailAt(9)
			}
			if _, err := m.step(1 + i%3); err != nil {
				if err := m.recover(); err != nil {
					return err
				}
			}
			if err := agree(fmt.Sprint("step ", i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err := agree("the end"); err != nil {
		t.Fatal(err)
	}
}
