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
func (j *Log) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rest = append(j.rest, p...)
	for {
		line, rest, found := bytes.Cut(j.rest, []byte("\n"))
		if !found {
			break
		}
		j.note(line)
		j.rest = rest
	}
	if len(j.rest) > maxLineBytes*16 { // a line without an end is one
		j.note(j.rest)
		j.rest = nil
	}
	j.rest = append([]byte(nil), j.rest...) // lets go of what was read
	return len(p), nil
}

// note takes one line up.
func (j *Log) note(line []byte) {
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
		j.counted++
	}
	j.lines = append(j.lines, string(line[:min(len(line), maxLineBytes)]))
	if over := len(j.lines) - maxLines; over > 0 {
		j.lines = slices.Delete(j.lines, 0, over)
	}
}

// Last are the last n lines.
func (j *Log) Last(n int) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines[max(0, len(j.lines)-n):], "\n")
}

// Count is how many lines there were that are no access records.
func (j *Log) Count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.counted
}

// Find is the first kept line for which ok holds; "" is none.
func (j *Log) Find(ok func(line string) bool) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if i := slices.IndexFunc(j.lines, ok); i >= 0 {
		return j.lines[i]
	}
	return ""
}
