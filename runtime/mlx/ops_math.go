package mlx

// Element by element. Shapes broadcast as in NumPy; types promote as in MLX,
// and a scalar made by Scalar or Like keeps the type it is given.

var (
	opNeg          = newOp("negative")
	opAbs          = newOp("abs")
	opExp          = newOp("exp")
	opLog          = newOp("log")
	opLog1p        = newOp("log1p")
	opSqrt         = newOp("sqrt")
	opRsqrt        = newOp("rsqrt")
	opSquare       = newOp("square")
	opTanh         = newOp("tanh")
	opSigmoid      = newOp("sigmoid")
	opErf          = newOp("erf")
	opSin          = newOp("sin")
	opCos          = newOp("cos")
	opFloor        = newOp("floor")
	opReciprocal   = newOp("reciprocal")
	opNot          = newOp("logical_not")
	opSiLU         = newOp("silu")
	opGELU         = newOp("gelu")
	opGELUTanh     = newOp("gelu_tanh")
	opSoftplus     = newOp("softplus")
	opAdd          = newOp("add")
	opSub          = newOp("subtract")
	opMul          = newOp("multiply")
	opDiv          = newOp("divide")
	opFloorDiv     = newOp("floor_divide")
	opMod          = newOp("remainder")
	opPow          = newOp("power")
	opMaximum      = newOp("maximum")
	opMinimum      = newOp("minimum")
	opLess         = newOp("less")
	opLessEqual    = newOp("less_equal")
	opGreater      = newOp("greater")
	opGreaterEqual = newOp("greater_equal")
	opEqual        = newOp("equal")
	opNotEqual     = newOp("not_equal")
	opAnd          = newOp("logical_and")
	opOr           = newOp("logical_or")
	opWhere        = newOp("where")
)

// Neg is -a.
func (s *Scope) Neg(a *Array) *Array { return s.op(opNeg, a).one() }

// Abs is |a|.
func (s *Scope) Abs(a *Array) *Array { return s.op(opAbs, a).one() }

// Exp is e to the a.
func (s *Scope) Exp(a *Array) *Array { return s.op(opExp, a).one() }

// Log is the natural logarithm.
func (s *Scope) Log(a *Array) *Array { return s.op(opLog, a).one() }

// Log1p is log(1 + a).
func (s *Scope) Log1p(a *Array) *Array { return s.op(opLog1p, a).one() }

// Sqrt is the square root.
func (s *Scope) Sqrt(a *Array) *Array { return s.op(opSqrt, a).one() }

// Rsqrt is 1 / sqrt(a).
func (s *Scope) Rsqrt(a *Array) *Array { return s.op(opRsqrt, a).one() }

// Square is a * a.
func (s *Scope) Square(a *Array) *Array { return s.op(opSquare, a).one() }

// Tanh is the hyperbolic tangent.
func (s *Scope) Tanh(a *Array) *Array { return s.op(opTanh, a).one() }

// Sigmoid is 1 / (1 + exp(-a)).
func (s *Scope) Sigmoid(a *Array) *Array { return s.op(opSigmoid, a).one() }

// Erf is the error function.
func (s *Scope) Erf(a *Array) *Array { return s.op(opErf, a).one() }

// Sin is the sine, a in radians.
func (s *Scope) Sin(a *Array) *Array { return s.op(opSin, a).one() }

// Cos is the cosine, a in radians.
func (s *Scope) Cos(a *Array) *Array { return s.op(opCos, a).one() }

// Floor is a rounded down.
func (s *Scope) Floor(a *Array) *Array { return s.op(opFloor, a).one() }

// Reciprocal is 1 / a.
func (s *Scope) Reciprocal(a *Array) *Array { return s.op(opReciprocal, a).one() }

// Not is !a, as bool.
func (s *Scope) Not(a *Array) *Array { return s.op(opNot, a).one() }

// SiLU is a * sigmoid(a).
func (s *Scope) SiLU(a *Array) *Array { return s.op(opSiLU, a).one() }

// GELU is the exact form, a * (1 + erf(a / sqrt 2)) / 2.
func (s *Scope) GELU(a *Array) *Array { return s.op(opGELU, a).one() }

// GELUTanh is the tanh approximation of GELU.
func (s *Scope) GELUTanh(a *Array) *Array { return s.op(opGELUTanh, a).one() }

// Softplus is log(1 + exp(a)), without overflow.
func (s *Scope) Softplus(a *Array) *Array { return s.op(opSoftplus, a).one() }

// Add is a + b.
func (s *Scope) Add(a, b *Array) *Array { return s.op(opAdd, a, b).one() }

// Sub is a - b.
func (s *Scope) Sub(a, b *Array) *Array { return s.op(opSub, a, b).one() }

// Mul is a * b.
func (s *Scope) Mul(a, b *Array) *Array { return s.op(opMul, a, b).one() }

// Div is a / b.
func (s *Scope) Div(a, b *Array) *Array { return s.op(opDiv, a, b).one() }

// FloorDiv is a / b rounded down.
func (s *Scope) FloorDiv(a, b *Array) *Array { return s.op(opFloorDiv, a, b).one() }

// Mod is a - b * floor(a / b).
func (s *Scope) Mod(a, b *Array) *Array { return s.op(opMod, a, b).one() }

// Pow is a to the b.
func (s *Scope) Pow(a, b *Array) *Array { return s.op(opPow, a, b).one() }

// Maximum is the larger.
func (s *Scope) Maximum(a, b *Array) *Array { return s.op(opMaximum, a, b).one() }

// Minimum is the smaller.
func (s *Scope) Minimum(a, b *Array) *Array { return s.op(opMinimum, a, b).one() }

// Less is a < b, as bool.
func (s *Scope) Less(a, b *Array) *Array { return s.op(opLess, a, b).one() }

// LessEqual is a <= b, as bool.
func (s *Scope) LessEqual(a, b *Array) *Array { return s.op(opLessEqual, a, b).one() }

// Greater is a > b, as bool.
func (s *Scope) Greater(a, b *Array) *Array { return s.op(opGreater, a, b).one() }

// GreaterEqual is a >= b, as bool.
func (s *Scope) GreaterEqual(a, b *Array) *Array { return s.op(opGreaterEqual, a, b).one() }

// Equal is a == b, as bool.
func (s *Scope) Equal(a, b *Array) *Array { return s.op(opEqual, a, b).one() }

// NotEqual is a != b, as bool.
func (s *Scope) NotEqual(a, b *Array) *Array { return s.op(opNotEqual, a, b).one() }

// And is a && b, as bool.
func (s *Scope) And(a, b *Array) *Array { return s.op(opAnd, a, b).one() }

// Or is a || b, as bool.
func (s *Scope) Or(a, b *Array) *Array { return s.op(opOr, a, b).one() }

// Where takes a's element where cond holds, else b's.
func (s *Scope) Where(cond, a, b *Array) *Array { return s.op(opWhere, cond, a, b).one() }
