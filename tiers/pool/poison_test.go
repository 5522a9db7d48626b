package pool

import (
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

func TestSeveralAnswersHoldSeveralTimesAsMuch(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a"}})
	b.tick(0, func(int) pressure.Reading { return at(0.8) })
	d := Demand{PromptTokens: 100, MaxOutput: 1000, Admission: Admission{MaxUsage: 0.85}}
	for range 200 {
		b.outputs.Learn(-1, 1000, 1000)
	}
	pick(t, b.Pool, d).Done(0)
	d.Answers = 8
	if e := refused(t, b.Pool, d); e.Large {
		t.Errorf("%#v", *e)
	}
	l := pick(t, b.Pool, Demand{PromptTokens: 100, Answers: 4})
	was := b.meanOutput()
	b.tick(time.Second, func(int) pressure.Reading { return at(0.1) })
	l.Done(int(4 * was))
	if now := b.meanOutput(); now > was*1.01 || now < was*0.99 {
		t.Errorf("four answers of the mean length moved it from %v to %v", was, now)
	}
}

func TestARequestThatNeedsMostOfTheMemoryIsToldToBeLarge(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a"}})
	b.tick(0, func(int) pressure.Reading { return at(0.1) })
	if e := refused(t, b.Pool, Demand{PromptTokens: 150_000, Admission: Admission{MaxUsage: 0.95}}); !e.Large {
		t.Errorf("%#v", *e)
	}
	if l := pick(t, b.Pool, Demand{PromptTokens: 143_000, Admission: Admission{MaxUsage: 0.95, Now: true}}); l == nil {
		t.Error("by what is in use there is room")
	}
}
