package http1

import "math"

// Bounds of the chunked coding. Those of sizes are net/http's.
const (
	maxSizeLine = 4096     // bytes of a line with a chunk's size, without CR LF
	maxExcess   = 16 << 10 // bytes of overhead, beyond 16 per chunk and twice its data
	maxDigits   = 16       // of a chunk's size
	maxTrail    = 8 << 10  // bytes of the trailer section
)

// place is a place in the chunked coding.
type place uint8

const (
	atSize      place = iota // before the first digit of a size
	inSize                   // behind a digit
	afterSize                // spaces behind the digits
	inExtension              // behind the semicolon
	atSizeEnd                // between CR and LF
	inData
	atDataCR
	atDataLF
	atTrailer // at the beginning of a trailer line, or of the last, empty one
	inTrailerName
	inTrailerValue
	atTrailerLF
	atEndLF
	atEnd
)

// chunks decodes the chunked coding of RFC 9112, section 7.1. The zero value is at its beginning.
type chunks struct {
	at     place
	digits int
	left   int64 // bytes of the chunk to come
	line   int   // bytes of the size line so far
	excess int64
	trail  int // bytes of the trailer section so far
}

// decode decodes b in place: the data are moved to its front. n is their number, and used how many bytes of b belong to the
// body: fewer than all only at its end. Trailers are checked and dropped.
func (c *chunks) decode(b []byte) (n, used int, err error) {
	for i := 0; i < len(b); {
		if c.at == atEnd {
			return n, i, nil
		}
		if c.at == inData {
			m := int(min(c.left, int64(len(b)-i)))
			copy(b[n:], b[i:i+m])
			n, i, c.left = n+m, i+m, c.left-int64(m)
			if c.left == 0 {
				c.at = atDataCR
			}
			continue
		}
		if !c.step(b[i]) {
			return n, i, malformed("chunked coding, %q", b[i])
		}
		i++
	}
	return n, len(b), nil
}

// step takes one byte that is not data. It reports whether it is allowed here.
func (c *chunks) step(b byte) bool {
	switch c.at {
	case atSize, inSize, afterSize, inExtension, atSizeEnd:
		return c.sizeLine(b)
	case atDataCR:
		c.at = atDataLF
		return b == '\r'
	case atDataLF:
		c.at = atSize
		return b == '\n'
	}
	return c.trailer(b)
}

// sizeLine takes a byte of a line with a chunk's size.
func (c *chunks) sizeLine(b byte) bool {
	switch {
	case c.at == atSizeEnd:
		return b == '\n' && c.beginChunk()
	case b == '\r' && c.at != atSize:
		c.at = atSizeEnd
		return true
	}
	if c.line++; c.line >= maxSizeLine {
		return false
	}
	if c.at == inExtension {
		return valid(b)
	}
	if d, ok := hexDigit(b); ok && c.at != afterSize {
		c.at = inSize
		c.digits++
		if c.digits > maxDigits || c.left > math.MaxInt64>>4 {
			return false
		}
		c.left = c.left<<4 | d
		return true
	}
	switch {
	case c.at == atSize:
		return false
	case b == ';':
		c.at = inExtension
		return true
	case b == ' ' || b == '\t':
		c.at = afterSize
		return true
	}
	return false
}

// beginChunk begins the data behind a size, or the trailers. It reports whether the overhead is within its bounds.
func (c *chunks) beginChunk() bool {
	c.excess += int64(c.line) + 2 - 16
	c.excess = max(c.excess-2*min(c.left, maxExcess), 0)
	c.digits, c.line = 0, 0
	c.at = inData
	if c.left == 0 {
		c.at = atTrailer
	}
	return c.excess <= maxExcess
}

// trailer takes a byte of the trailer section.
func (c *chunks) trailer(b byte) bool {
	if c.trail++; c.trail > maxTrail {
		return false
	}
	switch c.at {
	case atTrailer:
		if b == '\r' {
			c.at = atEndLF
			return true
		}
		c.at = inTrailerName
		return tokens[b]
	case inTrailerName:
		if b == ':' {
			c.at = inTrailerValue
			return true
		}
		return tokens[b]
	case inTrailerValue:
		if b == '\r' {
			c.at = atTrailerLF
			return true
		}
		return valid(b)
	case atTrailerLF:
		c.at = atTrailer
		return b == '\n'
	}
	if b != '\n' { // behind the CR of the last line
		return false
	}
	c.at = atEnd
	return true
}

func hexDigit(b byte) (int64, bool) {
	switch {
	case b >= '0' && b <= '9':
		return int64(b - '0'), true
	case b|0x20 >= 'a' && b|0x20 <= 'f':
		return int64(b|0x20-'a') + 10, true
	}
	return 0, false
}
