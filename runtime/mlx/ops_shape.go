package mlx

// Shape and place. Negative axes count from the last.

var (
	opReshape     = newOp("reshape")
	opTranspose   = newOp("transpose")
	opSwapAxes    = newOp("swapaxes")
	opExpandDims  = newOp("expand_dims")
	opSqueeze     = newOp("squeeze")
	opBroadcast   = newOp("broadcast_to")
	opContiguous  = newOp("contiguous")
	opCopy        = newOp("copy")
	opSlice       = newOp("slice")
	opSliceUpdate = newOp("slice_update")
	opConcat      = newOp("concatenate")
	opStack       = newOp("stack")
	opSplit       = newOp("split")
	opRepeat      = newOp("repeat")
	opTile        = newOp("tile")
	opPad         = newOp("pad")
	opRoll        = newOp("roll")
	opTake        = newOp("take")
	opTakeAlong   = newOp("take_along_axis")
	opPutAlong    = newOp("put_along_axis")
	opScatterAdd  = newOp("scatter_add_axis")
)

// Reshape keeps the elements' order; one dimension may be -1.
func (s *Scope) Reshape(a *Array, shape ...int) *Array {
	return s.op(opReshape, a).ints(shape...).one()
}

// Transpose puts a's axis axes[i] at place i.
func (s *Scope) Transpose(a *Array, axes ...int) *Array {
	return s.op(opTranspose, a).ints(axes...).one()
}

// SwapAxes exchanges two axes.
func (s *Scope) SwapAxes(a *Array, i, j int) *Array { return s.op(opSwapAxes, a).ints(i, j).one() }

// ExpandDims puts axes of length one at the given places of the result.
func (s *Scope) ExpandDims(a *Array, axes ...int) *Array {
	return s.op(opExpandDims, a).ints(axes...).one()
}

// Squeeze drops axes of length one.
func (s *Scope) Squeeze(a *Array, axes ...int) *Array { return s.op(opSqueeze, a).ints(axes...).one() }

// Broadcast repeats a to the shape without copying.
func (s *Scope) Broadcast(a *Array, shape ...int) *Array {
	return s.op(opBroadcast, a).ints(shape...).one()
}

// Contiguous is a in row order, copied only where it is not.
func (s *Scope) Contiguous(a *Array) *Array { return s.op(opContiguous, a).one() }

// Copy has a's elements in a buffer of its own.
func (s *Scope) Copy(a *Array) *Array { return s.op(opCopy, a).one() }

// Slice is a[start:stop] on every axis, a view.
func (s *Scope) Slice(a *Array, start, stop []int) *Array {
	return s.op(opSlice, a).ints(len(start)).ints(start...).ints(stop...).one()
}

// SliceStep is a[start:stop:step] on every axis.
func (s *Scope) SliceStep(a *Array, start, stop, step []int) *Array {
	return s.op(opSlice, a).ints(len(start)).ints(start...).ints(stop...).ints(step...).one()
}

// SliceAxis is a[..., start:stop, ...] on one axis, a view.
func (s *Scope) SliceAxis(a *Array, axis, start, stop int) *Array {
	if axis < 0 {
		axis += a.NDim()
	}
	var from, to [8]int
	for i := range a.NDim() {
		to[i] = a.Dim(i)
	}
	if axis < 0 || axis >= a.NDim() {
		if s.run.err != nil {
			return dead
		}
		return s.Fail(&Error{"slice", "no such axis", ErrInvalid})
	}
	from[axis], to[axis] = start, stop
	return s.Slice(a, from[:a.NDim()], to[:a.NDim()])
}

// SliceUpdate is a with u at [start:stop]. It copies a: states that grow use TakeSliceUpdate.
func (s *Scope) SliceUpdate(a, u *Array, start, stop []int) *Array {
	return s.op(opSliceUpdate, a, u).ints(len(start)).ints(start...).ints(stop...).one()
}

// Concat joins arrays along an axis.
func (s *Scope) Concat(axis int, arrs ...*Array) *Array {
	if len(arrs) == 1 {
		return arrs[0]
	}
	return s.op(opConcat, arrs...).ints(axis).one()
}

// Stack joins arrays of one shape along a new axis.
func (s *Scope) Stack(axis int, arrs ...*Array) *Array {
	return s.op(opStack, arrs...).ints(axis).one()
}

// Split cuts a before each of the places along axis: len(at)+1 views.
func (s *Scope) Split(a *Array, axis int, at ...int) []*Array {
	return s.op(opSplit, a).ints(axis).ints(at...).many(len(at) + 1)
}

// Repeat repeats each element n times along axis.
func (s *Scope) Repeat(a *Array, n, axis int) *Array { return s.op(opRepeat, a).ints(n, axis).one() }

// Tile repeats the whole reps[i] times along axis i.
func (s *Scope) Tile(a *Array, reps ...int) *Array { return s.op(opTile, a).ints(reps...).one() }

// Pad puts low and high elements of v around axis.
func (s *Scope) Pad(a *Array, axis, low, high int, v float64) *Array {
	return s.op(opPad, a).ints(axis, low, high).floats(v).one()
}

// Roll shifts along axis, round the end.
func (s *Scope) Roll(a *Array, shift, axis int) *Array {
	return s.op(opRoll, a).ints(shift, axis).one()
}

// Take is a's slices at the indices along axis: axis becomes the shape of idx.
func (s *Scope) Take(a, idx *Array, axis int) *Array { return s.op(opTake, a, idx).ints(axis).one() }

// TakeAlongAxis takes one element per index; idx has a's dimensions.
func (s *Scope) TakeAlongAxis(a, idx *Array, axis int) *Array {
	return s.op(opTakeAlong, a, idx).ints(axis).one()
}

// PutAlongAxis is a with v at the indices, as TakeAlongAxis reads them.
func (s *Scope) PutAlongAxis(a, idx, v *Array, axis int) *Array {
	return s.op(opPutAlong, a, idx, v).ints(axis).one()
}

// ScatterAddAxis is a with v added at the indices; an index may come twice.
func (s *Scope) ScatterAddAxis(a, idx, v *Array, axis int) *Array {
	return s.op(opScatterAdd, a, idx, v).ints(axis).one()
}
