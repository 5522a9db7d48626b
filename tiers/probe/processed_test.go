package probe

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

func TestWhatLogprobsAreOfIsFoundOut(t *testing.T) {
	for seed := range uint64(4) {
		raw := &taken(t, engine(t, vllmsim.Options{Seed: seed}).URL()).found
		if !raw.RawLogprobs || raw.Processed || raw.Plain || raw.ScoreTop != 20 {
			t.Errorf("seed %d, raw: %+v", seed, raw)
		}
		processed := &taken(t, engine(t, vllmsim.Options{Seed: seed, LogprobsMode: "processed_logprobs"}).URL()).found
		if processed.RawLogprobs || !processed.Processed || !processed.Plain || processed.ScoreTop != 20 {
			t.Errorf("seed %d, processed: %+v", seed, processed)
		}
	}
	none := &taken(t, engine(t, vllmsim.Options{Without: []string{"prompt_logprobs", "logprobs"}}).URL()).found
	if none.Processed || none.Plain || none.ScoreTop != 0 {
		t.Errorf("without any: %+v", none)
	}
}

// defaulting stands before an engine and fills in sampling fields that a request leaves out, as a model's
// generation_config.json does.
func defaulting(t *testing.T, url string, defaults map[string]any) string {
	t.Helper()
	client := &http.Client{Transport: transport(t)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var q map[string]any
		if json.Unmarshal(body, &q) == nil {
			for name, v := range defaults {
				if q[name] == nil {
					q[name] = v
				}
			}
			body, _ = json.Marshal(q)
		}
		out, err := http.NewRequestWithContext(r.Context(), r.Method, url+r.URL.Path, bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		out.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(out)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestDefaultsOfAModelAreSeen(t *testing.T) {
	s := engine(t, vllmsim.Options{Seed: 1, LogprobsMode: "processed_logprobs"})
	for name, defaults := range map[string]map[string]any{
		"temperature": {"temperature": 0.6}, "top_p": {"top_p": 0.8}, "top_k": {"top_k": 5}, "min_p": {"min_p": 0.1},
	} {
		if c := &taken(t, defaulting(t, s.URL(), defaults)).found; !c.Processed || c.Plain {
			t.Errorf("with a default of %s: %+v", name, c)
		}
	}
	if c := &taken(t, defaulting(t, s.URL(), nil)).found; !c.Plain {
		t.Errorf("without: %+v", c)
	}
}

func TestListsOfOneLawAreAlike(t *testing.T) {
	law := map[string]float64{"a": -.1, "b": -2, "c": -5, "d": -9999}
	for name, k := range map[string]struct {
		other map[string]float64
		want  bool
	}{
		"itself":                {law, true},
		"rounded":               {map[string]float64{"a": -.11, "b": -2.02, "c": -4.98, "d": -5000}, true},
		"another end":           {map[string]float64{"a": -.1, "b": -2, "c": -5, "e": -5}, true},
		"warmer":                {map[string]float64{"a": -.3, "b": -1.6, "c": -3.5, "d": -9999}, false},
		"cut":                   {map[string]float64{"a": -.1, "b": -2, "c": -9999, "d": -9999}, false},
		"other tokens":          {map[string]float64{"x": -.1, "y": -2}, false},
		"nothing":               {nil, false},
		"too little to compare": {map[string]float64{"a": -.1}, false},
	} {
		if got := alike(law, k.other); got != k.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
