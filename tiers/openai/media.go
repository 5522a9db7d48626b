package openai

import (
	"bytes"
	"slices"
	"strings"
)

// mediaKinds are the kinds of media by mode, as in data: URIs.
var mediaKinds = map[mode]string{modeImage: "image", modeAudio: "audio", modeVideo: "video"}

// uri checks a data: URI, or an object with one under url. Engines treat any other text as an address or a
// path, with or without a scheme.
func (w *walker) uri(m mode) {
	if w.cur.kind() != '{' {
		w.dataURI(m)
		return
	}
	isSet := false
	for name := range w.cur.object() {
		switch string(name) {
		case "url":
			isSet = true
			w.dataURI(m)
		case "detail":
			w.scalar()
		default:
			w.refuse("unsupported_parameter", "is not accepted by this gateway")
		}
	}
	if !isSet {
		w.refuse("unsupported_parameter", "has no url")
	}
}

// dataURI checks a string that must be a data: URI.
func (w *walker) dataURI(m mode) {
	if raw, _ := w.cur.value(); !isText(raw) || !isDataURI(plainName(raw), mediaKinds[m]) {
		w.refuse("unsupported_parameter",
			"must be a data: URI (data:%s/TYPE;base64,…): a URL to be fetched is not accepted by this gateway", mediaKinds[m])
	}
}

// isText reports whether raw JSON, perhaps nothing, is a string.
func isText(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }

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

const maxFormat = 32 // bytes

// sound checks input_audio, an object of data in base64 and their format.
func (w *walker) sound() {
	if k := w.cur.kind(); k != '{' {
		w.cur.skip()
		w.refuse("unsupported_parameter", "must be an object, but is %s", kindWord(k))
	}
	seen := 0
	for name := range w.cur.object() {
		isData := string(name) == "data"
		if !isData && string(name) != "format" {
			w.refuse("unsupported_parameter", "is not accepted by this gateway")
			return
		}
		seen++
		var text []byte
		raw, _ := w.cur.value()
		if isText(raw) {
			text = plainName(raw)
		}
		switch {
		case isData && !isBase64(text):
			w.refuse("unsupported_parameter", "must be base64")
		case !isData && (!isText(raw) || len(text) > maxFormat || len(bytes.Trim(text, subtypeRunes)) > 0):
			w.refuse("unsupported_parameter", "must be a format such as wav")
		}
	}
	if seen < 2 {
		w.refuse("unsupported_parameter", "lacks a key")
	}
}

// sourceTypes are those of sources that are in the request.
var sourceTypes = []string{"base64", "text", "content"}

// source checks the source of an image, a document or a search result, and returns its type: a string names where a search
// result is from, and nothing fetches it.
func (w *walker) source() (typ string) {
	switch k := w.cur.kind(); k {
	case '"':
		w.cur.skip()
		return "string"
	case '{':
	default:
		w.cur.skip()
		w.refuse("unsupported_parameter", "must be an object, but is %s", kindWord(k))
		return ""
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
			w.value(modeContent)
			continue
		default:
			w.refuse("unsupported_parameter", "is not accepted by this gateway: what must be fetched is not")
			return ""
		}
		raw, _ := w.cur.value()
		if !isText(raw) {
			w.refuse("unsupported_parameter", "must be a string")
			return ""
		}
		if *into = plainName(raw); into == &kind && !slices.Contains(sourceTypes, string(kind)) {
			w.refuse("unsupported_parameter", "must be base64, text or content: a URL to be fetched is not accepted by this gateway")
		}
	}
	isImage := isDataURI([]byte("data:"+clip(string(media), maxFormat)+";base64,"), mediaKinds[modeImage])
	switch typ = string(kind); {
	case typ == "base64" && !isImage:
		w.refuse("unsupported_parameter", "must have the media_type of an image such as image/png")
	case typ == "base64" && !content && isBase64(data), typ == "text" && !content && data != nil && string(media) == "text/plain",
		typ == "content" && content && media == nil && data == nil:
	default:
		w.refuse("unsupported_parameter", "is not what a source of its type is: base64 of an image, a text/plain text, or content")
	}
	return typ
}

// isBase64 reports whether text has only base64 characters, which no URL with a scheme has.
func isBase64(text []byte) bool {
	return len(text) > 0 && len(bytes.Trim(text, letters+"+/=-_")) == 0
}
