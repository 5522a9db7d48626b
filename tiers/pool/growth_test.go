package pool

import (
	"errors"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

func TestASharedPrefixCountsOnceWhileItIsInUseAndAgainAfter(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a"}})
	b.tick(0, func(int) pressure.Reading { return works(0, 1) })
	d := func(i int) Demand {
		d := prompted("a system prompt", i)
		d.Parts[0].Share = 0.75
		return d
	}
	first := pick(t, b.Pool, d(1))
	if first.totals.prompt != 1000 || first.shared != 0 {
		t.Fatalf("the first holds %d of its 1000 tokens", first.totals.prompt)
	}
	second, third := pick(t, b.Pool, d(2)), pick(t, b.Pool, d(3))
	for _, l := range []*Lease{second, third} {
		if l.totals.prompt != 250 || l.shared != 750 {
			t.Errorf("holds %d beside the first", l.totals.prompt)
		}
	}
	same := pick(t, b.Pool, d(1)) // all of it, up to what the engine computes anew
	if same.totals.prompt > 250 {
		t.Errorf("the same prompt holds %d", same.totals.prompt)
	}
	other := pick(t, b.Pool, prompted("another system prompt", 1))
	if other.totals.prompt != 1000 {
		t.Errorf("another holds %d", other.totals.prompt)
	}
	for _, l := range []*Lease{first, second, third, same} {
		l.Done(1)
	}
	again := pick(t, b.Pool, d(4)) // it is warm, but nobody holds it: it may have to be taken from what is free
	if again.totals.prompt != 1000 || again.totals.queued != 250 {
		t.Errorf("after their end it holds %d and computes %d", again.totals.prompt, again.totals.queued)
	}
}

func TestAListOfPromptsNeedsMemoryForAllOfItsAnswersAndEachPromptAlone(t *testing.T) {
	const capacity = 160_000
	b := newBench(t, Options{Backends: []string{"http://a"}})
	b.tick(0, func(int) pressure.Reading { return at(0.1) })
	for range 400 { // answers of such requests fill their limit
		b.outputs.Learn(-1, 1000, 1000)
	}
	limit := Admission{MaxUsage: 0.85}
	list := Demand{PromptTokens: 1280, LongestShare: 1.0 / 128, MaxOutput: 700, Answers: 128, Admission: limit}
	_, err := b.pick(list)
	if none, ok := errors.AsType[*NoBackendError](err); !ok || !none.TooLong || none.Answers != 128 {
		t.Errorf("128 answers of 700 tokens, more than half of the memory: %#v", err)
	}
	if e := refused(t, b.Pool, Demand{PromptTokens: 120_000, MaxOutput: 30_000, Admission: limit}); !e.Large {
		t.Errorf("one request of most of the memory: %#v", *e)
	}
	list.Answers, list.MaxOutput = 64, 1200
	l := pick(t, b.Pool, list)
	if e := refused(t, b.Pool, list); e.Large || e.Peak < 0.1+2*64*1200.0/capacity {
		t.Errorf("64 and 64 answers: %#v", *e)
	}
	l.Done(76_800)
	list.Answers, list.MaxOutput = 8, 100_000
	pick(t, b.Pool, list).Done(8000) // eight are forecast like eight requests

	texts := Demand{PromptTokens: 10 * capacity, LongestShare: 1.0 / 2000, NoAnswer: true, Admission: limit}
	pick(t, b.Pool, texts).Done(0)
	texts.LongestShare = 0.2
	if _, err := b.pick(texts); !errors.Is(err, ErrNoBackend) {
		t.Errorf("one text is longer than the cache: %v", err)
	}
}

func TestAListOfPromptsIsAsManySequencesAsTheEngineSays(t *testing.T) {
	const answers, each = 75, 1000
	b := newBench(t, Options{Backends: []string{"http://a"}})
	b.tick(0, func(int) pressure.Reading { return works(0, 0) })
	alone := looked(b.Pool)[0]
	l := pick(t, b.Pool, Demand{PromptTokens: 900, LongestShare: 1.0 / answers, MaxOutput: each, Answers: answers, Admission: Admission{MaxUsage: 0.85}})
	l.FirstToken()
	b.tick(time.Second, func(int) pressure.Reading { return works(answers, 100) })
	c := looked(b.Pool)[0]
	if c.growth < 0.9*answers*each || c.growth > 1.5*answers*each {
		t.Errorf("%v tokens are to come, want some %d", c.growth, answers*each)
	}
	b.tick(9*time.Second, func(int) pressure.Reading { return works(answers, 200) })
	l.Done(answers * each)
	if got := looked(b.Pool)[0].decodeRate; got > 2.5*alone.decodeRate {
		t.Errorf("answers of 100 tokens per second teach %v, from %v", got, alone.decodeRate)
	}
}
