package answer

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestTheTextOfAnAnswerIsKeptAndEachPieceHeard(t *testing.T) {
	piece := func(text string) string {
		return fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", text)
	}
	var heard []int
	a := Answer{OnText: func(n int) { heard = append(heard, n) }}
	if err := a.Stream(strings.NewReader(piece("") + piece("the sea") + piece(" is") + "data: [DONE]\n\n")); err != nil || a.Dones != 1 {
		t.Fatal(err, a.Dones)
	}
	if a.Text.String() != "the sea is" || !slices.Equal(heard, []int{1, 2}) {
		t.Errorf("said %q, heard %v", a.Text.String(), heard)
	}
	const maxText = 1 << 20
	long := Answer{MaxText: maxText}
	for range 3 {
		long.say(strings.Repeat("x", maxText/2))
	}
	if long.Text.Len() != maxText {
		t.Errorf("%d bytes of an answer are kept", long.Text.Len())
	}
}

func TestALineWithoutEndIsGivenUp(t *testing.T) {
	var a Answer
	endless := io.MultiReader(strings.NewReader("data: "), &forever{})
	if err := a.Stream(endless); !errors.Is(err, ErrLongLine) {
		t.Error(err)
	}
	long := `data: {"choices":[{"delta":{"content":"` + strings.Repeat("é", 40_000) + "\"}}]}\n\ndata: [DONE]\n\n"
	var b Answer
	if err := b.Stream(strings.NewReader(long)); err != nil || b.Text.Len() != 80_000 {
		t.Error(err, b.Text.Len())
	}
}

// forever is a line that never ends.
type forever struct{}

func (*forever) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
