package vllmsim

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// auroc is how often a good answer scores above a bad one.
func auroc(good, bad []float64) float64 {
	wins := 0.0
	for _, g := range good {
		for _, b := range bad {
			if g > b {
				wins++
			} else if g == b {
				wins += 0.5
			}
		}
	}
	return wins / float64(len(good)*len(bad))
}

// standsBy is the balanced rule (docs/science.md, Scores).
func standsBy(m *Model, prompt, answer []int32) bool {
	failed, gap, sure := 0, 0.0, false
	m.Score(prompt, answer, func(i int, d *Dist) bool {
		top, p := d.Top[0].P, d.Prob(answer[i])
		gap += math.Log(top / p)
		sure = sure || top >= 0.9 && p < 0.01
		if p < 0.3*top {
			failed++
		}
		return true
	})
	n := float64(len(answer))
	return !sure && float64(failed) <= 0.02*n && gap <= 0.15*n
}

// A target's word says much of whether it stands by an answer, but not all; a draft's says less.
func TestAJudgeIsInformedButNotInfallible(t *testing.T) {
	target, writer := NewModel(7, 0), NewModel(7, 0.15)
	odds := map[float64]*[2][]float64{0: {}, 0.3: {}}
	for k := range 300 {
		prompt := chat(t, fmt.Sprintf("case %d", k))
		answer, _ := greedy(writer, prompt, 2000)
		bad := 1
		if standsBy(target, prompt, answer) {
			bad = 0
		}
		answer = answer[:len(answer)-1] // its end is the judge's to add
		for divergence, list := range odds {
			v := NewModel(7, divergence).Judge(prompt, answer)
			list[bad] = append(list[bad], v)
		}
	}
	good, bad := odds[0][0], odds[0][1]
	if len(good) < 50 || len(bad) < 50 {
		t.Fatalf("%d good answers, %d bad ones", len(good), len(bad))
	}
	sharp, blunt := auroc(good, bad), auroc(odds[0.3][0], odds[0.3][1])
	t.Logf("%d good, %d bad; AUROC of the target %.3f, of a draft %.3f; medians %.2f, %.2f", len(good), len(bad), sharp, blunt, median(good), median(bad))
	if sharp < 0.85 || sharp > 0.99 || blunt < 0.5 || blunt > sharp-0.1 {
		t.Errorf("AUROC of the target %.3f, of a draft %.3f", sharp, blunt)
	}
	if median(good) < 1 || median(bad) > 1 {
		t.Errorf("medians: good %.2f, bad %.2f", median(good), median(bad))
	}
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// asked is a chat that ends with the judge's question, and the log odds of its answer as a gateway reads them.
func asked(t *testing.T, s *Server, question, reply, last, extra string) (first string, odds float64) {
	t.Helper()
	body, err := json.Marshal([]map[string]string{{"role": "user", "content": question}, {"role": "assistant", "content": reply}, {"role": "user", "content": last}})
	if err != nil {
		t.Fatal(err)
	}
	_, text := post(t, s, "/v1/chat/completions", fmt.Sprintf(`{"messages":%s,"max_tokens":1,"temperature":0,"logprobs":true,"top_logprobs":5%s}`, body, extra))
	var a struct {
		Choices []struct {
			Message  struct{ Content string }
			Logprobs struct {
				Content []struct {
					Top []struct {
						Token   string
						Logprob float64
					} `json:"top_logprobs"`
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	yes, no := 0.0, 0.0
	for _, c := range a.Choices[0].Logprobs.Content[0].Top {
		switch strings.ToLower(strings.TrimSpace(c.Token)) {
		case "yes":
			yes += math.Exp(c.Logprob)
		case "no":
			no += math.Exp(c.Logprob)
		}
	}
	return a.Choices[0].Message.Content, math.Log(yes) - math.Log(no)
}

func TestAServerAnswersTheJudgesQuestion(t *testing.T) {
	s := Start(t, Options{Seed: 7, TimeScale: fast})
	m := NewModel(7, 0)
	for k := range 10 {
		question := fmt.Sprintf("case %d", k)
		answer, _ := greedy(m, chat(t, question), 2000)
		answer = answer[:len(answer)-1]
		want := m.Judge(chat(t, question), s.tok.Encode(strings.TrimSpace(s.tok.Decode(answer, true))))
		first, odds := asked(t, s, question, s.tok.Decode(answer, true), judgeQuestion, "")
		if math.Abs(odds-want) > 0.3 { // two of six forms are not among the five that are listed
			t.Errorf("log odds %.3f, the model's are %.3f", odds, want)
		}
		if (strings.TrimSpace(strings.ToLower(first)) == "yes") != (want > 0) {
			t.Errorf("it says %q at log odds %.3f", first, want)
		}
		_, nonsense := asked(t, s, question, "Rules rules, of the of the of.", judgeQuestion, "")
		if nonsense > 0 {
			t.Errorf("nonsense passes at %.3f", nonsense)
		}
	}
	first, _ := asked(t, s, "case 1", "Nothing.", "Is that so?", "")
	if first == "Yes" || first == "No" {
		t.Errorf("another question is judged: %q", first)
	}
}
