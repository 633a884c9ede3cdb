package sample

import "math/bits"

// philox is Philox4x32 with 10 rounds: Salmon et al., Parallel Random
// Numbers: As Easy as 1, 2, 3 (SC 2011). A function of key and counter alone.
func philox(key [2]uint32, c [4]uint32) [4]uint32 {
	for range 10 {
		hi0, lo0 := bits.Mul32(0xD2511F53, c[0])
		hi1, lo1 := bits.Mul32(0xCD9E8D57, c[2])
		c = [4]uint32{hi1 ^ c[1] ^ key[0], lo1, hi0 ^ c[3] ^ key[1], lo0}
		key[0] += 0x9E3779B9
		key[1] += 0xBB67AE85
	}
	return c
}

// uniform is the random number in [0, 1) of a position of a choice.
func uniform(seed uint64, choice uint32, pos uint64) float64 {
	r := philox([2]uint32{uint32(seed), uint32(seed >> 32)}, [4]uint32{uint32(pos), uint32(pos >> 32), choice, 0})
	return float64((uint64(r[1])<<32|uint64(r[0]))>>11) / (1 << 53)
}
