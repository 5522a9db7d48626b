package vllmsim

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every entry of every position is what the model itself says, on both routes and for any number of
// alternatives: the acceptance rules of a gateway can then be held to what they should have decided.
func TestPromptLogprobsOverHTTPAreExactEverywhere(t *testing.T) {
	s := Start(t, Options{Seed: 3, TimeScale: fast})
	target, draft := NewModel(3, 0), NewModel(3, 0.4)
	positions, firsts := 0, 0
	for k := range 20 {
		user := fmt.Sprintf("score answer %d", k)
		prompt := chat(t, user)
		answer, _ := greedy(draft, prompt, 60)
		ids := append(slices.Clone(prompt), answer...)
		text := s.tok.Decode(answer, true)
		n := []int{0, 1, 5, 20}[k%4]
		byIDs := ask(t, s, "/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":1,"prompt_logprobs":%d}`, encode(ids), n))
		exact(t, target, ids, n, byIDs.Choices[0].PromptLogprobs)
		byText := ask(t, s, "/v1/chat/completions", fmt.Sprintf(`{"messages":[{"role":"user","content":%q},{"role":"assistant","content":%s}],`+
			`"add_generation_prompt":false,"continue_final_message":true,"return_token_ids":true,"max_tokens":1,"prompt_logprobs":%d}`,
			user, encode(text), n))
		exact(t, target, byText.PromptTokenIDs, n, byText.PromptLogprobs)
		for i := len(prompt); i < len(ids); i++ {
			positions++
			if byIDs.Choices[0].PromptLogprobs[i][strconv.Itoa(int(ids[i]))].Rank == 1 {
				firsts++
			}
		}
	}
	// A draft is right mostly, but not always: else nothing was shown.
	if share := float64(firsts) / float64(positions); share < 0.6 || share > 0.995 {
		t.Errorf("the target agrees with %.3f of %d tokens", share, positions)
	}
}

// exact compares one list of prompt logprobs with the model's distributions.
func exact(t *testing.T, m *Model, ids []int32, n int, got []map[string]rank) {
	t.Helper()
	if len(got) != len(ids) || got[0] != nil {
		t.Fatalf("%d positions for %d ids, the first %v", len(got), len(ids), got[0])
	}
	for i := 1; i < len(ids); i++ {
		d := m.Next(ids[:i])
		want := map[string]rank{strconv.Itoa(int(ids[i])): {max(d.LogProb(ids[i]), logprobFloor), d.Rank(ids[i])}}
		for r, c := range d.topN(n) {
			if c.ID != ids[i] {
				want[strconv.Itoa(int(c.ID))] = rank{math.Log(c.P), r + 1}
			}
		}
		if !equalRanks(got[i], want) {
			t.Fatalf("position %d of %d: %v, the model says %v", i, len(ids), got[i], want)
		}
	}
}

func equalRanks(a, b map[string]rank) bool {
	if len(a) != len(b) {
		return false
	}
	for id, r := range a {
		if w, ok := b[id]; !ok || w != r { // to the last bit: JSON carries floats whole
			return false
		}
	}
	return true
}

// tally is what the prefix cache has counted.
type tally struct{ queries, hits float64 }

func tallied(t *testing.T, s *Server) tally {
	t.Helper()
	_, page := do(t, s, "GET", "/metrics", "")
	read := func(name string) float64 { return sample(t, page, "vllm:"+name) }
	const l = `engine="0",model_name="sim"`
	v := tally{read("prefix_cache_queries_total{" + l + "}"), read("prefix_cache_hits_total{" + l + "}")}
	st := s.State()
	expect(t, "the state's", [2]float64{float64(st.PrefixQueries), float64(st.PrefixHits)}, [2]float64{v.queries, v.hits})
	return v
}

func TestPrefixHitsAreCountedAsVLLMCounts(t *testing.T) {
	s := Start(t, Options{Seed: 2, TimeScale: fast, PromptTokensDetails: true})
	ids := s.tok.Encode(strings.Repeat("Keep to the rules of the house. ", 15))
	total := tally{}
	send := func(what string, prompt []int32, extra string, queried, hit int) answer {
		t.Helper()
		a := ask(t, s, "/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":20,"ignore_eos":true,"temperature":0,"return_token_ids":true%s}`, encode(prompt), extra))
		expect(t, what+": cached_tokens", cachedOf(a), hit)
		total.queries += float64(queried)
		total.hits += float64(hit)
		if got := tallied(t, s); got != total {
			t.Errorf("%s: %+v, want %+v", what, got, total)
		}
		return a
	}
	full := (len(ids) - 1) / BlockSize * BlockSize // the last token is always computed again
	first := send("cold", ids, "", len(ids), 0)
	send("warm", ids, "", len(ids), full)
	send("whole blocks only", ids[:64], "", 64, 48)
	send("scored: nothing is looked up", ids, `,"prompt_logprobs":0`, 0, 0)
	send("salted", ids, `,"cache_salt":"s"`, len(ids), 0)
	send("salted again", ids, `,"cache_salt":"s"`, len(ids), full)
	// Generated tokens are cached, too: all but the last, which was never computed.
	turn := slices.Concat(ids, first.Choices[0].TokenIDs, s.tok.Encode(" And then?"))
	send("the next turn", turn, "", len(turn), (len(ids)+19)/BlockSize*BlockSize)
	fresh := s.tok.Encode(strings.Repeat("Another matter of the sea altogether. ", 15))
	send("scored cold", fresh, `,"prompt_logprobs":1`, 0, 0)
	send("what scoring has filled", fresh, "", len(fresh), (len(fresh)-1)/BlockSize*BlockSize)
}
