package accept

// deepest is how deep brackets may nest, as encoding/json has it.
const deepest = 10_000

// JSONState reads JSON as it comes, in pieces of any size, and tells at the first byte
// that it cannot be JSON any more. It agrees with encoding/json.Valid on every text: bytes
// that are not UTF-8 pass inside strings. The zero value is at the start of a text. It
// keeps one bit for each level that brackets nest, and allocates for nothing else.
type JSONState struct {
	step  jsonStep
	name  bool // the string that is being read names a member
	depth int
	kinds []uint64 // a bit for each level: 1 is an object
	word  string   // what is missing of true, false or null
}

// jsonStep is what may come next.
type jsonStep uint8

const (
	jsonValue     jsonStep = iota // a value
	jsonFirstItem                 // a value, or the end of an empty array
	jsonFirstName                 // a name, or the end of an empty object
	jsonName                      // a name
	jsonColon                     // a colon
	jsonAfter                     // what follows a value
	jsonString                    // more of a string
	jsonEscape                    // what a backslash stands before
	jsonHex4                      // four digits of a \u
	jsonHex3
	jsonHex2
	jsonHex1
	jsonWord     // more of a word
	jsonMinus    // a digit
	jsonZero     // a point, an exponent, or the end of the number
	jsonInteger  // these or a digit
	jsonPoint    // a digit
	jsonFraction // a digit, an exponent, or the end
	jsonExponent // a sign or a digit
	jsonSign     // a digit
	jsonPower    // a digit, or the end
	jsonBroken   // it is not JSON
)

// Write takes in the next bytes and reports whether the text may still become JSON. Once
// it may not, it never will.
func (s *JSONState) Write(p []byte) (ok bool) {
	for i := 0; i < len(p); i++ {
		if s.step == jsonString {
			for i < len(p) && p[i] >= ' ' && p[i] != '"' && p[i] != '\\' {
				i++
			}
			if i == len(p) {
				return true
			}
		}
		if s.step = s.next(p[i]); s.step == jsonBroken {
			return false
		}
	}
	return s.step != jsonBroken
}

// endsNumber reports whether the number that is being read may end here.
func (s jsonStep) endsNumber() bool {
	return s == jsonZero || s == jsonInteger || s == jsonFraction || s == jsonPower
}

func (s *JSONState) next(c byte) jsonStep {
	switch s.step {
	case jsonString, jsonEscape, jsonHex4, jsonHex3, jsonHex2, jsonHex1:
		return s.inString(c)
	case jsonWord:
		return s.inWord(c)
	case jsonBroken:
		return jsonBroken
	}
	if s.step >= jsonMinus {
		step, over := s.inNumber(c)
		if !over {
			return step
		}
		s.step = jsonAfter // and c comes behind it
	}
	if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
		return s.step
	}
	switch s.step {
	case jsonFirstItem:
		if c == ']' {
			return s.close(false)
		}
		return s.begin(c)
	case jsonValue:
		return s.begin(c)
	case jsonFirstName, jsonName:
		if c == '"' {
			s.name = true
			return jsonString
		}
		if c == '}' && s.step == jsonFirstName {
			return s.close(true)
		}
	case jsonColon:
		if c == ':' {
			return jsonValue
		}
	case jsonAfter:
		return s.after(c)
	}
	return jsonBroken
}

// begin is what follows the first byte of a value.
func (s *JSONState) begin(c byte) jsonStep {
	switch c {
	case '{', '[':
		return s.open(c == '{')
	case '"':
		s.name = false
		return jsonString
	case 't':
		s.word = "true"[1:]
		return jsonWord
	case 'f':
		s.word = "false"[1:]
		return jsonWord
	case 'n':
		s.word = "null"[1:]
		return jsonWord
	case '-':
		return jsonMinus
	}
	return integer(c)
}

// integer is what follows the first digit of a number.
func integer(c byte) jsonStep {
	switch {
	case c == '0':
		return jsonZero
	case digit(c):
		return jsonInteger
	}
	return jsonBroken
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func (s *JSONState) open(object bool) jsonStep {
	if s.depth == deepest {
		return jsonBroken
	}
	word, bit := s.depth/64, uint64(1)<<(s.depth%64)
	if word == len(s.kinds) {
		s.kinds = append(s.kinds, 0)
	}
	s.depth++
	if object {
		s.kinds[word] |= bit
		return jsonFirstName
	}
	s.kinds[word] &^= bit
	return jsonFirstItem
}

// object reports whether the innermost bracket is an object's.
func (s *JSONState) object() bool {
	level := s.depth - 1
	return s.kinds[level/64]>>(level%64)&1 == 1
}

func (s *JSONState) close(object bool) jsonStep {
	if s.depth == 0 || s.object() != object {
		return jsonBroken
	}
	s.depth--
	return jsonAfter
}

func (s *JSONState) after(c byte) jsonStep {
	switch {
	case c == '}' || c == ']':
		return s.close(c == '}')
	case c != ',' || s.depth == 0:
		return jsonBroken
	case s.object():
		return jsonName
	}
	return jsonValue
}

func (s *JSONState) inString(c byte) jsonStep {
	switch s.step {
	case jsonEscape:
		switch c {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			return jsonString
		case 'u':
			return jsonHex4
		}
		return jsonBroken
	case jsonHex4, jsonHex3, jsonHex2, jsonHex1:
		if low := c | 0x20; !digit(c) && (low < 'a' || low > 'f') {
			return jsonBroken
		}
		if s.step == jsonHex1 {
			return jsonString
		}
		return s.step + 1
	}
	switch {
	case c == '"' && s.name:
		return jsonColon
	case c == '"':
		return jsonAfter
	case c == '\\':
		return jsonEscape
	case c < ' ':
		return jsonBroken
	}
	return jsonString
}

func (s *JSONState) inWord(c byte) jsonStep {
	if c != s.word[0] {
		return jsonBroken
	}
	if s.word = s.word[1:]; s.word == "" {
		return jsonAfter
	}
	return jsonWord
}

// inNumber is what follows a byte in a number; over says that the number ended before it.
func (s *JSONState) inNumber(c byte) (step jsonStep, over bool) {
	switch s.step {
	case jsonMinus:
		return integer(c), false
	case jsonPoint:
		step = jsonFraction
	case jsonExponent, jsonSign:
		if s.step == jsonExponent && (c == '+' || c == '-') {
			return jsonSign, false
		}
		step = jsonPower
	case jsonInteger, jsonFraction, jsonPower:
		step = s.step
	}
	switch {
	case digit(c) && s.step != jsonZero:
		return step, false
	case c == '.' && (s.step == jsonZero || s.step == jsonInteger):
		return jsonPoint, false
	case c|0x20 == 'e' && s.step.endsNumber() && s.step != jsonPower:
		return jsonExponent, false
	}
	return jsonBroken, s.step.endsNumber()
}
