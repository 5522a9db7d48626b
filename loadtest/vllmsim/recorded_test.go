package vllmsim

import (
	"strings"
	"testing"

	reader "github.com/foregate/foregate/loadtest/answer"
)

// left are the requests that the simulator answers in another form than vLLM, by what they hold, and why.
var left = map[string]string{
	`"type":"nonsense"`:      "grammars are not compiled, and unions of types tell their first mistake alone",
	`"regex":"`:              "answers do not keep to a regular expression",
	`"messages":[{"content"`: "unions of types tell their first mistake alone",
	`"content":5`:            "unions of types tell their first mistake alone",
	`"prompt":7`:             "unions of types tell their first mistake alone",
	`"echo":true`:            "there is no echo",
	`"logit_bias":{"999999"`: "a bias of another token than those there are changes nothing",
}

// testdata/wire has the forms of vLLM's answers (make wire). The same requests get answers of the same form here: the same
// members, nulls, chunks, statuses and texts of errors.
func TestAnswersHaveTheFormOfTheRecordedOnes(t *testing.T) {
	s := Start(t, Options{Model: "target", Seed: 6, TimeScale: fast, MaxModelLen: 2048})
	all, err := reader.ReadRecorded("../../testdata/wire/vllm-0.32.0/forms.json")
	if err != nil {
		t.Fatal(err)
	}
	asked, differ := 0, map[string]int{}
	for _, want := range all {
		for _, q := range want.Of {
			asked++
			got, err := reader.AskForm(t.Context(), s.URL(), q)
			if err != nil {
				t.Fatal(err)
			}
			if got == want.Form {
				continue
			}
			known := false
			for part := range left {
				if strings.Contains(q, part) {
					known = true
					differ[part]++
				}
			}
			if !known {
				t.Errorf("%.300s\nhas the form %.2000s\nrecorded is  %.2000s", q, got, want.Form)
			}
		}
	}
	for part := range left {
		if differ[part] == 0 {
			t.Errorf("every answer to a request with %s has the recorded form: it is no longer left", part)
		}
	}
	t.Logf("%d requests; of another form, by what they hold: %v", asked, differ)
}
