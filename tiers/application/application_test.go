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

func TestAChangedPromptHasTheSketchOfTheOneBefore(t *testing.T) {
	const prompt = "You answer questions of customers of ACME about their orders. Be friendly and short. Never promise a refund; say that a colleague decides. If you do not know the answer, say so. Write in the language of the customer, and sign as the team of ACME."
	tools := `,"tools":[{"type":"function","function":{"name":"find"}}]`
	equal := func(body, tenant string) (n int) {
		first := strings.TrimPrefix(Of(scan(t, chat(prompt, "one", tools)), "acme", "", "s"), "acme/")
		other := strings.TrimPrefix(Of(scan(t, body), tenant, "", "s"), tenant+"/")
		if first == other {
			t.Errorf("%s: not told apart", body)
		}
		for i := range sketchSlots {
			if first[i] == other[i] {
				n++
			}
		}
		return n
	}
	for _, changed := range []string{prompt + " Do not mention competitors.", strings.Replace(prompt, "friendly and short", "brief", 1), strings.Replace(prompt, "a colleague", "someone", 1)} {
		if n := equal(chat(changed, "one", tools), "acme"); n < 5 {
			t.Errorf("%d equal digits: %s", n, changed)
		}
	}
	for name, n := range map[string]int{
		"another prompt":             equal(chat("You translate from German into English. Answer with the translation alone, without a word about it.", "one", tools), "acme"),
		"the prompt without tools":   equal(chat(prompt, "one", ""), "acme"),
		"the prompt of other tenant": equal(chat(prompt, "one", tools), "beta"),
	} {
		if n >= 5 {
			t.Errorf("%s: %d equal digits", name, n)
		}
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
		if got := Of(r, "t", "", secret); len(got) != len("t/")+sketchSlots+2*digestBytes {
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
