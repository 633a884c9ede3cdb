package qwen3next_test

import (
	"testing"

	"ingot/models/modeltest"
	_ "ingot/models/qwen3next"
)

func TestMain(m *testing.M) { modeltest.Main(m) }

func TestShapes(t *testing.T) {
	modeltest.Families(t,
		modeltest.Case{Name: "experts", Family: "qwen3_next", Args: []string{"--seed", "1"}},
		modeltest.Case{Name: "not packed, some layers dense", Family: "qwen3_next", Args: []string{"--seed", "2", "--none", "--set", "mlp_only_layers=[1]", "--set", "norm_topk_prob=false"}},
		modeltest.Case{Name: "half the layers dense, mixed bits", Family: "qwen3_next", Args: []string{"--seed", "3", "--set", "decoder_sparse_step=2", "--per", "in_proj_ba=8", "--layers", "6"}},
		modeltest.Case{Name: "as published", Family: "qwen3_next", Args: []string{"--seed", "4", "--none", "--publisher"}},
	)
}
