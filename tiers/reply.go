package tiers

import (
	"bytes"
	"math"
	"unicode"
	"unicode/utf8"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/receipt"
)

// Sink takes an answer on its way to the client. Begin is called once, before
// the first Write; each Write holds whole frames and is flushed.
type Sink interface {
	Begin(Head) error
	Write(p []byte) error
}

// Head is what is known of an answer at its first byte.
type Head struct {
	Stream      bool // server-sent events, else JSON
	Receipt     *receipt.Receipt
	ContentType string // of an answer that passes through; "" otherwise
	Length      int64  // of its body in bytes; 0 or less is unknown
}

// reply is one answer as the client gets it, whichever tiers its text comes
// from. It matches stop strings over the whole text and never takes back what
// was sent.
type reply struct {
	sink    Sink
	tap     Tap
	framer  *openai.Framer
	receipt *receipt.Receipt
	first   func() // told before the first byte

	stream, usage, includeStop bool
	lagWord                    bool // release whole words only: a continuation by text starts behind one

	bound int    // bytes of text that may be sent so far
	text  []byte // of the whole answer, as far as it was accepted
	owed  []byte // what the client has beyond text: what comes must begin with it
	sent  int    // bytes of it that the client has
	began bool
	stops stops
	stop  []byte // the stop string that ended the text, as raw JSON
	word  []byte // the same as text
	ended int    // bytes of text up to its end
	buf   []byte
}

// unbounded lets all text be sent that stop strings allow.
const unbounded = math.MaxInt

// heal takes back the last word of what is there, for another backend to write it again: an
// engine that holds text back for stop strings may have stopped within a token, and nobody
// goes on well from there. It returns the bytes that are left.
func (r *reply) heal() int {
	lag := r.lagWord
	r.lagWord, r.owed = true, nil
	to := r.releasable()
	r.lagWord = lag
	r.owed = append(r.owed, r.text[to:]...)
	r.text = r.text[:to]
	r.stops.rewind(to)
	return to
}

// unheal is heal undone: the answer ends with what the client has.
func (r *reply) unheal() {
	r.text = append(r.text, r.owed...)
	r.owed = nil
}

// owe cuts the text at an offset. What was sent behind it is owed: a stop string that begins within
// a token lets a part of that be sent, and nobody goes on from there by ids. It returns what the
// client has where that is the case, and nil where not.
func (r *reply) owe(to int) (said []byte) {
	r.unheal()
	if r.cut(to); to >= r.sent {
		return nil
	}
	said = bytes.Clone(r.text)
	r.owed = append(r.owed, r.text[to:]...)
	r.text = r.text[:to]
	r.stops.rewind(to)
	return said
}

// honours reports whether text begins with what is owed to the client.
func (r *reply) honours(text []byte) bool {
	n := min(len(r.owed), len(text))
	if string(r.owed[:n]) != string(text[:n]) {
		return false
	}
	r.owed = r.owed[n:]
	return true
}

// add appends text and reports whether a stop string ended the answer.
func (r *reply) add(text []byte) bool {
	r.text = append(r.text, text...)
	if len(r.stops.words) == 0 || len(text) == 0 {
		return false
	}
	start, end := r.stops.find(r.text)
	if start < 0 {
		return false
	}
	r.word = append(r.word[:0], r.text[start:end]...)
	r.stop, r.ended = openai.Quote(string(r.word)), end
	if r.includeStop {
		start = end
	}
	r.text = r.text[:min(max(start, r.sent), len(r.text))] // what was sent stays
	return true
}

// cut drops text behind an offset that was not sent.
func (r *reply) cut(to int) {
	r.text, r.owed = r.text[:max(to, r.sent)], nil
	r.stop = nil
	r.stops.rewind(len(r.text))
}

// begin hands the head to the client, and the role of a streamed chat answer.
// length is that of a JSON body, 0 of a stream.
func (r *reply) begin(length int) error {
	if r.began {
		return nil
	}
	r.began = true
	r.first()
	if err := r.sink.Begin(Head{Stream: r.stream, Receipt: r.receipt, Length: int64(length)}); err != nil {
		return err
	}
	if r.stream {
		r.buf = r.framer.Role(r.buf[:0])
	}
	return nil
}

// release sends what may be sent of a stream's text; a client that waits for
// JSON gets nothing before the end.
func (r *reply) release() error {
	if !r.stream {
		return nil
	}
	if err := r.begin(0); err != nil {
		return err
	}
	if upTo := r.releasable(); upTo > r.sent {
		r.buf = r.framer.Text(r.buf, r.text[r.sent:upTo])
		r.tap.Text(r.text[r.sent:upTo])
		r.sent = upTo
	}
	if len(r.buf) == 0 {
		return nil
	}
	err := r.sink.Write(r.buf)
	r.buf = r.buf[:0]
	return err
}

func (r *reply) releasable() int {
	upTo := min(r.stops.safe(r.text), r.bound)
	if !r.lagWord {
		return upTo
	}
	tail := max(upTo-longestWord, 0)
	for tail > 0 && !utf8.RuneStart(r.text[tail]) {
		tail--
	}
	word := bytes.LastIndexFunc(r.text[tail:upTo], unicode.IsSpace)
	if word < 0 {
		return tail // no spaces, as in Chinese: some characters are held back instead
	}
	return len(bytes.TrimRightFunc(r.text[:tail+word], unicode.IsSpace))
}

// longestWord is how many bytes are held back at most to end at a whole word.
const longestWord = 48

// finish sends the rest and the end of the answer.
func (r *reply) finish(e openai.Ending) error {
	if r.stop != nil {
		e.Stop = r.stop
	}
	r.tap.Text(r.text[r.sent:])
	r.tap.End(e)
	if !r.stream {
		body := r.framer.Body(nil, r.text, e)
		if err := r.begin(len(body)); err != nil {
			return err
		}
		return r.sink.Write(body)
	}
	if err := r.begin(0); err != nil {
		return err
	}
	r.buf = r.framer.Finish(r.buf, r.text[r.sent:], e, r.usage)
	r.sent = len(r.text)
	return r.sink.Write(r.buf)
}
