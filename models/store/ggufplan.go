package store

import (
	"fmt"
	"strconv"
	"strings"

	"ingot/models/index"
)

// stored is a tensor on its way from GGUF to safetensors.
type stored struct {
	index.GGUFTensor
	name  string // in the safetensors file, with ".weight" or ".bias"
	heads int    // > 0: rotary rows to bring back into halves, per head
	bits  int    // 4 or 8 where it becomes packed; 0: copied as it is
}

// Names of a llama model's tensors in GGUF and in MLX's layout.
var (
	ggufTop = map[string]string{
		"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
	}
	ggufBlock = map[string]string{
		"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
		"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
		"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
	}
)

// plan maps every tensor, or says which it cannot.
func (g *ggufImport) plan(c *ggufConfig) ([]*stored, error) {
	var out []*stored
	for _, t := range g.Tensors {
		s := &stored{GGUFTensor: t}
		if s.name = mlxName(t.Name); s.name == "" {
			return nil, g.unsupported("tensor %s", t.Name)
		}
		switch t.Type {
		case index.GGMLQ4_0, index.GGMLQ4_1:
			s.bits = 4
		case index.GGMLQ8_0:
			s.bits = 8
		case index.GGMLF32, index.GGMLF16, index.GGMLBF16:
		default:
			return nil, g.unsupported("tensor %s: type %v (known: F32, F16, BF16, Q4_0, Q4_1, Q8_0)", t.Name, t.Type)
		}
		if s.bits > 0 && (len(t.Shape) != 2 || !strings.HasSuffix(s.name, ".weight")) {
			return nil, g.unsupported("tensor %s: %v of shape %v", t.Name, t.Type, t.Shape)
		}
		if err := s.setHeads(c); err != nil {
			return nil, fmt.Errorf("%s: %w", g.Path, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// setHeads notes the rows that GGUF keeps as rotary pairs.
func (s *stored) setHeads(c *ggufConfig) error {
	switch {
	case strings.Contains(s.name, ".q_proj."):
		s.heads = c.heads
	case strings.Contains(s.name, ".k_proj."):
		s.heads = c.kv
	default:
		return nil
	}
	if s.heads < 1 || s.Shape[0]%(2*s.heads) != 0 {
		return fmt.Errorf("tensor %s: %d rows for %d heads: %w", s.Name, s.Shape[0], s.heads, index.ErrCorrupt)
	}
	return nil
}

// mlxName is "" for a tensor that no llama model has.
func mlxName(name string) string {
	p := strings.Split(name, ".")
	leaf := p[len(p)-1]
	if leaf != "weight" && leaf != "bias" {
		return ""
	}
	if len(p) == 2 && ggufTop[p[0]] != "" {
		return ggufTop[p[0]] + "." + leaf
	}
	if len(p) != 4 || p[0] != "blk" || ggufBlock[p[2]] == "" {
		return ""
	}
	if n, err := strconv.Atoi(p[1]); err != nil || n < 0 {
		return ""
	}
	return "model.layers." + p[1] + "." + ggufBlock[p[2]] + "." + leaf
}

// row says which source row becomes row r: GGUF keeps the two halves of a
// rotary head interleaved.
func (s *stored) row(r int) int {
	if s.heads == 0 {
		return r
	}
	width := s.Shape[0] / s.heads
	head, at := r/width, r%width
	half, i := at/(width/2), at%(width/2)
	return head*width + 2*i + half
}
