package openai

import (
	"slices"
	"strings"

	"github.com/foregate/foregate/tiers/fields"
)

// partKey says how the value of a key of a content part is checked.
type partKey struct {
	name string
	mode mode
}

// partKeys are all keys of [fields.Parts]; the index of a key is its bit.
var partKeys = []partKey{
	{"type", modeScalar}, {"text", modeScalar}, {"refusal", modeScalar}, {"thinking", modeScalar}, {"signature", modeScalar},
	{"closed", modeScalar}, {"detail", modeScalar}, {"id", modeScalar}, {"name", modeScalar}, {"tool_use_id", modeScalar},
	{"is_error", modeScalar}, {"data", modeScalar}, {"title", modeScalar}, {"context", modeScalar}, {"tool_name", modeScalar}, {"tool", modeFree},
	{"input", modeSkip}, {"cache_control", modeSkip}, {"citations", modeSkip}, {"annotations", modeSkip}, {"logprobs", modeSkip},
	{"content", modeContent},
	{"image_url", modeImage}, {"audio_url", modeAudio}, {"video_url", modeVideo}, {"input_audio", modeSound}, {"source", modeSource},
}

// keyBits are the indexes in [partKeys] by name, and partBits the sets of keys that each type may have.
var keyBits, partBits = func() (map[string]int, map[string]uint32) {
	keys, parts := map[string]int{}, map[string]uint32{}
	for i, k := range partKeys {
		keys[k.name] = i
	}
	for typ, p := range fields.Parts {
		for _, k := range p.Keys {
			parts[typ] |= 1 << keys[k]
		}
	}
	return keys, parts
}()

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
		w.inline(soundKeys)
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
		key, known := keyBits[name]
		switch {
		case name == "type" && w.cur.kind() == '"':
			quoted, _ := w.cur.value()
			if w.cur.err == nil {
				o.typ = string(unquote(nil, quoted))
			}
		case !part:
			w.named(name)
			o.media = o.media || freeModes[name].media()
			o.loose = o.loose || known && partKeys[key].mode.media() && !freeModes[name].media()
		case name == "source":
			o.source = w.source()
		case known:
			w.value(partKeys[key].mode)
		default:
			w.refuse("unsupported_parameter", "is no key of a content part")
		}
		switch {
		case known:
			o.keys |= 1 << key
		case !o.strange:
			o.strange, o.other = true, clip(name, maxName)
		}
	}
	if p := fields.Parts[o.typ]; w.cur.err == nil && (part || o.media || p.Media) {
		w.part(&o, p)
	}
}

// partKeysSeen is what an object contained.
type partKeysSeen struct {
	typ     string // the value of type; "" for none or one that is no string
	source  string // the type of the source
	keys    uint32 // bits of partKeys
	media   bool   // an object that may be a part has a key of media
	loose   bool   // it has a key of media that was not checked as such, because other objects have the key, too
	strange bool   // it has a key that no part has
	other   string // the first of these
}

// part checks a part after it was read.
func (w *walker) part(o *partKeysSeen, p fields.Part) {
	extra := o.keys &^ partBits[o.typ]
	switch {
	case o.typ == "":
		w.refuse("unsupported_parameter", "is a content part without a type")
	case p.Keys == nil:
		w.refuse("unsupported_parameter", "is a content part of type %q, which this gateway does not accept", clip(o.typ, maxName))
	case o.loose:
		w.refuse("unsupported_parameter", "is a content part of type %q, which may stand only in the content of a message", o.typ)
	case o.strange:
		w.refuse("unsupported_parameter", "is a content part of type %q, which has no %q", o.typ, o.other)
	case o.source != "" && !slices.Contains(p.Sources, o.source):
		w.refuse("unsupported_parameter", "is a content part of type %q, whose source may not be of type %s", o.typ, o.source)
	}
	for i, k := range partKeys {
		if extra&(1<<i) != 0 {
			w.refuse("unsupported_parameter", "is a content part of type %q, which has no %q", o.typ, k.name)
		}
	}
	w.special = w.special || o.typ != "text" && o.typ != "refusal"
	if p.Media {
		w.ask(o.typ, func() *RequestError {
			return w.refusal("unsupported_parameter", "is a content part of type %q, which this gateway does not accept", o.typ)
		})
	}
}
