package chaos

import (
	"errors"
	"fmt"
	"io"

	"github.com/foregate/foregate/loadtest/answer"
)

// readStream reads a stream to the connection's end and names what became of it: it must hold to what the
// API promises.
func readStream(a *answer.Answer, r io.Reader) (kind, detail string) {
	err := a.Stream(r)
	switch {
	case errors.Is(err, answer.ErrBadJSON):
		return Garbled, a.Bad
	case a.Failed != "" && a.Dones > 0:
		return DoneLies, a.Failed
	case a.Failed != "":
		return ErrorEvent, a.Failed
	case err != nil:
		return trouble(err, CutSilent), err.Error()
	case a.Dones == 0:
		return CutSilent, "the stream ended without [DONE]"
	case a.Dones > 1 || a.Finishes > 1:
		return Twice, fmt.Sprintf("%d [DONE], %d finish reasons", a.Dones, a.Finishes)
	case a.Finishes == 0 || a.Pieces == 0:
		return Unfinished, fmt.Sprintf("%d finish reasons", a.Finishes)
	}
	return Answered, ""
}

// readWhole is readStream for an answer in one piece.
func readWhole(a *answer.Answer, r io.Reader) (kind, detail string) {
	err := a.Whole(r)
	switch {
	case errors.Is(err, answer.ErrBadJSON):
		return Garbled, a.Bad
	case err != nil:
		return trouble(err, CutSilent), err.Error()
	case a.Failed != "":
		return ErrorEvent, a.Failed
	case a.Choices != 1:
		return Twice, fmt.Sprintf("%d choices", a.Choices)
	case a.Finishes == 0 || a.Pieces == 0:
		return Unfinished, fmt.Sprintf("%d finish reasons, %d bytes of text", a.Finishes, a.Text.Len())
	}
	return Answered, ""
}

// tokens are those that an answer's usage tells; 0 is none.
func tokens(a *answer.Answer) int {
	if a.Usage == nil {
		return 0
	}
	return a.Usage.Completion
}
