package openai

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// walker checks the forwarded values of a request, so that none contains an address or a file that an engine
// would open. All scans use it. Media may only be in content parts: objects with a type of content part,
// exactly the keys of that type, and data: URIs as media. Values in which engines never look for media
// (schemas, the arguments of tools) are skipped.
type walker struct {
	cur         *cursor
	body        []byte // that the cursor reads
	lim         Limits
	gatedFields []gatedField
	special     bool // some part is neither text nor a refusal
	schemas     bool // inside the definitions of tools
}

// mode says how a value is checked.
type mode uint8

const (
	modeFree    mode = iota // any JSON; media only in parts
	modeSkip                // not checked
	modeContent             // text, a part, or a list of both
	modeScalar              // no object and no array
	modeImage               // a data: URI, or an object with one under url
	modeAudio
	modeVideo
	modeSound  // {data, format}, base64
	modeSource // see [walker.source]
)

// media reports whether the mode is for media.
func (m mode) media() bool { return m >= modeImage }

// gatedField is something that is refused unless the request's route allows it. The route is known only after the
// whole request was read.
type gatedField struct {
	name string // as in allow_fields
	err  *RequestError
}

// maxGatedFields bounds the number of these per request: more than all fields and types of parts together.
const maxGatedFields = 128

// ask records what the route must allow; the first of each name is kept. Only for that one an error is made,
// because a request may contain a hundred thousand.
func (w *walker) ask(name string, refusal func() *RequestError) {
	if w.cur.err != nil || len(w.gatedFields) == maxGatedFields || slices.ContainsFunc(w.gatedFields, func(a gatedField) bool { return a.name == name }) {
		return
	}
	w.gatedFields = append(w.gatedFields, gatedField{name, refusal()})
}

// allowed refuses the first recorded item that the model's route does not allow.
func (w *walker) allowed(model string) {
	if len(w.gatedFields) == 0 {
		return
	}
	var allow []string
	if w.lim.Allow != nil {
		allow = w.lim.Allow(model)
	}
	for _, a := range w.gatedFields {
		if !slices.Contains(allow, a.name) {
			w.cur.fail(a.err)
			return
		}
	}
	if len(w.gatedFields) == maxGatedFields {
		w.bad("", "too_many_fields", "The request asks for more than %d things that are not accepted everywhere.", maxGatedFields)
	}
}

// since is the span of the last value, which was read since this offset of its member's name.
func (w *walker) since(offset int) Span {
	end := w.cur.last
	return Span{end - len(bytes.TrimLeft(w.body[offset:end], ": \t\r\n")), end}
}

// scalar checks a value that must not be an object or an array.
func (w *walker) scalar() {
	if k := w.cur.kind(); k == '{' || k == '[' {
		w.refuse("invalid_type", "must not be %s", kindWord(k))
	}
	w.cur.skip()
}

// maxName bounds clients' names in messages, in bytes.
const maxName = 64

// bad refuses the request for a field, "" for the whole body. The first error stays: a refusal as well as one of the JSON text
// ends all reading.
func (w *walker) bad(param, code, format string, args ...any) {
	if w.cur.err == nil {
		w.cur.fail(badField(param, code, format, args...))
	}
}

// refuse refuses the last read value or name.
func (w *walker) refuse(code, format string, args ...any) {
	if w.cur.err == nil {
		w.cur.fail(w.refusal(code, format, args...))
	}
}

// refusal is an error at the last read value or name, with its location and the offset after it.
func (w *walker) refusal(code, format string, args ...any) *RequestError {
	at := fieldAt(w.cur.pointer())
	return badField(at, code, "%s (at byte %d) "+format+".", append([]any{at, w.cur.last}, args...)...)
}

// failed returns why the request is refused; nil if it is not. That it nests too deep comes first.
func (w *walker) failed() error {
	if w.cur.err == nil {
		return nil
	}
	if at := depthOffset(w.body, w.lim.Depth); at >= 0 {
		return badField("", "too_deep", "The request body nests deeper than %d levels at byte %d.", w.lim.Depth, at)
	}
	if refused, is := errors.AsType[*RequestError](w.cur.err); is {
		return refused
	}
	return syntaxError(w.body, w.cur.err)
}

// fieldAt converts a JSON pointer to the clients' notation: /messages/0/content is messages[0].content.
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
