// Package all is the only list of the model families: importing it registers
// each with models.
package all

import (
	_ "ingot/models/llama" // llama, mistral
)
