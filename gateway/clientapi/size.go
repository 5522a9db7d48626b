package clientapi

// What translating a body takes besides the body, in bytes (TestATranslationIsChargedForItsMemory): copies of every byte on
// the way through its objects, and a map or a slice for every value.
const (
	copiesOfByte  = 8
	bytesPerValue = 640
)

// TranslationBytes estimates the memory that [API.Translate] needs while it works, in bytes. It depends on the values of the
// body more than on its length: a small body with very many objects takes fifty times its length.
func TranslationBytes(body []byte) int64 {
	values, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\':
			i++ // it is in a string, and so is what it escapes
		case !quoted && (c == '{' || c == '[' || c == ','):
			values++
		}
	}
	return int64(copiesOfByte*len(body) + bytesPerValue*values)
}
