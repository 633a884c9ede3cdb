package mlx

import (
	"errors"
	"testing"

	"ingot/runtime/mlx/internal/cabi"
)

func TestFailure(t *testing.T) {
	for s, want := range map[cabi.Status]error{
		cabi.Invalid: ErrInvalid, cabi.Resource: ErrResourceLimit, cabi.Memory: ErrMemory,
		cabi.Launch: ErrLaunch, cabi.DeviceFault: ErrDevice, cabi.WrongThread: ErrWrongThread,
	} {
		if err := failure("eval", s, "why"); !errors.Is(err, want) {
			t.Errorf("status %d is %v, want %v", s, err, want)
		}
	}
	if err := failure("eval", cabi.OK, ""); err != nil {
		t.Errorf("success is %v", err)
	}
}
