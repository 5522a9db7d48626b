package limits

import (
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/internal/redistest"
)

// FuzzKey puts garbage into a tenant's key: no request fails, and nobody is shut out for
// longer than a debt can last.
func FuzzKey(f *testing.F) {
	for _, s := range []string{"", "nan", "-nan", "inf", "-inf", "1e400", "-5", "0x7fffffffffffffff", "99999999999999999999", "1 2", "\x00\xff"} {
		f.Add(s, s, s, s, false)
	}
	f.Add("0", "5", "5", "5", true)
	f.Add("9000000000000000", "1e9", "1e9", "1e9", false) // the year 2255
	m, o := redistest.Embedded(f, redistest.OnRequests)
	o.ReadTimeout = 10 * time.Second // which a busy machine keeps
	r := &replica{}
	r.Limiter = New(Options{Redis: r.client(f, o)})
	key := keyLimit + "acme"
	f.Fuzz(func(t *testing.T, at, requests, tokens, high string, text bool) {
		m.SetTime(time.Now())
		m.Del(key)
		if text {
			if err := m.Set(key, at); err != nil {
				t.Fatal(err)
			}
		} else {
			m.HSet(key, "at", at, "r", requests, "t", tokens, "h", high)
		}
		limit := Limit{RPM: 600, TPM: 60_000, HighShare: 0.2}
		got, err := r.Limiter.ask(t.Context(), key, limit.shared(), charge{amounts: amounts{1, 10, 1}, how: howAsk})
		if err != nil && !strings.Contains(err.Error(), errKey.Error()) {
			t.Fatalf("%q %q %q %q: %v", at, requests, tokens, high, err)
		}
		if (err != nil) != text {
			t.Errorf("a text is %t, and the error %v", text, err)
		}
		if got.requests > maxDebt*600 || got.tokens > maxDebt*60_000 {
			t.Errorf("%q %q %q %q: %+v", at, requests, tokens, high, got)
		}
		if text {
			return
		}
		m.SetTime(time.Now().Add(maxDebt*time.Minute + time.Second))
		if ttl := m.TTL(key); ttl > expiry || got.refused == "" && ttl <= 0 {
			t.Errorf("%q %q %q %q: the key expires after %v", at, requests, tokens, high, ttl)
		}
		got, err = r.Limiter.ask(t.Context(), key, limit.shared(), charge{amounts: amounts{1, 10, 1}, how: howAsk})
		if err != nil || got.refused != "" {
			t.Errorf("%q %q %q %q: after the longest debt %+v, %v", at, requests, tokens, high, got, err)
		}
	})
}
