package daemon

import "ingot/runtime/turn"

// fallbackMemory is assumed where the system does not tell: the smallest Mac.
const fallbackMemory turn.Bytes = 8 << 30
