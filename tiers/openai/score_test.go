package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var scoreStyles = []ScoreStyle{ScoreCompletions, ScoreSGLang}

func TestAScoreQuestionIsWrittenInEachEnginesOwnWords(t *testing.T) {
	low := int64(-3)
	for _, c := range []struct {
		q          ScoreQuestion
		path, body string
	}{
		{ScoreQuestion{Terms: Terms{Model: `q"m`, Salt: "s", Priority: &low}, Style: ScoreCompletions, Prompt: []int32{1, 2}, Draft: []int32{3}, Top: 2}, "/v1/completions",
			`{"model":"q\"m","prompt":[1,2,3],"max_tokens":1,"temperature":0,"prompt_logprobs":2,"stream":false,"cache_salt":"s","priority":-3}`},
		{ScoreQuestion{Terms: Terms{Model: "m"}, Style: ScoreCompletions, Prompt: []int32{1}, Draft: []int32{3, 4}, Top: 99}, "/v1/completions",
			`{"model":"m","prompt":[1,3,4],"max_tokens":1,"temperature":0,"prompt_logprobs":20,"stream":false}`},
		{ScoreQuestion{Terms: Terms{Model: "m", Salt: "s", Priority: &low}, Style: ScoreSGLang, Prompt: []int32{1, 2}, Draft: []int32{3}}, "/generate",
			`{"input_ids":[1,2,3],"sampling_params":{"max_new_tokens":1,"temperature":0},"return_logprob":true,"logprob_start_len":1,"top_logprobs_num":1,` +
				`"return_text_in_logprobs":true,"stream":false,"extra_key":"s","priority":-3}`},
		{ScoreQuestion{Style: ScoreSGLang, Draft: []int32{3}}, "/generate",
			`{"input_ids":[3],"sampling_params":{"max_new_tokens":1,"temperature":0},"return_logprob":true,"logprob_start_len":0,"top_logprobs_num":1,` +
				`"return_text_in_logprobs":true,"stream":false}`},
	} {
		if got := string(c.q.Body([]byte("x"))); got != "x"+c.body || !json.Valid([]byte(got[1:])) {
			t.Errorf("%s: got\n%s, want\n%s", c.q.Style, got[1:], c.body)
		}
		if c.q.Path() != c.path {
			t.Errorf("%s goes to %s", c.q.Style, c.q.Path())
		}
	}
}

// alt is a token that an engine lists.
type alt struct {
	id   int32
	nats string // a JSON number, or whatever an engine may write
	text string // JSON
	rank int
}

func (a alt) vllm() string {
	return fmt.Sprintf(`"%d":{"logprob":%s,"rank":%d,"decoded_token":%s}`, a.id, a.nats, a.rank, a.text)
}

func (a alt) sglang() string { return fmt.Sprintf(`[%s,%d,%s]`, a.nats, a.id, a.text) }

// scoreAnswer is an answer whose first `unscored` places are those of a prompt, and where each place lists the draft's
// own token first and then the likeliest.
func scoreAnswer(style ScoreStyle, unscored int, places ...[]alt) string {
	own, tops := slices.Repeat([]string{"null"}, min(unscored, 1)), slices.Repeat([]string{"null"}, min(unscored, 1))
	for i := 1; i < unscored; i++ {
		a := alt{int32(900 + i), "-1.5", `"p"`, 1}
		own, tops = append(own, entryOf(style, []alt{a})), append(tops, "["+a.sglang()+"]")
	}
	if style == ScoreSGLang && unscored > 0 {
		own[0] = `[null,7,null]`
	}
	for _, p := range places {
		own = append(own, entryOf(style, p))
		var list []string
		for _, a := range p[1:] {
			list = append(list, a.sglang())
		}
		tops = append(tops, "["+strings.Join(list, ",")+"]")
	}
	array := "[" + strings.Join(own, ",") + "]"
	const usage = `"usage":{"prompt_tokens":9,"prompt_tokens_details":{"created_cache_tokens":1,"cached_tokens":4},"total_tokens":10}`
	if style == ScoreSGLang {
		return `{"text":"x","output_ids":[42],"meta_info":{"id":"a","prompt_tokens":9,"input_token_logprobs":` + array +
			`,"input_top_logprobs":[` + strings.Join(tops, ",") + `],"cached_tokens":4,"output_token_logprobs":[[-0.1,42,"x"]]}}`
	}
	return `{"id":"c","choices":[{"index":0,"text":"x","logprobs":null,"token_ids":[42],"prompt_logprobs":` + array + `,"prompt_token_ids":[1,2]}],` +
		usage + `,"prompt_logprobs":null}`
}

func entryOf(style ScoreStyle, p []alt) string {
	if style == ScoreSGLang {
		return p[0].sglang()
	}
	var members []string
	for i, a := range p {
		if i == 0 || a.id != p[0].id {
			members = append(members, a.vllm())
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

func TestBothStylesTellTheSame(t *testing.T) {
	places := [][]alt{
		{{30, "-0.5", `" Paris"`, 1}, {30, "-0.5", `" Paris"`, 1}, {31, "-2", `"Rome"`, 2}},
		{{32, "-9999.0", `" The"`, 5000}, {33, "-0.25", `"the\n"`, 1}, {34, "-3", `"a"`, 2}},
		{{35, "-1", `"x"`, 2}, {36, "-1", `"y"`, 2}, {35, "-1", `"x"`, 2}},
		{{37, "0.0000001", `""`, 1}, {37, "0.0000001", `""`, 1}, {38, "-20", `null`, 2}},
		{{39, "-4", `"\ufffd"`, 9}, {40, "-0.1", `"\ufffd"`, 1}, {41, "-5", `null`, 3}},
	}
	for _, style := range scoreStyles {
		q := ScoreQuestion{Style: style, Prompt: make([]int32, 6), Draft: []int32{30, 32, 35, 37, 39}, Top: 2}
		want := []Scored{
			{Logprob: -0.5, TopID: 30, Top: -0.5, Tops: []float64{-0.5, -2}, Alike: true},
			{Logprob: -9999, TopID: 33, Top: -0.25, Tops: []float64{-0.25, -3, -9999}, Alike: true},
			{Logprob: -1, TopID: 35, Top: -1, Tops: []float64{-1, -1}, Alike: true},
			{Logprob: 0, TopID: 37, Top: 0, Tops: []float64{0, -20}, Alike: true},
			{Logprob: -4, TopID: 40, Top: -0.1, Tops: []float64{-0.1, -4, -5}, Alike: false},
		}
		told := TokenText{Text: []byte(" Paris Thex\ufffd"), Last: 3, Silent: true}
		for _, unscored := range []int{6, 2, 1, 0} { // whole, and what an engine left out that had the beginning
			got, err := q.Parse([]byte(scoreAnswer(style, unscored, places...)))
			if err != nil {
				t.Fatalf("%s, %d: %v", style, unscored, err)
			}
			if diff := cmp.Diff(Scores{Tokens: want, Told: told, Cached: 4}, got); diff != "" {
				t.Errorf("%s, %d: %s", style, unscored, diff)
			}
		}
	}
}

func TestScoresThatDoNotFitTheDraftAreRefused(t *testing.T) {
	good := []alt{{30, "-0.5", `"a"`, 1}, {30, "-0.5", `"a"`, 1}}
	for name, c := range map[string]struct {
		unscored int
		places   [][]alt
		want     error
	}{
		"too few":             {0, [][]alt{good}, ErrShort},
		"not scored":          {1, [][]alt{good}, ErrShort},
		"none":                {0, nil, ErrShort},
		"too many":            {4, [][]alt{good, good}, ErrMisaligned},
		"another token":       {3, [][]alt{good, {{31, "-0.5", `"a"`, 1}, {31, "-0.5", `"a"`, 1}}}, ErrMisaligned},
		"no number":           {3, [][]alt{good, {{30, `"-1"`, `"a"`, 1}, {30, `"-1"`, `"a"`, 1}}}, ErrScores},
		"above 0":             {3, [][]alt{good, {{30, "0.7", `"a"`, 1}, {30, "0.7", `"a"`, 1}}}, ErrScores},
		"beyond all numbers":  {3, [][]alt{good, {{30, "-1e999", `"a"`, 1}, {30, "-1e999", `"a"`, 1}}}, ErrScores},
		"not a number":        {3, [][]alt{good, {{30, "NaN", `"a"`, 1}, {30, "NaN", `"a"`, 1}}}, ErrScores},
		"an alternative's is": {3, [][]alt{good, {{30, "-1", `"a"`, 1}, {31, "true", `"b"`, 1}}}, ErrScores},
	} {
		for _, style := range scoreStyles {
			q := ScoreQuestion{Style: style, Prompt: make([]int32, 3), Draft: []int32{30, 30}, Top: 1}
			got, err := q.Parse([]byte(scoreAnswer(style, c.unscored, c.places...)))
			if !errors.Is(err, c.want) {
				t.Errorf("%s, %s: %v, %v; want %v", name, style, got, err, c.want)
			}
		}
	}
}

func TestAnEngineThatListsFewerAlternativesThanWantedIsNotBelieved(t *testing.T) {
	lone := func(rank int) []alt { return []alt{{30, "-2", `"a"`, rank}, {30, "-2", `"a"`, rank}} }
	for _, c := range []struct {
		rank, top int
		ok        bool
	}{{1, 1, true}, {2, 1, true}, {7, 1, false}, {1, 2, false}} {
		q := ScoreQuestion{Prompt: []int32{1}, Draft: []int32{30}, Top: c.top}
		if _, err := q.Parse([]byte(scoreAnswer(ScoreCompletions, 1, lone(c.rank)))); (err == nil) != c.ok || !c.ok && !errors.Is(err, ErrScores) {
			t.Errorf("rank %d of %d wanted: %v", c.rank, c.top, err)
		}
	}
}

func TestScoresNamedByTextAreRefusedWithAReason(t *testing.T) {
	q := ScoreQuestion{Prompt: []int32{1}, Draft: []int32{30}, Top: 1}
	for _, entry := range []string{`{" Paris":-0.5}`, `{"30":-0.5}`, `{"token_id:30":-0.5}`} {
		_, err := q.Parse([]byte(`{"choices":[{"prompt_logprobs":[null,` + entry + `]}]}`))
		if !errors.Is(err, ErrMisaligned) || !strings.Contains(err.Error(), "named by text") {
			t.Errorf("%s: %v", entry, err)
		}
	}
	if _, err := q.Parse([]byte(`{"choices":[{"prompt_logprobs":[null,{"030":{"logprob":-0.5},"+30":{"logprob":-0.5}}]}]}`)); !errors.Is(err, ErrMisaligned) {
		t.Errorf("what only looks like an id: %v", err)
	}
}

func TestWhatIsNoAnswerIsRefused(t *testing.T) {
	for _, style := range scoreStyles {
		whole := scoreAnswer(style, 1, []alt{{30, "-0.5", `"a"`, 1}, {30, "-0.5", `"a"`, 1}})
		q := ScoreQuestion{Style: style, Prompt: []int32{1}, Draft: []int32{30}, Top: 1}
		for _, body := range []string{"", "null", "[]", "{", whole[:len(whole)-1], whole + "x", whole + whole} {
			if got, err := q.Parse([]byte(body)); !errors.Is(err, ErrScores) {
				t.Errorf("%s, %.20q: %v, %v", style, body, got, err)
			}
		}
	}
}

func TestWhatIsNotToldOfAnAnswerHasItsOwnValues(t *testing.T) {
	for _, style := range scoreStyles {
		q := ScoreQuestion{Style: style, Prompt: []int32{1}, Top: 1}
		for _, body := range []string{"{}", `{"choices":[],"usage":null,"output_ids":null,"meta_info":null}`,
			`{"choices":[{"token_ids":[],"prompt_logprobs":null}],"usage":{"prompt_tokens_details":null},"output_ids":[]}`} {
			got, err := q.Parse([]byte(body))
			if err != nil || len(got.Tokens) != 0 || got.Cached != 0 {
				t.Errorf("%s, %s: %+v, %v", style, body, got, err)
			}
		}
	}
}

func FuzzScores(f *testing.F) {
	places := [][]alt{
		{{30, "-0.5", `" Paris"`, 1}, {30, "-0.5", `" Paris"`, 1}, {31, "-2", `"Rome"`, 2}},
		{{32, "-9999.0", `" The"`, 5000}, {33, "-0.25", `"the\n"`, 1}, {34, "-3", `"\ufffd"`, 2}},
	}
	for _, style := range scoreStyles {
		f.Add([]byte(scoreAnswer(style, 2, places...)))
		f.Add([]byte(scoreAnswer(style, 0, places...)))
		f.Add([]byte(scoreAnswer(style, 3, places[1])))
	}
	f.Add([]byte(`{"choices":[{"prompt_logprobs":[null,{" Paris":-0.5},{"32":-1}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, style := range scoreStyles {
			for top := range 3 {
				q := ScoreQuestion{Style: style, Prompt: []int32{1, 2}, Draft: []int32{30, 32}, Top: top}
				got, err := q.Parse(body)
				if err != nil {
					if !errors.Is(err, ErrShort) && !errors.Is(err, ErrMisaligned) && !errors.Is(err, ErrScores) {
						t.Fatalf("an error of no kind: %v", err)
					}
					continue
				}
				checkScores(t, &q, got)
			}
		}
	})
}

// checkScores holds scores to what Parse promises whatever an engine wrote.
func checkScores(t *testing.T, q *ScoreQuestion, got Scores) {
	t.Helper()
	if len(got.Tokens) != len(q.Draft) || got.Cached < 0 {
		t.Fatalf("got %+v", got)
	}
	for i, s := range got.Tokens {
		switch {
		case s.Logprob > 0 || s.Logprob < -9999 || s.Top > 0 || s.Top < s.Logprob:
			t.Fatalf("logprobs: %+v", s)
		case (s.TopID == q.Draft[i]) != (s.Top == s.Logprob):
			t.Fatalf("first choice: %+v", s)
		case len(s.Tops) < q.top() || len(s.Tops) > q.top()+1 || !falling(s.Tops):
			t.Fatalf("alternatives: %+v", s)
		case s.TopID == q.Draft[i] && !s.Alike:
			t.Fatalf("the same, but not alike: %+v", s)
		}
	}
}

func falling(values []float64) bool {
	for i := 1; i < len(values); i++ {
		if values[i] > values[i-1] {
			return false
		}
	}
	return true
}
