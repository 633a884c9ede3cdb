package daemon

import (
	"testing"

	"ingot/daemon/lifecycle"
)

func TestPressureOf(t *testing.T) {
	for psi, want := range map[string]lifecycle.Level{
		"": lifecycle.Calm,
		"some avg10=0.00 avg60=9.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n":   lifecycle.Calm,
		"some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=3.00 avg60=0.00 avg300=0.00 total=0\n":  lifecycle.Short,
		"some avg10=80.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=30.00 avg60=0.00 avg300=0.00 total=0\n": lifecycle.Critical,
		"nonsense\n": lifecycle.Calm,
	} {
		if got := pressureOf(psi); got != want {
			t.Errorf("%q: %d, want %d", psi, got, want)
		}
	}
}
