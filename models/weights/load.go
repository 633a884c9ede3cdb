package weights

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"

	"ingot/runtime/mlx"
)

// job is one device buffer and the tensors that fill it.
type job struct {
	into   *mlx.Array // filled in by Load, so that families hold it from the declaration on
	dtype  mlx.Dtype
	shape  []int
	pieces []piece
	shift  float32 // added to every element
}

// piece lays a tensor into a buffer, in elements: block b of it, at from +
// b*skip and block long, goes to at + b*stride.
type piece struct {
	src    *source
	blocks int
	block  int
	from   int
	skip   int
	at     int
	stride int
}

// whole lays all n elements of a tensor to one place.
func whole(t *source, at, n int) piece { return piece{src: t, blocks: 1, block: n, at: at} }

var dtypes = map[string]mlx.Dtype{
	"F16": mlx.Float16, "BF16": mlx.BFloat16, "F32": mlx.Float32,
	"U32": mlx.Uint32, "I32": mlx.Int32, "U16": mlx.Uint16, "U8": mlx.Uint8, "BOOL": mlx.Bool,
}

// Set is the arrays of a loaded model.
type Set struct {
	arrays []*mlx.Array
	Bytes  int64
}

// Tensors is the number of device buffers.
func (s *Set) Tensors() int { return len(s.arrays) }

// Close frees the arrays. Device thread.
func (s *Set) Close() {
	_ = mlx.FreeAll(s.arrays...)
	s.arrays = nil
}

// Load allocates every declared buffer and fills it. Everything that was
// wrong with the declarations is reported at once. Beside the weights
// themselves it holds one chunk per reading goroutine. progress hears 0 to 1.
func (l *Loader) Load(progress func(float64)) (*Set, error) {
	if err := l.model.WeightsComplete(); err != nil {
		return nil, err
	}
	if err := errors.Join(append(l.errs, l.unused())...); err != nil {
		return nil, err
	}
	set := &Set{}
	reads, err := l.allocate(set)
	if err == nil {
		err = run(reads, progress)
	}
	if err == nil {
		err = l.shiftAll()
	}
	if err != nil {
		set.Close()
		return nil, err
	}
	return set, nil
}

// allocate makes the buffers and cuts the work into reads.
func (l *Loader) allocate(set *Set) ([]read, error) {
	files := map[string]int64{}
	for _, t := range l.model.Tensors {
		files[t.File] = max(files[t.File], t.Offset+t.Size)
	}
	if err := intact(files); err != nil {
		return nil, err
	}
	var reads []read
	for i := range l.jobs {
		j := &l.jobs[i]
		a, raw, err := l.dev.NewBuffer(j.dtype, j.shape...)
		if err != nil {
			return nil, l.Room(fmt.Errorf("allocate %v %v: %w", j.dtype, j.shape, err))
		}
		*j.into = *a
		set.arrays = append(set.arrays, j.into)
		set.Bytes += int64(len(raw))
		if len(j.pieces) > 1 || len(j.pieces) == 1 && j.pieces[0].blocks*j.pieces[0].block*j.dtype.Size() < len(raw) {
			clear(raw) // what no piece covers is zero
		}
		for _, p := range j.pieces {
			if reads, err = p.reads(reads, j.dtype, raw); err != nil {
				return nil, err
			}
		}
	}
	return reads, nil
}

// Beside announces a buffer that the family makes of its weights when they
// are loaded, and keeps.
func (l *Loader) Beside(dt mlx.Dtype, shape ...int) {
	l.beside = append(l.beside, sizeOf(dt, shape))
}

// Room tells with an error what the whole model needs.
func (l *Loader) Room(err error) error {
	e := &RoomError{Buffers: len(l.jobs) + len(l.beside), Err: err}
	for i := range l.jobs {
		e.Bytes += sizeOf(l.jobs[i].dtype, l.jobs[i].shape)
	}
	for _, n := range l.beside {
		e.Bytes += n
	}
	return e
}

func sizeOf(dt mlx.Dtype, shape []int) int64 {
	n := int64(dt.Size())
	for _, d := range shape {
		n *= int64(d)
	}
	return n
}

// shiftAll adds what Shift asked for, in place: small vectors only.
func (l *Loader) shiftAll() error {
	for i := range l.jobs {
		j := &l.jobs[i]
		if j.shift == 0 {
			continue
		}
		raw, err := j.into.Raw()
		if err != nil {
			return err
		}
		addTo(j.dtype, raw, j.shift)
	}
	return nil
}

// intact checks that files have not shrunk since they were inspected.
func intact(files map[string]int64) error {
	for path, need := range files {
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		if st.Size() < need {
			return fmt.Errorf("%s: %d bytes, tensors end at %d: %w", path, st.Size(), need, io.ErrUnexpectedEOF)
		}
	}
	return nil
}

// maxRead bounds one read and with it the chunk that widening needs.
const maxRead = 4 << 20

// read is one pread: from[offset, offset+n) of a file into dst, converted
// where the types differ.
type read struct {
	file    string
	offset  int64
	n       int
	dst     []byte
	convert func(dst, src []byte) // nil: as it is
}

func (p *piece) reads(out []read, dt mlx.Dtype, raw []byte) ([]read, error) {
	from, ok := dtypes[p.src.Dtype]
	if !ok {
		return out, &TensorError{Name: p.src.name, Why: p.src.Dtype, Err: ErrDtype}
	}
	convert, ok := converter(from, dt)
	if !ok {
		return out, &TensorError{Name: p.src.name, Why: fmt.Sprintf("%v cannot become %v", from, dt), Err: ErrDtype}
	}
	in, to := from.Size(), dt.Size()
	step := maxRead / 4
	for b := range p.blocks {
		for e := 0; e < p.block; e += step {
			n := min(step, p.block-e)
			d := (p.at + b*p.stride + e) * to
			out = append(out, read{
				file: p.src.File, offset: p.src.Offset + int64(p.from+b*p.skip+e)*int64(in), n: n * in,
				dst: raw[d : d+n*to], convert: convert,
			})
		}
	}
	return out, nil
}

// readers is how many goroutines read: enough to keep a fast disk busy.
func readers() int { return min(8, 2*runtime.GOMAXPROCS(0)) }

// run performs the reads in parallel and reports progress on the caller's
// goroutine. When it returns no goroutine is left.
func run(reads []read, progress func(float64)) error {
	total := 0
	for i := range reads {
		total += reads[i].n
	}
	work, done := make(chan *read), make(chan result, readers())
	var wg sync.WaitGroup
	for range readers() {
		wg.Go(func() { reader(work, done) })
	}
	go func() { wg.Wait(); close(done) }()
	failed := make(chan struct{})
	go feed(reads, work, failed)
	var first error
	sum := 0
	for r := range done {
		if r.err != nil && first == nil {
			first = r.err
			close(failed)
		}
		sum += r.n
		progress(float64(sum) / float64(total))
	}
	return first
}

func feed(reads []read, work chan<- *read, failed <-chan struct{}) {
	defer close(work)
	for i := range reads {
		select {
		case work <- &reads[i]:
		case <-failed:
			return
		}
	}
}

type result struct {
	n   int
	err error
}

// reader keeps its files open and one chunk for conversions.
func reader(work <-chan *read, done chan<- result) {
	files := map[string]*os.File{}
	var chunk []byte
	for r := range work {
		err := r.do(files, &chunk)
		done <- result{r.n, err}
	}
	for _, f := range files {
		f.Close()
	}
}

func (r *read) do(files map[string]*os.File, chunk *[]byte) error {
	f := files[r.file]
	if f == nil {
		var err error
		if f, err = os.Open(r.file); err != nil {
			return err
		}
		files[r.file] = f
	}
	if r.convert == nil {
		return r.full(f, r.dst)
	}
	if cap(*chunk) < r.n {
		*chunk = make([]byte, maxRead)
	}
	src := (*chunk)[:r.n]
	if err := r.full(f, src); err != nil {
		return err
	}
	r.convert(r.dst, src)
	return nil
}

func (r *read) full(f *os.File, into []byte) error {
	if n, err := f.ReadAt(into, r.offset); n < len(into) {
		return fmt.Errorf("read %s at %d: %w", r.file, r.offset, err)
	}
	return nil
}
