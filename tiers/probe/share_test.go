package probe

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// counted passes a simulator's requests on and counts them.
func counted(t *testing.T, sim string) (url string, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	return faces(t, sim, func(http.ResponseWriter, *http.Request, []byte) bool {
		asked.Add(1)
		return false
	}), asked
}

// told returns what a prober tells of its pool.
func told(t *testing.T, p *Prober) string {
	t.Helper()
	text := ""
	until(t, p, "told", func(*Capabilities) bool {
		if now := p.Tell()["p"]; now != "" {
			text = now
		}
		return text != "" && strings.Contains(text, `"Open":null,`)
	})
	return text
}

// One replica asks an engine; another takes over what it found out, and asks nothing.
func TestAnotherReplicaAsksNothing(t *testing.T) {
	url, asked := counted(t, simulated(t, vllmsim.Options{Seed: 3}).URL())
	s := backends(Backend{ID: "a", URL: url, Up: true, Life: 1})
	first := start(t, Options{}, s, func(p *Prober) { p.pace.models = time.Hour })
	was := until(t, first, "probed", good)
	text := told(t, first)
	before := asked.Load()
	s2 := backends(Backend{ID: "a", URL: url, Up: true, Life: 7}) // lives are counted by each replica
	second := start(t, Options{Mine: func(string, string) bool { return false }}, s2, nil)
	second.Take("p", text, time.Second)
	is := until(t, second, "known", good)
	if is.Tokenizer != was.Tokenizer || is.Scoring != was.Scoring || !is.TokenIDs || is.Life != 7 || !second.Progress("p").Shared {
		t.Errorf("%+v became %+v", was, is)
	}
	if n := asked.Load() - before; n > 0 {
		t.Errorf("the second replica has asked %d times", n)
	}
	if len(second.Tell()) > 0 {
		t.Error("what another has told is told again")
	}
	// A restart that this replica sees makes what was told before of no use.
	s2.become(Backend{ID: "a", URL: url, Up: true, Life: 8})
	until(t, second, "withdrawn", func(c *Capabilities) bool { return c == nil })
	second.Take("p", text, 0)
	until(t, second, "known again", func(c *Capabilities) bool { return good(c) && c.Life == 8 })
}

// A replica that is started anew looks at the engine's card alone, if the engine is the one that it was.
func TestAReplicaThatStartsAnewRecallsWhatItHasFoundOut(t *testing.T) {
	url, asked := counted(t, simulated(t, vllmsim.Options{Seed: 3}).URL())
	s := backends(Backend{ID: "a", URL: url, Up: true})
	first := start(t, Options{}, s, func(p *Prober) { p.pace.models = time.Hour })
	until(t, first, "probed", good)
	text := told(t, first)
	before := asked.Load()
	var ready atomic.Bool
	again := start(t, Options{Ready: ready.Load}, s, func(p *Prober) { p.pace.models = time.Hour })
	again.Take("p", text, 2*time.Second)
	ready.Store(true)
	until(t, again, "known", good)
	if n := asked.Load() - before; n > 2 { // the card, and when it was started
		t.Errorf("it has asked %d times", n)
	}
	other := start(t, Options{Ready: ready.Load}, s, func(p *Prober) { p.pace.models = time.Hour })
	other.Take("p", strings.Replace(text, `"Window":`, `"Window":1`, 1), 0)
	before = asked.Load()
	until(t, other, "known", good)
	if n := asked.Load() - before; n < 10 {
		t.Errorf("of another model it has asked %d times", n)
	}
}

// FuzzRecords reads foreign bytes as what a replica tells: they are a record that a replica can have written, or none.
func FuzzRecords(f *testing.F) {
	c := newRun(&asker{model: "m"}).card(nil)
	c.Backend = "a"
	f.Add(record{modelCard{ID: "m"}, *c}.encode())
	for _, text := range []string{"", "{}", "null", `{"Card":{},"Found":{"Backend":"a","Missing":[{"Name":"eos"}]},"Open":["x"]}`, "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := New(Options{Pools: []Pool{{Name: "p", Model: "m", Backends: func() []Backend { return nil }}}})
		if err != nil {
			t.Fatal(err)
		}
		p.Take("p", text, 0)
		r := parseRecord(text)
		if r == nil {
			return
		}
		if again := r.encode(); again != "" {
			if parseRecord(again) == nil {
				t.Errorf("%q became %q, which is none", text, again)
			}
		}
		for _, what := range CapabilityNames {
			_ = r.Found.MissingReason(what)
		}
	})
}
