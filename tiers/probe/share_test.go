package probe

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// counted passes a simulator's requests on and counts those that cost it work.
func counted(t *testing.T, sim string) (url string, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	return faces(t, sim, func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.Method == http.MethodPost {
			asked.Add(1)
		}
		return false
	}), asked
}

// told returns what a prober tells of its pool.
func told(t *testing.T, p *Prober) string {
	t.Helper()
	text := ""
	until(t, p, "told", func(*Capabilities) bool {
		text = p.Tell()["p"]
		return text != ""
	})
	return text
}

// One replica asks an engine; another, and one that is started anew, look at its card and take over what was found out.
func TestWhatIsKnownOfAnEngineIsAskedOnce(t *testing.T) {
	sim := simulated(t, vllmsim.Options{Seed: 3})
	url, asked := counted(t, sim.URL())
	s := backends(Backend{ID: "a", URL: url, Up: true, Life: 1})
	slow := func(p *Prober) { p.pace.models = time.Hour }
	first := start(t, Options{}, s, slow)
	was := until(t, first, "probed", good)
	text := told(t, first)
	before := asked.Load()
	var ready atomic.Bool
	ready.Store(true)
	second := start(t, Options{Mine: func(string, string) bool { return false }}, backends(Backend{ID: "a", URL: url, Up: true, Life: 7}), slow) // lives are counted by each replica
	second.Take("p", text, time.Second)
	is := until(t, second, "known", good)
	if is.Tokenizer != was.Tokenizer || is.Scoring != was.Scoring || !is.TokenIDs || is.Life != 7 || !second.Progress("p").Shared {
		t.Errorf("%+v became %+v", was, is)
	}
	if len(second.Tell()) > 0 {
		t.Error("what another has told is told again")
	}
	ready.Store(false)
	again := start(t, Options{Ready: ready.Load}, s, slow)
	again.Take("p", text, 2*time.Second)
	ready.Store(true)
	until(t, again, "known", good)
	if n := asked.Load() - before; n > 0 {
		t.Errorf("the others have asked %d times", n)
	}
	ready.Store(false)
	other := start(t, Options{Ready: ready.Load}, s, slow)
	other.Take("p", strings.Replace(text, `"Window":`, `"Window":1`, 1), 0)
	ready.Store(true)
	until(t, other, "known", good)
	if n := asked.Load() - before; n < 10 {
		t.Errorf("of another engine it has asked %d times", n)
	}
}

// FuzzRecords reads foreign bytes as what a replica tells: they are a record that a replica can have written, or none.
func FuzzRecords(f *testing.F) {
	c := newRun(&asker{model: "m"}).capabilities()
	c.Backend = "a"
	f.Add(record{modelCard{ID: "m"}, *c}.encode())
	for _, text := range []string{"", "{}", "null", `{"Card":{},"Found":{"Backend":"a","Model":"m","Missing":[{"Name":"eos"}]}}`, "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := New(Options{Pools: []Pool{{Name: "p", Model: "m", Backends: func() []Backend { return nil }}}})
		if err != nil {
			t.Fatal(err)
		}
		p.Take("p", text, 0)
		r := p.watches()["p"].heard.record
		if r == nil {
			return
		}
		for _, what := range CapabilityNames {
			_ = r.Found.MissingReason(what)
		}
	})
}
