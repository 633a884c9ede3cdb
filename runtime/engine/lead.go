package engine

import (
	"slices"

	"ingot/runtime/kv"
	"ingot/runtime/step"
)

// tail is the tokens of a prompt behind its mark: the next prompt of a
// conversation may differ there, in what opens the answer.
const tail = 8

// lead is the first part of a prompt's last chunk, computed and committed
// ahead of the rest so that the place between the two can be marked.
type lead struct {
	seq    *sequence
	before *kv.Mark // to go back to if the rest fails
	mark   *kv.Mark
}

// keep has the sequence keep the mark.
func (l *lead) keep() {
	l.before.Free()
	l.seq.setMark(l.mark)
}

// drop takes the sequence back to before the lead. Nothing of a step may be
// under way.
func (l *lead) drop() error {
	defer l.before.Free()
	l.mark.Free()
	if l.before == nil {
		return nil // it did not begin
	}
	return l.seq.kv.Return(l.before)
}

// lead computes prompts of recurrent models but for their last tokens, and
// returns the rows that are left to do. A trimmed sequence needs no mark.
func (e *Engine) lead(st *step.Step, seqs []*sequence) ([]*lead, []step.Row, error) {
	var led []*lead
	var first []step.Row
	var of []*sequence
	rows := st.Rows
	for i, r := range st.Rows {
		if !e.marks(st, r, seqs[i]) {
			continue
		}
		if led == nil {
			rows = slices.Clone(rows)
		}
		n := len(r.Tokens) - tail
		led = append(led, &lead{seq: seqs[i]})
		of = append(of, seqs[i])
		first = append(first, step.Row{Seq: r.Seq, Tokens: r.Tokens[:n]})
		rows[i].Tokens = r.Tokens[n:]
	}
	if led == nil {
		return nil, rows, nil
	}
	return led, rows, e.advance(led, first, of, st.Depth)
}

// marks reports whether a row's prompt ends here and is worth a mark. Where
// room was short none is made until a sequence ends.
func (e *Engine) marks(st *step.Step, r step.Row, q *sequence) bool {
	return e.prefix.most > 0 && !e.pressed && !st.Deterministic && q.grid == 0 &&
		r.Sampler != nil && len(r.Tokens) > tail && len(q.tokens)+len(r.Tokens) >= worthReuse+tail &&
		q.kv.Recurrent() && !q.kv.Windowed()
}

// advance computes the leads, commits them and marks their ends.
func (e *Engine) advance(led []*lead, rows []step.Row, seqs []*sequence, depth int) (err error) {
	s := e.dev.NewScope()
	defer s.Close()
	for _, l := range led {
		if l.before, err = l.seq.kv.Mark(s); err != nil {
			return err
		}
	}
	if err := e.pass(rows, seqs, depth, &harvest{}); err != nil {
		return err
	}
	for i, l := range led {
		l.seq.kv.Commit(len(rows[i].Tokens))
		if l.mark, err = l.seq.kv.Mark(s); err != nil {
			return err
		}
	}
	return nil
}
