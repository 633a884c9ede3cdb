package mlx

import "strconv"

// Dtype is an array's element type. The values are the bridge's codes.
type Dtype uint8

const (
	Bool Dtype = iota
	Uint8
	Uint16
	Uint32
	Int32
	Float16
	BFloat16
	Float32
	Int64
	Uint64
)

var dtypes = [...]struct {
	name string
	size int
}{
	Bool: {"bool", 1}, Uint8: {"uint8", 1}, Uint16: {"uint16", 2}, Uint32: {"uint32", 4}, Int32: {"int32", 4},
	Float16: {"float16", 2}, BFloat16: {"bfloat16", 2}, Float32: {"float32", 4}, Int64: {"int64", 8}, Uint64: {"uint64", 8},
}

// Size is the bytes of one element.
func (d Dtype) Size() int {
	if int(d) >= len(dtypes) {
		return 0
	}
	return dtypes[d].size
}

func (d Dtype) String() string {
	if int(d) >= len(dtypes) {
		return "dtype(" + strconv.Itoa(int(d)) + ")"
	}
	return dtypes[d].name
}
