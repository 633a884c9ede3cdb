package mlx

import (
	"errors"
	"runtime"
	"sync"

	"ingot/runtime/mlx/internal/cabi"
	"ingot/runtime/turn"
)

// Kind chooses MLX's backend.
type Kind int

const (
	Auto Kind = Kind(cabi.Auto) // the GPU where there is one
	CPU  Kind = Kind(cabi.CPU)
	GPU  Kind = Kind(cabi.GPU)
)

func (k Kind) String() string {
	switch k {
	case CPU:
		return "cpu"
	case GPU:
		return "gpu"
	}
	return "auto"
}

// DefaultBufferLimit is what MLX assumes of a Metal device that does not say.
const DefaultBufferLimit = 499000

// Options of Open. The zero value opens the best device with its own limits.
type Options struct {
	Kind        Kind
	BufferLimit turn.Buffers // live buffers; 0: what the device says, else DefaultBufferLimit
	ByteLimit   turn.Bytes   // live bytes; 0: none
	Metallib    string       // where mlx.metallib lies, if not beside the library
}

// Device is the locked thread on which MLX lives. There is at most one open.
type Device struct {
	kind   Kind
	info   Info
	ledger *Ledger
	work   chan task
	close  func()        // closes closed, once
	closed chan struct{} // closed when no more work is taken
	ended  chan struct{} // closed when the thread has ended
}

type task struct {
	run  func() error
	done chan error
}

var opened struct {
	sync.Mutex
	dev *Device
}

// Open starts the device thread and installs the ledger before MLX allocates anything.
func Open(o Options) (*Device, error) {
	opened.Lock()
	defer opened.Unlock()
	if opened.dev != nil {
		return nil, &Error{"open", "one device is open already", ErrInvalid}
	}
	if o.Metallib != "" {
		if st, why := cabi.SetMetallib(o.Metallib); st != cabi.OK {
			return nil, failure("open", st, why)
		}
	}
	d := &Device{work: make(chan task), closed: make(chan struct{}), ended: make(chan struct{})}
	d.close = sync.OnceFunc(func() { close(d.closed) })
	d.ledger = &Ledger{dev: d}
	ready := make(chan error)
	go d.serve(o, ready)
	if err := <-ready; err != nil {
		return nil, err
	}
	opened.dev = d
	return d, nil
}

// serve is the device thread.
func (d *Device) serve(o Options, ready chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(d.ended)
	err := d.start(o)
	ready <- err
	if err != nil {
		return
	}
	defer cabi.Close()
	for {
		select {
		case t := <-d.work:
			t.serve()
		case <-d.closed:
			return
		}
	}
}

func (d *Device) start(o Options) error {
	kind, st, why := cabi.Open(int(o.Kind))
	if st != cabi.OK {
		return failure("open", st, why)
	}
	d.kind = Kind(kind)
	d.info = deviceInfo()
	limit := o.BufferLimit
	if limit == 0 {
		limit = turn.Buffers(d.info.ResourceLimit)
	}
	if limit == 0 {
		limit = DefaultBufferLimit
	}
	d.ledger.SetLimits(limit, o.ByteLimit)
	return nil
}

// errEnded is what a caller hears whose function ended the device's goroutine
// (runtime.Goexit, which a test's FailNow calls).
var errEnded = errors.New("function ended the device's goroutine")

func (t task) serve() {
	err := errEnded
	defer func() { t.done <- err }()
	err = t.run()
}

// Do runs f on the device thread and waits for it. From there it runs f at once.
// f must not end its goroutine.
func (d *Device) Do(f func() error) error {
	if cabi.OnThread() {
		return f()
	}
	t := task{f, make(chan error, 1)}
	select {
	case d.work <- t:
		return <-t.done
	case <-d.closed:
	case <-d.ended:
	}
	return ErrClosed
}

// Close ends the device thread after what it is doing. Free everything first.
// It must not be called on the device thread.
func (d *Device) Close() error {
	if cabi.OnThread() {
		return &Error{"close", "called on the device thread", ErrInvalid}
	}
	d.close()
	<-d.ended
	opened.Lock()
	defer opened.Unlock()
	if opened.dev == d {
		opened.dev = nil
	}
	return nil
}

// Ledger counts the device's buffers.
func (d *Device) Ledger() *Ledger { return d.ledger }

// Kind is the backend that Open chose.
func (d *Device) Kind() Kind { return d.kind }

// Info is what the device said of itself at Open.
func (d *Device) Info() Info { return d.info }

// Compute is the type that models compute in: Float32 on the CPU backend, whose
// half types are slow; elsewhere 0, and the checkpoint's own type serves.
func (d *Device) Compute() Dtype {
	if d.kind == CPU {
		return Float32
	}
	return 0
}

// Handles counts the arrays that were not freed, in scopes or kept.
func (d *Device) Handles() int64 { return cabi.Handles() }
