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
	end := w.cur.last()
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
	return badField(at, code, "%s (at byte %d) "+format+".", append([]any{at, w.cur.last()}, args...)...)
}

// failed returns why the request is refused; nil if it is not.
func (w *walker) failed() error {
	if w.cur.err == nil {
		return nil
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

// partKeys are all keys of [PartTypes], and how their values are checked.
var partKeys = map[string]mode{
	"type": modeScalar, "text": modeScalar, "refusal": modeScalar, "thinking": modeScalar, "signature": modeScalar,
	"closed": modeScalar, "detail": modeScalar, "id": modeScalar, "name": modeScalar, "tool_use_id": modeScalar,
	"is_error": modeScalar, "data": modeScalar, "title": modeScalar, "context": modeScalar, "tool_name": modeScalar, "tool": modeFree,
	"input": modeSkip, "cache_control": modeSkip, "citations": modeSkip, "annotations": modeSkip, "logprobs": modeSkip,
	"content":   modeContent,
	"image_url": modeImage, "audio_url": modeAudio, "video_url": modeVideo, "input_audio": modeSound, "source": modeSource,
}

// freeModes are members of other objects that are not free. Those of media are included because a part may
// also occur where no list of parts is expected, such as in the documents of a score.
var freeModes = map[string]mode{
	"content": modeContent, "output": modeContent, "system": modeContent,
	"tool_calls": modeSkip, "function_call": modeSkip, "arguments": modeSkip, "annotations": modeSkip,
	"parsed":    modeSkip, // OpenAI's SDK copies the parsed answer into it
	"image_url": modeImage, "audio_url": modeAudio, "video_url": modeVideo, "input_audio": modeSound,
}

// topModes are the top-level members that are not free: constraints of the answer, and fields that no engine
// reads. Their meaning is the same on every path that has them.
var topModes = map[string]mode{
	"metadata": modeSkip, "response_format": modeSkip, "structured_outputs": modeSkip, "text": modeSkip, "tool_choice": modeSkip,
	"output_format": modeSkip, "output_config": modeSkip,
	"guided_json": modeSkip, "guided_regex": modeSkip, "guided_choice": modeSkip, "guided_grammar": modeSkip,
	"json_schema": modeSkip, "regex": modeSkip, "ebnf": modeSkip, "grammar": modeSkip, "structural_tag": modeSkip, "logit_bias": modeSkip,
}

// schemaNames are the members of a tool's definition that contain a schema, or a function with one.
var schemaNames = map[string]bool{
	"function": true, "parameters": true, "input_schema": true, "input_examples": true, "output_schema": true, "schema": true, "format": true,
}

// mediaNames are further names, in lower case, under which engines look for a file or an address. Names that
// end in url, urls, uri or uris are such names, too.
var mediaNames = map[string]bool{
	"image": true, "images": true, "audio": true, "audios": true, "video": true, "videos": true, "file": true, "files": true,
	"input_image": true, "input_audio": true, "input_video": true, "input_file": true,
	"image_data": true, "audio_data": true, "video_data": true, "file_data": true, "file_id": true, "file_path": true, "data": true,
	"image_embeds": true, "audio_embeds": true, "video_embeds": true, "prompt_embeds": true, "input_embeds": true, "image_pil": true,
	"multi_modal_data": true, "multi_modal_uuids": true, "mm_data": true,
}

// namesMedia reports whether engines may look for media under a name. It ignores case.
func namesMedia(name string) bool {
	lower := strings.ToLower(name)
	plural := strings.TrimSuffix(lower, "s")
	return mediaNames[lower] || strings.HasSuffix(plural, "url") || strings.HasSuffix(plural, "uri")
}

// value checks the next value.
func (w *walker) value(m mode) {
	switch m {
	case modeSkip:
		w.cur.skip()
	case modeScalar:
		w.scalar()
	case modeImage, modeAudio, modeVideo:
		w.uri(m)
	case modeSound:
		w.sound()
	default:
		w.objects(m == modeContent)
	}
}

// objects checks the objects in a value of any kind, also in lists: each is a part, or may be one.
func (w *walker) objects(parts bool) {
	switch w.cur.kind() {
	case '{':
		w.object(parts)
	case '[':
		for range w.cur.array() {
			w.objects(parts)
		}
	default:
		w.cur.skip()
	}
}

// named checks the value of a member of an object that may be a part.
func (w *walker) named(name string) {
	m, known := freeModes[name]
	switch {
	case w.schemas && schemaNames[name]:
		w.cur.skip()
	case known:
		w.value(m)
	case namesMedia(name):
		w.absent()
	default:
		w.objects(false)
	}
}

// outside checks the value of a member of an object that cannot be a part: a message or the request itself.
func (w *walker) outside(name string) {
	if freeModes[name].media() {
		w.absent()
		return
	}
	w.named(name)
}

// absent refuses a value under a name of media, unless it has no effect.
func (w *walker) absent() {
	if raw, _ := w.cur.value(); !harmless(raw) {
		w.refuse("unsupported_parameter", "may stand only in a content part of its type")
	}
}

// object checks an object. A part may only have the keys of its type. Another object with media counts as a
// part, too.
func (w *walker) object(part bool) {
	var o partKeysSeen
	for raw := range w.cur.object() {
		if w.cur.kind() == 'n' { // absent: clients write out all members that a part could have
			w.cur.skip()
			continue
		}
		name := string(raw)
		m, known := partKeys[name]
		switch {
		case name == "type" && w.cur.kind() == '"':
			quoted, _ := w.cur.value()
			if w.cur.err == nil {
				o.typ = string(unquote(nil, quoted))
			}
		case !part:
			w.named(name)
			o.media = o.media || freeModes[name].media()
			o.loose = o.loose || known && m.media() && !freeModes[name].media()
		case name == "source":
			o.source = w.source()
		case known:
			w.value(m)
		default:
			w.refuse("unsupported_parameter", "is no key of a content part")
		}
		if len(o.keys) < maxPartKeys {
			o.keys = append(o.keys, name)
		}
	}
	if p := PartTypes[o.typ]; w.cur.err == nil && (part || o.media || p.Media) {
		w.part(&o, p)
	}
}

// partKeysSeen is what an object contained.
type partKeysSeen struct {
	typ    string   // the value of type; "" for none or one that is no string
	source string   // the type of the source
	keys   []string // the first ones
	media  bool     // an object that may be a part has a key of media
	loose  bool     // it has a key of media that was not checked as such, because other objects have the key, too
}

// maxPartKeys is more than any part has: one key of so many is none of its type.
const maxPartKeys = 8

// part checks a part after it was read.
func (w *walker) part(o *partKeysSeen, p PartType) {
	other := slices.IndexFunc(o.keys, func(key string) bool { return !slices.Contains(p.Keys, key) })
	switch {
	case o.typ == "":
		w.refuse("unsupported_parameter", "is a content part without a type")
	case p.Keys == nil:
		w.refuse("unsupported_parameter", "is a content part of type %q, which this gateway does not accept", clip(o.typ, maxName))
	case o.loose:
		w.refuse("unsupported_parameter", "is a content part of type %q, which may stand only in the content of a message", o.typ)
	case other >= 0:
		w.refuse("unsupported_parameter", "is a content part of type %q, which has no %q", o.typ, clip(o.keys[other], maxName))
	case o.source != "" && !slices.Contains(p.Sources, o.source):
		w.refuse("unsupported_parameter", "is a content part of type %q, whose source may not be of type %s", o.typ, o.source)
	}
	w.special = w.special || o.typ != "text" && o.typ != "refusal"
	if p.Media {
		w.ask(o.typ, func() *RequestError {
			return w.refusal("unsupported_parameter", "is a content part of type %q, which this gateway does not accept", o.typ)
		})
	}
}

// field checks the value of a top-level member without a reader, or of a sampling parameter, and returns its
// position. drop means that the request is forwarded without it.
func (w *walker) field(name string, f Field) (drop bool, value Span) {
	start := w.cur.last()
	switch {
	case f.Verdict == FieldStripped:
		w.cur.skip()
	case f.Verdict <= FieldTarget:
		w.forwarded(name)
	case name == Kwargs && w.cur.kind() == '{':
		w.kwargs()
	default:
		w.objects(false)
	}
	if w.cur.err != nil {
		return false, Span{}
	}
	value = w.since(start)
	raw := value.Of(w.body)
	if f.Verdict == FieldForwarded {
		return false, value
	}
	w.unlessAllowed(f, raw)
	return f.Verdict == FieldStripped || harmless(raw), value
}

// unlessAllowed refuses a field of the table, or records that the route must allow it.
func (w *walker) unlessAllowed(f Field, raw []byte) {
	if f.Verdict <= FieldStripped || harmless(raw) || f.Name == Kwargs && raw[0] == '{' {
		return
	}
	refusal := func() *RequestError {
		return badField(f.Name, "unsupported_parameter", "%s is not accepted by this gateway.", f.Name)
	}
	if f.Verdict == FieldForbidden || f.Name == Kwargs {
		w.cur.fail(refusal())
		return
	}
	w.ask(f.Name, refusal)
}

// forwarded checks a top-level member that is forwarded unchanged.
func (w *walker) forwarded(name string) {
	m, known := topModes[name]
	w.schemas = name == "tools" || name == "functions"
	switch {
	case known:
		w.value(m)
	case name == "sampling_params":
		w.sampling()
	default:
		w.outside(name)
	}
	w.schemas = false
}

// sampling checks the sampling parameters of engines' own paths, one object or a list of them: they contain
// fields of a request, which cannot be removed there.
func (w *walker) sampling() {
	if w.cur.kind() == '[' {
		for range w.cur.array() {
			w.sampling()
		}
		return
	}
	for raw := range w.cur.object() {
		name := string(raw)
		f := LookupField(name)
		if f.Verdict == FieldStripped {
			f.Verdict = FieldForbidden
		}
		w.field(name, f)
	}
}

// kwargs checks each argument of the chat template.
func (w *walker) kwargs() {
	for raw := range w.cur.object() {
		name := string(raw)
		kind := w.cur.kind()
		if kind == 'f' {
			kind = 't'
		}
		w.outside(name)
		refusal := func() *RequestError { return w.refusal("unsupported_parameter", "is not accepted by this gateway") }
		want, isSet := TemplateKwargs[name]
		switch {
		case w.cur.err != nil:
		case isSet && kind != want:
			w.refuse("invalid_type", "must be %s", kindWord(want))
		case isSet:
		case slices.Contains(engineKwargs, name):
			w.cur.fail(refusal())
		default:
			w.ask(Kwargs+"."+name, refusal)
		}
	}
}
