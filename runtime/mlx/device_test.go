package mlx

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
)

func TestWrongThread(t *testing.T) {
	var kept *Array
	on(t, func(s *Scope) error {
		kept = s.Keep(s.Scalar(1))
		return s.Err()
	})
	s := dev.NewScope()
	for name, got := range map[string]error{
		"free":        kept.Free(),
		"read":        kept.Float32s(make([]float32, 1)),
		"eval":        dev.NewScope().Eval(kept),
		"synchronize": dev.NewScope().Synchronize(),
		"recover":     second(Recover(kept)),
	} {
		if !errors.Is(got, ErrWrongThread) {
			t.Errorf("%s: error %v, want %v", name, got, ErrWrongThread)
		}
	}
	if a := s.Add(kept, kept); a.Alive() || !errors.Is(s.Err(), ErrWrongThread) {
		t.Errorf("add gives %v and error %v, want a dead array and %v", a, s.Err(), ErrWrongThread)
	}
	if kept.Dim(0) != 0 || !slices.Equal(kept.Shape(), []int{}) || kept.Dtype() != Float32 || kept.Bytes() != 4 {
		t.Errorf("%v is not readable off the thread", kept)
	}
	on(t, func(s *Scope) error { return kept.Free() })
}

func second[T any](_ T, err error) error { return err }

func TestDo(t *testing.T) {
	want := errors.New("of f")
	if err := dev.Do(func() error { return want }); err != want {
		t.Errorf("error %v, want f's own", err)
	}
	nested := 0
	err := dev.Do(func() error {
		return dev.Do(func() error { nested++; return nil })
	})
	if err != nil || nested != 1 {
		t.Errorf("nested: ran %d times, error %v", nested, err)
	}
}

func TestSecondOpen(t *testing.T) {
	if _, err := Open(Options{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a second device: error %v, want %v", err, ErrInvalid)
	}
}

// TestReopen runs in a process of its own: the other tests share one device.
func TestReopen(t *testing.T) {
	if os.Getenv("MLX_REOPEN") == "" {
		again := exec.Command(os.Args[0], "-test.run=^TestReopen$")
		again.Env = append(os.Environ(), "MLX_REOPEN=1")
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	goroutines := runtime.NumGoroutine()
	for range 3 {
		if err := dev.Close(); err != nil {
			t.Fatal(err)
		}
		if err := dev.Do(func() error { return nil }); !errors.Is(err, ErrClosed) {
			t.Fatalf("Do after Close: error %v, want %v", err, ErrClosed)
		}
		var err error
		if dev, err = Open(Options{Kind: CPU, BufferLimit: 1234}); err != nil {
			t.Fatal(err)
		}
		on(t, func(s *Scope) error { return s.Eval(s.Add(s.Scalar(1), s.Full(Float32, 2, 3))) })
		if n, _ := dev.Ledger().Limits(); n != 1234 {
			t.Fatalf("limit %d, want 1234", n)
		}
	}
	// A function that ends its goroutine, as a test's FailNow does, ends the device, not its caller.
	if err := dev.Do(func() error { runtime.Goexit(); return nil }); err == nil {
		t.Error("no error from a function that ended the thread")
	}
	if err := dev.Do(func() error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("Do on an ended thread: error %v, want %v", err, ErrClosed)
	}
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	var err error
	if dev, err = Open(Options{Kind: CPU}); err != nil {
		t.Fatal(err)
	}
	if n := runtime.NumGoroutine(); n != goroutines {
		t.Errorf("%d goroutines, want %d", n, goroutines)
	}
}

func TestGPUWithoutOne(t *testing.T) {
	if os.Getenv("MLX_GPU") == "" {
		again := exec.Command(os.Args[0], "-test.run=^TestGPUWithoutOne$")
		again.Env = append(os.Environ(), "MLX_GPU=1")
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if dev, err = Open(Options{Kind: GPU}); err != nil {
		t.Log("refused:", err)
		dev, err = Open(Options{Kind: Auto}) // and the process can go on
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestDeviceSaysWhatItIs(t *testing.T) {
	if dev.Kind() != CPU || dev.Kind().String() != "cpu" || GPU.String() != "gpu" || Auto.String() != "auto" {
		t.Errorf("kind %v", dev.Kind())
	}
	if dev.Compute() != Float32 {
		t.Errorf("computes in %v, want float32", dev.Compute())
	}
	if !dev.Ledger().Supported() {
		t.Error("the ledger sees no allocations")
	}
	if n, _ := dev.Ledger().Limits(); n != DefaultBufferLimit {
		t.Errorf("buffer limit %d, want %d", n, DefaultBufferLimit)
	}
	if n := ProcessBytes(); n < 1<<20 || n > 1<<40 {
		t.Errorf("the process occupies %d bytes", n)
	}
	old, err := dev.SetMemoryLimit(1 << 40)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := dev.SetMemoryLimit(old); err != nil || back != 1<<40 {
		t.Errorf("memory limit %d, error %v, want %d", back, err, 1<<40)
	}
	if _, err := dev.SetCacheLimit(1 << 30); err != nil {
		t.Error(err)
	}
}

func TestCloseOnTheThread(t *testing.T) {
	if err := dev.Do(dev.Close); !errors.Is(err, ErrInvalid) {
		t.Errorf("error %v, want %v", err, ErrInvalid)
	}
}
