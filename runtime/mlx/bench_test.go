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
