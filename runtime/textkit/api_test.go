package textkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/runtime/turn"
)

// tiny is a tokenizer.json of single letters with two added tokens.
const tiny = `{"version":"1.0","truncation":{"direction":"Right","max_length":2,"strategy":"LongestFirst","stride":0},"padding":null,
"added_tokens":[{"id":3,"content":"<end>","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false},
{"id":4,"content":"<think>","special":false,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false}],
"normalizer":null,"pre_tokenizer":null,"post_processor":null,"decoder":{"type":"Fuse"},
"model":{"type":"BPE","dropout":null,"unk_token":"?","continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,
"vocab":{"a":0,"b":1,"?":2},"merges":[]}}`

func openTiny(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := OpenTokenizer([]byte(tiny))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tok.Close)
	return tok
}

func TestVocabulary(t *testing.T) {
	tok := openTiny(t)
	if n := tok.VocabSize(); n != 5 {
		t.Errorf("vocabulary of %d, want 5", n)
	}
	if id, ok := tok.TokenID("<end>"); !ok || id != 3 {
		t.Errorf("id %d, %v", id, ok)
	}
	if _, ok := tok.TokenID("nothing"); ok {
		t.Error("found a token that is not there")
	}
	if s, err := tok.Token(3); err != nil || s != "<end>" {
		t.Errorf("token %q, %v", s, err)
	}
	if b, err := tok.TokenBytes(0); err != nil || string(b) != "a" {
		t.Errorf("bytes %q, %v", b, err)
	}
	for _, id := range []turn.TokenID{5, -1} {
		if _, err := tok.Token(id); err == nil || tok.IsControl(id) {
			t.Errorf("id %d has a token", id)
		}
	}
	if !tok.IsControl(3) || tok.IsControl(4) || tok.IsControl(0) {
		t.Error("only <end> is a control token")
	}
	if c, w := tok.ControlTokens(), tok.AddedWords(); !slices.Equal(c, []string{"<end>"}) || !slices.Equal(w, []string{"<think>"}) {
		t.Errorf("control %q, words %q", c, w)
	}
}

// A file's truncation is a training setting; here it would cut prompts to two ids.
func TestEncodeOptions(t *testing.T) {
	tok := openTiny(t)
	for _, tc := range []struct {
		o    EncodeOptions
		want []turn.TokenID
	}{
		{EncodeOptions{ParseSpecial: true}, []turn.TokenID{0, 3, 1, 4}},
		{EncodeOptions{}, []turn.TokenID{0, 2, 2, 2, 2, 2, 1, 4}},
		{EncodeOptions{ParseSpecial: true, Marks: []int{2}}, []turn.TokenID{0, 2, 2, 2, 2, 2, 1, 4}},
		{EncodeOptions{ParseSpecial: true, Marks: []int{8}}, []turn.TokenID{0, 3, 1, 2, 2, 2, 2, 2, 2, 2}},
		{EncodeOptions{ParseSpecial: true, Marks: []int{1, 6, 7}}, []turn.TokenID{0, 3, 1, 4}},
	} {
		if got, err := tok.Encode("a<end>b<think>", tc.o); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%+v: got %v, %v; want %v", tc.o, got, err, tc.want)
		}
	}
}

func TestEmptyInputs(t *testing.T) {
	tok := openTiny(t)
	if ids, err := tok.Encode("", EncodeOptions{}); err != nil || len(ids) != 0 {
		t.Errorf("got %v, %v", ids, err)
	}
	if s, err := tok.Decode(nil, false); err != nil || s != "" {
		t.Errorf("got %q, %v", s, err)
	}
	if _, ok := tok.TokenID(""); ok {
		t.Error("the empty token exists")
	}
	s := tok.NewStream(false)
	defer s.Close()
	if rest, err := s.Flush(); err != nil || rest != "" {
		t.Errorf("got %q, %v", rest, err)
	}
}

func TestBadInputsAreErrors(t *testing.T) {
	for _, data := range []string{"", "{}", "null", "[", tiny[:200], strings.Repeat("[", 100_000)} {
		if tok, err := OpenTokenizer([]byte(data)); err == nil {
			tok.Close()
			t.Errorf("%.20q is a tokenizer", data)
		} else if errors.Is(err, ErrInternal) {
			t.Errorf("%.20q: %v", data, err)
		}
	}
	if _, err := openTiny(t).Encode("a\xffb", EncodeOptions{}); err == nil || err.Error() != "textkit: encode: not UTF-8 at byte 1" {
		t.Errorf("got %v", err)
	}
	tpl, err := CompileTemplate("{{ x }}")
	if err != nil {
		t.Fatal(err)
	}
	defer tpl.Close()
	for _, ctx := range []string{"", "[]", "{", "1", `{"x":1e999}`, strings.Repeat("[", 100_000)} {
		if _, err := tpl.Render([]byte(ctx), noon); err == nil || errors.Is(err, ErrInternal) {
			t.Errorf("%.20q: got %v", ctx, err)
		}
	}
}

func TestClosedHandles(t *testing.T) {
	tok := openTiny(t)
	s := tok.NewStream(false)
	tok.Close()
	tok.Close()
	if _, err := tok.Encode("a", EncodeOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("encode: %v", err)
	}
	if _, ok := tok.TokenID("a"); ok {
		t.Error("a closed tokenizer knows a token")
	}
	if got, err := s.Step(0); err != nil || got != "a" {
		t.Errorf("a stream outlives its tokenizer: %q, %v", got, err)
	}
	s.Close()
	s.Close()
	if _, err := s.Step(0); !errors.Is(err, ErrClosed) {
		t.Errorf("step: %v", err)
	}
	if _, err := tok.NewStream(false).Flush(); !errors.Is(err, ErrClosed) {
		t.Errorf("stream of a closed tokenizer: %v", err)
	}
	tpl, _ := CompileTemplate("x")
	tpl.Close()
	tpl.Close()
	if _, err := tpl.Render([]byte("{}"), noon); !errors.Is(err, ErrClosed) {
		t.Errorf("render: %v", err)
	}
}

func TestTemplateVariablesAndTime(t *testing.T) {
	tpl, err := CompileTemplate(`{{ strftime_now("%d %b %Y %H:%M:%S.%f") }} {{ x|tojson(separators=(",", ":"), sort_keys=true) }}{% if x is iterable %}!{% endif %}`)
	if err != nil {
		t.Fatal(err)
	}
	defer tpl.Close()
	now := time.Date(2026, 2, 3, 4, 5, 6, 7_000_000, time.FixedZone("east", 5*3600+1800))
	got, err := tpl.Render([]byte(`{"x":{"b":[1.0,"é<"],"a":null}}`), now)
	if want := `03 Feb 2026 04:05:06.007000 {"a":null,"b":[1.0,"é<"]}!`; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestRaisedExceptionIsTheError(t *testing.T) {
	tpl, err := CompileTemplate(`{{ raise_exception("roles must alternate") }}`)
	if err != nil {
		t.Fatal(err)
	}
	defer tpl.Close()
	if _, err = tpl.Render([]byte("{}"), noon); err == nil || !strings.Contains(err.Error(), "roles must alternate") {
		t.Errorf("got %v", err)
	}
}

// Handles are shared by many goroutines, and closed under them.
func TestConcurrentUse(t *testing.T) {
	tok := openReal(t, "smollm2")
	tpl, err := CompileTemplate("{% for m in messages %}{{ m }}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	texts := corpus(t)[:60]
	want := make([]string, len(texts))
	for i, c := range texts {
		ids, err := tok.Encode(c.Text, EncodeOptions{ParseSpecial: true})
		if err != nil {
			t.Fatal(err)
		}
		want[i] = fmt.Sprint(ids)
	}
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i, c := range texts {
				ids, err := tok.Encode(c.Text, EncodeOptions{ParseSpecial: true})
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil || fmt.Sprint(ids) != want[i] {
					t.Errorf("%s: ids differ (%v)", c.Name, err)
				}
				body, _ := json.Marshal(map[string]any{"messages": []string{c.Name, strconv.Itoa(g)}})
				if got, err := tpl.Render(body, noon); !errors.Is(err, ErrClosed) && (err != nil || got != c.Name+strconv.Itoa(g)) {
					t.Errorf("render: %q, %v", got, err)
				}
				if g == 0 && i == len(texts)/2 {
					tpl.Close()
					tok.Close()
				}
			}
		})
	}
	all.Wait()
}

// resident is the memory of the process now, in bytes, less what Go can give back.
func resident(t *testing.T) int {
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0 // not Linux
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// The vocabulary is held once: encoding with special tokens as plain text costs no
// second one, nor do marks.
func TestOneTokenizerCopy(t *testing.T) {
	data := fixture(t, "tokenizers", "gemma3", "tokenizer.json")
	before := resident(t)
	tok, err := OpenTokenizer(data)
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	one := resident(t) - before
	for _, o := range []EncodeOptions{{}, {ParseSpecial: true}, {ParseSpecial: true, Marks: []int{3}}} {
		if _, err := tok.Encode("<bos>text", o); err != nil {
			t.Fatal(err)
		}
	}
	used := resident(t) - before
	t.Logf("262,144 tokens: %d MB when opened, %d MB after every kind of encoding", one>>20, used>>20)
	if used-one > 8<<20 {
		t.Errorf("encoding took %d MB more", (used-one)>>20)
	}
}

// Templates and streams that come and go leave nothing behind.
func TestHandlesAreFreed(t *testing.T) {
	tok := openReal(t, "smollm2")
	churn := func(n int) {
		for range n {
			s := tok.NewStream(true)
			for id := range turn.TokenID(20) {
				if _, err := s.Step(id + 1000); err != nil {
					t.Fatal(err)
				}
			}
			s.Close()
			tpl, err := CompileTemplate("{{ x }}" + strings.Repeat("text", 1000))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tpl.Render([]byte(`{"x":1}`), noon); err != nil {
				t.Fatal(err)
			}
			tpl.Close()
		}
	}
	churn(200)
	// A leak grows every time; what else moves memory does not.
	least := 1 << 30
	for range 5 {
		before := resident(t)
		churn(2000)
		least = min(least, resident(t)-before)
	}
	if least > 1<<20 {
		t.Errorf("at least %d KB grown over 2,000 rounds", least>>10)
	}
}
