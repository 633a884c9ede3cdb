package textkit

import (
	"encoding/json"
	"strings"
	"testing"

	"ingot/runtime/turn"
)

// tokenizerGolden is what the reference (PyPI's tokenizers) says of one tokenizer:
// per text [number of ids, hash of ids, with special tokens added, with special
// tokens as plain text, of the decoded text, of the joined streamed pieces].
type tokenizerGolden struct {
	Cases map[string][6]any
}

// noStream is the hash of a stream that the reference did not make (long texts).
var noStream = short("null")

func TestTokenizersAsReference(t *testing.T) {
	golden := golden[map[string]tokenizerGolden](t, "tok_hashes.json.gz")
	texts := corpus(t)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			tok, differ, streams := openReal(t, name), map[string]int{}, 0
			for _, c := range texts {
				want, ok := golden[name].Cases[c.Name]
				if !ok {
					t.Fatalf("no golden value for %s", c.Name)
				}
				for kind, hash := range observe(t, tok, c.Text, want) {
					if hash[0] != hash[1] {
						differ[kind]++
						t.Errorf("%s of %s differ", kind, c.Name)
					}
					if kind == "stream" {
						streams++
					}
				}
			}
			t.Logf("%d texts, %d streamed, differences: %v", len(texts), streams, differ)
		})
	}
}

// observe gives, per kind of answer, the hash we get and the one we should get.
func observe(t *testing.T, tok *Tokenizer, text string, want [6]any) map[string][2]string {
	t.Helper()
	encode := func(o EncodeOptions) []turn.TokenID {
		ids, err := tok.Encode(text, o)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	ids := encode(EncodeOptions{ParseSpecial: true})
	decoded, err := tok.Decode(ids, false)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][2]string{
		"ids":     {short(pyIDs(ids)), want[1].(string)},
		"special": {short(pyIDs(encode(EncodeOptions{AddSpecial: true, ParseSpecial: true}))), want[2].(string)},
		"plain":   {short(pyIDs(encode(EncodeOptions{}))), want[3].(string)},
		"decode":  {short(pyString(decoded)), want[4].(string)},
	}
	if len(ids) < 30_000 && want[5] != nil && want[5] != noStream {
		got["stream"] = [2]string{short(pyString(streamed(t, tok, ids))), want[5].(string)}
	}
	return got
}

// streamed joins the pieces; like the reference it does not flush, but what a
// flush adds must complete the decoded text.
func streamed(t *testing.T, tok *Tokenizer, ids []turn.TokenID) string {
	t.Helper()
	s := tok.NewStream(false)
	defer s.Close()
	var b strings.Builder
	for _, id := range ids {
		piece, err := s.Step(id)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(piece)
	}
	rest, err := s.Flush()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := tok.Decode(ids, false)
	if err != nil {
		t.Fatal(err)
	}
	if joined := b.String() + rest; joined != whole {
		t.Errorf("streamed %.60q, decoded %.60q", joined, whole)
	}
	return b.String()
}

// conversation is the variables of one chat.
type conversation = json.RawMessage
