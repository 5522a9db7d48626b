package gateway

import "bytes"

// What translating a body of another API needs besides the body, in bytes: what lives at once, as a multiple of the body's length. It
// was measured with one garbage collection after the other, for bodies of 3 MiB. Messages: schemas 3.0; texts 3.7, images 4.0; the
// input of a tool of escaped quotes 7.0. Responses: images 2.0, tools 3.1, texts 4.0, instructions 5.0; a text of escaped quotes 4.5,
// one of line separators 7.2. A value took up to 400 bytes, and 640 with what no collection had freed yet.
const (
	costPerByte   = 5   // copies of every byte on the way through the objects that hold it
	costPerEscape = 7   // what a character that is escaped, or will be, costs besides: its string grows while it is written
	costPerValue  = 640 // a map or a slice, and its header, for every value
)

// separator is what U+2028 and U+2029 begin with, which package encoding/json writes as escapes.
var separator = []byte{0xe2, 0x80}

// translationCost estimates the memory for a body. It depends on the values of the body more than on its length: a small body with very
// many objects takes fifty times its length.
func translationCost(body []byte) int64 {
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
	return int64(costPerByte*len(body) + costPerEscape*escapes + costPerValue*values)
}
