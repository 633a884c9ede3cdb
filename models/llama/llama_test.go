package llama_test

import (
	"testing"

	_ "ingot/models/llama"
	"ingot/models/modeltest"
)

func TestMain(m *testing.M) { modeltest.Main(m) }

func TestShapes(t *testing.T) {
	modeltest.Families(t,
		modeltest.Case{Name: "plain", Family: "llama", Args: []string{"--seed", "1"}},
		modeltest.Case{Name: "llama3 rope, 8 bits", Family: "llama", Args: []string{"--seed", "2", "--bits", "8", "--group", "32", "--set",
			`rope_scaling={"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":64}`}},
		modeltest.Case{Name: "tied, biases, head wider than its share", Family: "llama", Args: []string{"--seed", "3", "--head-dim", "64", "--set", "tie_word_embeddings=true",
			"--set", "attention_bias=true", "--set", "mlp_bias=true"}},
		modeltest.Case{Name: "one kv head, bf16, 3 bits, sharded", Family: "llama", Args: []string{"--seed", "4", "--kv", "1", "--dtype", "bfloat16", "--bits", "3", "--shards", "3"}},
		modeltest.Case{Name: "no quantization, f32, linear rope", Family: "llama", Args: []string{"--seed", "5", "--none", "--dtype", "float32", "--heads", "8", "--kv", "8", "--head-dim", "16",
			"--set", `rope_scaling={"type":"linear","factor":4.0}`}},
		modeltest.Case{Name: "no quantization, f16, traditional rope", Family: "llama", Args: []string{"--seed", "6", "--none", "--set", "rope_traditional=true"}},
		modeltest.Case{Name: "mixed bits", Family: "llama", Args: []string{"--seed", "7", "--bits", "2", "--group", "32", "--per", "v_proj=8", "--per", "down_proj=6", "--per", "up_proj=5", "--per", "lm_head=0"}},
		modeltest.Case{Name: "yarn", Family: "llama", Args: []string{"--seed", "8", "--group", "128", "--set",
			`rope_scaling={"type":"yarn","factor":4.0,"original_max_position_embeddings":64,"mscale":1.0}`}},
		modeltest.Case{Name: "longrope", Family: "llama", Args: []string{"--seed", "9", "--head-dim", "16", "--heads", "6", "--kv", "3", "--hidden", "192", "--set",
			`rope_scaling={"type":"longrope","original_max_position_embeddings":4096,"short_factor":[1,1,1,1,1,1,1,1],"long_factor":[1,1.1,1.3,2,3,5,8,13]}`}},
		modeltest.Case{Name: "sliding and full", Family: "mistral", Args: []string{"--seed", "10", "--set", "sliding_window=32", "--set",
			`layer_types=["sliding_attention","full_attention","sliding_attention","sliding_attention"]`}},
	)
}

func TestStarter(t *testing.T) { modeltest.Run(t, modeltest.Starter(t)) }
