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

	json   jsonState
	tokens [len(counted)]int // last reported values, less than 0 before
	pieces int
	bytes  int64
}

// NewMeter returns a meter of a JSON answer, or of a stream of events.
func NewMeter(stream bool) *Meter {
	m := &Meter{stream: stream}
	m.json.meter = m
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
		m.json.take(p)
		return
	}
	for len(p) > 0 {
		if m.line == lineData || m.line == lineOther {
			end := bytes.IndexAny(p, "\r\n")
			if end < 0 {
				end = len(p)
			}
			if m.line == lineData {
				m.json.take(p[:end])
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
	if m.json.piece {
		m.pieces++
	}
	m.json = jsonState{meter: m}
}

// jsonState is the state of reading a JSON text.
type jsonState struct {
	meter *Meter

	depth   int  // open brackets
	cared   int  // of these the outer ones that lead to a usage; all of them are objects
	inText  bool // a string is open
	escaped bool // after a backslash
	naming  bool // a name comes next, or is open
	piece   bool // a top-level member holds a part of an answer

	name  [maxMember]byte // last name in a relevant object, truncated
	named int
	first role // of the open member of the top object
	found role // of the last name
	digit numberState
	value int
}

// maxMember is the length up to which names are distinguished.
const maxMember = 32

// role is the meaning of a name. Roles from roleCount on are counts.
type role int8

const (
	roleNone   role = iota
	roleUsage       // the counts
	roleHolder      // an object that holds a usage
	rolePiece       // a part of an answer
	roleCount
)

// numberState is the state of reading a count.
type numberState uint8

const (
	numberNone numberState = iota // not begun
	numberIs                      // only digits so far
	numberNot                     // not a count
)

func (j *jsonState) take(p []byte) {
	for i := 0; i < len(p); i++ {
		if j.inText {
			if !j.naming && !j.escaped { // the text of a value is irrelevant
				skip := bytes.IndexAny(p[i:], `"\`)
				if skip < 0 {
					return
				}
				i += skip
			}
			j.text(p[i])
			continue
		}
		if j.depth > j.cared { // mainly long lists of numbers
			for i < len(p) && !structural[p[i]] {
				i++
			}
			if i == len(p) {
				return
			}
		}
		j.byte(p[i])
	}
}

// structural are the bytes that matter outside of names.
var structural = [256]bool{'"': true, '{': true, '[': true, '}': true, ']': true}

// text reads a byte of a string.
func (j *jsonState) text(b byte) {
	switch {
	case j.escaped:
		j.escaped = false
	case b == '\\':
		j.escaped = true
	case b == '"':
		j.inText = false
		return
	}
	if !j.naming {
		return
	}
	if j.named < maxMember {
		j.name[j.named] = b
	}
	j.named = min(j.named+1, maxMember+1)
}

// byte reads a byte outside of strings.
func (j *jsonState) byte(b byte) {
	switch b {
	case '"':
		j.inText, j.named = true, 0
		j.digit = numberNot
	case '{', '[':
		j.open(b == '{')
	case '}', ']':
		j.count()
		if j.cared == j.depth {
			j.cared = max(j.cared-1, 0)
		}
		j.depth = max(j.depth-1, 0)
		j.naming, j.found = false, roleNone
	case ',':
		j.count()
		j.naming, j.found = j.depth > 0 && j.cared == j.depth, roleNone
	case ':':
		if j.naming {
			j.naming = false
			j.understand()
		}
		j.digit, j.value = numberNone, 0
	case ' ', '\t', '\r', '\n':
	default:
		j.number(b)
	}
}

// open enters an object or an array.
func (j *jsonState) open(object bool) {
	leads := j.depth == 0 || j.found == roleUsage || j.found == roleHolder && j.depth == 1
	inside := j.cared == j.depth && object && leads
	if j.depth++; inside {
		j.cared = j.depth
	}
	j.naming, j.digit = inside, numberNot
}

// understand determines the role of the name that has ended.
func (j *jsonState) understand() {
	j.found = roleNone
	if j.named > maxMember {
		return
	}
	name := string(j.name[:j.named])
	if j.cared == 2 && j.first == roleUsage || j.cared == 3 { // inside a usage
		for i, known := range counted {
			if name == known {
				j.found = roleCount + role(i)
			}
		}
		return
	}
	switch name {
	case "usage":
		j.found = roleUsage
	case "message", "response":
		j.found = roleHolder
	case "delta", "choices":
		j.found = rolePiece
	}
	if j.cared == 1 {
		j.first = j.found
		j.piece = j.piece || j.found == rolePiece
	}
}

// number reads a byte of a number, or of a literal.
func (j *jsonState) number(b byte) {
	if b < '0' || b > '9' || j.digit == numberNot {
		j.digit = numberNot
		return
	}
	j.digit = numberIs
	j.value = min(j.value*10+int(b-'0'), maxCount)
}

// count stores the number that has ended.
func (j *jsonState) count() {
	if j.found >= roleCount && j.digit == numberIs && j.cared == j.depth {
		j.meter.tokens[j.found-roleCount] = j.value
	}
	j.digit = numberNot
}
