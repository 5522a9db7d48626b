package vllmsim

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

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
