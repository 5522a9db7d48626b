package pool

import (
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/pressure"
)

// reasons are why the backends are bad, by their order.
func reasons(p *Pool) []string {
	var out []string
	for _, s := range p.Snapshot() {
		out = append(out, s.Why)
	}
	return out
}

func TestARefusalOfCredentialsIsTheReasonOfABackendUntilItAcceptsThem(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var log strings.Builder
	live := new(credentials.Live)
	p := fixed(t, Options{Credentials: live, Now: func() time.Time { return now }, Logger: zerolog.New(&log)})
	p.give(0, pressure.Reading{})
	p.give(1, pressure.Reading{})
	l := pick(t, p, Demand{Exclude: []string{"b-8000"}})
	defer l.Done(0)
	b := l.backend
	refused := &credentials.Refusal{Status: 401}
	want := func(what, reason string) {
		t.Helper()
		if got := reasons(p)[0]; got != reason || reasons(p)[1] != "" {
			t.Errorf("%s: %q, want %q", what, got, reason)
		}
	}
	const why = "the engine refuses the gateway's credentials with status 401 (pools.big.auth)"
	l.ReportCredentials(ForRequests, p.Credentials(), refused)
	want("a request", "requests: "+why)
	p.noteCredentials(b, ForScrapes, p.Credentials(), nil)
	want("an open /metrics", "requests: "+why)
	l.ReportCredentials(ForPassthrough, p.Credentials(), nil)
	want("an open path", "requests: "+why)
	l.ReportCredentials(ForRequests, p.Credentials(), &pressure.StatusError{Code: 503})
	want("another error", "requests: "+why)
	l.ReportCredentials(ForRequests, p.Credentials(), nil)
	want("an answer", "")
	p.noteCredentials(b, ForScrapes, p.Credentials(), &pressure.StatusError{Method: "GET", URL: "http://a:8000/metrics", Code: 401})
	want("a scrape", "scrapes: "+why)
	old := p.Credentials()
	live.Set(&credentials.Credentials{})
	p.noteChanges(b)
	want("new credentials", "")
	l.ReportCredentials(ForRequests, old, refused)
	want("a request that had the old ones", "")
	p.NoteProbe("a-8000", p.Credentials(), refused)
	want("a probe", "requests: "+why)
	p.NoteProbe("gone-8000", p.Credentials(), refused)
	p.setDown(b, errSilent)
	if got := reasons(p)[0]; got != errSilent.Error() {
		t.Errorf("of one that is down: %q", got)
	}
	if n := strings.Count(log.String(), "the setting is at fault"); n != 1 {
		t.Errorf("logged %d times within a minute:\n%s", n, &log)
	}
	now = now.Add(refusalLogInterval)
	for range 3 {
		p.NoteProbe("b-8000", p.Credentials(), &credentials.Refusal{TLS: errSilent})
	}
	if n := strings.Count(log.String(), `"setting":"pools.big.tls"`); n != 1 {
		t.Errorf("a minute later logged %d times:\n%s", n, &log)
	}
}
