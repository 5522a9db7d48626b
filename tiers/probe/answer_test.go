package probe

import (
	"testing"

	"github.com/foregate/foregate/tiers/openai"
)

func TestConstantLogprobsAreToldFromSureOnes(t *testing.T) {
	type scored struct {
		logprob float64
		varied  bool
	}
	list := func(first scored, n int, rest scored) []scored {
		out := []scored{first}
		for range n {
			out = append(out, rest)
		}
		return out
	}
	is := func(all []scored) (int, bool) {
		a := answer{}
		for _, s := range all {
			tops := []float64{s.logprob}
			if s.varied {
				tops = append(tops, s.logprob-2)
			}
			a.logprobs, a.tops = append(a.logprobs, s.logprob), append(a.tops, tops)
		}
		_, n, is := a.constant()
		return n, is
	}
	true1, zero, sure := scored{-0.3, true}, scored{0, false}, scored{0, true}
	for _, c := range []struct {
		what string
		all  []scored
		want bool
	}{
		{"llama.cpp's own speculation", list(true1, 15, zero), true},
		{"all constants", list(zero, 15, zero), true},
		{"another constant", list(true1, 15, scored{-1.5, false}), true},
		{"half of them", append(list(true1, 8, zero), true1, true1, true1, true1, true1, true1, true1, true1), true},
		{"a third of them", append(list(true1, 4, zero), true1, true1, true1, true1, true1, true1, true1, true1), false},
		{"a sure model", list(true1, 15, sure), false},
		{"one that is sure", append(list(true1, 14, scored{-0.2, true}), zero), false},
		{"true ones", list(true1, 15, true1), false},
		{"too few", list(true1, 3, zero), false},
		{"one", list(zero, 0, zero), false},
		{"none", nil, false},
	} {
		if n, got := is(c.all); got != c.want || got && n < fewestConstant {
			t.Errorf("%s: %v, %d", c.what, got, n)
		}
	}
	different := []scored{{-1, false}, {-2, false}, {-3, false}, {-4, false}, {-5, false}, {-6, false}}
	if _, got := is(different); got {
		t.Error("logprobs that differ are one constant")
	}
}

func TestThoughtsAreSeenWhereverTheyStand(t *testing.T) {
	for delta, want := range map[string]bool{
		`{"content":"Yes."}`: false,
		`{"content":"Yes.","reasoning":"","reasoning_content":null}`: false,
		`{"content":"Yes.","reasoning":"Hm."}`:                       true,
		`{"content":null,"reasoning_content":"Hm."}`:                 true,
		`{"content":"\n<think>Hm."}`:                                 true,
		`{"content":"Hm.</think>Yes."}`:                              true,
		`{"content":"I write <think> here","reasoning":null}`:        false,
	} {
		var p openai.ChunkParser
		c, err := p.Parse([]byte(`{"choices":[{"delta":` + delta + `}]}`))
		if err != nil {
			t.Fatal(err)
		}
		var a answer
		if a.add(c); a.thinks != want {
			t.Errorf("%s: %v", delta, a.thinks)
		}
	}
}
