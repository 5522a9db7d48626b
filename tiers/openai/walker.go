package openai

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// walker judges the values of a request that the gateway sends on: whatever it lets pass names no
// address and no file for an engine to open. All scans use it.
//
// Media may stand only in content parts: in objects whose type says so, which hold the keys of that
// type and nothing else, and whose media are data: URIs. What engines never look for media in
// (schemas, the arguments of tools) is passed over.
type walker struct {
	cur     *cursor
	body    []byte // that the cursor reads
	lim     Limits
	asked   []asked
	special bool // some part is neither text nor a refusal
	schemas bool // in the definitions of tools
}

// mode says how a value is judged.
type mode uint8

const (
	modeFree    mode = iota // any JSON; media only in parts
	modeSkip                // not looked into
	modeContent             // text, a part, or a list of both
	modeScalar              // no object and no array
	modeImage               // a data: URI, or an object with one under url
	modeAudio
	modeVideo
	modeSound  // {data, format}, base64
	modeSource // {type: base64, media_type, data}
)

// media reports whether the mode is one of media.
func (m mode) media() bool { return m >= modeImage }

// asked is something that is refused unless the request's route allows it. The route is known only when the
// whole request was read.
type asked struct {
	name string // as allow_fields lists it
	err  *RequestError
}

// maxAsked bounds what one request may ask for: more than all fields and types of parts together.
const maxAsked = 128

// ask notes what the route must allow; the first of each name is kept. Only for that one the refusal is worded:
// a request may ask a hundred thousand times.
func (w *walker) ask(name string, refusal func() *RequestError) {
	if len(w.asked) == maxAsked || slices.ContainsFunc(w.asked, func(a asked) bool { return a.name == name }) {
		return
	}
	if err := refusal(); err != nil {
		w.asked = append(w.asked, asked{name, err})
	}
}

// allowed returns the error of the first thing asked for that the route of the model does not allow.
func (w *walker) allowed(model string) *RequestError {
	if len(w.asked) == 0 {
		return nil
	}
	var allow []string
	if w.lim.Allow != nil {
		allow = w.lim.Allow(model)
	}
	for _, a := range w.asked {
		if !slices.Contains(allow, a.name) {
			return a.err
		}
	}
	if len(w.asked) == maxAsked {
		return badField("", "too_many_fields", "The request asks for more than %d things that are not accepted everywhere.", maxAsked)
	}
	return nil
}

// since is where the value stands that was read since the offset of its member's name.
func (w *walker) since(offset int) Span {
	end := int(w.cur.dec.InputOffset())
	return Span{end - len(bytes.TrimLeft(w.body[offset:end], ": \t\r\n")), end}
}

// scalar judges a value that may be no object and no array.
func (w *walker) scalar() *RequestError {
	if k := w.cur.kind(); k == '{' || k == '[' {
		return w.refuse("invalid_type", "must not be %s", kindWord(k))
	}
	w.cur.skip()
	return nil
}

// maxName bounds names of the client's in messages, in bytes.
const maxName = 64

// refuse is an error at the value or the name that was read last, with its place and the offset behind it.
func (w *walker) refuse(code, format string, args ...any) *RequestError {
	if w.cur.err != nil {
		return nil // the caller sees the syntax error
	}
	at := fieldAt(string(w.cur.dec.StackPointer()))
	return badField(at, code, "%s (at byte %d) "+format+".", append([]any{at, w.cur.dec.InputOffset()}, args...)...)
}

// fieldAt writes a JSON pointer as clients write fields: /messages/0/content is messages[0].content.
func fieldAt(pointer string) string {
	const maxField = 200 // bytes
	var b strings.Builder
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if _, err := strconv.ParseUint(token, 10, 32); err == nil && b.Len() > 0 {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(clip(strings.NewReplacer("~1", "/", "~0", "~").Replace(token), maxName))
	}
	return clip(b.String(), maxField)
}
