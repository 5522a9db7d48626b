package cache

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/foregate/foregate/internal/redistest"
)

// at is a moment of a test's own clock.
func at(after time.Duration) time.Time { return time.UnixMilli(1_790_000_000_000).Add(after) }

// copyOf is an entry with an answer.
func copyOf(answer string) *Entry { return &Entry{Answer: slices.Clip([]byte(answer))} }

// wantCopy fails the test unless the copy at k is as told; "" is none.
func wantCopy(t *testing.T, l local, k Key, now time.Time, want string) {
	t.Helper()
	got := ""
	if e, ok := l.get(k, now); ok {
		got = string(e.Answer)
	}
	if got != want {
		t.Errorf("copy %q, want %q", got, want)
	}
}

func TestACopyIsServedForTenSecondsAfterRedisWasAsked(t *testing.T) {
	for after, want := range map[time.Duration]string{0: "a", copyFor: "a", copyFor + 1: ""} {
		l := newLocal(1 << 20)
		l.fill(keyNo(1), copyOf("a"), at(0))
		wantCopy(t, l, keyNo(1), at(after), want)
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

func TestCopiesTakeNoMoreThanTheirBytes(t *testing.T) {
	const most = 100 * (localCopyOverhead + 100)
	l := newLocal(most)
	for n := range 10_000 {
		l.fill(keyNo(n), copyOf(strconv.Itoa(n)+string(make([]byte, n%500))), at(0))
		wantCopy(t, l, keyNo(0), at(0), "0") // what is used stays
		if held := l.held(); held > most {
			t.Fatalf("%d bytes after %d copies, want at most %d", held, n, most)
		}
	}
	if held := l.held(); held < most/2 {
		t.Errorf("%d bytes of %d are used", held, most)
	}
	l.fill(keyNo(0), copyOf(string(make([]byte, most))), at(0))
	wantCopy(t, l, keyNo(0), at(0), "") // larger than all room
	none := newLocal(-1)
	none.fill(keyNo(1), copyOf("a"), at(0))
	wantCopy(t, none, keyNo(1), at(0), "")
}

func TestAnAnswerThatIsReplacedLeavesNoCopy(t *testing.T) {
	s := storeAt(t, redistest.Start(t).Addr)
	running(t, s)
	k := keyNo(1)
	for _, size := range []int{10, 20} {
		want := answerOf(k, size)
		keep(t, s, k, want)
		if _, ok := s.Local(k); ok {
			t.Error("there is a copy of the former answer")
		}
		wantFound(t, s, k, ResultHit)
		if e, ok := s.Local(k); !ok || !slices.Equal(e.Answer, want.Answer) {
			t.Errorf("the copy is %+v", e)
		}
	}
}
