package vllmsim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
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
	text, err := os.ReadFile("../../testdata/wire/vllm-0.32.0/forms.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Form string
		Of   []string
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	asked, differ := 0, map[string]int{}
	for _, want := range all {
		for _, q := range want.Of {
			asked++
			got := formOf(t, s.URL(), q)
			why := ""
			for part, reason := range left {
				if strings.Contains(q, part) {
					why = reason
				}
			}
			switch {
			case got != want.Form && why == "":
				t.Errorf("%.300s\nhas the form %.2000s\nrecorded is  %.2000s", q, got, want.Form)
			case got != want.Form:
				differ[why]++
			}
		}
	}
	t.Logf("%d requests; left: %v", asked, differ)
}

// formOf asks METHOD path body, and returns status, content type and form of the answer.
func formOf(t *testing.T, url, asked string) string {
	t.Helper()
	method, rest, _ := strings.Cut(asked, " ")
	path, body, _ := strings.Cut(rest, " ")
	req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or the test failed
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s\n%s", resp.StatusCode, resp.Header.Get("Content-Type"), reader.Form(string(text)))
}
