package index

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Errors to be compared with errors.Is.
var (
	ErrNoConfig  = errors.New("no config.json")
	ErrTruncated = errors.New("file is truncated")
	ErrCorrupt   = errors.New("file is corrupt")
)

// FileError says which file is wrong and how. Err is ErrTruncated or
// ErrCorrupt.
type FileError struct {
	Path string
	Why  string
	Err  error
}

func (e *FileError) Error() string { return fmt.Sprintf("%s: %v: %s", e.Path, e.Err, e.Why) }
func (e *FileError) Unwrap() error { return e.Err }

func corrupt(path, format string, args ...any) error {
	return &FileError{Path: path, Why: fmt.Sprintf(format, args...), Err: ErrCorrupt}
}

func truncated(path, format string, args ...any) error {
	return &FileError{Path: path, Why: fmt.Sprintf(format, args...), Err: ErrTruncated}
}

// FieldError names the field of a JSON file that is wrong.
type FieldError struct {
	File  string
	Field string // dotted; "" where the file as a whole is no JSON
	Why   string
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%s: %s", e.File, e.Why)
	}
	return fmt.Sprintf("%s: %s: %s", e.File, e.Field, e.Why)
}

// ArchitectureError names a model type that nobody here serves.
type ArchitectureError struct {
	Type  string
	Known []string
}

func (e *ArchitectureError) Error() string {
	return fmt.Sprintf("unknown architecture %q (known: %s)", e.Type, strings.Join(e.Known, ", "))
}

// IncompleteError lists files that are missing.
type IncompleteError struct {
	Folder string
	Files  []string
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("%s: missing %s", e.Folder, strings.Join(e.Files, ", "))
}

// decode is json.Unmarshal with errors that name file and field.
func decode(file string, data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var t *json.UnmarshalTypeError
	var s *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &t):
		return &FieldError{File: file, Field: t.Field, Why: fmt.Sprintf("is a %s, want %s", t.Value, t.Type)}
	case errors.As(err, &s):
		line := 1 + bytes.Count(data[:min(int(s.Offset), len(data))], []byte("\n"))
		return &FieldError{File: file, Why: fmt.Sprintf("malformed JSON at line %d: %v", line, s)}
	}
	return &FieldError{File: file, Why: err.Error()}
}
