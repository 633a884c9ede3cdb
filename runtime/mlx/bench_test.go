package mlx

import "testing"

// BenchmarkOp is what one operation costs to build and to free: Go, the bridge and MLX's node.
func BenchmarkOp(b *testing.B) {
	err := dev.Do(func() error {
		s := dev.NewScope()
		defer s.Close()
		x := s.Full(Float32, 1, 1, 32)
		if err := s.Eval(x); err != nil {
			return err
		}
		b.ReportAllocs()
		for b.Loop() {
			c := s.Child()
			for range 10 {
				c.Reshape(x, 32, 1)
			}
			c.Close()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(10*b.N), "ns/operation")
		return s.Err()
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkMatMul shows which BLAS serves: OpenBLAS gives tens of GFLOP/s a core, the reference one about four.
func BenchmarkMatMul(b *testing.B) {
	const n = 768
	err := dev.Do(func() error {
		s := dev.NewScope()
		defer s.Close()
		x := wave(s, 1, n, n)
		if err := s.Eval(x); err != nil {
			return err
		}
		for b.Loop() {
			c := s.Child()
			if err := c.Eval(c.MatMul(x, x)); err != nil {
				return err
			}
			c.Close()
		}
		b.ReportMetric(2*n*n*n*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
		return s.Err()
	})
	if err != nil {
		b.Fatal(err)
	}
}
