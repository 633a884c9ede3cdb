package mlx

// Over one axis, which goes away; the ...Keep forms leave it with length one.

var (
	opSum       = newOp("sum")
	opMean      = newOp("mean")
	opMax       = newOp("max")
	opMin       = newOp("min")
	opAny       = newOp("any")
	opAll       = newOp("all")
	opLogSumExp = newOp("logsumexp")
	opArgMax    = newOp("argmax")
	opArgMin    = newOp("argmin")
	opSort      = newOp("sort")
	opArgSort   = newOp("argsort")
	opArgPart   = newOp("argpartition")
	opCumSum    = newOp("cumsum")
	opCumProd   = newOp("cumprod")
	opSoftmax   = newOp("softmax")
)

// Sum along axis.
func (s *Scope) Sum(a *Array, axis int) *Array { return s.op(opSum, a).ints(axis, 0).one() }

// SumKeep is Sum with the axis kept.
func (s *Scope) SumKeep(a *Array, axis int) *Array { return s.op(opSum, a).ints(axis, 1).one() }

// Mean along axis.
func (s *Scope) Mean(a *Array, axis int) *Array { return s.op(opMean, a).ints(axis, 0).one() }

// MeanKeep is Mean with the axis kept.
func (s *Scope) MeanKeep(a *Array, axis int) *Array { return s.op(opMean, a).ints(axis, 1).one() }

// Max along axis.
func (s *Scope) Max(a *Array, axis int) *Array { return s.op(opMax, a).ints(axis, 0).one() }

// MaxKeep is Max with the axis kept.
func (s *Scope) MaxKeep(a *Array, axis int) *Array { return s.op(opMax, a).ints(axis, 1).one() }

// Min along axis.
func (s *Scope) Min(a *Array, axis int) *Array { return s.op(opMin, a).ints(axis, 0).one() }

// Any reports whether an element along axis holds.
func (s *Scope) Any(a *Array, axis int) *Array { return s.op(opAny, a).ints(axis, 0).one() }

// All reports whether all elements along axis hold.
func (s *Scope) All(a *Array, axis int) *Array { return s.op(opAll, a).ints(axis, 0).one() }

// LogSumExp is log(sum(exp(a))) along axis.
func (s *Scope) LogSumExp(a *Array, axis int) *Array { return s.op(opLogSumExp, a).ints(axis, 0).one() }

// LogSumExpKeep is LogSumExp with the axis kept.
func (s *Scope) LogSumExpKeep(a *Array, axis int) *Array {
	return s.op(opLogSumExp, a).ints(axis, 1).one()
}

// ArgMax is the index of the first largest along axis, uint32.
func (s *Scope) ArgMax(a *Array, axis int) *Array { return s.op(opArgMax, a).ints(axis).one() }

// ArgMin is the index of the first smallest along axis, uint32.
func (s *Scope) ArgMin(a *Array, axis int) *Array { return s.op(opArgMin, a).ints(axis).one() }

// Sort is in rising order along axis.
func (s *Scope) Sort(a *Array, axis int) *Array { return s.op(opSort, a).ints(axis).one() }

// ArgSort is the indices of Sort, uint32.
func (s *Scope) ArgSort(a *Array, axis int) *Array { return s.op(opArgSort, a).ints(axis).one() }

// ArgPartition is indices along axis such that the kth is where Sort would put
// it, with the smaller before and the larger behind in any order.
func (s *Scope) ArgPartition(a *Array, kth, axis int) *Array {
	return s.op(opArgPart, a).ints(kth, axis).one()
}

// CumSum is the running sum along axis, each element included.
func (s *Scope) CumSum(a *Array, axis int) *Array { return s.op(opCumSum, a).ints(axis, 0, 1).one() }

// CumProd is the running product along axis, each element included.
func (s *Scope) CumProd(a *Array, axis int) *Array { return s.op(opCumProd, a).ints(axis, 0, 1).one() }

// Softmax along axis; precise computes half types in float32.
func (s *Scope) Softmax(a *Array, axis int, precise bool) *Array {
	return s.op(opSoftmax, a).ints(axis, flag(precise)).one()
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
