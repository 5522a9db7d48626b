package probe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/credentials"
)

// set is a pool's backends, which a test changes.
type set struct{ now atomic.Pointer[[]Backend] }

func (s *set) become(list ...Backend) { s.now.Store(&list) }

func backends(list ...Backend) *set {
	s := &set{}
	s.become(list...)
	return s
}

// lines are what was logged.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.FieldsFunc(l.buf.String(), func(r rune) bool { return r == '\n' })
}

// hasty is a pace for tests.
var hasty = pace{
	silence: 2 * time.Minute, look: time.Millisecond, models: 5 * time.Millisecond, minRetry: time.Millisecond, maxRetry: 10 * time.Millisecond,
	told: time.Millisecond,
}

// askable is a pool whose engines may be asked all, without credentials.
func askable(p Pool) Pool {
	p.Credentials = func() *credentials.Credentials { return nil }
	if p.MayScore == nil {
		p.MayScore = func(string, int) (func(error), error) { return func(error) {}, nil }
	}
	if p.Ended == nil {
		p.Ended = func(string, error) {}
	}
	return p
}

// start runs a prober of one pool, "p", until the test ends.
func start(t *testing.T, o Options, s *set, change func(*Prober)) *Prober {
	t.Helper()
	o.Pools = append(o.Pools, askable(Pool{Name: "p", Model: "sim", Backends: func() []Backend { return *s.now.Load() }}))
	o.Upstream = up(t)
	if o.Mine == nil {
		o.Mine = func(string, string) bool { return true }
	}
	if o.Ready == nil {
		o.Ready = func() bool { return true }
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	p.pace = hasty
	if change != nil {
		change(p)
	}
	run(t, p)
	return p
}

// run runs a prober until the test ends.
func run(t *testing.T, p *Prober) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Error("Run did not end")
		}
	})
}

// until waits for a card that fits.
func until(t *testing.T, p *Prober, what string, fits func(*Capabilities) bool) *Capabilities {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for {
		c := p.Capabilities("p")
		if fits(c) {
			return c
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("never %s; the card is %+v, %+v", what, c, p.Progress("p"))
		}
	}
}

func good(c *Capabilities) bool { return c != nil }

// refused waits until a question has failed, and returns why.
func refused(t *testing.T, p *Prober) string {
	t.Helper()
	until(t, p, "failed", func(*Capabilities) bool { return p.Progress("p").Failed != "" })
	return p.Progress("p").Failed
}

func TestARestartBringsANewCard(t *testing.T) {
	a, b := simulated(t, vllmsim.Options{Seed: 3}), simulated(t, vllmsim.Options{Seed: 3, MaxModelLen: 5000})
	s := backends(Backend{ID: "a", URL: a.URL(), Up: true, Life: 1})
	p := start(t, Options{}, s, func(p *Prober) { p.pace.models = time.Hour })
	was := until(t, p, "probed", good)
	if was.Backend != "a" || was.Life != 1 || was.Window == 5000 {
		t.Errorf("got %+v", was)
	}
	s.become(Backend{ID: "a", URL: b.URL(), Up: true, Life: 2})
	if is := until(t, p, "probed again", func(c *Capabilities) bool { return good(c) && c.Life == 2 }); is.Window != 5000 {
		t.Errorf("got %+v", is)
	}
	if was.Life != 1 {
		t.Error("a published card was changed")
	}
}

func TestAnotherModelCardBringsANewCard(t *testing.T) {
	a, b := simulated(t, vllmsim.Options{Seed: 3}), simulated(t, vllmsim.Options{Seed: 3, MaxModelLen: 5000})
	s := backends(Backend{ID: "a", URL: a.URL(), Up: true})
	log := &lines{}
	p := start(t, Options{Logger: zerolog.New(log)}, s, nil)
	until(t, p, "probed", good)
	s.become(Backend{ID: "a", URL: b.URL(), Up: true}) // the same life, as far as one knows
	until(t, p, "probed again", func(c *Capabilities) bool { return good(c) && c.Window == 5000 })
	// One line per change, though the model's card was looked at again and again.
	until(t, p, "two lines in the log", func(*Capabilities) bool { return len(log.all()) >= 2 })
	got := log.all()
	if len(got) != 2 || !strings.Contains(got[0], `"why":"it was not probed yet"`) || !strings.Contains(got[1], `"why":"its model's card has changed"`) {
		t.Errorf("logged %q", got)
	}
}

func TestADeadBackendIsTriedAgainAndAnotherInItsTurn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + l.Addr().String()
	_ = l.Close()
	s := backends(Backend{ID: "dead", URL: dead, Up: true})
	log := &lines{}
	p := start(t, Options{Logger: zerolog.New(log)}, s, nil)
	if p.Capabilities("q") != nil {
		t.Error("a card of a pool that there is not")
	}
	if c, why := p.Capabilities("p"), refused(t, p); c != nil || !strings.Contains(why, "refused") {
		t.Errorf("got %q, %+v", why, c)
	}
	live := simulated(t, vllmsim.Options{Seed: 3})
	s.become(Backend{ID: "dead", URL: dead, Up: true}, Backend{ID: "live", URL: live.URL(), Up: true})
	until(t, p, "probed elsewhere", func(c *Capabilities) bool { return good(c) && c.Backend == "live" })
	until(t, p, "two lines in the log", func(*Capabilities) bool { return len(log.all()) == 2 })
}

// faces forwards to a simulator what a test does not answer itself.
func faces(t *testing.T, sim string, answer func(w http.ResponseWriter, r *http.Request, body []byte) bool) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || answer(w, r, body) {
			return
		}
		req, err := http.NewRequestWithContext(r.Context(), r.Method, sim+r.URL.Path, bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		maps.Copy(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestAHangingBackendIsLeftInTime(t *testing.T) {
	hang := faces(t, "", func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		<-r.Context().Done()
		return true
	})
	p := start(t, Options{}, backends(Backend{ID: "a", URL: hang, Up: true}), func(p *Prober) { p.pace.silence = 20 * time.Millisecond })
	if got, want := refused(t, p), "model card: no first byte in time"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

func TestGarbageIsNoCard(t *testing.T) {
	for name, garbage := range map[string]string{
		"a page":     "<html>502 Bad Gateway</html>",
		"an array":   `[]`,
		"nothing":    "",
		"no choices": `{"choices":[]}`,
		"half":       `{"choices":[{"message":{"content":"a`,
		"wrong":      `{"choices":[{"token_ids":["a"]}],"data":3,"tokens":{}}`,
	} {
		url := faces(t, "", func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			_, _ = io.WriteString(w, garbage)
			return true
		})
		e := newRun(&asker{upstream: up(t), timeout: 20 * time.Second, url: url, model: "sim"})
		e.mayScore = func(int) (func(error), error) { return func(error) {}, nil }
		for !e.complete() {
			if e.next(t.Context()) != nil {
				e.known++
			}
		}
		c := e.capabilities()
		for _, what := range CapabilityNames {
			if what != MissingIDs && what != MissingPromptIDs && what != MissingLogprobs && c.MissingReason(what) == "" {
				t.Errorf("%s: it has %s: %+v", name, what, c)
			}
		}
		if e.noChat == "" {
			t.Errorf("%s: a chat: %+v", name, e.chatted)
		}
	}
}

// What was answered stands: a probe goes on at the question that brought nothing.
func TestAQuestionThatFailsLeavesTheAnswersBeforeItStanding(t *testing.T) {
	sim := simulated(t, vllmsim.Options{Seed: 3})
	var broken, tokenized atomic.Int32
	broken.Store(1)
	url := faces(t, sim.URL(), func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if r.URL.Path == "/tokenize" && !bytes.Contains(body, []byte(`"messages"`)) {
			tokenized.Add(1)
		}
		if r.URL.Path != "/v1/chat/completions" || broken.Load() == 0 {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	p := start(t, Options{}, backends(Backend{ID: "a", URL: url, Up: true, Life: 1}), nil)
	why := refused(t, p)
	if got := p.Progress("p"); got.Next.IsZero() || len(got.Open) != 5 || got.Open[0] != "chat" || !strings.HasPrefix(why, "chat: status 503") || p.Capabilities("p") != nil {
		t.Errorf("progress %+v", got)
	}
	broken.Store(0)
	until(t, p, "mended", good)
	if int(tokenized.Load()) != len(texts) {
		t.Errorf("%d texts were tokenized", tokenized.Load())
	}
}

// What an engine has told holds for its life: nothing is asked again, whatever goes wrong.
func TestAnswersHoldForTheEnginesLife(t *testing.T) {
	sim := simulated(t, vllmsim.Options{Seed: 3})
	s := backends(Backend{ID: "a", URL: sim.URL(), Up: true, Life: 1})
	p := start(t, Options{}, s, func(p *Prober) { p.pace.models = time.Hour })
	was := until(t, p, "probed", good)
	if err := sim.SetFault(vllmsim.Fault{Status: 503}); err != nil {
		t.Fatal(err)
	}
	// What is in a new life, nobody knows.
	s.become(Backend{ID: "a", URL: sim.URL(), Up: true, Life: 2})
	until(t, p, "withdrawn", func(c *Capabilities) bool { return c == nil })
	until(t, p, "told why", func(*Capabilities) bool { return strings.Contains(p.Progress("p").Failed, "status 503") })
	if err := sim.SetFault(vllmsim.Fault{}); err != nil {
		t.Fatal(err)
	}
	is := until(t, p, "probed again", func(c *Capabilities) bool { return good(c) && c.Life == 2 })
	if is.Tokenizer != was.Tokenizer || is.Scoring != was.Scoring || len(is.Missing) != len(was.Missing) {
		t.Errorf("%+v became %+v", was, is)
	}
}

// An engine that is busy lets questions wait, and tells its tokens slowly: that it goes on is enough.
func TestABusyEngineIsProbedAsLongAsItGoesOn(t *testing.T) {
	sim := simulated(t, vllmsim.Options{Seed: 3})
	var tokens atomic.Int32
	url := faces(t, sim.URL(), func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if r.URL.Path != "/v1/chat/completions" || tokens.Load() > 0 { // the first answer is slow enough
			return false
		}
		req, _ := http.NewRequestWithContext(r.Context(), r.Method, sim.URL()+r.URL.Path, bytes.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return true
		}
		defer func() { _ = resp.Body.Close() }()
		whole, _ := io.ReadAll(resp.Body)
		maps.Copy(w.Header(), resp.Header)
		tick := time.NewTicker(150 * time.Millisecond) // in all longer than it may say nothing
		defer tick.Stop()
		for event := range bytes.SplitAfterSeq(whole, []byte("\n\n")) {
			tokens.Add(1)
			_, _ = w.Write(event)
			_ = http.NewResponseController(w).Flush()
			<-tick.C
		}
		return true
	})
	p := start(t, Options{}, backends(Backend{ID: "a", URL: url, Up: true}), func(p *Prober) { p.pace.silence = 1500 * time.Millisecond })
	if c := until(t, p, "probed", good); c.MissingReason(MissingLogprobs) != "" || tokens.Load() < 10 {
		t.Errorf("after %d events %+v", tokens.Load(), c)
	}
}

// scores reports whether a question is one for scores.
func scores(body []byte) bool { return bytes.Contains(body, []byte(`"prompt_logprobs"`)) }

func TestScoringThatFailsIsMissingAndAllElseIsKnown(t *testing.T) {
	sim := simulated(t, vllmsim.Options{Seed: 3})
	var broken, asked atomic.Int32
	broken.Store(1)
	url := faces(t, sim.URL(), func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if !scores(body) {
			return false
		}
		asked.Add(1)
		if broken.Load() == 0 {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"error":{"message":"no memory\nfor logits"}}`)
		return true
	})
	s := backends(Backend{ID: "a", URL: url, Up: true})
	p := start(t, Options{}, s, nil)
	c := until(t, p, "probed", func(c *Capabilities) bool {
		return good(c) && slices.Equal(p.Progress("p").Open, []string{"scores"})
	})
	if want := "completions: status 500: no memory for logits"; c.MissingReason(MissingScoring) != want || c.MissingReason(MissingContinue) != "" {
		t.Errorf("%q, not %q: %+v", c.MissingReason(MissingScoring), want, c)
	}
	broken.Store(0)
	until(t, p, "mended", func(c *Capabilities) bool { return good(c) && c.Scoring != "" })
	broken.Store(1)
	s.become(Backend{ID: "a", URL: url, Up: true, Life: 1})
	until(t, p, "missing in the next life", func(c *Capabilities) bool { return good(c) && c.Life == 1 && c.Scoring == "" })
}

func TestAnEngineThatDiesOfScoringIsNotAskedToScoreAgainSoon(t *testing.T) {
	sim := simulated(t, vllmsim.Options{Seed: 3})
	var asked, ill atomic.Int32
	url := faces(t, sim.URL(), func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		switch {
		case scores(body):
			asked.Add(1)
			ill.Store(1)
			panic(http.ErrAbortHandler)
		case r.URL.Path == "/health" && ill.Load() == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	s := backends(Backend{ID: "a", URL: url, Up: true, Life: 1})
	var closed, left atomic.Int32
	p := start(t, Options{}, s, func(p *Prober) {
		p.watches()["p"].pool.MayScore = func(string, int) (func(error), error) {
			if closed.Load() == 1 {
				return nil, errors.New("closed until later")
			}
			return func(err error) {
				if closed.Store(1); err != nil {
					left.Add(1)
				}
			}, nil
		}
	})
	c := until(t, p, "probed", good)
	if !strings.HasPrefix(c.MissingReason(MissingScoring), "completions: ") || left.Load() != 1 {
		t.Errorf("%d were told: %+v", left.Load(), c.Missing)
	}
	ill.Store(0)
	s.become(Backend{ID: "a", URL: url, Up: true, Life: 2})
	c = until(t, p, "probed again", func(c *Capabilities) bool { return good(c) && c.Life == 2 })
	if !strings.Contains(c.MissingReason(MissingScoring), "closed until later") || c.MissingReason(MissingContinue) != "" || asked.Load() != 1 {
		t.Errorf("asked %d times: %+v", asked.Load(), c)
	}
}
