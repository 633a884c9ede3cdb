package mlx

import (
	"errors"
	"testing"
)

// deltaRef is the rule for one head, token by token: state [dv][dk].
func deltaRef(q, k, v, decay, beta []float32, state [][]float64, tokens, dk, dv int) (y []float32) {
	for t := range tokens {
		for i := range dv {
			was := 0.0
			for j := range dk {
				state[i][j] *= float64(decay[t])
				was += state[i][j] * float64(k[t*dk+j])
			}
			delta, out := (float64(v[t*dv+i])-was)*float64(beta[t]), 0.0
			for j := range dk {
				state[i][j] += float64(k[t*dk+j]) * delta
				out += state[i][j] * float64(q[t*dk+j])
			}
			y = append(y, float32(out))
		}
	}
	return y
}

func TestGatedDelta(t *testing.T) {
	on(t, func(s *Scope) error {
		const tokens, dk, dv = 70, 32, 32
		small := func(seed int, shape ...int) *Array { return s.Mul(wave(s, seed, shape...), s.Scalar(0.2)) }
		q, k, v := small(1, 1, tokens, 1, dk), small(2, 1, tokens, 1, dk), small(3, 1, tokens, 1, dv)
		decay, beta := s.Sigmoid(wave(s, 4, 1, tokens, 1)), s.Sigmoid(wave(s, 5, 1, tokens, 1))
		start := small(6, 1, 1, dv, dk)
		y, next := s.GatedDelta(q, k, v, decay, beta, start)
		if err := s.Eval(y, next); err != nil {
			return err
		}
		var vals [6][]float32
		for i, a := range []*Array{q, k, v, decay, beta, start} {
			var err error
			if vals[i], err = floats(a); err != nil {
				return err
			}
		}
		state := make([][]float64, dv)
		for i := range state {
			for _, x := range vals[5][i*dk : (i+1)*dk] {
				state[i] = append(state[i], float64(x))
			}
		}
		want := deltaRef(vals[0], vals[1], vals[2], vals[3], vals[4], state, tokens, dk, dv)
		got, err := floats(y)
		if err != nil {
			return err
		}
		var last []float32
		for _, row := range state {
			for _, x := range row {
				last = append(last, float32(x))
			}
		}
		end, err := floats(next)
		return errors.Join(err, near(got, want, 1e-4), near(end, last, 1e-4))
	})
}
