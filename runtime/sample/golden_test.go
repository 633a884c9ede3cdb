package sample

import "ingot/runtime/turn"

var (
	goldenPlain   = []turn.TokenID{582, 861, 360, 947, 994, 335, 635, 976, 429, 974, 483, 328}
	goldenAll     = []turn.TokenID{682, 891, 843, 698, 887, 432, 962, 375, 483, 23, 500, 0}
	goldenNucleus = []turn.TokenID{83, 861, 657, 411, 118, 687, 843, 858, 925, 576, 676, 0}
)
