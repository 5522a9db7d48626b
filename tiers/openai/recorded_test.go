package openai

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recordings are the answers of real engines in testdata/wire, by engine and name: request, head and body.
func recordings(t *testing.T, pattern string) map[string][2]string {
	t.Helper()
	files, err := filepath.Glob("../../testdata/wire/*/" + pattern + ".txt")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	all := map[string][2]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, answer, _ := strings.Cut(string(text), "\n\n")
		head, body, _ := strings.Cut(strings.TrimPrefix(answer, "\n"), "\n")
		all[strings.TrimSuffix(strings.TrimPrefix(file, "../../testdata/wire/"), ".txt")] = [2]string{head, body}
	}
	return all
}

// plain is what the tests themselves read of an answer or a chunk.
type plain struct {
	Choices []struct {
		Message, Delta struct{ Content string }
		Text           string
		Finish         string          `json:"finish_reason"`
		Stop           json.RawMessage `json:"stop_reason"`
	}
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
}

// add adds what an answer or a chunk says to what was said before.
func (p *plain) add(t *testing.T, raw string) (text, finish string) {
	t.Helper()
	p.Choices = nil
	if err := json.Unmarshal([]byte(raw), p); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	for _, c := range p.Choices {
		text, finish = text+c.Message.Content+c.Delta.Content+c.Text, finish+c.Finish
	}
	return text, finish
}

func TestRecordedStreamsAreReadWhole(t *testing.T) {
	for _, pattern := range []string{"stream*", "completion-stream"} {
		for name, r := range recordings(t, pattern) {
			kind := Chat
			if pattern != "stream*" {
				kind = Completion
			}
			parser := ChunkParser{Judged: true}
			parser.LogprobIDs = strings.HasPrefix(name, "llamacpp")
			a, said, ended, ids, tokens := NewAssembler(kind, 1<<20), "", "", 0, 0
			var p plain
			for event := range strings.SplitSeq(strings.TrimSpace(r[1]), "\n\n") {
				data := strings.TrimPrefix(event, "data: ")
				if data == Done {
					continue
				}
				text, finish := p.add(t, data)
				said, ended = said+text, ended+finish
				c, err := parser.Parse([]byte(data))
				if err != nil || string(c.Text) != text || string(c.Finish) != finish || c.Foreign {
					t.Fatalf("%s: %q, %q, foreign %v, %v; the chunk is %s", name, c.Text, c.Finish, c.Foreign, err, data)
				}
				ids, tokens = ids+len(c.IDs), tokens+len(c.Logprobs)
				a.Chunk([]byte(data))
			}
			a.End(Ending{})
			w, err := a.Whole()
			if kept := !strings.Contains(r[1], `"logprobs":{`); !kept { // logprobs are of one answer alone
				if err == nil {
					t.Errorf("%s: it is kept", name)
				}
			} else if err != nil || string(w.Choices[0].Text) != said || w.Choices[0].Finish != ended || w.Usage.Prompt != p.Usage.Prompt || w.Usage.Completion != p.Usage.Completion {
				t.Errorf("%s: %+v, %v; it says %q, ends as %s, with %+v", name, w, err, said, ended, p.Usage)
			}
			if strings.HasSuffix(name, "stream-logprobs") && (ids != 2 || tokens != 2) {
				t.Errorf("%s: %d ids, %d logprobs of 2 tokens", name, ids, tokens)
			}
		}
	}
}

func TestRecordedAnswersAreReadWhole(t *testing.T) {
	for _, pattern := range []string{"chat*", "completion*", "continued"} {
		for name, r := range recordings(t, pattern) {
			if !strings.HasPrefix(r[0], "200 application/json") || strings.HasSuffix(name, "chat-tools") {
				continue
			}
			var p plain
			text, finish := p.add(t, r[1])
			got, err := ParseAnswer([]byte(r[1]))
			if err != nil || got.Choices != len(p.Choices) || !strings.HasSuffix(finish, string(got.Finish)) || string(got.Finish) == "" || got.Usage.Prompt != p.Usage.Prompt || got.Usage.Completion != p.Usage.Completion || got.Fault != nil {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			kind := Chat
			if pattern == "completion*" {
				kind = Completion
			}
			if strings.Contains(r[1], `"logprobs":{`) || strings.Contains(r[1], `"prompt_logprobs":[`) || strings.Contains(r[1], `"token_ids":[`) {
				continue // no answer to be kept
			}
			a := NewAssembler(kind, 1<<20)
			a.Body([]byte(r[1]))
			w, err := a.Whole()
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			said := ""
			for _, c := range w.Choices {
				said += string(c.Text)
			}
			if said != text {
				t.Errorf("%s: %q, it says %q", name, said, text)
			}
		}
	}
}

func TestRecordedErrorsAreUnderstood(t *testing.T) {
	long := 0
	for name, r := range recordings(t, "error-*") {
		if strings.HasPrefix(r[0], "200") {
			continue // llama.cpp takes any model, temperature and limit
		}
		f := ParseFault([]byte(r[1]))
		if f.Message == "" || f.TooLong != (strings.Contains(name, "error-long") || strings.HasSuffix(name, "error-max-tokens")) {
			t.Errorf("%s: %+v", name, f)
		}
		if f.TooLong {
			long++
		}
		if want, _, _ := strings.Cut(r[0], " "); f.Status != 0 && want != "" && !strings.HasPrefix(r[0], want) {
			t.Errorf("%s: status %d, it was %s", name, f.Status, r[0])
		}
	}
	if long != 5 {
		t.Errorf("%d prompts are too long, want 5", long)
	}
}

func TestRecordedScoresAreRead(t *testing.T) {
	for name, r := range recordings(t, "completion-scored") {
		if strings.HasPrefix(name, "llamacpp") {
			continue // it has none
		}
		q := &ScoreQuestion{Terms: Terms{Model: "target"}, Style: ScoreCompletions, Prompt: []int32{1}, Draft: []int32{827, 1296}, Top: 1} // " two three"
		got, err := q.Parse([]byte(r[1]))
		if err != nil || len(got.Tokens) != 2 || got.Tokens[0].Logprob > -9.7 || got.Tokens[0].TopID != 29 || got.Tokens[1].Top < -2.3 || string(got.Told.Text) != " two three" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
