package textkit

import (
	"strings"
	"testing"
)

// benchText is 400 KB of mixed text, as people write it.
func benchText(b *testing.B) string {
	for _, c := range corpus(b) {
		if c.Name == "long100k_mixed" {
			return strings.Repeat(c.Text, 4)
		}
	}
	b.Fatal("no long text in the corpus")
	return ""
}

func BenchmarkEncode(b *testing.B) {
	text := benchText(b)
	for _, name := range names {
		for kind, o := range map[string]EncodeOptions{"parse": {ParseSpecial: true}, "plain": {}} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				tok := openReal(b, name)
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					if _, err := tok.Encode(text, o); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkStreamStep(b *testing.B) {
	tok := openReal(b, "qwen3")
	ids, err := tok.Encode("The quick brown fox jumps over the lazy dog. 数据 🚀\n", EncodeOptions{})
	if err != nil {
		b.Fatal(err)
	}
	s := tok.NewStream(true)
	defer s.Close()
	for i := 0; b.Loop(); i++ {
		if _, err := s.Step(ids[i%len(ids)]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRender(b *testing.B) {
	chats := golden[map[string]conversation](b, "convs.json.gz")
	for _, name := range []string{"Qwen-Qwen3-0.6B.jinja", "openai-gpt-oss-120b.jinja", "meta-llama-Llama-3.1-8B-Instruct.jinja"} {
		b.Run(name, func(b *testing.B) {
			tpl, err := CompileTemplate(string(fixture(b, "templates", name)))
			if err != nil {
				b.Fatal(err)
			}
			defer tpl.Close()
			for b.Loop() {
				if _, err := tpl.Render(chats["tools_first"], noon); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, name := range []string{"smollm2", "qwen3", "gemma3"} {
		b.Run(name, func(b *testing.B) {
			data := fixture(b, "tokenizers", name, "tokenizer.json")
			for b.Loop() {
				tok, err := OpenTokenizer(data)
				if err != nil {
					b.Fatal(err)
				}
				tok.Close()
			}
		})
	}
}
