package openai

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll returns the events of a stream and how it ended.
func readAll(src io.Reader, maximum int) (events []string, err error) {
	r := NewEventReader(src, maximum)
	for {
		data, err := r.Next()
		if err != nil {
			return events, err
		}
		events = append(events, string(data))
	}
}

func TestEventsAreReadWhateverEndsTheirLines(t *testing.T) {
	for in, want := range map[string][]string{
		"data: a\n\ndata: b\n\n":                       {"a", "b"},
		"data: a\r\n\r\ndata: b\r\n\r\n":               {"a", "b"},
		"data: a\r\rdata: b\r\r":                       {"a", "b"},
		"data:a\n\n":                                   {"a"},
		"data\n\ndata: \t\nid: 1\ndata\n\ndata: a\n\n": {"a"}, // a sign of life
		"\ufeffdata: \ufeffa\n\n":                      {"a"},
		"data:  a\n\n":                                 {" a"},
		"data: a\ndata: b\ndata: c\n\n":                {"a\nb\nc"},
		": ping\n\ndata: a\n\n: ping\n\n":              {"a"},
		"event: x\nid: 1\nretry: 5\ndata: a\n\n":       {"a"},
		"database: no\n\ndata: yes\n\n":                {"yes"},
		"\n\n\ndata: a\n\n":                            {"a"},
		"data: [DONE]\n\ndata: x\n\n":                  {"[DONE]", "x"},
		"":                                             nil,
	} {
		got, err := readAll(strings.NewReader(in), 1<<10)
		if !slices.Equal(got, want) || err != io.EOF {
			t.Errorf("%q: got %q, %v; want %q, EOF", in, got, err, want)
		}
	}
}

func TestAStreamThatEndsInsideAnEventIsCut(t *testing.T) {
	whole := "data: hello\n\n"
	for n := range len(whole) {
		_, err := readAll(strings.NewReader(whole[:n]), 1<<10)
		if want := io.ErrUnexpectedEOF; n > 0 && err != want {
			t.Errorf("cut after %d bytes: %v, want %v", n, err, want)
		}
	}
}

func TestAnEventBeyondTheCapIsRefused(t *testing.T) {
	_, err := readAll(strings.NewReader("data: "+strings.Repeat("x", 100<<10)), 64<<10)
	if !errors.Is(err, ErrEventTooLong) {
		t.Errorf("got %v", err)
	}
}

func TestErrorsOfTheSourceComeAfterItsEvents(t *testing.T) {
	broken := errors.New("reset")
	got, err := readAll(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)), 1<<10)
	if !slices.Equal(got, []string{"a"}) || !errors.Is(err, broken) {
		t.Errorf("got %q, %v", got, err)
	}
}

// FuzzEventReader: what is read does not depend on how the bytes were cut into
// reads, and never takes more memory than the cap allows.
func FuzzEventReader(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "data: a\r\n\r\ndata: b\r\r", ": c\n\n", "data: x\ndata: y\n\n", "data", "\r\n\r", "data: é\n\n"} {
		f.Add([]byte(s), uint8(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, unit uint8) {
		const maximum = 1 << 12
		whole, wholeErr := readAll(strings.NewReader(string(in)), maximum)
		pieces, piecesErr := readAll(&unitReader{in, int(unit%7) + 1}, maximum)
		if !slices.Equal(whole, pieces) {
			t.Fatalf("at once %q, in pieces %q", whole, pieces)
		}
		if (wholeErr == io.EOF) != (piecesErr == io.EOF) {
			t.Fatalf("at once %v, in pieces %v", wholeErr, piecesErr)
		}
	})
}

// unitReader returns n bytes at a time.
type unitReader struct {
	rest []byte
	n    int
}

func (r *unitReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest[:min(r.n, len(r.rest))])
	r.rest = r.rest[n:]
	return n, nil
}

func TestAnEventThatWasFoundAheadIsTheNext(t *testing.T) {
	for _, stream := range []string{"data: a\n\ndata: b\n\n: c\n\ndata: d\n\n", "data: a\ndata: 1\n\ndata: b\ndata: 2\n\ndata: c\ndata: 3\n\n"} {
		want, _ := readAll(strings.NewReader(stream), 1<<10)
		r := NewEventReader(strings.NewReader(stream), 1<<10)
		for i, w := range want {
			event, err := r.Next()
			for range 2 {
				if more := i < len(want)-1; r.Buffered() != more {
					t.Errorf("%q: another event after %d: %t", stream, i, !more)
				}
			}
			if string(event) != w || err != nil {
				t.Errorf("%q: event %d is %q, want %q, %v", stream, i, event, w, err)
			}
		}
	}
}
