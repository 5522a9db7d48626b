package budgets

import (
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/redistest"
)

// FuzzFields puts garbage into a tenant's window and into the key of beats: the reply is sound, and what a request writes
// is read again.
func FuzzFields(f *testing.F) {
	for _, s := range []string{"", "nan", "1 2 3 4 5 6", "1 2 3 4 5 -6", "1e9 1 1 1 1 1", "99999999999999999999 1 99999999999999999999 1 1 1", "\x00\xff", "inf 0 0 0 0 0"} {
		f.Add(s, s, s, false)
	}
	f.Add("1 2 3 4 5 6", "7", "9000000000000000", false)
	f.Add("", "", "", true)
	m, o := redistest.Embedded(f, redistest.OnRequests)
	o.ReadTimeout = 10 * time.Second // which a busy machine keeps
	l := New(Options{Redis: redistest.Client(f, o)})
	key := keyOf("acme", identity.Day, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	f.Fuzz(func(t *testing.T, field, beat, since string, text bool) {
		m.FlushAll()
		if text {
			if err := m.Set(key, field); err != nil {
				t.Fatal(err)
			}
		} else {
			m.HSet(key, "other", field, "folded", field)
			m.HSet(keyBeats, "beat", beat, "since", since)
		}
		w := &window{id: windowID{tenant: "acme", per: identity.Day}, key: key, field: "own", end: time.Now()}
		w.own.reserved = amounts{7, 8}
		for version := range 2 {
			c := l.newCall(true)
			c.add(w, amounts{7, 8}, amounts{}, time.Now())
			got, err := l.ask(t.Context(), c)
			if err != nil && !strings.Contains(err.Error(), errReply.Error()) || (err != nil) != text {
				t.Fatalf("%q %q %q, call %d: %+v, %v", field, beat, since, version, got, err)
			}
		}
		if !text && !strings.HasPrefix(m.HGet(key, "own"), "2 0 0 7 8 ") {
			t.Errorf("it wrote %q", m.HGet(key, "own"))
		}
	})
}
