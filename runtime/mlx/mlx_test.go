package mlx

import (
	"os"
	"testing"
)

var dev *Device

func TestMain(m *testing.M) {
	var err error
	if dev, err = Open(Options{Kind: CPU}); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := dev.Close(); err != nil {
		panic(err)
	}
	os.Exit(code)
}

func TestAdd(t *testing.T) {
	err := dev.Do(func() error {
		s := dev.NewScope()
		defer s.Close()
		y := s.Add(s.FromFloat32([]float32{1, 2, 3}), s.Scalar(1))
		var out [3]float32
		if err := y.Float32s(out[:]); err != nil {
			return err
		}
		t.Log(out, y, dev.Ledger().Read(), dev.Ledger().Supported(), s.Err())
		x := s.Full(Float32, 1, 1024, 1024)
		s.Eval(s.MatMul(x, x))
		return s.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}
