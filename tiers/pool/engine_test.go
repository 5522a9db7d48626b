package pool

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/pressure"
)

func TestAnEngineIsAskedForItsKindOnceInEachLife(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var i identity
	if !i.isDue("", 0, now) || !i.isUnasked() {
		t.Error("it was never asked")
	}
	if i.isDue(dialect.OpenAI, 0, now) {
		t.Error("an outsider is asked")
	}
	i.failed(now)
	if i.isUnasked() {
		t.Error("one that could not be asked counts as unasked: its probe would say nothing of the reason")
	}
	if i.isDue("", 0, now.Add(minIdentifyPause-1)) || !i.isDue("", 0, now.Add(minIdentifyPause)) {
		t.Error("the pause after a failure is another one")
	}
	for range 20 {
		i.failed(now)
	}
	if !i.isDue("", 0, now.Add(maxIdentifyPause)) {
		t.Error("the pause grows without a bound")
	}
	i.answered(dialect.Finding{Kind: dialect.SGLang, By: "x"}, "", 0, now)
	if i.kind != dialect.SGLang || i.isDue("", 0, now.Add(time.Hour)) || !i.isDue("", 1, now) {
		t.Errorf("%+v", i)
	}
	i.answered(dialect.Finding{}, "", 1, now)
	if i.kind != dialect.SGLang {
		t.Error("answers that tell nothing took the kind away")
	}
}

func TestAnotherKindOfEngineAtTheSameAddressComesUp(t *testing.T) {
	s := owned(t, "library", "")
	s.health.Store(http.StatusNotFound)
	p, log := run(t, Options{}, s)
	log.await(t, "found the kind of an engine")
	s.http.Close()
	s.owner = "vllm"
	s.metrics.Store("vllm:kv_cache_usage_perc 0\n")
	s.version.Store(http.StatusNotFound)
	s.health.Store(http.StatusOK)
	s.up(s.addr)
	p.setDown((*p.set.Load())[0], syscall.ECONNREFUSED) // as a request finds out
	log.await(t, "backend is up again")
	eventually(t, "it is read as the other kind", func() bool { b := p.Snapshot()[0]; return b.Engine == dialect.VLLM && b.Age != nil })
}

func TestAConfiguredKindStaysAndItsContradictionIsTold(t *testing.T) {
	for found, want := range map[dialect.Kind]string{
		dialect.SGLang: "pools.big.engine is vllm, but it answers as sglang: x", dialect.VLLM: "", "": "",
	} {
		p := fixed(t, Options{Engine: dialect.VLLM})
		p.identified((*p.set.Load())[0], dialect.Finding{Kind: found, By: "x"}, 0)
		if b := p.Snapshot()[0]; b.Engine != dialect.VLLM || want != "" && b.Why != want || want == "" && strings.Contains(b.Why, "answers as") {
			t.Errorf("%q: %+v", found, b)
		}
	}
}

func TestAPoolsKindIsAsConfiguredOrAsTheFirstThatTellsIt(t *testing.T) {
	if got := fixed(t, Options{Engine: dialect.OpenAI}).Engine(); got != dialect.OpenAI {
		t.Errorf("configured: %q", got)
	}
	p := fixed(t, Options{Engine: dialect.Auto})
	if got := p.Engine(); got != "" {
		t.Errorf("nobody has told it: %q", got)
	}
	p.identified((*p.set.Load())[1], dialect.Finding{Kind: dialect.SGLang, By: "x"}, 0)
	if got := p.Engine(); got != dialect.SGLang {
		t.Errorf("told: %q", got)
	}
}

func TestAPoolOfDifferentEnginesSaysSoAtTheSecond(t *testing.T) {
	var log strings.Builder
	p := fixed(t, Options{Logger: zerolog.New(&log)})
	set := *p.set.Load()
	p.give(0, pressure.Reading{})
	p.give(1, pressure.Reading{})
	p.identified(set[0], dialect.Finding{Kind: dialect.VLLM, By: "x"}, 0)
	p.identified(set[1], dialect.Finding{Kind: dialect.LlamaCpp, By: "y"}, 0)
	p.identified(set[1], dialect.Finding{Kind: dialect.LlamaCpp, By: "y"}, 0)
	const want = "it is llamacpp, but a-8000 of the same pool is vllm: make a pool for each kind of engine"
	if got := reasons(p); got[0] != "" || got[1] != want {
		t.Errorf("%q", got)
	}
	if n := strings.Count(log.String(), want); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if p.Snapshot()[1].Engine != dialect.LlamaCpp {
		t.Error("the state does not show it")
	}
	p.identified(set[1], dialect.Finding{Kind: dialect.VLLM, By: "z"}, 1)
	if got := reasons(p); got[1] != "" {
		t.Errorf("after the change: %q", got)
	}
}

// owned is a server that tells its kind by the owner of its models.
func owned(t *testing.T, owner, metrics string) *server {
	t.Helper()
	s := serve(t, metrics)
	s.owner = owner
	return s
}

func TestAnEngineThatTellsNoLoadIsUpWithoutReadings(t *testing.T) {
	s := owned(t, "library", "")
	p, log := run(t, Options{}, s)
	log.await(t, "found the kind of an engine")
	eventually(t, "it has answered", func() bool { return p.Snapshot()[0].Why == "" })
	if b := p.Snapshot()[0]; b.Engine != dialect.OpenAI || b.State == StateDown || b.Age != nil || p.Load() > 0.5 {
		t.Errorf("%+v", b)
	}
	if n := p.scrapeErrors(); n != 0 {
		t.Errorf("%g errors of scrapes", n)
	}
	p.setDown((*p.set.Load())[0], errSilent)
	log.await(t, "backend is up again")
}

func TestMetricsThatAFlagWouldTurnOnAreMissedOnceAndHinted(t *testing.T) {
	const want = "its load is not known: start it with --metrics"
	s := owned(t, "llamacpp", "")
	p, log := run(t, Options{}, s)
	log.await(t, want)
	was := s.asked.Load()
	eventually(t, "it is looked at again", func() bool { return s.asked.Load() > was+2 })
	if b := p.Snapshot()[0]; b.State == StateDown || b.Why != want {
		t.Errorf("%+v", b)
	}
	for len(log) > 0 {
		if m := <-log; m["message"] == want {
			t.Error("the hint was logged twice")
		}
	}
}

func TestAnOutsiderIsAskedNothingAndComesBackByAConnection(t *testing.T) {
	s := owned(t, "vllm", "vllm:kv_cache_usage_perc 0\n")
	p, log := run(t, Options{Engine: dialect.OpenAI}, s)
	p.setDown((*p.set.Load())[0], errSilent)
	log.await(t, "backend is up again")
	if s.asked.Load() != 0 {
		t.Errorf("asked %d times", s.asked.Load())
	}
}

func TestABreakerOfAHostedServerIsTestedWithoutARequest(t *testing.T) {
	s := owned(t, "vllm", "")
	p := fixed(t, Options{Engine: dialect.OpenAI, External: true, Backends: []string{s.url()}})
	b := (*p.set.Load())[0].id
	if got := reasons(p)[0]; got != "" {
		t.Errorf("it is bad before anybody has asked: %s", got)
	}
	if err := p.Probe(t.Context(), b); err != nil || s.asked.Load() != 0 {
		t.Errorf("%v, asked %d times", err, s.asked.Load())
	}
	s.http.Close()
	if p.Probe(t.Context(), b) == nil {
		t.Error("nothing listens, and the probe succeeds")
	}
}

func TestAnEngineWhoseUsageIsNotToldIsNotTakenForALiar(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := fixed(t, Options{Now: func() time.Time { return now }})
	for i := range 60 {
		p.give(0, pressure.Reading{NoUsage: true, Running: 16, Iterations: float64(i * 100)})
		now = now.Add(500 * time.Millisecond)
	}
	if got := reasons(p)[0]; got != "" {
		t.Error(got)
	}
}
