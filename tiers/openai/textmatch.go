package openai

import "bytes"

// TextMatch compares the text of an answer with what its tokens say of themselves, while both come. It does not compare
// white space, which tokens lose that are decoded one by one, nor a character that is spread over tokens which do not
// tell their bytes. If no token tells its text it finds nothing. The zero value is ready.
type TextMatch struct {
	due    []byte // of tokens, and not yet in the text
	last   int    // bytes of the last token
	told   bool   // some token told its text
	spread bool   // some token told only a part of a character: one that no token tells may follow
}

// maxDue bounds the bytes of tokens that an engine may hold back: a character, or what might be a special token.
const maxDue = 1 << 10

// replacement is what engines write for a part of a character.
var replacement = []byte("\uFFFD")

// Add takes the next tokens and the next text, and reports whether they agree so far.
func (m *TextMatch) Add(tokens TokenText, text []byte) bool {
	if len(tokens.Text) > 0 {
		m.told, m.last = true, tokens.Last
	}
	if !m.told || len(m.due) == 0 && bytes.Equal(tokens.Text, text) {
		return true
	}
	m.spread = m.spread || tokens.Silent
	m.due = append(m.due, tokens.Text...)
	due := m.due
	for len(text) > 0 {
		switch {
		case isBlank(text[0]):
			text = text[1:]
		case len(due) > 0 && isBlank(due[0]):
			due = due[1:]
		case len(due) > 0 && due[0] == text[0]:
			due, text = due[1:], text[1:]
		case bytes.HasPrefix(due, replacement):
			due, m.spread = due[len(replacement):], true
		case m.spread && text[0] >= 0x80:
			text = text[1:]
		default:
			return false
		}
	}
	m.due = m.due[:copy(m.due, due)]
	return len(m.due) <= maxDue
}

// Ends reports whether the text is all that the tokens told, except for the last one: it may have ended the answer.
func (m *TextMatch) Ends() bool {
	rest := bytes.ReplaceAll(m.due, replacement, nil)
	return len(bytes.TrimSpace(rest)) <= m.last
}

func isBlank(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

// TokenText is what tokens say of themselves.
type TokenText struct {
	Text   []byte // of all of them
	Last   int    // bytes of the last one's
	Silent bool   // one of them told none
}

// add takes the text of the next token as raw JSON.
func (t *TokenText) add(raw []byte) {
	from := len(t.Text)
	t.Text = appendToken(t.Text, raw)
	t.end(from)
}

// appendToken appends the text of a token. Some engines write its id there.
func appendToken(dst, raw []byte) []byte {
	if len(raw) == 0 || raw[0] != '"' || bytes.HasPrefix(raw, []byte(`"token_id:`)) {
		return dst
	}
	return unquote(dst, raw)
}

// end completes a token whose text begins at an offset.
func (t *TokenText) end(from int) {
	t.Last = len(t.Text) - from
	t.Silent = t.Silent || t.Last == 0
}
