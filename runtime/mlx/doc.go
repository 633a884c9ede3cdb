// Package mlx is Ingot's view of Apple's MLX: arrays, the operations that build
// and evaluate them, the one device thread, and the ledger of its buffers.
//
// It owns the locked OS thread on which every MLX call is made. Device.Do runs a
// function there; a Scope, its operations and everything that evaluates or reads
// an array must be used inside such a function. Elsewhere they answer
// ErrWrongThread. The Ledger and an array's shape may be read anywhere.
//
// An array belongs to exactly one owner: the Scope that made it, until Close, or
// whoever took it out with Keep, until Free. There are no finalizers and no
// global list. The package never panics on what the device does: a Scope keeps
// its first error, later operations of it do nothing, and Eval returns it.
//
//	err := dev.Do(func() error {
//		s := dev.NewScope()
//		defer s.Close()
//		y := s.MatMul(x, s.Transpose(w, 1, 0)) // [N, K] x [K, M]
//		if err := s.Eval(y); err != nil {
//			return err
//		}
//		return y.Float32s(out)
//	})
package mlx
