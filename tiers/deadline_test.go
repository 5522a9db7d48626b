package tiers

import (
	"crypto/tls"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// deadlines notes how long each call had, by its path and from a given moment.
type deadlines struct {
	http.RoundTripper
	from time.Time
	mu   sync.Mutex
	left map[string]time.Duration
}

func (d *deadlines) RoundTrip(r *http.Request) (*http.Response, error) {
	if at, ok := r.Context().Deadline(); ok {
		d.mu.Lock()
		d.left[r.URL.Path] = at.Sub(d.from)
		d.mu.Unlock()
	}
	return d.RoundTripper.RoundTrip(r)
}

// had checks that the last call to a path had so long, counted from a moment between d.from and now.
func (d *deadlines) had(t *testing.T, name, at string, want time.Duration) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if got := d.left[at]; got < want || got > want+time.Since(d.from) {
		t.Errorf("%s: the call of %s had %v, want %v", name, at, got, want)
	}
}

// watched has a cascade's calls noted from now on.
func watched(t *testing.T, c *Cascade) *deadlines {
	transports := credentials.NewTransports(func(*tls.Config) http.RoundTripper { return &http.Transport{} })
	t.Cleanup(transports.CloseIdleConnections)
	d := &deadlines{RoundTripper: transports.Of(noCredentials), from: time.Now(), left: map[string]time.Duration{}}
	sendBy(c, d)
	return d
}

func TestEveryWayOfAnsweringHasTheRequestsDeadline(t *testing.T) {
	const chats, completions = "/v1/chat/completions", "/v1/completions"
	const long = 6800*time.Second + 30*time.Second + time.Minute // for 680 tokens
	within := plan.Timeouts{
		DraftFirstToken: 30 * time.Second, TargetFirstToken: 30 * time.Second, StreamIdle: time.Minute,
		Total: 10 * time.Minute, MaxTotal: 3 * time.Hour, MinTokensPerSecond: 0.1,
	}
	for _, tc := range []struct {
		name, body string
		kind       openai.Kind
		tier       plan.Tier
		at         string
		want       time.Duration
	}{
		{"a draft", chat("hello", `,"max_tokens":680,"stream":true`), openai.Chat, plan.Auto, chats, long},
		{"a draft in one piece", chat("hello", `,"max_tokens":680`), openai.Chat, plan.Auto, chats, long},
		{"the target", chat("hello", `,"max_tokens":680,"stream":true`), openai.Chat, plan.Target, chats, long},
		{"a short answer", chat("hello", `,"max_tokens":8,"stream":true`), openai.Chat, plan.Target, chats, 10 * time.Minute},
		{"a chat without a limit", chat("hello", `,"stop":[" "]`), openai.Chat, plan.Target, chats, 3 * time.Hour},
		{"a completion without one", `{"model":"m","prompt":"hello"}`, openai.Completion, plan.Target, completions, 10 * time.Minute},
	} {
		r := newRig(t, 7, 0.1, true)
		r.cfg.Timeouts = within
		d := watched(t, r.cascade)
		if _, _, err := r.ask(tc.kind, tc.tier, tc.body); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		d.had(t, tc.name, tc.at, tc.want)
	}
}
