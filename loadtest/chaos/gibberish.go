package chaos

import (
	"bufio"
	"fmt"
	"math/rand/v2"
)

// gibberish draws RESP values that are well formed and make no sense. The zero value
// draws as chance will have it.
type gibberish struct{ depth int }

// scalars are values of one line or so, of every type of RESP 2 and 3.
var scalars = []string{
	"+OK\r\n", "+QUEUED\r\n", "-ERR no\r\n", "-MOVED 1 127.0.0.1:1\r\n", "-LOADING soon\r\n", ":0\r\n", ":-1\r\n", ":9223372036854775807\r\n",
	"$0\r\n\r\n", "$-1\r\n", "$2\r\nNaN\r\n", "$3\r\nNaN\r\n", "$4\r\n\x00\xff\r\n\r\n", "*-1\r\n", "*0\r\n", "_\r\n", "#t\r\n", "#f\r\n", ",nan\r\n", ",-inf\r\n", ",1e999\r\n",
	"(12345678901234567890123\r\n", "!5\r\nERR x\r\n", "=7\r\ntxt:abc\r\n", "$1\r\n1\r\n", "$13\r\n1700000000000\r\n", "+PONG\r\n",
}

// value writes one value with what is inside it.
func (g gibberish) value(w *bufio.Writer) error {
	const maxDeep, maxWide = 5, 6
	if g.depth >= maxDeep || rand.IntN(2) == 0 {
		_, err := w.WriteString(scalars[rand.IntN(len(scalars))])
		return err
	}
	n := rand.IntN(maxWide)
	kind := "*~>%|"[rand.IntN(5)]
	if _, err := fmt.Fprintf(w, "%c%d\r\n", kind, n); err != nil {
		return err
	}
	if kind == '%' || kind == '|' {
		n *= 2
	}
	for range n {
		if err := (gibberish{g.depth + 1}).value(w); err != nil {
			return err
		}
	}
	return nil
}

// random says one value to anything.
func random(w *bufio.Writer) error { return gibberish{}.value(w) }

// gossip says things that only a subscriber is told, and none of them right.
func gossip(w *bufio.Writer) error {
	words := []string{"subscribe", "unsubscribe", "message", "pmessage", "smessage", "pong", "invalidate", "MOVING", "nonsense"}
	frame := ">*"[rand.IntN(2)]
	word := words[rand.IntN(len(words))]
	n := rand.IntN(4)
	if _, err := fmt.Fprintf(w, "%c%d\r\n$%d\r\n%s\r\n", frame, n+1, len(word), word); err != nil {
		return err
	}
	for range n {
		if _, err := w.WriteString(scalars[rand.IntN(len(scalars))]); err != nil {
			return err
		}
	}
	return nil
}
