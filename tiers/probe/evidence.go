package probe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/foregate/foregate/tiers/openai"
)

// Evidence is a request that showed whether an engine has a capability, or a hazard, and what the engine answered.
type Evidence struct {
	Capability string // or the hazard's name
	Request    string // method, path and telling members, at most 160 bytes; "": none was needed
	Answer     string // at most 80 bytes
}

const (
	maxEvidenceRequest = 160 // bytes
	maxEvidenceAnswer  = 80
	maxEvidenceValue   = 48 // of one member
)

// untelling are members of every question.
var untelling = map[string]bool{"model": true, "messages": true, "stream": true, "priority": true, "temperature": true, "tools": true}

// requestLine shows a question as evidence does.
func requestLine(path string, question map[string]any) string {
	var members []string
	for _, name := range slices.Sorted(maps.Keys(question)) {
		v := question[name]
		if arguments, ok := v.(map[string]any); ok { // those that are sent with every chat tell nothing
			arguments = maps.Clone(arguments)
			maps.DeleteFunc(arguments, func(name string, _ any) bool { return pinned[name] != nil })
			if v = arguments; len(arguments) == 0 {
				continue
			}
		}
		if !untelling[name] {
			members = append(members, fmt.Sprintf("%q:%s", name, shownValue(v)))
		}
	}
	return clipped(http.MethodPost+" "+path+" {"+strings.Join(members, ",")+"}", maxEvidenceRequest)
}

// scoreLine shows a request for scores.
func scoreLine(q *openai.ScoreQuestion) string {
	asked := fmt.Sprintf(`"prompt":[%d ids],"prompt_logprobs":%d`, len(q.Prompt)+len(q.Draft), q.Top)
	if q.Style == openai.ScoreSGLang {
		asked = fmt.Sprintf(`"input_ids":[%d ids],"logprob_start_len":%d,"top_logprobs_num":%d`, len(q.Prompt)+len(q.Draft), len(q.Prompt)-1, q.Top)
	}
	return http.MethodPost + " " + q.Path() + " {" + asked + "}"
}

func shownValue(v any) string {
	if ids, ok := v.([]int32); ok {
		return fmt.Sprintf("[%d ids]", len(ids))
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	if len(raw) <= maxEvidenceValue {
		return string(raw)
	}
	return clipped(string(raw), maxEvidenceValue) + "…"
}

// clipped is one printable line of at most so many bytes.
func clipped(s string, size int) string {
	s = line(s)
	return strings.ToValidUTF8(s[:min(len(s), size)], "")
}

// evidences collects evidence; the last of each capability stays.
type evidences map[string]Evidence

func (e evidences) add(capability, request, answer string) {
	e[capability] = Evidence{capability, clipped(request, maxEvidenceRequest), clipped(answer, maxEvidenceAnswer)}
}

func (e evidences) sorted() []Evidence {
	return slices.SortedFunc(maps.Values(e), func(a, b Evidence) int { return cmp.Compare(a.Capability, b.Capability) })
}
