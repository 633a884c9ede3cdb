package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"gopkg.in/natefinch/lumberjack.v2"

	"ingot/daemon/journal"
	"ingot/ipc"
)

// Sizes of the log: megabytes of a file, files kept, and how much of the end
// logs.tail looks at.
const (
	logMegabytes = 8
	logFiles     = 5
	tailBytes    = 4 << 20
)

// logFile is the daemon's log: JSON lines in a file that is rotated.
type logFile struct {
	log  zerolog.Logger
	path string
	out  io.WriteCloser
}

// openLog opens the log in home; out, if not nil, takes its lines instead.
func openLog(home, level string, verbose bool, out io.WriteCloser) (*logFile, error) {
	lv, err := zerolog.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("log.level: %w", err)
	}
	dir := filepath.Join(home, "logs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	l := &logFile{path: filepath.Join(dir, "ingotd.log"), out: out}
	if out == nil {
		l.out = &lumberjack.Logger{Filename: l.path, MaxSize: logMegabytes, MaxBackups: logFiles}
	}
	if _, err := l.out.Write(nil); err != nil { // so that a log that can't be written is known now
		return nil, fmt.Errorf("open the log: %w", err)
	}
	var w io.Writer = l.out
	if verbose {
		w = zerolog.MultiLevelWriter(l.out, zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: "15:04:05.000"})
	}
	l.log = zerolog.New(w).Level(lv).Hook(stamp)
	return l, nil
}

// stamp is zerolog's timestamp with milliseconds, without its global setting.
var stamp = zerolog.HookFunc(func(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().Format("2006-01-02T15:04:05.000Z07:00"))
})

func (l *logFile) Close() { _ = l.out.Close() } // every line has been written already

// tail returns the last n lines, of one model where it is named.
func (l *logFile) tail(n int, model string) ([]string, error) {
	f, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return []string{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	at := max(0, size-tailBytes)
	body := make([]byte, size-at)
	if _, err := f.ReadAt(body, at); err != nil && err != io.EOF {
		return nil, err
	}
	if at > 0 { // the first line is cut
		body = body[bytes.IndexByte(body, '\n')+1:]
	}
	return last(body, n, model), nil
}

func last(body []byte, n int, model string) []string {
	lines := []string{}
	all := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	for _, line := range slices.Backward(all) {
		if len(lines) == n {
			break
		}
		if line != "" && (model == "" || about(line, model)) {
			lines = append(lines, line)
		}
	}
	slices.Reverse(lines)
	return lines
}

func about(line, model string) bool {
	var l struct{ Model string }
	return json.Unmarshal([]byte(line), &l) == nil && strings.EqualFold(l.Model, model)
}

// Logs returns the end of the log.
func (d *Daemon) Logs(_ context.Context, p ipc.LogsParams) (*ipc.LogsResult, error) {
	n := p.Lines
	if n == 0 {
		n = 100
	}
	lines, err := d.logs.tail(n, p.Model)
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	return &ipc.LogsResult{Lines: lines}, nil
}

// logTurn writes the one line of a finished turn.
func (d *Daemon) logTurn(s *journal.Summary, r *ipc.TurnReport) {
	ev := d.log.Info()
	if r.Error != nil {
		ev = d.log.Warn().Str("error", string(r.Error.Name)).Str("why", r.Error.Message)
	}
	ev = ev.Str("model", s.Model).Str("turn", string(s.Turn)).Str("finish", string(r.FinishReason)).
		Float64("ms", float64(s.Took.Microseconds())/1000).
		Int("prompt_tokens", r.Usage.PromptTokens).Int("completion_tokens", r.Usage.CompletionTokens)
	if body, err := json.Marshal(&r.Report); err == nil {
		ev = ev.RawJSON("ingot", body)
	}
	ev.Msg("turn ended")
}
