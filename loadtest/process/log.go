package process

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

const (
	maxLines     = 400     // kept of a child's output
	maxLineBytes = 4 << 10 // bytes kept of one
)

// Log keeps the last lines that a child wrote, without the access records of what
// went well, and counts those that are no access records. The zero value is ready.
type Log struct {
	mu      sync.Mutex
	rest    []byte // a line whose end has not come
	lines   []string
	counted int // lines that are no access records
}

// Write implements io.Writer; it never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			break
		}
		l.note(line)
		l.rest = rest
	}
	if len(l.rest) > maxLineBytes*16 { // a line without an end is one
		l.note(l.rest)
		l.rest = nil
	}
	l.rest = append([]byte(nil), l.rest...) // lets go of what was read
	return len(p), nil
}

// note takes one line up.
func (l *Log) note(line []byte) {
	if len(line) == 0 {
		return
	}
	var entry struct {
		Message string
		Code    int
	}
	access := json.Unmarshal(line, &entry) == nil && (entry.Message == "request" || entry.Message == "receipt")
	if access && entry.Code < 500 {
		return
	}
	if !access {
		l.counted++
	}
	l.lines = append(l.lines, string(line[:min(len(line), maxLineBytes)]))
	if over := len(l.lines) - maxLines; over > 0 {
		l.lines = slices.Delete(l.lines, 0, over)
	}
}

// Last are the last n lines.
func (l *Log) Last(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines[max(0, len(l.lines)-n):], "\n")
}

// Count is how many lines there were that are no access records.
func (l *Log) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counted
}
