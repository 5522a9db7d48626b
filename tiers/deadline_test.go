package tiers

import (
	"context"
	"math"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
)

func TestADeadlineFollowsWhatTheAnswerMayNeed(t *testing.T) {
	follows := Timeouts{TargetFirstByte: 30 * time.Second, Total: 10 * time.Minute, MaxTotal: time.Hour, MinRate: 10}
	off, below, unset := follows, follows, follows
	off.MaxTotal, below.MaxTotal, unset.MinRate = 0, time.Minute, 0
	for name, tc := range map[string]struct {
		t              Timeouts
		prompt, answer int
		want           time.Duration
	}{
		"a short answer":             {follows, 100, 256, 10 * time.Minute},
		"the longest within Total":   {follows, 100, 5100, 10 * time.Minute},
		"a token more":               {follows, 100, 5101, 10*time.Minute + 100*time.Millisecond},
		"a long answer":              {follows, 4000, 16000, 1600*time.Second + 30*time.Second + time.Minute},
		"and a long prompt":          {follows, 32000, 16000, 1600*time.Second + 240*time.Second + time.Minute},
		"longer than MaxTotal":       {follows, 100, 100000, time.Hour},
		"no limit":                   {follows, 100, -1, time.Hour},
		"no number that overflows":   {follows, math.MaxInt32, math.MaxInt, time.Hour},
		"no answer":                  {follows, 100, 0, 10 * time.Minute},
		"off":                        {off, 100, 100000, 10 * time.Minute},
		"off, no limit":              {off, 100, -1, 10 * time.Minute},
		"below Total":                {below, 100, -1, 10 * time.Minute},
		"5 tokens a second by usual": {unset, 100, 5000, 1000*time.Second + 90*time.Second},
	} {
		if got := tc.t.Deadline(tc.prompt, tc.answer); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestAnAnswerInOnePieceIsWaitedForAtTheSlowestRate(t *testing.T) {
	to := Timeouts{DraftFirstByte: time.Second, TargetFirstByte: 30 * time.Second, Total: 10 * time.Minute, MaxTotal: time.Hour, MinRate: 2}
	for _, tc := range []struct {
		max  int
		want time.Duration
	}{
		{100, 80 * time.Second}, {3000, 1530 * time.Second}, {20000, 0}, {-1, 0},
	} {
		if got := to.DirectFirstByte(Target, &openai.Request{Kind: openai.Chat, MaxTokens: tc.max}); got != tc.want {
			t.Errorf("max_tokens %d: %v, want %v", tc.max, got, tc.want)
		}
	}
}

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
func watched(c *Cascade) *deadlines {
	d := &deadlines{RoundTripper: c.transport, from: time.Now(), left: map[string]time.Duration{}}
	c.transport = d
	return d
}

func TestEveryWayOfAnsweringHasTheRequestsDeadline(t *testing.T) {
	const chats, completions = "/v1/chat/completions", "/v1/completions"
	const long = 6800*time.Second + 30*time.Second + time.Minute // for 680 tokens
	within := Timeouts{
		DraftFirstByte: 30 * time.Second, TargetFirstByte: 30 * time.Second, Chunk: time.Minute,
		Total: 10 * time.Minute, MaxTotal: 3 * time.Hour, MinRate: 0.1,
	}
	for _, tc := range []struct {
		name, body string
		kind       openai.Kind
		tier       Tier
		at         string
		want       time.Duration
	}{
		{"a draft", chat("hello", `,"max_tokens":680,"stream":true`), openai.Chat, Auto, chats, long},
		{"a draft in one piece", chat("hello", `,"max_tokens":680`), openai.Chat, Auto, chats, long},
		{"the target", chat("hello", `,"max_tokens":680,"stream":true`), openai.Chat, Target, chats, long},
		{"a short answer", chat("hello", `,"max_tokens":8,"stream":true`), openai.Chat, Target, chats, 10 * time.Minute},
		{"a chat without a limit", chat("hello", `,"stop":[" "]`), openai.Chat, Target, chats, 3 * time.Hour},
		{"a completion without one", `{"model":"m","prompt":"hello"}`, openai.Completion, Target, completions, 10 * time.Minute},
	} {
		r := newRig(t, 7, 0.1, true)
		r.cfg.Timeouts = within
		d := watched(r.cascade)
		if _, _, err := r.ask(tc.kind, tc.tier, tc.body); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		d.had(t, tc.name, tc.at, tc.want)
	}
}

func TestWhatPassesThroughHasADeadlineByItsLimit(t *testing.T) {
	for _, tc := range []struct {
		path, members string
		want          time.Duration
	}{
		{"/v1/messages", `"messages":[],"max_tokens":6800`, 6800*time.Second + 90*time.Second},
		{"/v1/messages", `"messages":[],"max_tokens":68`, 10 * time.Minute},
		{"/v1/responses", `"input":"hello"`, 3 * time.Hour},
		{"/v1/embeddings", `"input":"hello"`, 10 * time.Minute},
	} {
		s := vllmsim.Start(t, vllmsim.Options{Model: "big", TimeScale: testScale})
		cfg := testConfig()
		cfg.Timeouts = Timeouts{TargetFirstByte: 30 * time.Second, Chunk: time.Minute, Total: 10 * time.Minute, MaxTotal: 3 * time.Hour, MinRate: 1}
		c := newTestCascade(t, Route{Model: "m", Target: testPool(t, "targets", "big", s.URL()), Config: func() Config { return cfg }})
		body := []byte(`{"model":"m",` + tc.members + `}`)
		env, err := openai.Peek(tc.path, body, openai.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		d := watched(c)
		// The simulator may know nothing of the path: the call and its deadline are the same.
		_, _ = c.Forward(t.Context(), Forward{Path: tc.path, Envelope: env, Bytes: len(body), Need: env.Need(tc.path), ID: "own"}, &collector{})
		d.had(t, tc.members, tc.path, tc.want)
	}
}

func TestAnAuditMayTakeAsLongAsItsRequest(t *testing.T) {
	for _, tc := range []struct{ max, want time.Duration }{{0, auditTime}, {3 * time.Hour, 3 * time.Hour}} {
		a := &auditor{}
		a.begin(t.Context())
		from := time.Now()
		var left time.Duration
		if !a.start(tc.max, func(ctx context.Context) {
			at, _ := ctx.Deadline()
			left = at.Sub(from)
		}) {
			t.Fatal("no room")
		}
		a.rest()
		if left < tc.want || left > tc.want+time.Since(from) {
			t.Errorf("an audit of a request that may take %v has %v", tc.max, left)
		}
	}
}
