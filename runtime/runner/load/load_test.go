package load

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"ingot/models/modeltest"
	"ingot/runtime/runner"
	"ingot/runtime/sched"
	"ingot/runtime/sched/schedtest"
	"ingot/runtime/text"
	"ingot/runtime/wire"
)

func TestTheRealEnginePassesTheSuite(t *testing.T) {
	var told []float64
	m, err := Loader{}.Model(&wire.Hello{Folder: modeltest.Starter(t)}, func(p float64) { told = append(told, p) })
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if len(told) == 0 || told[len(told)-1] != 1 {
		t.Errorf("progress %v", told)
	}
	schedtest.Suite(t, func(testing.TB) sched.Engine { return m.Engine })
	if i := m.Info; i.Family != "llama" || i.Limit == 0 || i.Buffers == 0 || i.Resident == 0 || i.Context == 0 {
		t.Errorf("info %+v", i)
	}
}

func TestLimitsBelowTheWeights(t *testing.T) {
	for want, g := range map[string]wire.Grant{"buffers": {Buffers: 20}, "bytes": {Bytes: 1 << 20}} {
		_, err := Loader{}.Model(&wire.Hello{Folder: modeltest.Starter(t), Grant: g}, func(float64) {})
		var need *runner.NeedError
		if !errors.As(err, &need) || need.Resource != want || need.Need <= need.Have {
			t.Errorf("%+v: %v", g, err)
		}
	}
}

func TestNoModel(t *testing.T) {
	if _, err := (Loader{}).Model(&wire.Hello{Folder: t.TempDir()}, func(float64) {}); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("empty folder: %v", err)
	}
	if _, err := (Loader{}).Words(t.TempDir()); err == nil || !strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("empty folder: %v", err)
	}
}

func TestWords(t *testing.T) {
	w, err := Loader{}.Words(modeltest.Starter(t))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ids, err := w.Encode("Hello, world", true, false)
	if err != nil || len(ids) == 0 {
		t.Fatalf("encode: %v, %v", ids, err)
	}
	if s, err := w.Decode(ids, true); err != nil || s != "Hello, world" {
		t.Errorf("decode: %q, %v", s, err)
	}
	p, err := w.Chat(json.RawMessage(`{"messages":[{"role":"user","content":"Hi<|im_end|>"}]}`), time.Now())
	if err != nil || !strings.HasSuffix(p.Text, "<|im_start|>assistant\n") {
		t.Errorf("chat: %q, %v", p.Text, err)
	}
	if len(w.StopIDs()) == 0 {
		t.Error("no stop ids")
	}
	var te *text.TemplateError
	_, err = w.Chat(json.RawMessage(`{"messages":[]}`), time.Now())
	if err == nil || errors.As(err, &te) {
		t.Errorf("empty chat: %v", err)
	}
	st := w.Stream()
	defer st.Close()
	if s, err := st.Step(ids[0]); err != nil || s != "Hello" {
		t.Errorf("stream: %q, %v", s, err)
	}
}
