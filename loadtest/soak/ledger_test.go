package soak

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/loadtest/chaos"
)

const body = `{"error":{"message":"…","code":"no_backend"}}`

func TestEachOutcomeIsOneKind(t *testing.T) {
	for name, c := range map[string]struct {
		o    chaos.Outcome
		v    verdict
		want Counts
	}{
		"answered":                        {chaos.Outcome{Kind: chaos.Answered}, unknown, Counts{Answered: 1}},
		"answered and compared":           {chaos.Outcome{Kind: chaos.Answered}, equal, Counts{Answered: 1, Compared: 1}},
		"answered with a few words more":  {chaos.Outcome{Kind: chaos.Answered}, overrun, Counts{Answered: 1, Compared: 1, Overrun: 1}},
		"another text":                    {chaos.Outcome{Kind: chaos.Answered}, other, Counts{Broken: 1, Reasons: map[string]int{"another text": 1}}},
		"shed":                            {chaos.Outcome{Kind: chaos.Shed, Detail: body}, unknown, Counts{Shed: 1}},
		"shed without a code":             {chaos.Outcome{Kind: chaos.Shed}, unknown, Counts{Broken: 1, Reasons: map[string]int{"shed": 1}}},
		"limited":                         {chaos.Outcome{Kind: chaos.Limited, Detail: body}, unknown, Counts{Limited: 1}},
		"left":                            {chaos.Outcome{Kind: chaos.Left}, unknown, Counts{Left: 1}},
		"failed":                          {chaos.Outcome{Kind: "http_502", Detail: body}, unknown, Counts{Failed: 1, Reasons: map[string]int{"502 no_backend": 1}}},
		"failed, of the Messages API":     {chaos.Outcome{Kind: "http_503", Detail: `{"type":"error","error":{"code":"lost"}}`}, unknown, Counts{Failed: 1, Reasons: map[string]int{"503 lost": 1}}},
		"failed in a stream":              {chaos.Outcome{Kind: chaos.ErrorEvent, Detail: `{"message":"…","code":"lost"}`}, unknown, Counts{Failed: 1, Reasons: map[string]int{"error_event lost": 1}}},
		"failed without a code":           {chaos.Outcome{Kind: "http_502", Detail: "Bad Gateway"}, unknown, Counts{Broken: 1, Reasons: map[string]int{"http_502": 1}}},
		"failed in a stream, [DONE] came": {chaos.Outcome{Kind: chaos.DoneLies, Detail: `{"code":"lost"}`}, unknown, Counts{Broken: 1, Reasons: map[string]int{"done_after_error": 1}}},
		"cut silently":                    {chaos.Outcome{Kind: chaos.CutSilent}, unknown, Counts{Broken: 1, Reasons: map[string]int{"cut_silently": 1}}},
		"refused at all gateways":         {chaos.Outcome{Kind: chaos.Unreached}, unknown, Counts{Broken: 1, Reasons: map[string]int{"connect": 1}}},
		"a client's patience ended":       {chaos.Outcome{Kind: chaos.TimedOut}, unknown, Counts{Broken: 1, Reasons: map[string]int{"timeout": 1}}},
	} {
		var got Counts
		c.want.Sent = 1
		if answered := got.count(&c.o, c.v); answered != (c.want.Answered == 1) {
			t.Errorf("%s: answered %v", name, answered)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || !got.accounted() {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAnAnswerIsComparedWithTheEngineThatGaveIt(t *testing.T) {
	q := chaos.Question{Prompt: "q", MaxTokens: 3}
	known := truths{
		chaos.TargetPool: {q: {Text: "the blue sea", Tokens: 3}},
		chaos.DraftPool:  {q: {Text: "the grey sea", Tokens: 3}},
	}
	from := func(tier string) http.Header { return http.Header{"X-Tier": {tier}} }
	for name, c := range map[string]struct {
		o    chaos.Outcome
		want verdict
	}{
		"the target's, demanded":               {chaos.Outcome{Tier: "target", Stream: true, Text: "the blue sea"}, equal},
		"another, demanded":                    {chaos.Outcome{Tier: "target", Stream: true, Text: "the grey sea"}, other},
		"cut":                                  {chaos.Outcome{Tier: "target", Text: "the blue"}, other},
		"a few words more":                     {chaos.Outcome{Tier: "target", Text: "the blue sea and the sky"}, overrun},
		"many words more":                      {chaos.Outcome{Tier: "target", Text: "the blue sea" + strings.Repeat(" and", maxOverrun+1)}, other},
		"the draft's":                          {chaos.Outcome{Header: from("draft"), Text: "the grey sea"}, equal},
		"the draft's, said to be the target's": {chaos.Outcome{Header: from("target"), Text: "the grey sea"}, other},
		"of both":                              {chaos.Outcome{Header: from("mixed"), Text: "the sea"}, unknown},
		"a stream that began as a draft":       {chaos.Outcome{Header: from("draft"), Stream: true, Text: "the sea"}, unknown},
		"of an answer that was shared":         {chaos.Outcome{Text: "the sea"}, unknown},
		"to another prompt":                    {chaos.Outcome{Tier: "target", Prompt: "r", Text: "the sea"}, unknown},
	} {
		if c.o.Prompt == "" {
			c.o.Prompt = q.Prompt
		}
		c.o.MaxTokens = q.MaxTokens
		if got := known.compare(&c.o); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestARequestBelongsToTheFaultThatItOverlaps(t *testing.T) {
	var l ledger
	start := time.Unix(100, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	l.byReplica = map[int]*Counts{}
	send := func(from int) {
		l.take(&chaos.Outcome{Kind: chaos.Answered, Stream: true, First: time.Millisecond, At: at(from)})
	}
	l.enter("", at(0))
	send(1)
	l.enter("killed", at(10))
	send(5) // sent before it
	send(11)
	l.enter("", at(20))
	send(19) // over after it
	send(21)
	l.enter("frozen", at(30))
	send(25)
	l.enter("", at(40))
	got := map[string]int{}
	periods := l.report(at(0), []cycle{{}, {fault: "killed", recovered: time.Second}, {fault: "frozen", recovered: 2 * time.Second, late: true}})
	for _, p := range periods {
		got[p.Fault] += p.Counts.Sent
	}
	if diff := cmp.Diff(map[string]int{"": 2, "killed": 3, "frozen": 1}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if k, f := periods[1], periods[3]; k.At != 10 || k.Seconds != 10 || k.Recovered != 1 || k.Late || f.Recovered != 2 || !f.Late || k.First.Worst != 1 {
		t.Errorf("the periods are %+v", periods)
	}
	if total := l.total(); total.Sent != 6 || l.byReplica[0].Sent != 6 {
		t.Errorf("in total %+v", total)
	}
}
