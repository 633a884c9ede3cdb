package governor

import "math"

// features is how many terms a cost is a sum of.
const features = 6

type vector [features]float64

func (v vector) dot(o vector) float64 {
	var s float64
	for i := range v {
		s += v[i] * o[i]
	}
	return s
}

// normal is a least-squares problem as its normal equations G x = b.
type normal struct {
	g [features][features]float64
	b vector
}

// add takes in that row . x should be want, with a weight.
func (n *normal) add(row vector, want, weight float64) {
	for i, ri := range row {
		if ri == 0 {
			continue
		}
		for j, rj := range row {
			n.g[i][j] += weight * ri * rj
		}
		n.b[i] += weight * ri * want
	}
}

// solve returns the x >= 0 that fits best: costs never fall when a step
// grows. (Lawson and Hanson, Solving Least Squares Problems, 1974, ch. 23.)
func (n *normal) solve() vector {
	var x vector
	var in [features]bool
	for range 3 * features {
		j, gain := n.steepest(x, in)
		if gain <= 1e-12 {
			break
		}
		in[j] = true
		x = n.settle(x, &in)
	}
	return x
}

// steepest returns the excluded term whose growth helps most.
func (n *normal) steepest(x vector, in [features]bool) (best int, gain float64) {
	for i := range x {
		if in[i] || n.g[i][i] <= 0 {
			continue
		}
		grad := n.b[i]
		for j := range x {
			grad -= n.g[i][j] * x[j]
		}
		if grad /= math.Sqrt(n.g[i][i]); grad > gain {
			best, gain = i, grad
		}
	}
	return best, gain
}

// settle moves from x towards the best fit of the included terms, dropping
// those that would turn negative.
func (n *normal) settle(x vector, in *[features]bool) vector {
	for range features {
		z := n.subset(*in)
		step, worst := 1.0, -1
		for i := range z {
			if in[i] && z[i] <= 0 {
				if s := x[i] / (x[i] - z[i]); worst < 0 || s < step {
					step, worst = s, i
				}
			}
		}
		if worst < 0 {
			return z
		}
		for i := range x {
			x[i] += step * (z[i] - x[i])
		}
		in[worst], x[worst] = false, 0
	}
	return x
}

// subset solves for the included terms alone, by Cholesky's factorization; a
// term that the others already explain stays zero.
func (n *normal) subset(in [features]bool) vector {
	var l [features][features]float64
	var y, x vector
	for i := range features {
		if !in[i] {
			continue
		}
		y[i] = n.b[i]
		for j := range i {
			if l[j][j] == 0 {
				continue
			}
			s := n.g[i][j]
			for k := range j {
				s -= l[i][k] * l[j][k]
			}
			l[i][j] = s / l[j][j]
			y[i] -= l[i][j] * y[j]
		}
		d := n.g[i][i]
		for k := range i {
			d -= l[i][k] * l[i][k]
		}
		if d <= 1e-12*n.g[i][i] {
			y[i] = 0
			continue
		}
		l[i][i] = math.Sqrt(d)
		y[i] /= l[i][i]
	}
	for i := features - 1; i >= 0; i-- {
		if l[i][i] == 0 {
			continue
		}
		s := y[i]
		for k := i + 1; k < features; k++ {
			s -= l[k][i] * x[k]
		}
		x[i] = s / l[i][i]
	}
	return x
}
