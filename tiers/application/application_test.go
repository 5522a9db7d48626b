package application

import (
	"fmt"
	"strings"
	"testing"

	"github.com/foregate/foregate/tiers/openai"
)

func scan(t testing.TB, body string) *openai.Request {
	t.Helper()
	r, err := openai.Scan(openai.Chat, []byte(body), openai.DefaultLimits())
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}

func chat(system, user, more string) string {
	messages := fmt.Sprintf(`{"role":"user","content":%q}`, user)
	if system != "" {
		messages = fmt.Sprintf(`{"role":"system","content":%q},`, system) + messages
	}
	return `{"model":"m","messages":[` + messages + `]` + more + `}`
}

func TestTheSameApplicationHasTheSameFingerprint(t *testing.T) {
	const system = "You summarise tickets of ACME.\nToday is 2026-11-29, ticket 4711, id 3f2a-77."
	tools := `,"tools":[{"type":"function","function":{"name":"find","description":"%s","parameters":{"type":"object","properties":{"name":{"type":"string"}}}}}]`
	first := Of(scan(t, chat(system, "one", fmt.Sprintf(tools, "finds"))), "acme", "", "s")
	for name, body := range map[string]string{
		"another question":                        chat(system, "two", fmt.Sprintf(tools, "finds")),
		"another date and ticket":                 chat("You summarise tickets of ACME.\nToday is 2027-01-02, ticket 12, id 99-aa1.", "one", fmt.Sprintf(tools, "finds")),
		"other space":                             chat("You summarise  tickets of ACME. Today is 2026-11-29, ticket 4711, id 3f2a-77.", "one", fmt.Sprintf(tools, "finds")),
		"a tool that is described in other words": chat(system, "one", fmt.Sprintf(tools, "looks up")),
	} {
		if got := Of(scan(t, body), "acme", "", "s"); got != first {
			t.Errorf("%s: %s, want %s", name, got, first)
		}
	}
	for name, got := range map[string]string{
		"another prompt":  Of(scan(t, chat("You translate tickets of ACME.", "one", fmt.Sprintf(tools, "finds"))), "acme", "", "s"),
		"no prompt":       Of(scan(t, chat("", "one", fmt.Sprintf(tools, "finds"))), "acme", "", "s"),
		"no tools":        Of(scan(t, chat(system, "one", "")), "acme", "", "s"),
		"another format":  Of(scan(t, chat(system, "one", fmt.Sprintf(tools, "finds")+`,"response_format":{"type":"json_object"}`)), "acme", "", "s"),
		"another tenant":  Of(scan(t, chat(system, "one", fmt.Sprintf(tools, "finds"))), "beta", "", "s"),
		"another secret":  Of(scan(t, chat(system, "one", fmt.Sprintf(tools, "finds"))), "acme", "", "t"),
		"a name":          Of(scan(t, chat(system, "one", fmt.Sprintf(tools, "finds"))), "acme", "tickets", "s"),
		"a tool's change": Of(scan(t, chat(system, "one", strings.Replace(fmt.Sprintf(tools, "finds"), `"find"`, `"look"`, 1))), "acme", "", "s"),
	} {
		if got == first {
			t.Errorf("%s: the same fingerprint %s", name, got)
		}
	}
}

func TestRequestsWithoutASystemPromptGoByTheirFirstTurn(t *testing.T) {
	one := Of(scan(t, chat("", "Translate sentence 17: how are you", "")), "a", "", "")
	if again := Of(scan(t, chat("", "Translate sentence 18: how are you", "")), "a", "", ""); again != one {
		t.Errorf("%s and %s", one, again)
	}
	if other := Of(scan(t, chat("", "Write a poem", "")), "a", "", ""); other == one {
		t.Errorf("both are %s", one)
	}
}

// FuzzOf: whatever a body holds, the fingerprint has its shape and does not depend on digits.
func FuzzOf(f *testing.F) {
	f.Add("You \\ are 3", `[{"name":`, "x")
	f.Add("\\", `"name":"`, "")
	f.Fuzz(func(t *testing.T, system, tools, secret string) {
		r, err := openai.Scan(openai.Chat, []byte(chat(system, "hi", `,"tools":`+tools)), openai.DefaultLimits())
		if err != nil {
			return
		}
		if got := Of(r, "t", "", secret); len(got) != len("t/")+2*idBytes {
			t.Errorf("%q", got)
		}
	})
}

func BenchmarkOfA64KBPrompt(b *testing.B) {
	r := scan(b, chat(strings.Repeat("some words of a long prompt, ", 2300), "hi", ""))
	for b.Loop() {
		Of(r, "acme", "", "secret")
	}
}
