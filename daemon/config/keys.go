package config

import (
	"fmt"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/runtime/turn"
)

// key is one setting: what it may be, in words, and how it is taken. set
// returns false for a value outside of that.
type key struct {
	name    string
	allowed string
	set     func(c *Config, v any) bool   // daemon keys
	model   func(m *Model, v any) bool    // keys that a model's section may hold too
	show    func(c *Config, m *Model) any // for Diff
}

// keys is every setting there is, sections dotted.
var keys = []key{
	{name: "model", allowed: "the name of a model", set: func(c *Config, v any) bool { return text(v, &c.Default) },
		show: func(c *Config, _ *Model) any { return c.Default }},
	{name: "memory_budget", allowed: `a size ("24GB", at least 64MB) or a share ("75%", 1 to 100)`,
		set:  func(c *Config, v any) bool { return budget(v, &c.MemoryBudget) },
		show: func(c *Config, _ *Model) any { return c.MemoryBudget }},
	{name: "buffer_limit", allowed: "a number of buffers, 64 to 100000000, or 0 for the device's own",
		set: func(c *Config, v any) bool {
			n := int(c.BufferLimit)
			ok := whole(v, 0, 1e8, &n) && (n == 0 || n >= 64)
			c.BufferLimit = turn.Buffers(n)
			return ok
		},
		show: func(c *Config, _ *Model) any { return c.BufferLimit }},
	{name: "turns.linger", allowed: `a time, "0s" to "24h"`, set: func(c *Config, v any) bool { return span(v, 0, 24*time.Hour, &c.Linger) },
		show: func(c *Config, _ *Model) any { return c.Linger }},
	{name: "turns.drain", allowed: `a time, "0s" to "10m"`, set: func(c *Config, v any) bool { return span(v, 0, 10*time.Minute, &c.Drain) },
		show: func(c *Config, _ *Model) any { return c.Drain }},
	{name: "tcp.listen", allowed: `an address with a port ("127.0.0.1:11500"), or ""`, set: func(c *Config, v any) bool { return address(v, &c.TCPListen) },
		show: func(c *Config, _ *Model) any { return c.TCPListen }},
	{name: "log.level", allowed: "debug, info, warn or error", set: func(c *Config, v any) bool {
		return text(v, &c.LogLevel) && slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel)
	}, show: func(c *Config, _ *Model) any { return c.LogLevel }},

	{name: "keep_alive", allowed: `a time ("5m", "0s" to "8760h"), or "-1" for ever`, model: func(m *Model, v any) bool { return KeepAlive(v, &m.KeepAlive) },
		show: func(_ *Config, m *Model) any { return m.KeepAlive }},
	{name: "prefill_step", allowed: `"auto" or a number of tokens, 1 to 1048576`, model: func(m *Model, v any) bool { return autoStep(v, &m.PrefillStep) },
		show: func(_ *Config, m *Model) any { return m.PrefillStep }},
	{name: "max_step", allowed: `a time, "10ms" to "10m"`, model: func(m *Model, v any) bool { return span(v, 10*time.Millisecond, 10*time.Minute, &m.MaxStep) },
		show: func(_ *Config, m *Model) any { return m.MaxStep }},
	{name: "ride_step", allowed: `a time, "10ms" to "10m"`, model: func(m *Model, v any) bool { return span(v, 10*time.Millisecond, 10*time.Minute, &m.RideStep) },
		show: func(_ *Config, m *Model) any { return m.RideStep }},
	{name: "deterministic", allowed: "true or false", model: func(m *Model, v any) bool { return boolean(v, &m.Deterministic) },
		show: func(_ *Config, m *Model) any { return m.Deterministic }},
	{name: "watchdog", allowed: `a time, "1s" to "24h"`, model: func(m *Model, v any) bool { return span(v, time.Second, 24*time.Hour, &m.Watchdog) },
		show: func(_ *Config, m *Model) any { return m.Watchdog }},
	{name: "context", allowed: "a number of tokens, 16 to 16777216, or 0 for the model's own",
		model: func(m *Model, v any) bool {
			return whole(v, 0, 1<<24, &m.Context) && (m.Context == 0 || m.Context >= 16)
		},
		show: func(_ *Config, m *Model) any { return m.Context }},
	{name: "max_turns", allowed: "a number, 1 to 1024", model: func(m *Model, v any) bool { return whole(v, 1, 1024, &m.MaxTurns) },
		show: func(_ *Config, m *Model) any { return m.MaxTurns }},
	{name: "max_queue", allowed: "a number, 1 to 65536", model: func(m *Model, v any) bool { return whole(v, 1, 65536, &m.MaxQueue) },
		show: func(_ *Config, m *Model) any { return m.MaxQueue }},
	{name: "max_tokens", allowed: "a number, 1 to 16777216", model: func(m *Model, v any) bool { return optWhole(v, 1, 1<<24, &m.MaxTokens) },
		show: func(_ *Config, m *Model) any { return value(m.MaxTokens) }},
	{name: "temperature", allowed: "a number, 0 to 100", model: func(m *Model, v any) bool { return optReal(v, 0, 100, &m.Temperature) },
		show: func(_ *Config, m *Model) any { return value(m.Temperature) }},
	{name: "top_p", allowed: "a number above 0, up to 1", model: func(m *Model, v any) bool { return optReal(v, math.SmallestNonzeroFloat64, 1, &m.TopP) },
		show: func(_ *Config, m *Model) any { return value(m.TopP) }},
	{name: "top_k", allowed: "a number, 0 (off) to 1073741824", model: func(m *Model, v any) bool { return optWhole(v, 0, 1<<30, &m.TopK) },
		show: func(_ *Config, m *Model) any { return value(m.TopK) }},
	{name: "min_p", allowed: "a number, 0 to 1", model: func(m *Model, v any) bool { return optReal(v, 0, 1, &m.MinP) },
		show: func(_ *Config, m *Model) any { return value(m.MinP) }},
	{name: "repetition_penalty", allowed: "a number above 0, up to 100",
		model: func(m *Model, v any) bool {
			return optReal(v, math.SmallestNonzeroFloat64, 100, &m.RepetitionPenalty)
		},
		show: func(_ *Config, m *Model) any { return value(m.RepetitionPenalty) }},
}

func find(name string) *key {
	for i := range keys {
		if keys[i].name == name {
			return &keys[i]
		}
	}
	return nil
}

func text(v any, p *string) (ok bool)  { *p, ok = v.(string); return ok }
func boolean(v any, p *bool) (ok bool) { *p, ok = v.(bool); return ok }

func whole(v any, lo, hi int64, p *int) bool {
	n, ok := v.(int64)
	*p = int(n)
	return ok && n >= lo && n <= hi
}

func optWhole(v any, lo, hi int64, p **int) bool { *p = new(int); return whole(v, lo, hi, *p) }

func optReal(v any, lo, hi float64, p **float64) bool {
	f, ok := v.(float64)
	if n, isInt := v.(int64); isInt {
		f, ok = float64(n), true
	}
	*p = &f
	return ok && f >= lo && f <= hi
}

func value[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

func span(v any, lo, hi time.Duration, p *time.Duration) bool {
	s, ok := v.(string)
	if !ok {
		return false
	}
	d, err := time.ParseDuration(s)
	*p = d
	return err == nil && d >= lo && d <= hi
}

// KeepAlive reads a keep_alive as configurations and models.load spell it.
func KeepAlive(v any, p *time.Duration) bool {
	if s, ok := v.(string); ok && s == "-1" {
		*p = Forever
		return true
	}
	return span(v, 0, 8760*time.Hour, p)
}

func autoStep(v any, p *int) bool {
	if s, ok := v.(string); ok {
		*p = 0
		return s == "auto"
	}
	return whole(v, 1, 1<<20, p)
}

func address(v any, p *string) bool {
	if !text(v, p) {
		return false
	}
	if *p == "" {
		return true
	}
	_, port, err := net.SplitHostPort(*p)
	n, errPort := strconv.Atoi(port)
	return err == nil && errPort == nil && n >= 0 && n < 1<<16
}

var sizeForm = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(i?)B?$`)

func budget(v any, b *Budget) bool {
	s, ok := v.(string)
	if n, isInt := v.(int64); isInt {
		s, ok = strconv.FormatInt(n, 10), true
	}
	if pct, isShare := strings.CutSuffix(s, "%"); ok && isShare {
		f, err := strconv.ParseFloat(strings.TrimSpace(pct), 64)
		*b = Budget{Share: f / 100}
		return err == nil && f >= 1 && f <= 100
	}
	n, sized := size(s)
	*b = Budget{Bytes: n}
	return ok && sized && n >= 64e6
}

// size reads "24GB" (powers of 1000) and "24GiB" (of 1024).
func size(s string) (turn.Bytes, bool) {
	m := sizeForm.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return 0, false
	}
	f, err := strconv.ParseFloat(m[1], 64)
	base := 1000.0
	if m[3] == "i" {
		base = 1024
	}
	if m[2] != "" {
		f *= math.Pow(base, float64(strings.Index("KMGT", m[2])+1))
	}
	return turn.Bytes(f), err == nil && f < 1<<60
}

func (k *key) wrong(v any) string {
	return fmt.Sprintf("%#v is not %s", v, k.allowed)
}
