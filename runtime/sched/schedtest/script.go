package schedtest

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ingot/runtime/step"
	"ingot/runtime/turn"
)

// Script is how a fake Engine behaves. As text it is one line each of
//
//	context 512          tokens
//	vocab 64
//	layers 4
//	eos 0 1              ids that end an answer; none by default
//	cost 1ms 10us        a step, and each of its tokens
//	resident 100         buffers for good
//	sequence 5           buffers each sequence holds
//	width 3              buffers each token of a step needs meanwhile, with all layers at once
//	limit 1000           buffers
//	keep 4               closed sequences kept as prefixes
//	say 7 8: 20 21 0     what a sequence that begins with 7 8 says
//	fault step 3 buffers     the third step fails so (buffers, bytes, launch, device, mistake)
//	fault step 5..7 bytes
//	fault width 64 launch    every step of more tokens than that fails
//	fault open 2 buffers     the second Open fails
//
// and comments behind #.
type Script struct {
	Context, Vocab, Layers int
	EOS                    []turn.TokenID
	PerStep, PerToken      time.Duration
	Resident, PerSeq       turn.Buffers
	PerWidth, Limit        turn.Buffers
	Keep                   int
	Prefix, Then           []turn.TokenID
	faults                 []*fault
}

// mistake is an error that is no fault of resources.
const mistake step.Fault = "mistake"

type fault struct {
	what     string // step, width, open
	from, to int
	kind     step.Fault
	fired    int
}

// Must is Parse for scripts that stand in tests.
func Must(text string) *Script {
	s, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return s
}

// Parse reads a script.
func Parse(text string) (*Script, error) {
	s := &Script{Context: 4096, Vocab: 64, Layers: 4}
	sc := bufio.NewScanner(strings.NewReader(text))
	for n := 1; sc.Scan(); n++ {
		line, _, _ := strings.Cut(sc.Text(), "#")
		if f := strings.Fields(line); len(f) > 0 {
			if err := s.line(f[0], f[1:]); err != nil {
				return nil, fmt.Errorf("script line %d: %q: %w", n, sc.Text(), err)
			}
		}
	}
	return s, sc.Err()
}

func (s *Script) line(word string, args []string) (err error) {
	ints := map[string]*int{"context": &s.Context, "vocab": &s.Vocab, "layers": &s.Layers, "keep": &s.Keep}
	counts := map[string]*turn.Buffers{"resident": &s.Resident, "sequence": &s.PerSeq, "width": &s.PerWidth, "limit": &s.Limit}
	switch {
	case ints[word] != nil && len(args) == 1:
		*ints[word], err = strconv.Atoi(args[0])
	case counts[word] != nil && len(args) == 1:
		var n int
		n, err = strconv.Atoi(args[0])
		*counts[word] = turn.Buffers(n)
	case word == "eos":
		s.EOS, err = ids(args)
	case word == "cost" && len(args) == 2:
		err = s.cost(args)
	case word == "say":
		err = s.say(strings.Join(args, " "))
	case word == "fault" && len(args) == 3:
		err = s.fault(args)
	default:
		err = fmt.Errorf("unknown or wrong number of words")
	}
	return err
}

func (s *Script) cost(args []string) (err error) {
	if s.PerStep, err = time.ParseDuration(args[0]); err == nil {
		s.PerToken, err = time.ParseDuration(args[1])
	}
	return err
}

func (s *Script) say(text string) (err error) {
	before, after, ok := strings.Cut(text, ":")
	if !ok {
		return fmt.Errorf("no colon")
	}
	if s.Prefix, err = ids(strings.Fields(before)); err == nil {
		s.Then, err = ids(strings.Fields(after))
	}
	return err
}

func (s *Script) fault(args []string) error {
	f := &fault{what: args[0], kind: step.Fault(args[2])}
	from, to, span := strings.Cut(args[1], "..")
	var err error
	if f.from, err = strconv.Atoi(from); err != nil {
		return err
	}
	f.to = f.from
	if span {
		if f.to, err = strconv.Atoi(to); err != nil {
			return err
		}
	}
	s.faults = append(s.faults, f)
	return nil
}

func ids(words []string) ([]turn.TokenID, error) {
	var out []turn.TokenID
	for _, w := range words {
		n, err := strconv.Atoi(w)
		if err != nil {
			return nil, err
		}
		out = append(out, turn.TokenID(n))
	}
	return out, nil
}

// stepFault is the fault of the nth step, of so many tokens.
func (s *Script) stepFault(nth, width int) step.Fault {
	for _, f := range s.faults {
		if f.what == "step" && f.from <= nth && nth <= f.to || f.what == "width" && width > f.from {
			f.fired++
			return f.kind
		}
	}
	return step.FaultNone
}

func (s *Script) openFault(nth int) step.Fault {
	for _, f := range s.faults {
		if f.what == "open" && f.from <= nth && nth <= f.to {
			f.fired++
			return f.kind
		}
	}
	return step.FaultNone
}

// transient is what a step needs while it runs: less when it is evaluated
// every depth layers.
func (s *Script) transient(width, depth int) turn.Buffers {
	n := s.PerWidth * turn.Buffers(width)
	if depth > 0 && depth < s.Layers {
		n = n * turn.Buffers(depth) / turn.Buffers(s.Layers)
	}
	return n
}

func (s *Script) fired() int {
	n := 0
	for _, f := range s.faults {
		n += f.fired
	}
	return n
}
