package probe

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/upstream"
)

func TestAnEngineThatRefusesTheKeyIsNotProbedAndSaysSoUntilItTakesIt(t *testing.T) {
	sim := simulated(t, vllmsim.Options{Seed: 3, APIKeys: []string{"right"}})
	var key atomic.Pointer[string]
	show := func(k string) { key.Store(&k) }
	show("wrong-canary")
	var ends atomic.Pointer[error]
	pools := []Pool{askable(Pool{
		Name: "p", Model: "sim", Backends: func() []Backend { return []Backend{{ID: "a", URL: sim.URL(), Up: true}} },
		Ended: func(_ string, err error) { ends.Store(&err) },
	})}
	p, err := New(Options{Pools: pools, Mine: func(string, string) bool { return true }, Ready: func() bool { return true }, Upstream: upstream.New(upstream.Options{Transport: withKey{transport(t), &key}})})
	if err != nil {
		t.Fatal(err)
	}
	p.pace = hasty
	run(t, p)
	c := until(t, p, "failed", func(*Capabilities) bool { return p.Progress("p").Failed != "" })
	if why := p.Progress("p").Failed; c != nil || !strings.Contains(why, ": the engine refuses the gateway's credentials with status 401") || strings.Contains(why, "canary") {
		t.Errorf("%q, %+v", why, c)
	}
	if credentials.RefusalOf(*ends.Load()) == nil {
		t.Errorf("the end is %v", *ends.Load())
	}
	show("right")
	until(t, p, "probed", good)
	if *ends.Load() != nil {
		t.Errorf("the end is %v", *ends.Load())
	}
}

// withKey sends requests with a key.
type withKey struct {
	transport http.RoundTripper
	key       *atomic.Pointer[string]
}

func (w withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+*w.key.Load())
	return w.transport.RoundTrip(r)
}

func TestAProxyThatClosesSinglePathsLeavesTheRest(t *testing.T) {
	sim := simulated(t, vllmsim.Options{Seed: 3})
	url := faces(t, sim.URL(), func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.URL.Path != "/tokenize" && r.URL.Path != "/v1/models" {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"error":{"message":"canary"}}`)
		return true
	})
	c := &taken(t, url).found
	if why := c.MissingReason(MissingTokenize); !strings.Contains(why, "status 403") || strings.Contains(why, "canary") {
		t.Errorf("missing for %q", why)
	}
	if c.MissingReason(MissingWindow) == "" || c.Scoring == "" {
		t.Errorf("%+v", c)
	}
}
