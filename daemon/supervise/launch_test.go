package supervise

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// launched runs a shell as if it were a runner, to its end.
func launched(t *testing.T, script string) (Exit, string) {
	t.Helper()
	var log bytes.Buffer
	p, err := Exec("sh", "-c", script)(zerolog.New(&log))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Conn.Close()
	if _, err := p.Conn.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("a shell sent a frame: %v", err)
	}
	e := p.Wait()
	p.Kill() // too late: harmless
	return e, log.String()
}

func TestHowAProcessEnds(t *testing.T) {
	for script, want := range map[string]string{
		"exit 0":                "exit status 0",
		"echo oops >&2; exit 4": "exit status 4: oops",
		"kill -9 $$":            "signal killed",
		`echo '{"level":"info","message":"all is well"}' >&2; exit 3`:             "exit status 3",
		`echo '{"level":"error","message":"load","error":"no disk"}' >&2; exit 3`: "exit status 3: load: no disk",
	} {
		if e, _ := launched(t, script); e.String() != want {
			t.Errorf("%s: %s, want %s", script, e, want)
		}
	}
}

func TestWhatAProcessSaysIsLogged(t *testing.T) {
	_, log := launched(t, `echo '{"level":"info","message":"all is well"}' >&2; echo last words >&2`)
	for _, want := range []string{`"level":"info","says":"all is well"`, `"level":"warn","says":"last words"`} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in %s", want, log)
		}
	}
}

func TestARunnersEnvironment(t *testing.T) {
	for _, name := range private {
		t.Setenv(name, "1")
	}
	t.Setenv("INGOT_RSRC_LIMIT", "7")
	if e, _ := launched(t, `test -z "$LISTEN_FDS$LISTEN_PID$INGOT_FAULTS$INGOT_TOKEN" && test "$INGOT_RSRC_LIMIT" = 7 && test -S /dev/fd/3 && ! test -e /dev/fd/4 && exit 5`); e.Code != 5 {
		t.Errorf("%s", e)
	}
}

func TestAProgramThatIsNotThere(t *testing.T) {
	if _, err := Exec("/no/such/runner")(zerolog.Nop()); err == nil || !strings.Contains(err.Error(), "/no/such/runner") {
		t.Errorf("%v", err)
	}
}

func TestFaultsAreCountedOverRunners(t *testing.T) {
	f := NewFaults(" kill token 5 ;\nslow step 1..3 1ms;fail load 2")
	if got := f.Text(); got != "kill token 5;slow step 1..3 1ms;fail load 2" {
		t.Error(got)
	}
	f.Fired("kill token 5", 0)
	f.Fired("slow step 1..3 1ms", 2)
	f.Fired("slow step 1..3 1ms", 2) // another runner, which counts from the start
	if got := f.Text(); got != "slow step 1..3 1ms;fail load 2" {
		t.Error(got)
	}
	f.Fired("slow step 1..3 1ms", 1)
	if got := f.Text(); got != "fail load 2" {
		t.Error(got)
	}
	if c := f.Count(); c["slow step 1..3 1ms"] != 3 || c["kill token 5"] != 1 || len(c) != 2 {
		t.Errorf("%v", c)
	}
}

func TestBackoffGrowsToABound(t *testing.T) {
	last := backoff(1)
	for n := 2; n < 20; n++ {
		if b := backoff(n); b < last || b > 5e9 {
			t.Errorf("after %d deaths %v, after %d %v", n-1, last, n, b)
		} else {
			last = b
		}
	}
	if backoff(1) != 0 || backoff(2) != 0 {
		t.Error("turns wait for the first restarts")
	}
}
