package gateway

import "bytes"

// translationCost is what translating a body of an API needs besides the body, in bytes.
type translationCost struct {
	perByte   int // copies of every byte on the way through the objects that hold it
	perEscape int // what a character that is escaped, or will be, costs besides: its string grows while it is written
	perValue  int // a map or a slice, and its header, for every value
}

// The costs are what lives at once while a body is translated, as a multiple of the body's length. It was measured with one
// garbage collection after the other, for bodies of 3 MiB. Messages: texts and images 3.0; a text of escaped quotes 4.7, the
// input of a tool of them 8.2. Responses: images 2.0, tools 3.1, texts 4.0, instructions 5.0; a text of escaped quotes 4.5, one
// of line separators 7.2. A value took up to 400 bytes, and 640 with what no collection had freed yet.
var (
	messagesCost  = translationCost{perByte: 3, perEscape: 11, perValue: 640}
	responsesCost = translationCost{perByte: 5, perEscape: 7, perValue: 640}
)

// separator is what U+2028 and U+2029 begin with, which package encoding/json writes as escapes.
var separator = []byte{0xe2, 0x80}

// bytes estimates the memory for a body. It depends on the values of the body more than on its length: a small body with very
// many objects takes fifty times its length.
func (c translationCost) bytes(body []byte) int64 {
	values, escapes, quoted := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch b := body[i]; {
		case b == '"':
			quoted = !quoted
		case b == '\\':
			escapes++
			i++ // it is in a string, and so is what it escapes
		case b == separator[0] && bytes.HasPrefix(body[i:], separator) && i+2 < len(body) && body[i+2]&^1 == 0xa8:
			escapes++
		case !quoted && (b == '{' || b == '[' || b == ','):
			values++
		}
	}
	return int64(c.perByte*len(body) + c.perEscape*escapes + c.perValue*values)
}
