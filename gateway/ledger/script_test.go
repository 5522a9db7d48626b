package ledger

import (
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/internal/redistest"
)

// FuzzTenant puts garbage into a tenant's key: no request fails but by the key's type, nobody is shut out for longer than a level can
// last, and what a request writes is read again.
func FuzzTenant(f *testing.F) {
	for _, s := range []string{"", "nan", "-inf", "1e400", "-5 -5 -5 -5", "0x7fffffffffffffff", "1 2", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17", "1e9 1 1 1 1", "\x00\xff"} {
		f.Add(s, s, false)
		f.Add("9000000000000000 1e9 1e9 1e9", s, true)
	}
	m, o := redistest.Embedded(f, redistest.OnRequests)
	o.ReadTimeout, o.WriteTimeout = 10*time.Second, 10*time.Second // which a busy machine keeps
	l := New(Options{Redis: redistest.Client(f, o)})
	key := keyTenant + "acme"
	f.Fuzz(func(t *testing.T, levels, field string, text bool) {
		m.SetTime(time.Now())
		m.FlushAll()
		if text {
			if err := m.Set(key, field); err != nil {
				t.Fatal(err)
			}
		} else {
			m.HSet(key, "levels", levels, "other", field, "folded", field, "own", field)
		}
		tn := &tenant{name: "acme", field: "mine"}
		ask := func(version int64) (answer, error) {
			c := &call{tenant: tn, of: &Request{}, charge: cost{1, 10, 1, 8}, version: version}
			c.encode(callAsk, Limit{RPM: 600, TPM: 60_000, HighShare: 0.2}.shared(), time.Now())
			return l.run(t.Context(), c)
		}
		got, err := ask(1)
		if err != nil && !strings.Contains(err.Error(), errReply.Error()) || (err != nil) != text {
			t.Fatalf("%q %q: %+v, %v", levels, field, got, err)
		}
		if got.levels[ofRequests] > maxLevel*600 || got.levels[ofTokens] > maxLevel*60_000 {
			t.Errorf("%q: %+v", levels, got)
		}
		if text {
			return
		}
		m.SetTime(time.Now().Add(maxLevel*time.Minute + time.Second))
		if got, err = ask(2); err != nil || got.refused != 0 || !strings.Contains(m.HGet(key, "mine"), " 2 0 0 0") {
			t.Errorf("%q %q: after the longest time %+v, %v; it wrote %q", levels, field, got, err, m.HGet(key, "mine"))
		}
	})
}
