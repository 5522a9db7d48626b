package pool

import (
	"errors"
	"testing"

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
	if first.request.Totals().PromptTokens != 1000 || first.request.Shared != 0 {
		t.Fatalf("the first holds %d of its 1000 tokens", first.request.Totals().PromptTokens)
	}
	second, third := pick(t, b.Pool, d(2)), pick(t, b.Pool, d(3))
	for _, l := range []*Lease{second, third} {
		if l.request.Totals().PromptTokens != 250 || l.request.Shared != 750 {
			t.Errorf("holds %d beside the first", l.request.Totals().PromptTokens)
		}
	}
	same := pick(t, b.Pool, d(1)) // all of it, up to what the engine computes anew
	if same.request.Totals().PromptTokens > 250 {
		t.Errorf("the same prompt holds %d", same.request.Totals().PromptTokens)
	}
	other := pick(t, b.Pool, prompted("another system prompt", 1))
	if other.request.Totals().PromptTokens != 1000 {
		t.Errorf("another holds %d", other.request.Totals().PromptTokens)
	}
	for _, l := range []*Lease{first, second, third, same} {
		l.Done(1)
	}
	again := pick(t, b.Pool, d(4)) // it is warm, but nobody holds it: it may have to be taken from what is free
	if again.request.Totals().PromptTokens != 1000 || again.request.Totals().Queued != 250 {
		t.Errorf("after their end it holds %d and computes %d", again.request.Totals().PromptTokens, again.request.Totals().Queued)
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
	list := Demand{PromptTokens: 1280, LongestShare: 1.0 / 128, MaxOutput: 1000, Answers: 128, Admission: limit}
	if e := refused(t, b.Pool, list); e.Large || e.Peak < 0.1+float64(1280+128*1000)/capacity {
		t.Errorf("128 answers of 1,000 tokens: %#v", *e)
	}
	if e := refused(t, b.Pool, Demand{PromptTokens: 120_000, MaxOutput: 30_000, Admission: limit}); !e.Large {
		t.Errorf("one request of most of the memory: %#v", *e)
	}
	list.Answers = 64
	l := pick(t, b.Pool, list)
	if e := refused(t, b.Pool, list); e.Peak < 0.1+2*64_000.0/capacity {
		t.Errorf("64 and 64 answers: %#v", *e)
	}
	l.Done(64_000)

	texts := Demand{PromptTokens: 10 * capacity, LongestShare: 1.0 / 2000, NoAnswer: true, Admission: limit}
	pick(t, b.Pool, texts).Done(0)
	texts.LongestShare = 0.2
	if _, err := b.pick(texts); !errors.Is(err, ErrNoBackend) {
		t.Errorf("one text is longer than the cache: %v", err)
	}
}
