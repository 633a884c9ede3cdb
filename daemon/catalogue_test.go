package daemon

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ingot/ipc"
	"ingot/runtime/turn"
)

func TestQuestionsAboutTextLoadNoWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, "", "tiny")
		defer s.close()
		text := "abc"
		n, err := s.Count(bg, ipc.CountRequest{Model: "tiny", Text: &text})
		if err != nil || n.Tokens != 3 {
			t.Fatalf("%+v, %v", n, err)
		}
		e, err := s.Encode(bg, ipc.EncodeParams{Model: "tiny"})
		if err != nil || e.Tokens == nil || len(e.Tokens) != 0 {
			t.Errorf("%+v, %v", e, err)
		}
		if m := s.state("tiny"); m.State != ipc.StateCold || s.fleet.Launched() != 1 {
			t.Errorf("%s after %d launches", m.State, s.fleet.Launched())
		}
		time.Sleep(2 * time.Minute)
		if s.fleet.Alive() != 0 {
			t.Error("the text runner stays though nobody asks")
		}
		s.answer("tiny", "tokens 1")
		d, err := s.Decode(bg, ipc.DecodeParams{Model: "tiny", Tokens: []turn.TokenID{'h', 'i'}})
		if err != nil || d.Text != "hi" || s.fleet.Launched() != 2 {
			t.Errorf("%+v, %v, %d launches: the loaded runner was not asked", d, err, s.fleet.Launched())
		}
	})
}

func TestLoadAndUnload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, "", "tiny")
		defer s.close()
		s.fleet.Options.Fail = 1
		_, err := s.Load(bg, ipc.LoadParams{Model: "tiny"})
		s.wantError(err, ipc.ModelFailed)
		if m := s.state("tiny"); m.State != ipc.StateFailed || m.Error == "" {
			t.Errorf("%+v", m)
		}
		if st, _ := s.Status(bg); st.LastError == nil || st.LastError.Model != "tiny" {
			t.Errorf("%+v", st.LastError)
		}
		m, err := s.Load(bg, ipc.LoadParams{Model: "tiny", KeepAlive: "-1"})
		if err != nil || m.State != ipc.StateReady || m.ExpiresS != nil {
			t.Fatalf("%+v, %v", m, err)
		}
		_, err = s.Load(bg, ipc.LoadParams{Model: "tiny", KeepAlive: "soon"})
		s.wantError(err, ipc.InvalidParams)
		time.Sleep(time.Hour)
		v := s.start("tiny", "tokens 10 pause 1s", false)
		if e := s.wantError(s.Unload(bg, "tiny"), ipc.InvalidParams); !strings.Contains(e.Message, "1 open turns") {
			t.Error(e.Message)
		}
		s.finish(v)
		if err := errors.Join(s.Unload(bg, "tiny"), s.Unload(bg, "tiny")); err != nil {
			t.Error(err)
		}
		if s.fleet.Alive() != 0 {
			t.Error("the process is still there")
		}
		s.wantError(s.Unload(bg, "none"), ipc.ModelNotFound)
	})
}

func TestTheCatalogue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, `model = "tiny"`, "tiny", "other")
		defer s.close()
		outside := filepath.Join(t.TempDir(), "elsewhere")
		putModel(t, outside, "far")
		s.answer(filepath.Join(outside, "models", "local", "far"), "tokens 1")
		list, err := s.List(bg)
		if err != nil || len(list.Models) != 3 {
			t.Fatalf("%+v, %v", list, err)
		}
		for _, m := range list.Models {
			if m.Default != (m.Name == "tiny") || m.Family != "llama" || (m.State == ipc.StateReady) != (m.Name == "far") {
				t.Errorf("%+v", m)
			}
		}
		tiny, empty := "tiny", ""
		for _, tc := range []struct {
			p    ipc.AliasParams
			want ipc.Name
		}{
			{ipc.AliasParams{Alias: "fast", Model: &tiny}, ""},
			{ipc.AliasParams{Alias: "fast", Model: &empty}, ipc.InvalidParams},
			{ipc.AliasParams{Alias: "other", Model: &tiny}, ipc.InvalidParams},
			{ipc.AliasParams{Alias: "a b", Model: &tiny}, ipc.InvalidParams},
			{ipc.AliasParams{Alias: "none"}, ipc.ModelNotFound},
		} {
			if err := s.Alias(bg, tc.p); tc.want != "" {
				s.wantError(err, tc.want)
			} else if err != nil {
				t.Error(err)
			}
		}
		_, err = s.Pull(bg, ipc.PullParams{Model: "org/name"}, func(ipc.PullProgress) {})
		s.wantError(err, ipc.ModelNotFound)
		if r, err := s.Pull(bg, ipc.PullParams{Model: "FAST"}, nil); err != nil || r.Model != "tiny" {
			t.Errorf("a model that is here: %+v, %v", r, err)
		}
		_, err = s.Pull(bg, ipc.PullParams{Model: "/none.gguf", As: "x"}, func(ipc.PullProgress) {})
		s.wantError(err, ipc.ModelFailed)
		_, err = s.Pull(bg, ipc.PullParams{Model: "/none.gguf", As: "tiny"}, func(ipc.PullProgress) {})
		s.wantError(err, ipc.InvalidParams)
		if err := s.Remove(bg, "tiny"); err != nil {
			t.Error(err)
		}
		s.wantError(s.Remove(bg, "tiny"), ipc.ModelNotFound)
		_, err = s.Show(bg, "")
		s.wantError(err, ipc.ModelNotFound)
	})
}

func TestAnUnloadEndsALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, "", "tiny")
		defer s.close()
		s.fleet.Options.Load = time.Minute
		failed := make(chan error)
		go func() {
			_, err := s.Load(bg, ipc.LoadParams{Model: "tiny"})
			failed <- err
		}()
		time.Sleep(10 * time.Second)
		if err := s.Unload(bg, "tiny"); err != nil {
			t.Error(err)
		}
		s.wantError(<-failed, ipc.ModelFailed)
		if s.fleet.Alive() != 0 {
			t.Error("its process is still there")
		}
	})
}
