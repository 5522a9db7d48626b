package live

import "sync"

// tailBytes is how much of a child's output is kept.
const tailBytes = 64 << 10

// tail keeps the end of what was written to it. The zero value is ready.
type tail struct {
	mu   sync.Mutex
	buf  []byte
	lost bool // something was dropped
}

// Write keeps p, and forgets what is older than the last tailBytes.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailBytes; over > 0 {
		t.buf = t.buf[:copy(t.buf, t.buf[over:])]
		t.lost = true
	}
	return len(p), nil
}

// String is what is left.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost {
		return "…" + string(t.buf)
	}
	return string(t.buf)
}
