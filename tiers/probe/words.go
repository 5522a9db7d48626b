package probe

import (
	"encoding/json"
	"strings"
	"unicode"
)

// maxWords bounds what is kept of an engine's own words, in bytes.
const maxWords = 200

// words takes the engine's words out of an error body, in the four shapes that there are:
// one printable line, bounded.
func words(body []byte) string {
	var reported struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	text := ""
	if json.Unmarshal(body, &reported) != nil {
		return line(string(body[:min(len(body), maxWords)]))
	}
	var inner struct {
		Message string `json:"message"`
	}
	switch {
	case json.Unmarshal(reported.Error, &inner) == nil && inner.Message != "":
		text = inner.Message
	case json.Unmarshal(reported.Error, &text) == nil && text != "":
	case reported.Message != "":
		text = reported.Message
	default:
		text = strings.Trim(string(reported.Detail), `"`)
	}
	return line(text)
}

// line makes one printable line of at most maxWords bytes.
func line(s string) string {
	s = strings.Join(strings.FieldsFunc(s[:min(len(s), 4*maxWords)], func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	return strings.ToValidUTF8(s[:min(len(s), maxWords)], "")
}
