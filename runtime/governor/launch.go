package governor

// launch remembers how many rows the device would still start: a ceiling
// found by failing, lifted again slowly, each time after twice as many good
// steps.
type launch struct {
	ceiling int // rows of a step; 0: none known
	good    int // most rows that passed
	wait    int // good steps at the ceiling until it is lifted
	pause   int
}

const firstLift = 32

func (l *launch) limit(rows int) int {
	if l.ceiling > 0 {
		return min(rows, l.ceiling)
	}
	return rows
}

func (l *launch) failed(rows int) {
	if l.pause == 0 {
		l.pause = firstLift
	} else {
		l.pause = min(2*l.pause, 1<<16)
	}
	if l.good >= rows {
		l.good = 0 // it no longer holds
	}
	l.ceiling, l.wait = max(1, rows/2, l.good), l.pause
}

// passed counts a good step. Lifting is by half: what failed is not tried
// again at once.
func (l *launch) passed(rows int) {
	l.good = max(l.good, rows)
	if l.ceiling == 0 || 10*rows < 9*l.ceiling {
		return
	}
	if l.wait--; l.wait <= 0 {
		l.ceiling += max(1, l.ceiling/2)
		l.wait = l.pause
	}
}
