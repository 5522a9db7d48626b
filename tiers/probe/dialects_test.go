package probe

import (
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/openai"
)

// probedAs probes an engine at a URL as one of a kind.
func probedAs(t *testing.T, a asker) *Capabilities {
	t.Helper()
	a.upstream, a.timeout = up(t), 20*time.Second
	return allAsked(t, &a).capabilities()
}

// Answers in one piece tell their ids, streams of chats do not.
func TestSGLangScoresInItsOwnWayAndLacksIDsOfStreams(t *testing.T) {
	s := simulated(t, vllmsim.Options{Seed: 3, Engine: "sglang"})
	c := probedAs(t, asker{url: s.URL(), model: "sim", engine: dialect.SGLang})
	if whats(c) != MissingPromptIDs+" "+MissingIDs || c.TokenIDs || len(c.EOS) != 1 || c.Scoring != openai.ScoreSGLang {
		t.Errorf("got %+v", c)
	}
}

func TestALatePriorityIsALowOneWhereAHighOneIsEarlier(t *testing.T) {
	late := int64(10)
	for kind, want := range map[dialect.Kind]any{dialect.VLLM: 10.0, dialect.SGLang: -10.0, dialect.LlamaCpp: nil, dialect.OpenAI: nil} {
		f := &wire{kind: kind, window: 4096, listed: "m"}
		probedAs(t, asker{url: f.start(t), model: "m", engine: kind, priority: &late})
		for _, q := range f.bodies {
			if q["max_tokens"] != nil && q["priority"] != want {
				t.Errorf("%s: priority %v, not %v: %v", kind, q["priority"], want, q)
			}
		}
		least := 3
		if kind == dialect.OpenAI {
			least = 1 // it is asked neither for scores nor for tokens
		}
		if len(f.bodies) < least {
			t.Errorf("%s: %d requests, want %d", kind, len(f.bodies), least)
		}
	}
}

func TestAKindThatIsKnownLaterBringsNewCapabilities(t *testing.T) {
	f := &wire{kind: dialect.LlamaCpp, window: 4096, listed: "sim"}
	url := f.start(t)
	s := backends(Backend{ID: "a", URL: url, Up: true, Life: 1})
	p := start(t, Options{}, s, nil)
	was := until(t, p, "probed by vLLM's rules", good)
	if was.Engine != "" || was.Tokenizer != "" {
		t.Errorf("got %+v", was)
	}
	s.become(Backend{ID: "a", URL: url, Up: true, Life: 1, Engine: dialect.LlamaCpp})
	is := until(t, p, "probed by its own rules", func(c *Capabilities) bool { return good(c) && c.Engine == dialect.LlamaCpp })
	if is.Window != 4096 || is.Tokenizer == "" || is.MissingReason(MissingContinue) != "" {
		t.Errorf("got %+v", is)
	}
}
