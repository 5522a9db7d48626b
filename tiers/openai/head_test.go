package openai

import (
	"fmt"
	"strings"
	"testing"
)

// headOf scans a request and returns its head.
func headOf(t *testing.T, kind Kind, body string) (system, first string) {
	t.Helper()
	r, err := Scan(kind, []byte(body), DefaultLimits())
	if err != nil {
		t.Fatalf("%.200s: %v", body, err)
	}
	s, f := r.Head()
	return string(s), string(f)
}

func chatOf(messages, more string) string {
	return `{"model":"m","messages":[` + messages + `]` + more + `}`
}

const (
	sys         = `{"role":"system","content":"Be brief."}`
	dev         = `{"role":"developer","content":"No jokes."}`
	user        = `{"role":"user","content":"What is a socket?"}`
	headMessage = `{"role":"assistant","content":"A hole with a protocol."}`
	more        = `{"role":"user","content":"And a port?"}`
	tool        = `,"tools":[{"type":"function","function":{"name":"find","parameters":{}}}]`
)

func TestLaterTurnsOfAConversationHaveTheSameHead(t *testing.T) {
	turns := []string{user, user + "," + headMessage + "," + more, user + "," + headMessage + "," + more + "," + headMessage + "," + sys + "," + more}
	for _, lead := range []string{"", sys + ",", sys + "," + dev + ",", dev + "," + sys + "," + sys + ","} {
		for _, extra := range []string{"", tool, `,"temperature":0.2,"stream":true`, tool + `,"tool_choice":"none"`} {
			system, first := headOf(t, Chat, chatOf(lead+turns[0], extra))
			if (system != "") != (lead != "" || strings.Contains(extra, "tools")) || first == "" {
				t.Fatalf("lead %q, extra %q: system %q, first %q", lead, extra, system, first)
			}
			for i, turn := range turns {
				s, f := headOf(t, Chat, `{"max_tokens":9`+extra+`,"messages":[`+lead+turn+`],"model":"other"}`)
				if s != system || f != first {
					t.Errorf("turn %d, lead %q: system %q, first %q", i, lead, s, f)
				}
			}
		}
	}
}

func TestWhatAPromptBeginsWithIsInItsHead(t *testing.T) {
	heads := map[string]string{}
	for name, body := range map[string]string{
		"plain":             chatOf(user, ""),
		"system":            chatOf(sys+","+user, ""),
		"developer":         chatOf(dev+","+user, ""),
		"both":              chatOf(sys+","+dev+","+user, ""),
		"the other order":   chatOf(dev+","+sys+","+user, ""),
		"tools":             chatOf(user, tool),
		"system and tools":  chatOf(sys+","+user, tool),
		"other first":       chatOf(sys+","+more, ""),
		"system behind":     chatOf(user+","+sys, ""), // as plain
		"only a system one": chatOf(sys, ""),
	} {
		s, f := headOf(t, Chat, body)
		key := fmt.Sprintf("%q %q", s, f)
		if was, ok := heads[key]; ok && (was+name != "plainsystem behind" && was+name != "system behindplain") {
			t.Errorf("%s and %s have one head: %s", name, was, key)
		}
		heads[key] = name
	}
	// The system run ends at the first message that is none.
	s, f := headOf(t, Chat, chatOf(sys+","+dev+","+user+","+sys, ""))
	if s != sys+","+dev || strings.TrimPrefix(f, ",") != user {
		t.Errorf("system %q, first %q", s, f)
	}
	if s, f := headOf(t, Chat, chatOf(sys, "")); s != sys || f != "" {
		t.Errorf("only a system message: %q, %q", s, f)
	}
}

func TestAPlainPromptIsKnownByItsFirstBytes(t *testing.T) {
	body := func(prompt string) string { return `{"model":"m","prompt":` + prompt + `}` }
	long := strings.Repeat("a template that many have in common. ", 60) // 2,220 bytes
	s1, f1 := headOf(t, Completion, body(`"`+long+long+`one"`))
	s2, f2 := headOf(t, Completion, body(`"`+long+long+`two"`))
	if s1 == "" || s1 != s2 || f1 == f2 {
		t.Errorf("a template in common: %t, the rest differs: %t", s1 == s2, f1 != f2)
	}
	if s, f := headOf(t, Completion, body(`"short"`)); s != "" || f != `"short"` {
		t.Errorf("short: %q, %q", s, f)
	}
	huge := strings.Repeat("x", 1<<20)
	s3, f3 := headOf(t, Completion, body(`"`+huge+`one"`))
	s4, f4 := headOf(t, Completion, body(`"`+huge+`two"`))
	if s3 != s4 || f3 != f4 || len(s3)+len(f3) > 16<<10 {
		t.Errorf("%d and %d bytes of a megabyte", len(s3), len(f3))
	}
	for _, prompt := range []string{`["a","b"]`, `[1,2,3]`, `[[1,2],[3]]`, `[]`, `""`} {
		s, f := headOf(t, Completion, body(prompt))
		if s != "" || f != prompt {
			t.Errorf("%s: %q, %q", prompt, s, f)
		}
	}
}
