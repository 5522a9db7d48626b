package openai

import (
	"strings"
	"testing"
)

func TestWhatAPassedRequestNeedsIsReadAsItsPathsEngineReadsIt(t *testing.T) {
	for name, c := range map[string]struct {
		path, members     string
		answer, maxAnswer int
		computes          bool
	}{
		"responses":                 {"/v1/responses", `"max_output_tokens":70`, 70, 70, true},
		"responses, another field":  {"/v1/responses", `"max_tokens":1,"n":9`, -1, -1, true},
		"messages":                  {"/v1/messages", `"max_tokens":80,"max_output_tokens":1`, 80, 80, true},
		"messages, no number":       {"/v1/messages", `"max_tokens":"80"`, -1, -1, true},
		"messages, negative":        {"/v1/messages", `"max_tokens":-80`, -1, -1, true},
		"another path":              {"/inference/v1/generate", `"max_tokens":5,"max_completion_tokens":9,"n":3`, 9, -1, true},
		"another path, no limit":    {"/inference/v1/generate", `"n":3`, -1, -1, true},
		"absurd":                    {"/x", `"max_tokens":1000000000000`, maxNumber, -1, true},
		"embeddings make no answer": {"/v1/embeddings", `"max_tokens":80`, 0, 0, true},
		"tokenize computes nothing": {"/tokenize", `"max_tokens":80`, 0, 0, false},
	} {
		env, err := Peek(c.path, []byte(`{"model":"m", `+c.members+`}`), DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		if n := env.Need; n.Answer != c.answer || n.MaxAnswer != c.maxAnswer || n.Computes != c.computes {
			t.Errorf("%s: %+v", name, n)
		}
	}
}

func TestAQueryCountsOnceForEachDocument(t *testing.T) {
	query, documents := strings.Repeat("q", 4000), strings.Repeat(`"d",`, 999)+`"d"`
	parts := strings.Repeat(`{"type":"text","text":"d"},`, 999) + `{"type":"text","text":"d"}`
	for _, form := range []string{
		`"query" : "` + query + `","documents" :[` + documents + `]`, `"text_1":["` + query + `"],"text_2":[` + documents + `]`,
		`"queries":"` + query + `","items":[` + documents + `]`, `"data_1":"` + query + `","data_2":[` + documents + `]`,
		`"query":"` + query + `","documents":{"content":[` + parts + `]}`, `"text_1":"` + query + `","text_2":[{"content":[` + parts + `]}]`,
	} {
		for _, path := range []string{"/v1/score", "/v1/rerank", "/v2/rerank", "/score"} {
			env, err := Peek(path, []byte(`{"model":"m",`+form+`}`), DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			n := env.Need
			if n.Prompt < 1_000_000 || n.Prompt > 1_010_000 || n.MaxPrompt < 4*n.Prompt || n.Longest < 5e-4 || n.Longest > 1e-2 {
				t.Errorf("%.20s at %s: %+v, want a thousand times a thousand tokens", form, path, n)
			}
		}
	}
}

func TestALongListIsRefusedAndAShortOneIsCounted(t *testing.T) {
	list := func(n int, element string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
	}
	for _, c := range []struct {
		path, members string
		answers       int // 0: it is refused
	}{
		{"/x", `"prompt":` + list(4, `"a"`) + `,"n":2`, 8},
		{"/x", `"text":` + list(4, `"a"`) + `,"best_of":3`, 12},
		{"/x", `"input_ids":` + list(128, `[1,2]`), 128},
		{"/x", `"input_ids":` + list(129, `[1,2]`), 0},
		{"/x", `"input_ids":` + list(4096, `1`), 1},
		{"/x", `"n":1000000000000`, 0},
		{"/v1/embeddings", `"input":` + list(2048, `"a"`), 1},
		{"/v1/embeddings", `"input":` + list(2049, `"a"`), 0},
		{"/v1/embeddings", `"input":` + list(4096, `1`), 1},
		{"/v1/rerank", `"query":"q","documents":` + list(2049, `"a"`), 0},
	} {
		r, err := Peek(c.path, []byte(`{"model":"m",`+c.members+`}`), DefaultLimits())
		if refused := c.answers == 0; (err != nil) != refused || err == nil && r.Need.Answers != c.answers {
			t.Errorf("%s %.40s: %+v, %v", c.path, c.members, r, err)
		}
	}
}

func TestMediaMayBeManyTokensHoweverTheyAreNamed(t *testing.T) {
	text := `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	image := `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]}`
	escaped := strings.ReplaceAll(image, `"image_url"`, `"\u0069mage_url"`)
	for body, want := range map[string]int{
		text: len(text) + templateTokens, image: len(image) + templateTokens + 2*mediaTokens, escaped: len(escaped) + templateTokens + 2*mediaTokens,
	} {
		if got := MaxPromptTokens([]byte(body)); got != want {
			t.Errorf("%s: at most %d tokens, want %d", body, got, want)
		}
	}
}

// FuzzNeed: whatever is asked, what it needs is not negative, what is expected of a prompt is no
// more than it can have, and no product overflows.
func FuzzNeed(f *testing.F) {
	f.Add("/v1/score", `{"model":"m","query":"q","documents":["a","b"]}`)
	f.Add("/v1/responses", `{"model":"m","input":[[1,2],[3]],"max_output_tokens":9}`)
	f.Add("/x", `{"model":"m","max_tokens":99999999999,"n":99999999999}`)
	f.Fuzz(func(t *testing.T, path, body string) {
		env, err := Peek(path, []byte(body), DefaultLimits())
		if err != nil {
			return
		}
		n := env.Need
		if n.Answers < 1 || n.Answers > DefaultLimits().Answers || !(n.Longest > 0 && n.Longest <= 1) || n.Prompt < 0 || n.Prompt > n.MaxPrompt || n.Answer < -1 || n.MaxAnswer < -1 || n.MaxAnswer > max(n.Answer, 0) || n.Answer > maxNumber*maxNumber {
			t.Fatalf("%s %s: %+v", path, body, n)
		}
	})
}
