package probe

import (
	"os"
	"strings"
	"testing"

	"github.com/foregate/foregate/tiers/dialect"
)

// recorded is the body of a real engine's answer in testdata/wire.
func recorded(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("../../testdata/wire/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	_, answer, _ := strings.Cut(string(text), "\n\n")
	_, body, _ := strings.Cut(strings.TrimPrefix(answer, "\n"), "\n")
	return []byte(body)
}

func TestRecordedAnswersTellWhatAnEngineIs(t *testing.T) {
	for folder, c := range map[string]struct {
		kind   dialect.Kind
		window int
	}{"vllm-0.32.0": {dialect.VLLM, 2048}, "llamacpp-b11549": {dialect.LlamaCpp, 0}} {
		body := recorded(t, folder+"/models")
		answers := func(path string) (int, []byte, error) {
			if path == dialect.ModelsPath {
				return 200, body, nil
			}
			return 404, nil, nil
		}
		if f, err := dialect.Find(answers); err != nil || f.Kind != c.kind {
			t.Errorf("%s is %+v", folder, f)
		}
		if card, err := parseCard(body, "m"); err != nil || card.ID == "" || card.Window != c.window {
			t.Errorf("%s: %+v, %v", folder, card, err)
		}
	}
	if window, start, err := parseProps(recorded(t, "llamacpp-b11549/props")); err != nil || window != 2048 || start == "" {
		t.Errorf("a window of %d tokens, %v", window, err)
	}
}
