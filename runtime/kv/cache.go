package kv

import (
	"fmt"

	"ingot/runtime/mlx"
)

// chunk is the least number of positions by which a cache grows.
const chunk = 256

// View is what attention reads after a push: whole buffers, in place.
type View struct {
	K, V *mlx.Array // [1, Heads, capacity, D]; V is K where the layer keeps no values
	Len  int        // rows that count, the new ones included
	Base int        // position of row 0
}

// cache keeps keys and values by position. Row r holds position base+r; base
// is 0 but for windowed caches. Rows at and past the committed length are
// scratch.
type cache struct {
	spec    *Spec
	k, v    *mlx.Array // nil until the first reserve; v stays nil without ValueDim
	base    int
	touched bool // pushed to in the step under way
}

func (c *cache) capacity() int {
	if c.k == nil {
		return 0
	}
	return c.k.Dim(2)
}

// reserve makes room for t rows behind the committed n.
func (c *cache) reserve(s *mlx.Scope, n, t int) error {
	if c.touched {
		return fmt.Errorf("%w: reserve within a step", ErrMisuse)
	}
	rows := n - c.base
	if rows+t <= c.capacity() {
		return nil
	}
	keep := rows
	if c.spec.Kind == KindWindowed {
		keep = min(rows, c.spec.Window)
	}
	return c.rebuild(s, rows-keep, keep, c.grown(keep+t))
}

// grown is the capacity to have for need rows: in whole chunks, a quarter
// more than before. A windowed cache has no reason to double.
func (c *cache) grown(need int) int {
	want := need
	if c.spec.Kind == KindAppend {
		want = max(need, c.capacity()+c.capacity()/4)
	} else {
		want = max(need, min(c.capacity()*2, c.spec.Window+chunk))
	}
	return (want + chunk - 1) / chunk * chunk
}

// rebuild moves rows [from, from+keep) to the start of new buffers.
func (c *cache) rebuild(s *mlx.Scope, from, keep, capacity int) error {
	k, err := c.copyRows(s, c.k, c.spec.KeyDim, from, keep, capacity)
	if err != nil {
		return err
	}
	var v *mlx.Array
	if c.spec.ValueDim > 0 {
		if v, err = c.copyRows(s, c.v, c.spec.ValueDim, from, keep, capacity); err != nil {
			k.Free()
			return err
		}
	}
	base := c.base + from
	c.free()
	c.k, c.v, c.base = k, v, base
	return nil
}

// copyRows returns an evaluated buffer of the capacity that starts with
// rows [from, from+keep) of a. What follows them is zero: no kernel meets a
// number that is none where it reads past the rows that count.
func (c *cache) copyRows(s *mlx.Scope, a *mlx.Array, dim, from, keep, capacity int) (*mlx.Array, error) {
	out, raw, err := s.Device().NewBuffer(c.spec.Dtype, 1, c.spec.Heads, capacity, dim)
	if err != nil {
		return nil, err
	}
	clear(raw)
	if keep == 0 {
		return out, nil
	}
	t := s.Child()
	defer t.Close()
	rows := t.Slice(a, []int{0, 0, from, 0}, []int{1, c.spec.Heads, from + keep, dim})
	out = t.TakeSliceUpdate(out, rows, []int{0, 0, 0, 0}, []int{1, c.spec.Heads, keep, dim})
	if err := t.Eval(out); err != nil {
		_ = out.Free()
		return nil, err
	}
	return out, nil
}

func (c *cache) push(s *mlx.Scope, n int, k, v *mlx.Array) (View, error) {
	t := k.Dim(2)
	at := n - c.base
	if c.touched || at+t > c.capacity() {
		return View{}, fmt.Errorf("%w: push of %d rows at %d into %d (second push: %v)", ErrMisuse, t, at, c.capacity(), c.touched)
	}
	c.touched = true
	c.k = c.write(s, c.k, k, c.spec.KeyDim, at, t)
	if c.v != nil {
		c.v = c.write(s, c.v, v, c.spec.ValueDim, at, t)
	}
	view := View{K: c.k, V: c.v, Len: at + t, Base: c.base}
	if c.v == nil {
		view.V = c.k
	}
	return view, s.Err()
}

func (c *cache) write(s *mlx.Scope, buf, rows *mlx.Array, dim, at, t int) *mlx.Array {
	return s.TakeSliceUpdate(buf, rows, []int{0, 0, at, 0}, []int{1, c.spec.Heads, at + t, dim})
}

func (c *cache) pending(out []*mlx.Array) []*mlx.Array {
	if !c.touched {
		return out
	}
	out = append(out, c.k)
	if c.v != nil {
		out = append(out, c.v)
	}
	return out
}

func (c *cache) rollback() error {
	if !c.touched {
		return nil
	}
	c.touched = false
	var err error
	if c.k, err = mlx.Recover(c.k); err != nil {
		return err
	}
	if c.v != nil {
		c.v, err = mlx.Recover(c.v)
	}
	return err
}

// canTrim reports whether the rows that a sequence of n tokens sees are all
// there.
func (c *cache) canTrim(n int) bool {
	return c.base == 0 || n == 0 || c.base <= n-c.spec.Window+1
}

func (c *cache) fork(s *mlx.Scope, n int) (*cache, error) {
	f := &cache{spec: c.spec, base: c.base}
	if c.k == nil {
		return f, nil
	}
	rows := n - c.base
	capacity := (rows + chunk) / chunk * chunk
	var err error
	if f.k, err = c.copyRows(s, c.k, c.spec.KeyDim, 0, rows, capacity); err != nil {
		return nil, err
	}
	if c.v == nil {
		return f, nil
	}
	if f.v, err = c.copyRows(s, c.v, c.spec.ValueDim, 0, rows, capacity); err != nil {
		f.free()
		return nil, err
	}
	return f, nil
}

func (c *cache) each(f func(*mlx.Array)) {
	if c.k != nil {
		f(c.k)
	}
	if c.v != nil {
		f(c.v)
	}
}

func (c *cache) free() {
	_ = mlx.FreeAll(c.k, c.v)
	c.k, c.v, c.base, c.touched = nil, nil, 0, false
}
