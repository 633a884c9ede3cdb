package governor

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"ingot/runtime/turn"
)

var update = flag.Bool("update", false, "write the plans of the traces anew")

// TestTraces replays testdata/*.txtar: readings in, plans out. The comment of
// each says what it shows. The file "readings" has one line each of
//
//	config layers=40 width=0 cap=0 maxstep=2s ridestep=200ms
//	limits buffers=499000 bytes=0 resident=1600 residentbytes=0
//	cost buffers 0 0 240 0 0 0     of a step: constant, per part of the model, per 1024 tokens, ...
//	cost bytes ...                 (see shape.terms)
//	cost seconds ...
//	live 500                       buffers of states, beyond the weights
//	keep 3 100                     prefix entries and the buffers of each
//	cached 4000                    buffers in MLX's cache; unsettled: some live ones are on their way out
//	noise 0.03
//	launch 8192                    rows that the device starts
//	prompt 84612 cap=0 decode=0 grid=0 context=0 steps=0     prefill it, or so many steps of it
//	decode 8 steps=100 lazy=0      steps of decode rows only
//	over 3                         the next steps need so many times as much (a spike); slow 5 likewise for time
//
// and "plans" what came of each prompt: a line for every change of plan.
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d traces, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := replay(string(ar.Files[0].Data))
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				ar.Files = append(ar.Files[:1], txtar.File{Name: "plans", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if len(ar.Files) < 2 || got != string(ar.Files[1].Data) {
				t.Errorf("plans changed (-update writes them anew):\n%s", got)
			}
		})
	}
}

// tracer is one trace being replayed.
type tracer struct {
	p      plant
	g      *Governor
	out    strings.Builder
	cached turn.Buffers
	loose  bool
	last   string
	times  int
}

func replay(text string) (string, error) {
	tr := &tracer{p: plant{layers: 40, rng: rand.New(rand.NewPCG(1, 2))}, g: New(Config{Layers: 40})}
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if f := strings.Fields(line); len(f) > 0 {
			if err := tr.line(f[0], f[1:]); err != nil {
				return "", fmt.Errorf("line %d: %q: %w", n+1, line, err)
			}
		}
	}
	return tr.out.String(), nil
}

// args are the words of a line: numbers by name, or by place.
type args map[string]float64

func parse(words []string) (args, error) {
	a := args{}
	for i, w := range words {
		name, value, named := strings.Cut(w, "=")
		if !named {
			name, value = strconv.Itoa(i), w
		}
		if d, err := time.ParseDuration(value); err == nil && strings.HasSuffix(value, "s") {
			a[name] = float64(d)
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil && i > 0 {
			return nil, err
		}
		a[name] = v
	}
	return a, nil
}

func (a args) int(name string) int { return int(a[name]) }

func (tr *tracer) line(word string, words []string) error {
	a, err := parse(words)
	if err != nil {
		return err
	}
	p := &tr.p
	switch word {
	case "config":
		p.layers = a.int("layers")
		tr.g = New(Config{Layers: p.layers, Width: a.int("width"), Cap: a.int("cap"),
			MaxStep: time.Duration(a["maxstep"]), RideStep: time.Duration(a["ridestep"])})
	case "limits":
		p.limits = Limits{turn.Buffers(a["buffers"]), turn.Bytes(a["bytes"]), turn.Buffers(a["resident"]), turn.Bytes(a["residentbytes"])}
	case "cost":
		v := map[string]*vector{"buffers": &p.buffers, "bytes": &p.bytes, "seconds": &p.seconds}[words[0]]
		for i := range v {
			v[i] = a[strconv.Itoa(i+1)]
		}
	case "live":
		p.states = turn.Buffers(a["0"])
	case "keep":
		p.kept = nil
		for range a.int("0") {
			p.kept = append(p.kept, Kept{Buffers: turn.Buffers(a["1"])})
		}
	case "cached":
		tr.cached = turn.Buffers(a["0"])
	case "unsettled":
		tr.loose = true
	case "noise":
		p.noise = a["0"]
	case "launch":
		p.launch = a.int("0")
	case "over":
		p.over = a["0"]
	case "slow":
		p.slow = a["0"]
	case "prompt":
		tr.run(a, a.int("0"), 0, strings.Join(words, " "))
	case "decode":
		tr.run(a, 0, a.int("0"), strings.Join(words, " "))
	default:
		return fmt.Errorf("unknown word %q", word)
	}
	return nil
}

// run takes steps until the prompt is done, or so many as were asked for.
func (tr *tracer) run(a args, remaining, rows int, title string) {
	fmt.Fprintf(&tr.out, "> %s\n", title)
	ask := Ask{Remaining: remaining, Decode: max(rows, a.int("decode")), Cap: a.int("cap"), Grid: a.int("grid"), Context: a.int("context"), Lazy: a.int("lazy")}
	for n := 1; n < 10000; n++ {
		ask.Limits, ask.Level, ask.Kept = tr.p.limits, tr.p.level(), tr.p.kept
		ask.Level.Cached, ask.Level.Unsettled = tr.cached, tr.loose
		pl := tr.g.Next(ask)
		if pl.Refusal != nil {
			tr.note(fmt.Sprintf("refused: need %d, have %d, width %d", pl.Refusal.Need, pl.Refusal.Have, pl.Refusal.Width))
			break
		}
		tr.pull(pl)
		if pl.Again {
			tr.note(tr.show(pl, ask, FaultNone))
			continue
		}
		r := tr.p.step(ask, pl)
		tr.g.Observe(r)
		tr.note(tr.show(pl, ask, r.Fault))
		if r.Fault == FaultNone {
			ask.Remaining -= pl.Width
			ask.Context += pl.Width
		}
		if ask.Remaining <= 0 && remaining > 0 || a.int("steps") > 0 && n >= a.int("steps") {
			break
		}
	}
	tr.note("")
}

func (tr *tracer) pull(pl Plan) {
	for _, l := range pl.Levers {
		switch l.Kind {
		case LeverDetach:
			tr.loose = false
		case LeverClear:
			tr.cached = 0
		case LeverEvict:
			tr.p.evict(l.Count)
		}
	}
}

func (tr *tracer) show(pl Plan, a Ask, f Fault) string {
	s := fmt.Sprintf("width %d depth %d %s", pl.Width, pl.Depth, pl.Reason)
	if a.Decode > 0 {
		s += fmt.Sprintf(" rows %d", pl.Rows)
	}
	if a.Lazy > 0 {
		s += fmt.Sprintf(" barrier %d", pl.Barrier)
	}
	for _, l := range pl.Levers {
		s += fmt.Sprintf(" +%s", l.Kind)
		if l.Count > 0 {
			s += fmt.Sprintf(" %d", l.Count)
		}
	}
	if f != FaultNone {
		s += " FAILED: " + string(f)
	}
	return s
}

// note writes a line, or counts it where it is the last one again.
func (tr *tracer) note(s string) {
	if s == tr.last {
		tr.times++
		return
	}
	if tr.last != "" {
		fmt.Fprintf(&tr.out, "%s", tr.last)
		if tr.times > 1 {
			fmt.Fprintf(&tr.out, " x%d", tr.times)
		}
		tr.out.WriteByte('\n')
	}
	tr.last, tr.times = s, 1
}
