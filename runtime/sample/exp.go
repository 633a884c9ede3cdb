package sample

import "math"

// negligible is where exp is below half a unit in the last place of 1: added
// to a sum that holds exp(0), it changes nothing.
const negligible = -37

// ln2/256 in two parts, the first short enough that its products with the
// integers in use are exact.
const (
	perLn2 = 256 / math.Ln2
	ln2Hi  = 0x1.62e42fep-9
	ln2Lo  = math.Ln2/256 - ln2Hi
)

// powers holds 2^(i/256). Square roots and single products are rounded the
// same everywhere.
var powers = func() (t [256]float64) {
	var root [8]float64 // 2^(1/2), 2^(1/4), ...
	r := 2.0
	for i := range root {
		r = math.Sqrt(r)
		root[i] = r
	}
	for i := range t {
		t[i] = 1
		for b := range root {
			if i&(128>>b) != 0 {
				t[i] *= root[b]
			}
		}
	}
	return t
}()

// exp is e^x for negligible <= x <= 0 to 1e-12, bit for bit the same on
// every platform.
func exp(x float64) float64 {
	n := int(float64(x*perLn2) - 0.5)
	f := float64(n)
	r := (x - float64(f*ln2Hi)) - float64(f*ln2Lo) // |r| <= ln2/512
	p := 0.5 + float64(r*(1.0/6))
	p = 1 + float64(r*p)
	p = 1 + float64(r*p)
	return float64(float64(powers[n&255]*p) * math.Float64frombits(uint64(n>>8+1023)<<52))
}
