package live

import (
	"strconv"
	"unicode/utf8"

	"github.com/foregate/foregate/loadtest"
)

// appendBody appends a chat completion request as JSON. A generator of load must
// be cheap beside what it measures, so nothing is reflected upon.
func appendBody(b []byte, model string, q *loadtest.Request) []byte {
	b = appendQuoted(append(b, `{"model":`...), model)
	b = append(b, `,"messages":[`...)
	for i := range q.Messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQuoted(append(b, `{"role":`...), q.Messages[i].Role)
		b = appendQuoted(append(b, `,"content":`...), q.Messages[i].Content)
		b = append(b, '}')
	}
	b = append(b, `],"temperature":`...)
	b = strconv.AppendFloat(b, q.Temperature, 'g', -1, 64)
	if q.MaxTokens > 0 {
		b = strconv.AppendInt(append(b, `,"max_tokens":`...), int64(q.MaxTokens), 10)
	}
	if q.IgnoreEOS {
		b = append(b, `,"ignore_eos":true`...)
	}
	if q.Stream {
		b = append(b, `,"stream":true,"stream_options":{"include_usage":true}`...)
	}
	return append(b, '}')
}

// bodySize is a little more than the body of q will take, as its text is hardly
// ever escaped.
func bodySize(q *loadtest.Request) int {
	n := 256
	for i := range q.Messages {
		n += len(q.Messages[i].Content) + len(q.Messages[i].Content)/16 + 64
	}
	return n
}

const hexDigits = "0123456789abcdef"

// appendQuoted appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[from:i]...), "\ufffd"...)
				from = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}
