// Package all is the only list of the model families: importing it registers
// each with models.
package all

import (
	_ "ingot/models/llama"     // llama, mistral
	_ "ingot/models/qwen3_5"   // qwen3_5, qwen3_5_moe and their text parts
	_ "ingot/models/qwen3next" // qwen3_next
)
