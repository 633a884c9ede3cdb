package qwen35_test

import (
	"testing"

	"ingot/models/modeltest"
	_ "ingot/models/qwen3_5"
)

func TestMain(m *testing.M) { modeltest.Main(m) }

func TestShapes(t *testing.T) {
	modeltest.Families(t,
		modeltest.Case{Name: "dense", Family: "qwen3_5", Args: []string{"--seed", "1"}},
		modeltest.Case{Name: "dense, tied, not packed", Family: "qwen3_5", Args: []string{"--seed", "2", "--none", "--set", "tie_word_embeddings=true"}},
		modeltest.Case{Name: "experts", Family: "qwen3_5_moe", Args: []string{"--seed", "3"}},
		modeltest.Case{Name: "experts, not packed, eight layers", Family: "qwen3_5_moe", Args: []string{"--seed", "4", "--none", "--layers", "8", "--dtype", "bfloat16"}},
		modeltest.Case{Name: "experts, mixed bits, equal heads", Family: "qwen3_5_moe", Args: []string{"--seed", "5", "--bits", "8", "--group", "32", "--per", "in_proj_z=4", "--per", "down_proj=4",
			"--set", "linear_num_key_heads=4", "--set", "linear_value_head_dim=64"}},
		modeltest.Case{Name: "dense, as published", Family: "qwen3_5", Args: []string{"--seed", "6", "--none", "--publisher", "--dtype", "bfloat16"}},
		modeltest.Case{Name: "experts, as published", Family: "qwen3_5_moe", Args: []string{"--seed", "7", "--none", "--publisher", "--shards", "2"}},
	)
}
