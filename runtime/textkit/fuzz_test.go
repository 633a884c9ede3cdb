package textkit

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"ingot/runtime/turn"
)

// join streams ids and gives the pieces, then the flushed rest, joined.
func join(t interface{ Fatal(...any) }, tok *Tokenizer, ids []turn.TokenID, skip bool) string {
	s := tok.NewStream(skip)
	defer s.Close()
	var b strings.Builder
	for _, id := range ids {
		piece, err := s.Step(id)
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.ValidString(piece) {
			t.Fatal("a piece is not UTF-8")
		}
		b.WriteString(piece)
	}
	rest, err := s.Flush()
	if err != nil {
		t.Fatal(err)
	}
	return b.String() + rest
}

// Whatever ids a model draws, in whatever order, the stream says what decoding says,
// less a character that is not finished. Both vocabularies spell every byte.
func TestAnyIDsStreamAsTheyDecode(t *testing.T) {
	for _, name := range []string{"smollm2", "qwen3"} {
		tok := openReal(t, name)
		id := rapid.Custom(func(t *rapid.T) turn.TokenID {
			top := rapid.SampledFrom([]int{300, tok.VocabSize() + 10}).Draw(t, "top") // bytes come first
			return turn.TokenID(rapid.IntRange(0, top).Draw(t, "id"))
		})
		rapid.Check(t, func(t *rapid.T) {
			ids, skip := rapid.SliceOfN(id, 0, 40).Draw(t, "ids"), rapid.Bool().Draw(t, "skip")
			whole, err := tok.Decode(ids, skip)
			if err != nil {
				t.Fatal(err)
			}
			got := join(t, tok, ids, skip)
			if got != whole && got+"\uFFFD" != whole {
				t.Fatalf("streamed %q, decoded %q", got, whole)
			}
		})
	}
}

// Where lone bytes have tokens, broken ones decode differently with every neighbour:
// there the stream only has to go on.
func TestLoneBytesNeverEndAStream(t *testing.T) {
	tok := openReal(t, "llama2")
	id := rapid.Custom(func(t *rapid.T) turn.TokenID {
		top := rapid.SampledFrom([]int{258, tok.VocabSize()}).Draw(t, "top")
		return turn.TokenID(rapid.IntRange(0, top).Draw(t, "id"))
	})
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(id, 0, 40).Draw(t, "ids")
		join(t, tok, append(ids, 1919), true) // ▁Hello or the like: whole text again
	})
}

func FuzzEncodeDecode(f *testing.F) {
	for _, s := range []string{"", "Hello, world!", "<|im_start|>user\n", "  \t\n", "é中😀\u200d\ufffd", "a\x00b"} {
		f.Add(s, uint8(3))
	}
	tok := openReal(f, "llama3_1") // bytes in, bytes out: no normalizer, and every byte has a token
	f.Fuzz(func(t *testing.T, s string, mark uint8) {
		for _, o := range []EncodeOptions{{}, {ParseSpecial: true}, {ParseSpecial: true, Marks: []int{int(mark)}}} {
			ids, err := tok.Encode(s, o)
			if err != nil {
				if utf8.ValidString(s) || errors.Is(err, ErrInternal) {
					t.Fatalf("%+v: %v", o, err)
				}
				return
			}
			if back, err := tok.Decode(ids, false); err != nil || back != s {
				t.Fatalf("%+v: %q came back as %q (%v)", o, s, back, err)
			}
			if o.ParseSpecial {
				continue
			}
			if i := slices.IndexFunc(ids, tok.IsControl); i >= 0 {
				t.Fatalf("plain %q holds control id %d", s, ids[i])
			}
		}
	})
}

func FuzzStream(f *testing.F) {
	f.Add([]byte{1, 0, 255, 3, 9}, true)
	tok := openReal(f, "smollm2")
	f.Fuzz(func(t *testing.T, raw []byte, skip bool) {
		var ids []turn.TokenID
		for i := 0; i+1 < len(raw); i += 2 {
			ids = append(ids, turn.TokenID(raw[i])<<8|turn.TokenID(raw[i+1]))
		}
		whole, err := tok.Decode(ids, skip)
		if err != nil {
			t.Fatal(err)
		}
		if got := join(t, tok, ids, skip); got != whole && got+"\uFFFD" != whole {
			t.Fatalf("streamed %q, decoded %q", got, whole)
		}
	})
}

// A template may be anything at all; it ends in text or in an error of its own.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{{ messages|tojson(indent=2) }}", "{% for m in messages %}{{ m.content[::-1] }}{% endfor %}", "{% generation %}{% endgeneration %}", "{{ strftime_now('%Y%') }}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		tpl, err := CompileTemplate(src)
		if err == nil {
			defer tpl.Close()
			_, err = tpl.Render([]byte(`{"messages":[{"role":"user","content":"hi"}],"x":[1,2.5,null,true,{"a":"b"}]}`), noon)
		}
		if errors.Is(err, ErrInternal) || err != nil && strings.Contains(err.Error(), "panic") {
			t.Fatal(err)
		}
	})
}
