package store

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ingot/models/index"
)

// half is the number that a half float means.
func half(h uint16) float64 {
	exp, frac, sign := int(h>>10&31), float64(h&0x3ff), 1.0
	if h&0x8000 != 0 {
		sign = -1
	}
	if exp == 0 {
		return sign * math.Ldexp(frac, -24)
	}
	return sign * math.Ldexp(1+frac/1024, exp-15)
}

// block is a random block of a type, and the 32 numbers that ggml says it
// means.
func block(r *rand.Rand, t index.GGMLType) (raw []byte, want []float64) {
	scale, least := uint16(0x2000+r.IntN(0x1800)), uint16(0xa000+r.IntN(0x1800))
	raw = binary.LittleEndian.AppendUint16(nil, scale)
	if t == index.GGMLQ4_1 {
		raw = binary.LittleEndian.AppendUint16(raw, least)
	}
	want = make([]float64, ggufGroup)
	if t == index.GGMLQ8_0 {
		for i := range want {
			q := int8(r.IntN(256) - 128)
			raw, want[i] = append(raw, byte(q)), half(scale)*float64(q)
		}
		return raw, want
	}
	for i := range 16 {
		b := byte(r.IntN(256))
		raw = append(raw, b)
		for j, q := range []byte{b & 15, b >> 4} {
			if t == index.GGMLQ4_0 {
				want[16*j+i] = half(scale) * (float64(q) - 8)
			} else {
				want[16*j+i] = half(scale)*float64(q) + half(least)
			}
		}
	}
	return raw, want
}

// unpack is MLX's reading of one group.
func unpack(w, scales, biases []byte, bits int) []float64 {
	scale, bias := half(binary.LittleEndian.Uint16(scales)), half(binary.LittleEndian.Uint16(biases))
	out := make([]float64, ggufGroup)
	for i := range out {
		at := i * bits
		q := w[at/8] >> (at % 8)
		if bits == 4 {
			q &= 15
		}
		out[i] = scale*float64(q) + bias
	}
	return out
}

func TestPackedBlocksMeanTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for kind, bits := range map[index.GGMLType]int{index.GGMLQ4_0: 4, index.GGMLQ4_1: 4, index.GGMLQ8_0: 8} {
		for range 200 {
			raw, want := block(r, kind)
			p := &packer{}
			p.block(kind, raw)
			if len(p.w) != ggufGroup*bits/8 {
				t.Fatalf("%v: %d bytes", kind, len(p.w))
			}
			if got := unpack(p.w, p.scales, p.biases, bits); !reflect.DeepEqual(got, want) {
				t.Fatalf("%v: got %v, want %v", kind, got, want)
			}
		}
	}
}

// A model of every supported type, all its tensors where they belong.
func TestImportTypes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	g := &ggufFile{}
	packed := func(kind index.GGMLType, rows int) (out []byte) {
		for range rows {
			raw, _ := block(r, kind)
			out = append(out, raw...)
		}
		return out
	}
	plain := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.IntN(256))
		}
		return b
	}
	embed, down, norm, head := packed(index.GGMLQ8_0, 3), packed(index.GGMLQ4_0, 5), plain(4*32), plain(2*3*32)
	g.tensor("token_embd.weight", uint32(index.GGMLQ8_0), embed, 32, 3)
	g.tensor("blk.0.ffn_down.weight", uint32(index.GGMLQ4_0), down, 32, 5)
	g.tensor("output_norm.weight", uint32(index.GGMLF32), norm, 32)
	g.tensor("output.weight", uint32(index.GGMLF16), head, 32, 3)
	g.tensor("blk.0.attn_v.bias", uint32(index.GGMLBF16), plain(8), 4)
	g.tensor("blk.0.attn_v.weight", uint32(index.GGMLQ4_0), packed(index.GGMLQ4_0, 2), 32, 2)
	dst := filepath.Join(t.TempDir(), "org", "name")
	src := g.write(t, 6, tinyMeta("llama.rope.scaling.type", "linear", "tokenizer.ggml.eos_token_id", uint32(2), "tokenizer.ggml.bos_token_id", uint32(900))...)
	if err := ImportGGUF(src, dst); err != nil {
		t.Fatal(err)
	}
	m, err := index.Inspect(dst, "llama")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"model.norm.weight": norm, "lm_head.weight": head} {
		if !bytes.Equal(content(t, m.Tensors[name]), want) {
			t.Errorf("%s differs", name)
		}
	}
	if q, _ := m.Quant.For("model.embed_tokens"); q.Bits != 8 {
		t.Errorf("embedding has %d bits", q.Bits)
	}
	if q, _ := m.Quant.For("model.layers.0.mlp.down_proj"); q.Bits != 4 || m.Quant.Default.Group != ggufGroup {
		t.Errorf("default packing %+v", m.Quant.Default)
	}
	if x := m.Tensors["model.layers.0.self_attn.v_proj.bias"]; x.Dtype != "BF16" || x.Count() != 4 {
		t.Errorf("bias %+v", x)
	}
	cfg := readAny(t, filepath.Join(dst, "config.json")).(map[string]any)
	if cfg["tie_word_embeddings"] != false || cfg["eos_token_id"] != 2.0 || cfg["bos_token_id"] != nil || cfg["rope_scaling"].(map[string]any)["rope_type"] != "linear" {
		t.Errorf("config %v", cfg)
	}
	sameRows(t, m, "model.embed_tokens", embed, 8)
}

// sameRows checks that a module of one group per row means what its blocks
// mean.
func sameRows(t *testing.T, m *index.Model, module string, blocks []byte, bits int) {
	t.Helper()
	w, s, b := content(t, m.Tensors[module+".weight"]), content(t, m.Tensors[module+".scales"]), content(t, m.Tensors[module+".biases"])
	wide := ggufGroup * bits / 8
	for r := 0; r*wide < len(w); r++ {
		p := &packer{}
		p.block(index.GGMLQ8_0, blocks[r*34:(r+1)*34])
		if !bytes.Equal(w[r*wide:(r+1)*wide], p.w) || !bytes.Equal(s[2*r:2*r+2], p.scales) || !bytes.Equal(b[2*r:2*r+2], p.biases) {
			t.Errorf("%s: row %d differs", module, r)
		}
	}
}

func TestPreTokenizers(t *testing.T) {
	for name, split := range preTokenizers {
		steps := preTokenizer(split)
		last := steps[len(steps)-1]
		if last["type"] != "ByteLevel" {
			t.Errorf("%q does not end in bytes: %v", name, steps)
		}
		own := split != "" && split != "digits"
		if last["use_regex"] == own {
			t.Errorf("%q splits twice, or not at all: %v", name, steps)
		}
	}
}

func TestImportOfBrokenFiles(t *testing.T) {
	good := (&ggufFile{}).write(t, 0, tinyMeta()...)
	for want, meta := range map[string][]any{
		"lacks a key: llama.block_count": {"general.architecture", "llama", "llama.embedding_length", uint32(4), "llama.feed_forward_length", uint32(4),
			"llama.attention.head_count", uint32(1), "llama.context_length", uint32(4)},
		`merge 0: "ab"`:     tinyMeta("tokenizer.ggml.merges", []string{"ab"}),
		"without tokenizer": tinyMeta("tokenizer.ggml.tokens", []string{}),
	} {
		err := ImportGGUF((&ggufFile{}).write(t, 0, meta...), filepath.Join(t.TempDir(), "x"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if err := ImportGGUF(good, filepath.Join(t.TempDir(), "x")); err != nil {
		t.Error(err)
	}
	if err := ImportGGUF(filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "x")); err == nil {
		t.Error("imported a file that is not there")
	}
}
