package governor

// ladder finds the width beyond which wider is not faster: it climbs by
// doubling from the starting width, on trial, and comes down the same way.
type ladder struct {
	width int  // of the rung it stands on
	fixed bool // the user chose it
	tried bool // a trial has been made: the rung is measured, not assumed

	speed   float64 // seconds a token on this rung, when last seen; 0: never
	context float64 // mean context of that step

	trial int // width of the trial under way; 0: none
	wait  int // steps on this rung until the next one
	pause int // how long that was last time
	down  bool
}

// Ladder constants.
const (
	gainWanted = 0.02 // a rung must be this much faster to be worth taking
	firstPause = 2    // steps on a rung before a trial
	longPause  = 256
	topRung    = 1 << 17
)

func newLadder(width int) ladder {
	if width > 0 {
		return ladder{width: width, fixed: true}
	}
	return ladder{width: StartWidth, wait: firstPause, pause: firstPause}
}

// next returns the width of a trial that is due, when so many tokens remain;
// 0: none is.
func (l *ladder) next(remaining int) int {
	if l.wait > 0 || l.speed == 0 {
		return 0
	}
	next := l.width * 2
	if l.down {
		next = l.width / 2
	}
	if next > topRung || remaining < next {
		return 0
	}
	return next
}

// observe learns from a step without decode rows. slope is how a token's
// time grows with its context, in seconds a token of context.
func (l *ladder) observe(width, context int, elapsed, slope float64) {
	trial := l.trial
	l.trial = 0
	if l.fixed || elapsed <= 0 {
		return
	}
	speed, mean := elapsed/float64(width), float64(context)+float64(width)/2
	switch {
	case trial > 0 && width == trial:
		here := l.speed + slope*(mean-l.context)
		l.judge(trial, speed < here*(1-gainWanted))
		if l.width == trial {
			l.speed, l.context = speed, mean
		}
	case trial > 0: // pressed narrower than the trial wanted
		l.wait = l.pause
	case width == l.width:
		l.speed, l.context = speed, mean
		l.wait = max(l.wait-1, 0)
	}
}

// failed ends a trial whose step did not come about.
func (l *ladder) failed() {
	if l.trial > 0 {
		l.trial = 0
		l.judge(0, false)
	}
}

func (l *ladder) judge(trial int, better bool) {
	l.tried = true
	if better {
		l.width, l.pause = trial, firstPause
	} else {
		l.pause = min(2*l.pause, longPause)
		l.down = !l.down && l.width > StartWidth
	}
	l.wait = l.pause
}
