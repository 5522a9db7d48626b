package cost

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// exchange is a request, ready for the wire, and what must come back.
type exchange struct {
	request []byte
	number  int // offset of the prompt's number, which is another one in every request; 0: the request is sent as it is
	marks   int // markers in the answer
	stream  bool
}

// numberDigits is the length of a prompt's number.
const numberDigits = 12

// verify returns an error unless m and d are a whole answer to the request.
func (e *exchange) verify(m message, d digest) error {
	switch {
	case !bytes.HasPrefix(m.first, []byte("HTTP/1.1 200")):
		return fmt.Errorf("status line %q", m.first)
	case d.marks != e.marks:
		return fmt.Errorf("%d tokens instead of %d", d.marks, e.marks)
	case e.stream && !bytes.HasSuffix(d.tail[:], []byte("data: [DONE]\n\n")):
		return fmt.Errorf("the stream ends in %q", d.tail[:])
	case !e.stream && d.tail[len(d.tail)-1] != '}':
		return fmt.Errorf("the answer ends in %q", d.tail[:])
	}
	return nil
}

// post puts a body on the wire with the headers that an OpenAI client sends, and more.
func post(path, more, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost:8080\r\nAccept: application/json\r\nContent-Type: application/json\r\n"+
		"User-Agent: OpenAI/Python 2.8.1\r\nX-Stainless-Lang: python\r\nX-Stainless-Runtime: CPython\r\nAccept-Encoding: gzip, deflate\r\n"+
		"%sContent-Length: %d\r\n\r\n%s", path, more, len(body), body)
}

// chat describes a chat request. Its body has size bytes, and its answer as many tokens as it asks for.
type chat struct {
	size, tokens int
	route        string // "" is bench
	tier         string // X-Tier of the request; "" is target
	noStore      bool   // Cache-Control: no-store
	greedy       bool   // temperature 0: concurrent equal requests share one generation
	stream       bool
	pause        time.Duration // between the tokens of the engine's stream; 0: all at once
	header       string        // a further line
}

func (c chat) exchange() exchange {
	temperature, tail := "0.7", ""
	if c.greedy {
		temperature = "0"
	}
	if c.stream {
		tail = `,"stream":true,"stream_options":{"include_usage":true}`
	}
	if c.pause > 0 {
		tail += fmt.Sprintf(`,%s%d"`, mockPause, c.pause.Microseconds())
	}
	head := fmt.Sprintf(`{"model":"%s","messages":[{"role":"user","content":"`, cmp.Or(c.route, "bench"))
	body := filled(c.size, head+strings.Repeat("0", numberDigits)+" "+mockAsked,
		fmt.Sprintf(`"}],"temperature":%s,"max_tokens":%d%s}`, temperature, c.tokens, tail))
	more := "X-Tier: " + cmp.Or(c.tier, "target") + "\r\n" + c.header
	if c.noStore {
		more += "Cache-Control: no-store\r\n"
	}
	x := exchange{request: post("/v1/chat/completions", more, body), marks: c.tokens, stream: c.stream}
	x.number = len(x.request) - len(body) + len(head)
	return x
}

// numbered returns the request with a number of its own for each of n connections, which is the same every time.
func (c chat) numbered(n int) []exchange {
	list := make([]exchange, n)
	for i := range list {
		x := c.exchange()
		putNumber(x.request[x.number:], uint64(i))
		x.number = 0
		list[i] = x
	}
	return list
}

// putNumber writes n into the first numberDigits bytes.
func putNumber(b []byte, n uint64) {
	for i := numberDigits - 1; i >= 0; i-- {
		b[i], n = '0'+byte(n%10), n/10
	}
}

// embeddings is a request that the gateway passes through.
func embeddings(size int) exchange {
	return exchange{request: post("/v1/embeddings", "", filled(size, `{"model":"bench","input":"`, `"}`)), marks: 1}
}

// filled is a body of exactly size bytes: head, prose with the escapes that prose has, tail.
func filled(size int, head, tail string) string {
	const prose = ` \"the sea is calm tonight\", and the keeper wrote it down.\n She said:`
	n := size - len(head) - len(tail)
	if n < 0 {
		panic("a body of " + strconv.Itoa(size) + " bytes does not hold its head and tail")
	}
	whole := n - n%len(prose)
	return head + strings.Repeat(prose, whole/len(prose)) + strings.Repeat("x", n-whole) + tail
}
