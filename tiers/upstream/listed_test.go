package upstream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/plan"
)

func TestDrawsAreReadWithTheLogprobsTheyWereDrawnWith(t *testing.T) {
	one := func(ids, logprobs, finish string) string {
		return `{"token_ids":[` + ids + `],"finish_reason":"` + finish + `","logprobs":{"token_logprobs":[` + logprobs + `]}}`
	}
	body := func(choices ...string) []byte { return []byte(`{"choices":[` + strings.Join(choices, ",") + `]}`) }
	good := one("7", "-0.5", "length")
	got, err := parseDraws(body(good, one("8", "-99999", "stop")), 2)
	want := []engine.Draw{{Token: accept.Token{ID: 7, Logprob: -.5}}, {Token: accept.Token{ID: 8, Logprob: -9999}, Ends: true}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for name, bad := range map[string][]byte{
		"more than asked for": body(good, good, good), "none": body(), "cut": body(good)[:20], "two tokens": body(one("7,8", "-1", "length")),
		"no token": body(one("", "-1", "length")), "an id below 0": body(one("-1", "-1", "length")), "no logprob": body(one("7", "", "length")),
		"a logprob that is null": body(one("7", "null", "length")), "an abort": body(one("7", "-1", "abort")), "no logprobs": body(`{"token_ids":[7],"finish_reason":"stop"}`),
	} {
		if draws, err := parseDraws(bad, 2); !errors.Is(err, engine.ErrListed) {
			t.Errorf("%s: %+v, %v", name, draws, err)
		}
	}
}

func TestListedTokensAreReadInBothShapes(t *testing.T) {
	for name, body := range map[string]string{
		"chat": `{"choices":[{"token_ids":[7,8],"finish_reason":"length","logprobs":{"content":[
			{"token":"token_id:7","logprob":-0.5,"top_logprobs":[{"token":"token_id:7","logprob":-0.5},{"token":"token_id:3","logprob":-1}]},
			{"token":"token_id:8","logprob":-2,"top_logprobs":[{"token":"token_id:8","logprob":-2},{"token":"token_id:9","logprob":-99999}]}]}}]}`,
		"completion": `{"choices":[{"token_ids":[7,8],"finish_reason":"length","logprobs":{"token_logprobs":[-0.5,-2],"top_logprobs":[
			{"token_id:7":-0.5,"token_id:3":-1},{"token_id:8":-2,"token_id:9":-99999}]}}]}`,
	} {
		l, err := parseListed([]byte(body), 2)
		if err != nil || len(l) != 2 || len(l[0]) != 2 || len(l[1]) != 2 {
			t.Fatalf("%s: %v, %v", name, l, err)
		}
		lowest := slices.Min([]float64{float64(l[1][0].Logprob), float64(l[1][1].Logprob)})
		if lowest != -9999 || l[0][0].ID+l[0][1].ID != 10 {
			t.Errorf("%s: %v", name, l)
		}
		for what, bad := range map[string]string{
			"text":  strings.Replace(body, "token_id:3", " the", 1),
			"twice": strings.Replace(body, "token_id:3", "token_id:07", 1),
			"none":  `{"choices":[{"token_ids":[7,8]}]}`,
			"cut":   body[:40],
		} {
			if _, err := parseListed([]byte(bad), 2); err == nil {
				t.Errorf("%s, %s: it was read", name, what)
			}
		}
		if _, err := parseListed([]byte(body), 3); err == nil {
			t.Errorf("%s: two places were read as three", name)
		}
	}
}

func TestAScoredTokenThatIsNotAmongTheLikeliestIsLeftOut(t *testing.T) {
	var tops []string
	for id := range plan.SampledTop {
		tops = append(tops, fmt.Sprintf(`"%d":{"logprob":%d,"rank":%d,"decoded_token":"x"}`, 100+id, -id-1, id+1))
	}
	among := "{" + strings.Join(tops, ",") + "}"
	beyond := "{" + strings.Join(append(tops, `"5":{"logprob":-30,"rank":400,"decoded_token":null}`), ",") + "}"
	body := `{"choices":[{"prompt_logprobs":[null,` + among + `,` + beyond + `],"token_ids":[1]}]}`
	l, err := parseScored([]byte(body), []int32{103, 5}, plan.SampledTop)
	if err != nil || len(l) != 2 || len(l[0]) != plan.SampledTop || len(l[1]) != plan.SampledTop {
		t.Fatalf("%v, %v", l, err)
	}
	for _, token := range l[1] {
		if token.ID == 5 {
			t.Error("the drafted token is listed")
		}
	}
	if _, err := parseScored([]byte(body), []int32{9, 103, 5}, plan.SampledTop); err == nil {
		t.Error("a place that was not scored was read")
	}
}

func FuzzListed(f *testing.F) {
	f.Add([]byte(`{"choices":[{"token_ids":[7],"finish_reason":"stop","logprobs":{"token_logprobs":[-0.5],"top_logprobs":[{"token_id:7":-0.5}],"content":[{"top_logprobs":[{"token":"token_id:7","logprob":-1}]}]},"prompt_logprobs":[null,{"7":{"logprob":-1}}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if l, err := parseListed(body, 1); err == nil && len(l) != 1 {
			t.Errorf("%v", l)
		}
		if l, err := parseScored(body, []int32{7}, 1); err == nil && (len(l) != 1 || len(l[0]) != 1) {
			t.Errorf("%v", l)
		}
		if draws, err := parseDraws(body, plan.SampledDraws); err == nil {
			if len(draws) == 0 || len(draws) > plan.SampledDraws {
				t.Errorf("%d draws", len(draws))
			}
			for _, d := range draws {
				if d.ID < 0 || !(d.Logprob <= 0 && d.Logprob >= -9999) {
					t.Errorf("%+v", d)
				}
			}
		}
	})
}
