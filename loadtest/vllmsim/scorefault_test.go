package vllmsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	plainAsk = `{"prompt":[40,41,42],"max_tokens":2,"temperature":0}`
	scoreAsk = `{"prompt":%s,"max_tokens":1,"temperature":0,"prompt_logprobs":1}`
)

// score asks a server to score ids.
func score(t *testing.T, s *Server, ids []int32) (int, string) {
	t.Helper()
	return post(t, s, "/v1/completions", fmt.Sprintf(scoreAsk, encode(ids)))
}

// entries reads prompt_logprobs without believing a word of them.
func entries(t *testing.T, body string) []map[string]struct{ Logprob any } {
	t.Helper()
	var a struct {
		Choices []struct {
			PromptLogprobs []map[string]struct{ Logprob any } `json:"prompt_logprobs"`
		}
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return a.Choices[0].PromptLogprobs
}

func TestAScoreFaultTouchesScoringAlone(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, Seed: 1})
	if err := s.SetFault(Fault{Score: "error"}); err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct {
		path, body string
		status     int
	}{
		{"/v1/completions", plainAsk, 200},
		{"/v1/completions", `{"prompt":"x","max_tokens":1,"logprobs":1}`, 200},
		{"/v1/completions", `{"prompt":"x","max_tokens":1,"prompt_logprobs":0}`, 500},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":1,"logprobs":true}`, 200},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":1,"prompt_logprobs":1}`, 500},
	} {
		status, body := post(t, s, q.path, q.body)
		if status != q.status {
			t.Errorf("%s %s: %d, want %d: %s", q.path, q.body, status, q.status, body)
		}
	}
	status, _ := post(t, s, "/sim/fault", `{"score":"error","for":1}`)
	expect(t, "set over HTTP", status, 200)
	ask(t, s, "/v1/completions", plainAsk) // does not use it up
	status, _ = score(t, s, []int32{40, 41})
	expect(t, "the one", status, 500)
	status, _ = score(t, s, []int32{40, 41})
	expect(t, "the next", status, 200)
	status, body := post(t, s, "/sim/fault", `{"score":"badly"}`)
	if status != 400 || !strings.Contains(body, "known: error, hang, short, misaligned, garbage, die") {
		t.Errorf("%d %s", status, body)
	}
}

func TestAShortScoreLacksItsFirstEntries(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, Seed: 4})
	ids := s.tok.Encode(strings.Repeat("Count what is left of it. ", 12))
	_, body := score(t, s, ids)
	whole := entries(t, body)
	expect(t, "healthy", len(whole), len(ids))
	s.SetFault(Fault{Score: "short"})
	for _, n := range []int{2, 5, 16, 17, 18, len(ids)} {
		_, body := score(t, s, ids[:n])
		got := entries(t, body)
		left := n - max(1, (n-1)/BlockSize*BlockSize)
		if len(got) != left || got[0] != nil {
			t.Fatalf("%d of %d entries: %v", len(got), n, got)
		}
		for k := 1; k < left; k++ { // from the end they are what they were
			expect(t, "entry", fmt.Sprint(got[left-k]), fmt.Sprint(whole[n-k]))
		}
	}
}

func TestAMisalignedScoreNeverHoldsTheTokenItself(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, Seed: 4, Fault: Fault{Score: "misaligned"}})
	ids := s.tok.Encode("Row, row, row your boat, and so it is and is and is.")
	_, body := score(t, s, ids)
	got := entries(t, body)
	expect(t, "entries", len(got), len(ids))
	for i := 2; i < len(ids); i++ {
		if _, ok := got[i][fmt.Sprint(ids[i])]; ok {
			t.Errorf("entry %d holds its own token", i)
		}
		if _, ok := got[i][fmt.Sprint(ids[i-1])]; !ok && ids[i] != ids[i-1] {
			t.Errorf("entry %d is not that of the token before: %v", i, got[i])
		}
	}
}

// Each kind of garbage comes up, and none of it is a number.
func TestAGarbledScoreHoldsNoNumbers(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, Fault: Fault{Score: "garbage"}})
	seen := map[string]bool{}
	for k := range 40 {
		_, body := score(t, s, []int32{40, 41, int32(300 + k)})
		for _, e := range entries(t, body)[1:] {
			if e == nil {
				seen["entry"] = true
			}
			for _, c := range e {
				if _, number := c.Logprob.(float64); number {
					t.Fatalf("a number: %v", e)
				}
				seen[fmt.Sprintf("%T", c.Logprob)] = true
			}
		}
	}
	for _, kind := range []string{"entry", "<nil>", "string"} {
		if !seen[kind] {
			t.Errorf("no %s in %v", kind, seen)
		}
	}
}

func TestADeadlyScoreKillsTheEngineAsAFullMemoryDoes(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, Restart: time.Second, Fault: Fault{Score: "die", For: 1}})
	ask(t, s, "/v1/completions", plainAsk)
	if status, body := score(t, s, []int32{40, 41}); status != 500 || !strings.Contains(body, "EngineCore encountered an issue") {
		t.Errorf("%d %s", status, body)
	}
	eventually(t, "it is back", func() bool { st := s.State(); return st.Alive && st.Deaths == 1 && st.OOMDeaths == 1 })
	eventually(t, "it scores", func() bool {
		resp, err := http.Post(s.URL()+"/v1/completions", "application/json", strings.NewReader(fmt.Sprintf(scoreAsk, "[40,41]")))
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}
