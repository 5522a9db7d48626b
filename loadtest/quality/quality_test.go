package quality

import (
	"fmt"
	"testing"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/accept"
)

var pair = loadtest.Case{
	Draft:  &loadtest.Pool{Model: "draft", Divergence: 0.4},
	Target: loadtest.Pool{Model: "target"},
}

func request(k int, temperature float64, ignoreEOS bool) *loadtest.Request {
	return &loadtest.Request{
		MaxTokens: 120, Temperature: temperature, IgnoreEOS: ignoreEOS,
		Messages: []loadtest.Message{{Role: "user", Content: fmt.Sprintf("Describe item %d of the list", k)}},
	}
}

func messagesOf(q *loadtest.Request) []vllmsim.Message {
	list := make([]vllmsim.Message, len(q.Messages))
	for i, m := range q.Messages {
		list[i] = vllmsim.Message(m)
	}
	return list
}

func TestTheTargetsAnswerIsIdenticalToItself(t *testing.T) {
	j := NewJudge(7, &pair)
	for k := range 20 {
		q := request(k, float64(k%2), k%3 == 0)
		prompt := j.tok.Chat(messagesOf(q))
		out := loadtest.Outcome{Tier: "draft", Acceptance: "accepted"}
		if j.Check(q, prompt, j.Answer(q, prompt), &out); !out.Identical || out.Wrong {
			t.Fatalf("prompt %d: %+v", k, out)
		}
	}
}

// answer is what a voice says to a request: its prompt, ids and text.
func (j *Judge) answer(v voice, q *loadtest.Request) (prompt, ids []int32, text string) {
	prompt = j.tok.Chat([]vllmsim.Message{vllmsim.Message(q.Messages[0])})
	w := j.writer(v, q, prompt)
	for {
		id, done := w.Next()
		ids = append(ids, id)
		text += w.Text()
		if done {
			return prompt, ids, text
		}
	}
}

func TestTheTargetsOwnAnswerIsIdenticalAndStandsHoweverItIsShown(t *testing.T) {
	j := NewJudge(7, &pair)
	for k := range 60 {
		for _, q := range []*loadtest.Request{request(k, 0, false), request(k, 1, false), request(k, 0, true)} {
			prompt, ids, text := j.answer(j.target, q)
			accepted := loadtest.Outcome{Tier: "draft", Acceptance: "accepted"}
			byIDs, byText := accepted, accepted
			j.Check(q, prompt, ids, &byIDs)
			j.CheckText(q, text, &byText)
			if !byIDs.Checked || !byIDs.Identical || byIDs.Wrong || byText != byIDs {
				t.Fatalf("prompt %d at temperature %g: by ids %+v, by text %+v", k, q.Temperature, byIDs, byText)
			}
		}
	}
}

func TestADraftIsJudgedAlikeByItsIDsAndByItsText(t *testing.T) {
	j := NewJudge(7, &pair)
	var identical, wrong, fine int
	for k := range 200 {
		q := request(k, 0, k%2 == 0)
		prompt, ids, text := j.answer(j.draft, q)
		out := loadtest.Outcome{Tier: "draft", Acceptance: "accepted"}
		byText := out
		j.Check(q, prompt, ids, &out)
		j.CheckText(q, text, &byText)
		if out != byText {
			t.Fatalf("prompt %d: by ids %+v, by text %+v", k, out, byText)
		}
		switch {
		case out.Identical:
			identical++
		case out.Wrong:
			wrong++
		default:
			fine++
		}
	}
	t.Logf("identical %d, different and wrong %d, different and fine %d", identical, wrong, fine)
	if identical < 20 || wrong < 20 || fine < 5 {
		t.Error("want some of each: identical, wrong, and different but such that the target would stand by it")
	}
}

func TestOnlyAcceptedDraftsCanBeWrongAndATargetsAnswerIsItsOwn(t *testing.T) {
	j := NewJudge(7, &pair)
	for _, out := range []loadtest.Outcome{
		{Tier: "mixed", Acceptance: "rejected"}, {Tier: "draft", Acceptance: "bypassed"}, {Tier: "target", Acceptance: "bypassed"},
	} {
		wrong, same := 0, 0
		for k := range 100 {
			q := request(k, 0, false)
			prompt, ids, _ := j.answer(j.draft, q)
			o := out
			j.Check(q, prompt, ids, &o)
			if o.Wrong {
				wrong++
			}
			if o.Identical {
				same++
			}
		}
		if wrong > 0 || (same == 100) != (out.Tier == "target") {
			t.Errorf("%+v: %d wrong, %d identical of 100", out, wrong, same)
		}
	}
}

func TestAnAnswerCutShortIsNotTheTargetsOwn(t *testing.T) {
	j := NewJudge(7, &pair)
	q := request(1, 0, false)
	prompt, ids, text := j.answer(j.target, q)
	out := loadtest.Outcome{Tier: "mixed", Acceptance: "rejected"}
	byText := out
	j.Check(q, prompt, ids[:len(ids)-3], &out)
	j.CheckText(q, text[:len(text)-3], &byText)
	if out.Identical || byText.Identical {
		t.Errorf("by ids %v, by text %v", out.Identical, byText.Identical)
	}
}

func TestAnAuditTellsGoodDraftsFromBadBetterThanChance(t *testing.T) {
	j := NewJudge(7, &pair)
	var sum [2]float64
	var n [2]int
	for k := range 200 {
		q := request(k, 0, false)
		prompt, _, _ := j.answer(j.target, q)
		judge, stands := j.Track(q, prompt, accept.Config{})
		score := judge.Score()
		kind := 0
		if stands {
			kind = 1
		}
		sum[kind] += float64(score)
		n[kind]++
	}
	if n[0] == 0 || n[1] == 0 || sum[0]/float64(n[0]) >= sum[1]/float64(n[1]) {
		t.Errorf("%d bad ones score %v together, %d good ones %v", n[0], sum[0], n[1], sum[1])
	}
}
