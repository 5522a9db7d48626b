package budgets

import (
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/redistest"
)

// FuzzParse gives the parser replies of every shape: it makes sense of them or errs.
func FuzzParse(f *testing.F) {
	f.Add("", int64(1), int64(0), int64(0), int64(1000), byte(8), byte(0), byte(1))
	f.Add("WRONGTYPE", int64(0), int64(0), int64(0), int64(0), byte(8), byte(0), byte(1))
	f.Add("", int64(9), int64(1), int64(7), int64(1<<62), byte(16), byte(3), byte(3))
	f.Fuzz(func(t *testing.T, text string, a, b, c, d int64, length, odd, windows byte) {
		n := int(windows) % 4
		reply := []any{text, a, b, c}
		for len(reply) < int(length)%20 {
			reply = append(reply, d)
		}
		reply = reply[:min(len(reply), int(length)%20)]
		if i := int(odd) % 16; odd > 15 && i < len(reply) {
			reply[i] = []any{nil, "x", 1.5, []any{text}}[int(odd)/16%4]
		}
		got, err := parse(reply, n)
		if err == nil && (len(got.others) != n || got.refused < 0 || got.refused > 2*n || got.beat < 0 || text != "") {
			t.Errorf("%v gives %+v", reply, got)
		}
		for _, o := range got.others {
			if sum := o.total(); sum.tokens < 0 || sum.tokens > maxAmount || sum.nanos < 0 || sum.nanos > maxAmount {
				t.Errorf("%v gives %+v", reply, got)
			}
		}
		if _, err := parse(text, n); err == nil {
			t.Error("a text was taken for a reply")
		}
	})
}

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
