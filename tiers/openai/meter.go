package openai

import (
	"bytes"
	"strings"
)

// Meter reads the token counts of an answer while it is forwarded. It uses a hundred bytes, however long the
// answer is, and its result does not depend on how the bytes were split. It reads the usage of each of the
// APIs: at the top level, or in a "message" or a "response", with the names of chats (prompt_tokens) or of
// messages and responses (input_tokens). A Meter does not validate: anything that is not JSON has no usage.
type Meter struct {
	stream bool
	line   lineState
	cr     bool // the last byte was a carriage return

	state  jsonState
	tokens [len(counted)]int // last reported values, less than 0 before
	pieces int
	bytes  int64
}

// NewMeter returns a meter of a JSON answer, or of a stream of events.
func NewMeter(stream bool) *Meter {
	m := &Meter{stream: stream}
	for i := range m.tokens {
		m.tokens[i] = -1
	}
	return m
}

// counted are the counts in a usage.
var counted = [...]string{
	"prompt_tokens", "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens",
	"completion_tokens", "output_tokens", "total_tokens",
}

// The indexes of counted.
const (
	countPrompt = iota
	countInput
	countMade
	countRead
	countCompletion
	countOutput
	countTotal
)

// maxCount bounds a count, so that sums stay far from overflow.
const maxCount = 1 << 40

// Usage is what the answer has reported so far: see [Usage]. told is false if it reported neither prompt nor
// answer tokens.
func (m *Meter) Usage() (u Usage, reported bool) {
	t := &m.tokens
	u.Prompt = max(t[countPrompt], t[countInput], 0) + max(t[countMade], 0) + max(t[countRead], 0)
	u.Completion = max(t[countCompletion], t[countOutput], 0)
	if u == (Usage{}) {
		u.Prompt = max(t[countTotal], 0) // endpoints without an answer may report only the total
	}
	return u, u != Usage{}
}

// Pieces is the number of events with a part of an answer.
func (m *Meter) Pieces() int { return m.pieces }

// Bytes is the number of bytes received.
func (m *Meter) Bytes() int64 { return m.bytes }

// lineState is the state of a line in a stream of events.
type lineState uint8

const (
	lineNew   lineState = iota // no byte yet
	lineD                      // "d" has come
	lineDA                     // "da" …
	lineDAT                    //
	lineDATA                   // only the colon is missing
	lineData                   // its value is read
	lineOther                  // it is skipped
)

// dataPrefix begins a line whose value is read.
const dataPrefix = "data:"

// Take reads more of the answer.
func (m *Meter) Take(p []byte) {
	m.bytes += int64(len(p))
	if !m.stream {
		m.json(p)
		return
	}
	for len(p) > 0 {
		if m.line == lineData || m.line == lineOther {
			end := bytes.IndexAny(p, "\r\n")
			if end < 0 {
				end = len(p)
			}
			if m.line == lineData {
				m.json(p[:end])
			}
			if p = p[end:]; len(p) == 0 {
				return
			}
		}
		m.byte(p[0])
		p = p[1:]
	}
}

// byte reads a byte of a line whose field is not known yet, or the end of a known one.
func (m *Meter) byte(b byte) {
	after := m.cr
	m.cr = b == '\r'
	switch {
	case b == '\n' && after: // the second byte of the line end
	case b == '\n', b == '\r':
		if m.line == lineNew {
			m.event()
		}
		m.line = lineNew
	case m.line == lineNew && strings.IndexByte(byteOrderMark, b) >= 0: // it is skipped
	case b == dataPrefix[m.line]:
		m.line++
	default:
		m.line = lineOther
	}
}

// event ends an event.
func (m *Meter) event() {
	if m.state.piece {
		m.pieces++
	}
	m.state = jsonState{}
}

// jsonState is the state of reading a JSON text.
type jsonState struct {
	depth   int                    // open brackets
	objects [deepestUsage + 1]bool // of the outer ones: which are objects
	members [deepestUsage + 1]role // the open member of each

	quoted, escaped bool
	token           [maxMember + 1]byte // the last name, or the number that is read, truncated
	size            int                 // of it, at most maxMember+1
	plain           bool                // it has digits only, and no quotes
	piece           bool                // a top-level member holds a part of an answer
}

const (
	deepestUsage = 3  // levels down to the counts of a usage in a response
	maxMember    = 32 // the length up to which names are distinguished
)

// role is the meaning of a name. Roles from roleCount on are counts.
type role int8

const (
	roleNone   role = iota
	roleUsage       // the counts
	roleHolder      // an object that holds a usage
	rolePiece       // a part of an answer
	roleCount
)

// roles are the meanings of names.
var roles = func() map[string]role {
	m := map[string]role{"usage": roleUsage, "message": roleHolder, "response": roleHolder, "delta": rolePiece, "choices": rolePiece}
	for i, name := range counted {
		m[name] = roleCount + role(i)
	}
	return m
}()

// json reads more of a JSON text.
func (m *Meter) json(p []byte) {
	j := &m.state
	for i := 0; i < len(p); i++ {
		switch b := p[i]; {
		case j.escaped:
			j.escaped = false
			j.add(b)
		case j.quoted && b == '"':
			j.quoted = false
		case j.quoted:
			j.escaped = b == '\\'
			if j.add(b); j.size > maxMember && !j.escaped { // the rest is irrelevant
				skip := bytes.IndexAny(p[i+1:], `"\`)
				if skip < 0 {
					return
				}
				i += skip
			}
		case b == '"':
			j.quoted, j.plain, j.size = true, false, 0
		case j.depth > deepestUsage && !structural[b]: // mainly long lists of numbers
			for i+1 < len(p) && !structural[p[i+1]] {
				i++
			}
		case b == ':':
			m.named()
		case b == '{' || b == '[':
			if j.depth++; j.depth <= deepestUsage {
				j.objects[j.depth], j.members[j.depth] = b == '{', roleNone
			}
			j.plain = false
		case b == ',' || b == '}' || b == ']':
			m.count()
			if b != ',' {
				j.depth = max(j.depth-1, 0)
			}
		case b >= '0' && b <= '9':
			j.add(b)
		case b != ' ' && b != '\t' && b != '\r' && b != '\n':
			j.plain = false
		}
	}
}

// structural are the bytes that matter below the counts.
var structural = [256]bool{'"': true, '{': true, '[': true, '}': true, ']': true}

// add adds a byte to the token.
func (j *jsonState) add(b byte) {
	if j.size <= maxMember {
		j.token[j.size] = b
		j.size++
	}
}

// named takes the token for the name of the member whose value comes next.
func (m *Meter) named() {
	j := &m.state
	if j.depth > 0 && j.depth <= deepestUsage && j.objects[j.depth] {
		j.members[j.depth] = roles[string(j.token[:j.size])]
		j.piece = j.piece || j.depth == 1 && j.members[1] == rolePiece
	}
	j.plain, j.size = true, 0
}

// count stores a number that has ended, if it is a count of a usage.
func (m *Meter) count() {
	j := &m.state
	inUsage := j.depth == 2 && j.members[1] == roleUsage || j.depth == 3 && j.members[1] == roleHolder && j.members[2] == roleUsage
	if inUsage && j.objects[j.depth] && j.members[j.depth] >= roleCount && j.plain && j.size > 0 {
		n := 0
		for _, digit := range j.token[:j.size] {
			n = min(n*10+int(digit-'0'), maxCount)
		}
		m.tokens[j.members[j.depth]-roleCount] = n
	}
	j.plain = false
}
