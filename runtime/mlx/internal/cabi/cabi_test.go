package cabi

import "testing"

// The texts are MLX's own, as its backends throw them.
func TestClassify(t *testing.T) {
	for _, c := range []struct {
		what    string
		running bool
		want    Status
	}{
		{"[metal::malloc] Resource limit (499000) exceeded.", true, Resource},
		{"[metal::malloc] Resource limit (499000) exceeded.", false, Resource},
		{"[malloc] Unable to allocate 12 bytes.", true, Memory},
		{"[metal::malloc] Attempting to allocate 99 bytes which is greater than the maximum allowed buffer size of 9 bytes.", true, Memory},
		{"[METAL] Command buffer execution failed: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)", true, Memory},
		{"cudaMallocAsync(&data, size, stream) failed: out of memory", true, Memory},
		{"cuGraphAddKernelNode(&node, graph, NULL, 0, &params) failed: invalid argument", true, Launch},
		{"[METAL] Command buffer execution failed: Caused GPU Hang Error (00000003:kIOGPUCommandBufferCallbackErrorHang)", true, DeviceFault},
		{"There is no Stream(cpu, 0) in current thread.", true, DeviceFault},
		{"[matmul] Last dimension of first input with shape (2,3) must match second to last dimension.", false, Invalid},
	} {
		if got := Classify(c.what, c.running); got != c.want {
			t.Errorf("%q is of kind %d, want %d", c.what, got, c.want)
		}
	}
}

func TestFullCall(t *testing.T) {
	c := new(Call)
	c.Begin(0)
	fill := func(name string, limit int, add func() bool) {
		for i := range limit {
			if !add() {
				t.Fatalf("%s %d of %d refused", name, i, limit)
			}
		}
		if add() {
			t.Errorf("more than %d %s taken", limit, name)
		}
	}
	fill("inputs", MaxIn, func() bool { return c.In(1) })
	fill("integers", MaxInts, func() bool { return c.Int(-1) })
	c.Begin(0)
	if c.Int(1<<31) || c.Int(-1<<31-1) || !c.Int(1<<31-1) || !c.Int(-1<<31) {
		t.Error("the border of 32 bits is elsewhere")
	}
}

func TestUnknownOperation(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an operation without a row was found")
		}
	}()
	MustOp("no such operation")
}
