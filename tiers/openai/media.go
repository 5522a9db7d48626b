package openai

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// mediaKinds are the kinds of media by mode, as in data: URIs.
var mediaKinds = map[mode]string{modeImage: "image", modeAudio: "audio", modeVideo: "video"}

// uri checks a data: URI, or an object with one under url. Engines treat any other text as an address or a
// path, with or without a scheme.
func (w *walker) uri(m mode) *RequestError {
	k := w.cur.kind()
	if k != '{' {
		return w.dataURI(k, m)
	}
	isSet := false
	for name := range w.cur.object() {
		switch k := w.cur.kind(); string(name) {
		case "url":
			isSet = true
			if err := w.dataURI(k, m); err != nil {
				return err
			}
		case "detail":
			if err := w.scalar(); err != nil {
				return err
			}
		default:
			return w.refuse("unsupported_parameter", "is not accepted by this gateway")
		}
	}
	if !isSet {
		return w.refuse("unsupported_parameter", "has no url")
	}
	return nil
}

// dataURI checks a string that must be a data: URI.
func (w *walker) dataURI(k jsontext.Kind, m mode) *RequestError {
	raw, _ := w.cur.value()
	if w.cur.err != nil || k == '"' && isDataURI(plainName(raw), mediaKinds[m]) {
		return nil
	}
	return w.refuse("unsupported_parameter",
		"must be a data: URI (data:%s/TYPE;base64,…): a URL to be fetched is not accepted by this gateway", mediaKinds[m])
}

// isDataURI reports whether text is data:KIND/TYPE;base64,… in exactly this form. XML types are refused,
// because the data may contain addresses.
func isDataURI(text []byte, kind string) bool {
	const maxType = 64 // bytes
	rest, ok := bytes.CutPrefix(text, []byte("data:"+kind+"/"))
	if !ok {
		return false
	}
	typ, _, ok := bytes.Cut(rest[:min(len(rest), maxType)], []byte(";base64,"))
	return ok && len(typ) > 0 && !bytes.ContainsFunc(typ, func(c rune) bool { return !strings.ContainsRune(subtypeRunes, c) })
}

// subtypeRunes are the allowed characters of a media type after its slash.
const subtypeRunes = "abcdefghijklmnopqrstuvwxyz0123456789.-"

// inlineKey checks the text of one key of media that are embedded in the request.
type inlineKey struct {
	name string
	fits func(text []byte) bool
	want string
}

// soundKeys are the keys of input_audio.
var soundKeys = []inlineKey{
	{"data", isBase64, "base64"},
	{"format", func(t []byte) bool { return len(t) <= maxFormat && len(bytes.Trim(t, subtypeRunes)) == 0 }, "a format such as wav"},
}

const maxFormat = 32 // bytes

// isImageType reports whether text is the media type of an image.
func isImageType(text []byte) bool {
	return isDataURI([]byte("data:"+clip(string(text), maxFormat)+";base64,"), mediaKinds[modeImage])
}

// inline checks an object that must have exactly these keys.
func (w *walker) inline(keys []inlineKey) *RequestError {
	if k := w.cur.kind(); k != '{' {
		w.cur.skip()
		return w.refuse("unsupported_parameter", "must be an object, but is %s", kindWord(k))
	}
	seen := 0
	for name := range w.cur.object() {
		known := false
		for _, key := range keys {
			if key.name != string(name) {
				continue
			}
			known = true
			seen++
			k := w.cur.kind()
			raw, _ := w.cur.value()
			if w.cur.err == nil && (k != '"' || !key.fits(plainName(raw))) {
				return w.refuse("unsupported_parameter", "must be %s", key.want)
			}
			break
		}
		if !known {
			return w.refuse("unsupported_parameter", "is not accepted by this gateway")
		}
	}
	if seen < len(keys) {
		return w.refuse("unsupported_parameter", "lacks a key")
	}
	return nil
}

// sourceTypes are those of sources that are in the request.
var sourceTypes = []string{"base64", "text", "content"}

// source checks the source of an image, a document or a search result, and returns its type: a string names where a search
// result is from, and nothing fetches it.
func (w *walker) source() (typ string, err *RequestError) {
	switch k := w.cur.kind(); k {
	case '"':
		w.cur.skip()
		return "string", nil
	case '{':
	default:
		w.cur.skip()
		return "", w.refuse("unsupported_parameter", "must be an object, but is %s", kindWord(k))
	}
	var kind, media, data []byte
	content := false
	for name := range w.cur.object() {
		var into *[]byte
		switch string(name) {
		case "type":
			into = &kind
		case "media_type":
			into = &media
		case "data":
			into = &data
		case "content":
			content = true
			if err := w.value(modeContent); err != nil {
				return "", err
			}
			continue
		default:
			return "", w.refuse("unsupported_parameter", "is not accepted by this gateway: what must be fetched is not")
		}
		k := w.cur.kind()
		raw, _ := w.cur.value()
		if w.cur.err != nil {
			return "", nil
		}
		if k != '"' {
			return "", w.refuse("unsupported_parameter", "must be a string")
		}
		if *into = plainName(raw); into == &kind && !slices.Contains(sourceTypes, string(kind)) {
			return "", w.refuse("unsupported_parameter", "must be base64, text or content: a URL to be fetched is not accepted by this gateway")
		}
	}
	switch typ = string(kind); {
	case w.cur.err != nil:
		return "", nil // the caller reports it
	case typ == "base64" && !isImageType(media):
		return "", w.refuse("unsupported_parameter", "must have the media_type of an image such as image/png")
	case typ == "base64" && !content && isBase64(data), typ == "text" && !content && data != nil && string(media) == "text/plain",
		typ == "content" && content && media == nil && data == nil:
		return typ, nil
	}
	return "", w.refuse("unsupported_parameter", "is not what a source of its type is: base64 of an image, a text/plain text, or content")
}

// isBase64 reports whether text has only base64 characters, which no URL with a scheme has.
func isBase64(text []byte) bool {
	for _, c := range text {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '+', c == '/', c == '=', c == '-', c == '_':
		default:
			return false
		}
	}
	return len(text) > 0
}
