package probe

import (
	"errors"
	"testing"
	"unicode/utf8"
)

// FuzzCards reads foreign bytes as what engines tell of themselves: one gets what can be used, or an error that says that they
// cannot be read. Their answers are read by openai and upstream.
func FuzzCards(f *testing.F) {
	for _, s := range []string{
		`{"default_generation_settings":{"n_ctx":4096},"total_slots":4}`, `{"data":[{"id":"sim","max_model_len":10}]}`,
		`{"data":[{"id":"/a/m.gguf","aliases":["m"]}]}`, `{"error":{"message":"no"}}`, "\xff{", `{"detail":[{"msg":"\u0000\ud800"}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		n, _, err := parseProps(body)
		readable(t, err)
		if (n > 0) != (err == nil) {
			t.Errorf("%q: n_ctx %d, %v", body, n, err)
		}
		_, err = parseCard(body, "m")
		readable(t, err)
	})
}

func readable(t *testing.T, err error) {
	t.Helper()
	u, ok := errors.AsType[unusable](err)
	if err != nil && (!ok || !utf8.ValidString(string(u)) || len(u) > 2*maxLine) {
		t.Errorf("error %q", err)
	}
}
