package mlx

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// opCase is an operation, the values it must give and their shape.
type opCase struct {
	name  string
	build func(s *Scope) *Array
	want  []float32
	shape []int
}

func runCases(t *testing.T, cases []opCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			on(t, func(s *Scope) error {
				a := c.build(s)
				if err := s.Err(); err != nil {
					return err
				}
				if !slices.Equal(a.Shape(), c.shape) {
					return fmt.Errorf("shape %v, want %v", a.Shape(), c.shape)
				}
				got, err := floats(a)
				if err != nil {
					return err
				}
				return near(got, c.want, 1e-5)
			})
		})
	}
}

func scalarCases(x []float32, f func(float64) float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(f(float64(v)))
	}
	return out
}

func TestUnary(t *testing.T) {
	x := []float32{-2.5, -1, -0.25, 0.5, 1, 3}
	pos := []float32{0.25, 0.5, 1, 2, 3, 9}
	silu := func(v float64) float64 { return v / (1 + math.Exp(-v)) }
	cases := []struct {
		name string
		in   []float32
		op   func(*Scope, *Array) *Array
		f    func(float64) float64
	}{
		{"neg", x, (*Scope).Neg, func(v float64) float64 { return -v }},
		{"abs", x, (*Scope).Abs, math.Abs},
		{"exp", x, (*Scope).Exp, math.Exp},
		{"log", pos, (*Scope).Log, math.Log},
		{"log1p", pos, (*Scope).Log1p, math.Log1p},
		{"sqrt", pos, (*Scope).Sqrt, math.Sqrt},
		{"rsqrt", pos, (*Scope).Rsqrt, func(v float64) float64 { return 1 / math.Sqrt(v) }},
		{"square", x, (*Scope).Square, func(v float64) float64 { return v * v }},
		{"tanh", x, (*Scope).Tanh, math.Tanh},
		{"sigmoid", x, (*Scope).Sigmoid, func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }},
		{"erf", x, (*Scope).Erf, math.Erf},
		{"sin", x, (*Scope).Sin, math.Sin},
		{"cos", x, (*Scope).Cos, math.Cos},
		{"floor", x, (*Scope).Floor, math.Floor},
		{"reciprocal", x, (*Scope).Reciprocal, func(v float64) float64 { return 1 / v }},
		{"not", []float32{0, 1, 2}, (*Scope).Not, func(v float64) float64 { return b2f(v == 0) }},
		{"silu", x, (*Scope).SiLU, silu},
		{"gelu", x, (*Scope).GELU, func(v float64) float64 { return v * (1 + math.Erf(v/math.Sqrt2)) / 2 }},
		{"gelu_tanh", x, (*Scope).GELUTanh, func(v float64) float64 {
			return v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
		}},
		{"softplus", append(slices.Clone(x), 200, -200), (*Scope).Softplus, func(v float64) float64 {
			return math.Max(v, 0) + math.Log1p(math.Exp(-math.Abs(v)))
		}},
	}
	var ops []opCase
	for _, c := range cases {
		ops = append(ops, opCase{c.name, func(s *Scope) *Array { return c.op(s, s.FromFloat32(c.in)) },
			scalarCases(c.in, c.f), []int{len(c.in)}})
	}
	runCases(t, ops)
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func TestBinary(t *testing.T) {
	x, y := []float32{-3, -1, 0, 2, 5, 7}, []float32{2, -1, 4, 0.5, 5, -2}
	cases := []struct {
		name string
		op   func(*Scope, *Array, *Array) *Array
		f    func(a, b float64) float64
	}{
		{"add", (*Scope).Add, func(a, b float64) float64 { return a + b }},
		{"sub", (*Scope).Sub, func(a, b float64) float64 { return a - b }},
		{"mul", (*Scope).Mul, func(a, b float64) float64 { return a * b }},
		{"div", (*Scope).Div, func(a, b float64) float64 { return a / b }},
		{"floordiv", (*Scope).FloorDiv, func(a, b float64) float64 { return math.Floor(a / b) }},
		{"mod", (*Scope).Mod, func(a, b float64) float64 { return a - b*math.Floor(a/b) }},
		{"maximum", (*Scope).Maximum, math.Max},
		{"minimum", (*Scope).Minimum, math.Min},
		{"less", (*Scope).Less, func(a, b float64) float64 { return b2f(a < b) }},
		{"lessequal", (*Scope).LessEqual, func(a, b float64) float64 { return b2f(a <= b) }},
		{"greater", (*Scope).Greater, func(a, b float64) float64 { return b2f(a > b) }},
		{"greaterequal", (*Scope).GreaterEqual, func(a, b float64) float64 { return b2f(a >= b) }},
		{"equal", (*Scope).Equal, func(a, b float64) float64 { return b2f(a == b) }},
		{"notequal", (*Scope).NotEqual, func(a, b float64) float64 { return b2f(a != b) }},
		{"and", (*Scope).And, func(a, b float64) float64 { return b2f(a != 0 && b != 0) }},
		{"or", (*Scope).Or, func(a, b float64) float64 { return b2f(a != 0 || b != 0) }},
		{"swiglu", (*Scope).SwiGLU, func(a, b float64) float64 { return a / (1 + math.Exp(-a)) * b }},
		{"geglu", (*Scope).GeGLU, func(a, b float64) float64 {
			return a / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(a+0.044715*a*a*a))) * b
		}},
	}
	var ops []opCase
	for _, c := range cases {
		want := make([]float32, len(x))
		for i := range x {
			want[i] = float32(c.f(float64(x[i]), float64(y[i])))
		}
		ops = append(ops, opCase{c.name, func(s *Scope) *Array { return c.op(s, s.FromFloat32(x), s.FromFloat32(y)) }, want, []int{6}})
	}
	ops = append(ops,
		opCase{"pow", func(s *Scope) *Array { return s.Pow(s.FromFloat32([]float32{2, 3}), s.Scalar(3)) }, []float32{8, 27}, []int{2}},
		opCase{"broadcast", func(s *Scope) *Array {
			return s.Add(s.FromFloat32([]float32{1, 2}, 2, 1), s.FromFloat32([]float32{10, 20, 30}, 1, 3))
		}, []float32{11, 21, 31, 12, 22, 32}, []int{2, 3}},
		opCase{"where", func(s *Scope) *Array {
			x := s.FromFloat32([]float32{1, -2, 3})
			return s.Where(s.Greater(x, s.Scalar(0)), x, s.Neg(x))
		}, []float32{1, 2, 3}, []int{3}},
	)
	runCases(t, ops)
}

func TestMake(t *testing.T) {
	runCases(t, []opCase{
		{"scalar", func(s *Scope) *Array { return s.Scalar(2.5) }, []float32{2.5}, []int{}},
		{"like", func(s *Scope) *Array { return s.Like(s.FromInt32([]int32{1}), 3) }, []float32{3}, []int{}},
		{"zeros", func(s *Scope) *Array { return s.Zeros(Float16, 2, 2) }, []float32{0, 0, 0, 0}, []int{2, 2}},
		{"full", func(s *Scope) *Array { return s.Full(BFloat16, 1.5, 3) }, []float32{1.5, 1.5, 1.5}, []int{3}},
		{"arange", func(s *Scope) *Array { return s.Arange(Int32, 2, 11, 3) }, []float32{2, 5, 8}, []int{3}},
		{"tri", func(s *Scope) *Array { return s.Tri(Float32, 2, 3, 0) }, []float32{1, 0, 0, 1, 1, 0}, []int{2, 3}},
		{"tril", func(s *Scope) *Array { return s.Tril(ramp(s, 1, 2, 2), -1) }, []float32{0, 0, 2, 0}, []int{2, 2}},
		{"triu", func(s *Scope) *Array { return s.Triu(ramp(s, 1, 2, 2), 1) }, []float32{0, 1, 0, 0}, []int{2, 2}},
		{"astype", func(s *Scope) *Array { return s.AsType(s.FromFloat32([]float32{1.75, -1.75}), Int32) }, []float32{1, -1}, []int{2}},
		{"view", func(s *Scope) *Array { return s.View(s.FromUint32([]uint32{0x3f800000}), Float32) }, []float32{1}, []int{1}},
		{"int32", func(s *Scope) *Array { return s.FromInt32([]int32{-1, 2}, 2, 1) }, []float32{-1, 2}, []int{2, 1}},
		{"uint32", func(s *Scope) *Array { return s.FromUint32([]uint32{7}) }, []float32{7}, []int{1}},
		{"bytes", func(s *Scope) *Array { return s.FromBytes(Uint16, []byte{1, 0, 2, 0}, 2) }, []float32{1, 2}, []int{2}},
		{"bytes without shape", func(s *Scope) *Array { return s.FromBytes(Uint16, []byte{1, 0, 2, 0}) }, []float32{1, 2}, []int{2}},
		{"nothing", func(s *Scope) *Array { return s.FromFloat32(nil, 0, 4) }, nil, []int{0, 4}},
	})
}

func TestShape(t *testing.T) {
	runCases(t, []opCase{
		{"reshape", func(s *Scope) *Array { return s.Reshape(ramp(s, 1, 6), 2, -1) }, []float32{0, 1, 2, 3, 4, 5}, []int{2, 3}},
		{"transpose", func(s *Scope) *Array { return s.Transpose(ramp(s, 1, 2, 3), 1, 0) }, []float32{0, 3, 1, 4, 2, 5}, []int{3, 2}},
		{"swapaxes", func(s *Scope) *Array { return s.SwapAxes(ramp(s, 1, 2, 3), 0, -1) }, []float32{0, 3, 1, 4, 2, 5}, []int{3, 2}},
		{"expand", func(s *Scope) *Array { return s.ExpandDims(ramp(s, 1, 2), 0, -1) }, []float32{0, 1}, []int{1, 2, 1}},
		{"squeeze", func(s *Scope) *Array { return s.Squeeze(ramp(s, 1, 1, 2, 1), 0, 2) }, []float32{0, 1}, []int{2}},
		{"broadcast", func(s *Scope) *Array { return s.Broadcast(ramp(s, 1, 2, 1), 2, 2) }, []float32{0, 0, 1, 1}, []int{2, 2}},
		{"contiguous", func(s *Scope) *Array { return s.Contiguous(s.Transpose(ramp(s, 1, 2, 2), 1, 0)) }, []float32{0, 2, 1, 3}, []int{2, 2}},
		{"copy", func(s *Scope) *Array { return s.Copy(ramp(s, 1, 2)) }, []float32{0, 1}, []int{2}},
		{"slice", func(s *Scope) *Array { return s.Slice(ramp(s, 1, 3, 3), []int{1, 0}, []int{3, 2}) }, []float32{3, 4, 6, 7}, []int{2, 2}},
		{"step", func(s *Scope) *Array { return s.SliceStep(ramp(s, 1, 6), []int{1}, []int{6}, []int{2}) }, []float32{1, 3, 5}, []int{3}},
		{"slice axis", func(s *Scope) *Array { return s.SliceAxis(ramp(s, 1, 2, 3), -1, 1, 2) }, []float32{1, 4}, []int{2, 1}},
		{"update", func(s *Scope) *Array {
			return s.SliceUpdate(s.Zeros(Float32, 2, 3), s.Full(Float32, 7, 2, 1), []int{0, 1}, []int{2, 2})
		}, []float32{0, 7, 0, 0, 7, 0}, []int{2, 3}},
		{"concat", func(s *Scope) *Array { return s.Concat(1, ramp(s, 1, 2, 1), ramp(s, 10, 2, 2)) }, []float32{0, 0, 10, 1, 20, 30}, []int{2, 3}},
		{"concat one", func(s *Scope) *Array { return s.Concat(0, ramp(s, 1, 2)) }, []float32{0, 1}, []int{2}},
		{"stack", func(s *Scope) *Array { return s.Stack(0, ramp(s, 1, 2), ramp(s, 5, 2)) }, []float32{0, 1, 0, 5}, []int{2, 2}},
		{"split", func(s *Scope) *Array { return s.Split(ramp(s, 1, 5), 0, 1, 3)[1] }, []float32{1, 2}, []int{2}},
		{"repeat", func(s *Scope) *Array { return s.Repeat(ramp(s, 1, 2), 2, 0) }, []float32{0, 0, 1, 1}, []int{4}},
		{"tile", func(s *Scope) *Array { return s.Tile(ramp(s, 1, 2), 2, 1) }, []float32{0, 1, 0, 1}, []int{2, 2}},
		{"pad", func(s *Scope) *Array { return s.Pad(ramp(s, 1, 2), 0, 1, 2, -1) }, []float32{-1, 0, 1, -1, -1}, []int{5}},
		{"roll", func(s *Scope) *Array { return s.Roll(ramp(s, 1, 3), 1, 0) }, []float32{2, 0, 1}, []int{3}},
		{"take", func(s *Scope) *Array { return s.Take(ramp(s, 1, 3, 2), s.FromInt32([]int32{2, 0}), 0) }, []float32{4, 5, 0, 1}, []int{2, 2}},
		{"take along", func(s *Scope) *Array {
			return s.TakeAlongAxis(ramp(s, 1, 2, 3), s.FromInt32([]int32{2, 0}, 2, 1), 1)
		}, []float32{2, 3}, []int{2, 1}},
		{"put along", func(s *Scope) *Array {
			return s.PutAlongAxis(s.Zeros(Float32, 2, 2), s.FromInt32([]int32{1, 0}, 2, 1), s.Scalar(9), 1)
		}, []float32{0, 9, 9, 0}, []int{2, 2}},
		{"scatter add", func(s *Scope) *Array {
			return s.ScatterAddAxis(s.Zeros(Float32, 2), s.FromInt32([]int32{1, 1}), s.FromFloat32([]float32{2, 3}), 0)
		}, []float32{0, 5}, []int{2}},
	})
}

func TestReduce(t *testing.T) {
	x := func(s *Scope) *Array { return s.FromFloat32([]float32{3, 1, 2, -1, 5, 0}, 2, 3) }
	lse := func(v ...float64) float32 {
		sum := 0.0
		for _, w := range v {
			sum += math.Exp(w)
		}
		return float32(math.Log(sum))
	}
	runCases(t, []opCase{
		{"sum", func(s *Scope) *Array { return s.Sum(x(s), -1) }, []float32{6, 4}, []int{2}},
		{"sum keep", func(s *Scope) *Array { return s.SumKeep(x(s), 0) }, []float32{2, 6, 2}, []int{1, 3}},
		{"mean", func(s *Scope) *Array { return s.Mean(x(s), 1) }, []float32{2, 4. / 3}, []int{2}},
		{"mean keep", func(s *Scope) *Array { return s.MeanKeep(x(s), 1) }, []float32{2, 4. / 3}, []int{2, 1}},
		{"max", func(s *Scope) *Array { return s.Max(x(s), 1) }, []float32{3, 5}, []int{2}},
		{"max keep", func(s *Scope) *Array { return s.MaxKeep(x(s), 0) }, []float32{3, 5, 2}, []int{1, 3}},
		{"min", func(s *Scope) *Array { return s.Min(x(s), 1) }, []float32{1, -1}, []int{2}},
		{"any", func(s *Scope) *Array { return s.Any(s.Less(x(s), s.Scalar(0)), 1) }, []float32{0, 1}, []int{2}},
		{"all", func(s *Scope) *Array { return s.All(s.Greater(x(s), s.Scalar(0)), 1) }, []float32{1, 0}, []int{2}},
		{"logsumexp", func(s *Scope) *Array { return s.LogSumExp(x(s), 1) }, []float32{lse(3, 1, 2), lse(-1, 5, 0)}, []int{2}},
		{"logsumexp keep", func(s *Scope) *Array { return s.LogSumExpKeep(x(s), 1) }, []float32{lse(3, 1, 2), lse(-1, 5, 0)}, []int{2, 1}},
		{"argmax", func(s *Scope) *Array { return s.ArgMax(x(s), -1) }, []float32{0, 1}, []int{2}},
		{"argmin", func(s *Scope) *Array { return s.ArgMin(x(s), -1) }, []float32{1, 0}, []int{2}},
		{"sort", func(s *Scope) *Array { return s.Sort(x(s), -1) }, []float32{1, 2, 3, -1, 0, 5}, []int{2, 3}},
		{"argsort", func(s *Scope) *Array { return s.ArgSort(x(s), -1) }, []float32{1, 2, 0, 0, 2, 1}, []int{2, 3}},
		{"argpartition", func(s *Scope) *Array { return s.SliceAxis(s.ArgPartition(x(s), 1, -1), 1, 1, 2) }, []float32{2, 2}, []int{2, 1}},
		{"cumsum", func(s *Scope) *Array { return s.CumSum(x(s), 1) }, []float32{3, 4, 6, -1, 4, 4}, []int{2, 3}},
		{"cumprod", func(s *Scope) *Array { return s.CumProd(x(s), 1) }, []float32{3, 3, 6, -1, -5, 0}, []int{2, 3}},
		{"softmax", func(s *Scope) *Array { return s.Softmax(s.FromFloat32([]float32{0, float32(math.Log(3))}), 0, true) }, []float32{0.25, 0.75}, []int{2}},
	})
}
