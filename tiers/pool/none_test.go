package pool

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

// at is the reading of an engine that runs one request and is that full.
func at(usage float64) pressure.Reading {
	return pressure.Reading{Running: 1, KVUsage: usage, Iterations: 1 + usage, BlockSize: 16, Blocks: 10_001, Engines: 1}
}

// refused is the *FullError of a pick.
func refused(t *testing.T, p *Pool, d Demand) *FullError {
	t.Helper()
	_, err := p.pick(d)
	full, ok := errors.AsType[*FullError](err)
	if !ok || !errors.Is(err, ErrFull) || errors.Is(err, ErrNoBackend) {
		t.Fatalf("got %v, want that it is full", err)
	}
	return full
}

func TestAPoolThatIsFullTellsTheNumbersOfTheLeastFull(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a", "http://b", "http://c"}})
	usage, waiting := []float64{0.95, 0.9, 0.99}, []int{3, 5, 2}
	b.tick(0, func(i int) pressure.Reading {
		r := at(usage[i])
		r.Waiting = waiting[i]
		return r
	})
	e := refused(t, b.Pool, Demand{PromptTokens: 1000, Admission: Admission{MaxUsage: 0.85, MaxQueue: 9, Now: true}})
	if e.Pool != "big" || e.Limit != 0.85 || e.Queue != 9 || math.Abs(e.Usage-0.9) > 1e-9 || e.Waiting != 2 || e.Wait != 0 {
		t.Errorf("%+v", e)
	}
	if got, want := e.Error(), "pool big: no backend has room: KV usage 0.9 at least, limit 0.85, 2 requests waiting at least"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestThePeakIsWhatTheMemoryWouldComeTo(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a"}})
	b.tick(0, func(int) pressure.Reading { return at(0.5) })
	d := Demand{PromptTokens: 77_000, MaxOutput: 3000, Admission: Admission{MaxUsage: 0.85}}
	for range 400 { // answers of such requests fill their limit
		b.outputs.Learn(-1, 3000, 3000)
	}
	e := refused(t, b.Pool, d)
	c := looked(b.Pool)[0]
	// What is there and what it grows to, the prompt and all of its answer.
	want := 0.5 + (77_000+3000+c.growth)/160_000
	if math.Abs(e.Usage-0.5) > 1e-9 || math.Abs(e.Peak-want) > 1e-6 || e.PeakLimit != 0.85 || c.growth <= 0 {
		t.Errorf("%#v, want a peak of %v", *e, want)
	}
}

func TestTheWaitIsWhatIsMissingAtTheRateOfTheLastSeconds(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a", "http://b"}})
	idle := pressure.Reading{BlockSize: 16, Blocks: 10_001, Engines: 1}
	b.tick(0, func(int) pressure.Reading { return idle })
	full := Demand{PromptTokens: 100, Admission: Admission{MaxUsage: 0.85}}
	b.tick(time.Second, func(int) pressure.Reading { return at(0.9) })
	if e := refused(t, b.Pool, full); e.Wait != 0 {
		t.Errorf("nothing was freed yet: %v", e.Wait)
	}
	for range 600 { // a minute in which 10,000 tokens a second are freed, at both
		b.tick(100*time.Millisecond, func(int) pressure.Reading { return idle })
		pick(t, b.Pool, Demand{PromptTokens: 900}).Done(100)
	}
	b.tick(0, func(int) pressure.Reading { return at(0.9) })
	e := refused(t, b.Pool, full)
	over := (e.Peak - e.Limit) * 160_000
	want := over / 5000 // one has half of it
	if got := e.Wait.Seconds(); over < 8000 || got < want*0.95 || got > want*1.05 {
		t.Errorf("%v for %v tokens, want %v s", e.Wait, over, want)
	}
}

func TestAPatientRequestIsToldThatThereIsRoomElsewhere(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a", "http://b"}})
	b.tick(0, func(int) pressure.Reading { return at(0.1) })
	talk := conversation("x", 8000)
	talk.Admission = Admission{MaxUsage: 0.5, CanWaitForWarm: true}
	warm := pick(t, b.Pool, talk)
	warm.FirstToken()
	warm.Done(10)
	b.give(int(warm.Backend()[0]-'a'), at(0.6))
	if e := refused(t, b.Pool, talk); !e.FreeElsewhere || e.Wait != 0 || e.Usage >= 0.5 {
		t.Errorf("%+v", e)
	}
	talk.Admission.Waited = time.Minute
	if l := pick(t, b.Pool, talk); l.Backend() == warm.Backend() {
		t.Error("it went where there is no room")
	}
	b.tick(0, func(int) pressure.Reading { return at(0.6) })
	if e := refused(t, b.Pool, talk); e.FreeElsewhere {
		t.Errorf("there is no room anywhere: %+v", e)
	}
}
