package cache

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

// at is a moment of a test's own clock.
func at(after time.Duration) time.Time { return time.UnixMilli(1_790_000_000_000).Add(after) }

// copyOf is an entry with an answer.
func copyOf(answer string) *Entry { return &Entry{Answer: slices.Clip([]byte(answer))} }

// wantCopy fails the test unless the copy at k is as told; "" is none.
func wantCopy(t *testing.T, l *local, k Key, now time.Time, want string) {
	t.Helper()
	got := ""
	if e, ok := l.get(k, now); ok {
		got = string(e.Answer)
	}
	if got != want {
		t.Errorf("copy %q, want %q", got, want)
	}
}

func TestACopyIsServedForASecondAfterRedisWasAsked(t *testing.T) {
	for after, want := range map[time.Duration]string{0: "a", time.Second: "a", time.Second + 1: ""} {
		l := newLocal(1 << 20)
		l.fill(keyNo(1), copyOf("a"), at(0))
		wantCopy(t, l, keyNo(1), at(after), want)
	}
}

func TestTheLaterQuestionsCopyStays(t *testing.T) {
	l := newLocal(1 << 20)
	l.fill(keyNo(1), copyOf("second"), at(time.Millisecond))
	l.fill(keyNo(1), copyOf("first"), at(0))
	wantCopy(t, l, keyNo(1), at(time.Millisecond), "second")
	if n := len(l.copies); n != 1 {
		t.Errorf("%d copies, want 1", n)
	}
}

func TestACopyIsFoundByTheWholeKey(t *testing.T) {
	l := newLocal(1 << 20)
	l.fill(keyNo(1), copyOf("a"), at(0))
	tenant, seal := keyNo(1), keyNo(1)
	tenant.tenant[0]++
	seal.seal[0]++
	wantCopy(t, l, tenant, at(0), "")
	wantCopy(t, l, seal, at(0), "")
	wantCopy(t, l, keyNo(1), at(0), "a")
}

func TestTheCopyUsedLongestAgoMakesRoom(t *testing.T) {
	size := int64(localCopyOverhead + 1)
	l := newLocal(3 * size)
	for n := range 3 {
		l.fill(keyNo(n), copyOf(strconv.Itoa(n)), at(0))
	}
	wantCopy(t, l, keyNo(0), at(0), "0")
	l.fill(keyNo(3), copyOf("3"), at(0))
	for n, want := range []string{"0", "", "2", "3"} {
		wantCopy(t, l, keyNo(n), at(0), want)
	}
	if n, bytes := len(l.copies), l.held(); n != 3 || bytes != 3*size {
		t.Errorf("%d copies of %d bytes, want 3 of %d", n, bytes, 3*size)
	}
	l.fill(keyNo(4), &Entry{Answer: make([]byte, 3*size)}, at(0))
	if n := len(l.copies); n != 3 {
		t.Errorf("a copy that is larger than all room made %d others go", 3-n)
	}
}
