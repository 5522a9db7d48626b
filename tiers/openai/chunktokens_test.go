package openai

import "testing"

func TestHowManyTokensAChunkAdds(t *testing.T) {
	text := []byte("some words")
	for name, c := range map[string]struct {
		chunk    Chunk
		n        int
		reported bool
	}{
		"its ids":                        {Chunk{Text: text, IDs: []int32{1, 2}}, 2, true},
		"more logprobs than ids":         {Chunk{Text: text, IDs: []int32{1}, Logprobs: []float64{-1, -1}}, 2, true},
		"the engine's count":             {Chunk{Text: text, Choices: 1, HasUsage: true, Usage: Usage{Completion: 13}}, 3, true},
		"one that claims too much":       {Chunk{Text: text, Choices: 1, HasUsage: true, Usage: Usage{Completion: 99}}, 11, true},
		"one that did not grow":          {Chunk{Text: text, Choices: 1, HasUsage: true, Usage: Usage{Completion: 10}}, 1, false},
		"a count of the whole at an end": {Chunk{HasUsage: true, Usage: Usage{Completion: 13}}, 0, true},
		"nothing but text":               {Chunk{Text: text}, 1, false},
		"nothing":                        {Chunk{}, 0, true},
	} {
		if n, reported := c.chunk.Tokens(10); n != c.n || reported != c.reported {
			t.Errorf("%s: %d, told %v, want %d, %v", name, n, reported, c.n, c.reported)
		}
	}
}

func TestTokensBehindAStopStringAreThoseThatBeginThere(t *testing.T) {
	for name, c := range map[string]struct {
		sizes []int
		at, n int
	}{
		"two begin there":           {[]int{4, 2, 2, 2}, 6, 2},
		"it ends within one":        {[]int{4, 2, 2, 2}, 7, 1},
		"it ends with the chunk":    {[]int{4, 2, 2, 2}, 10, 0},
		"it ends with the first":    {[]int{4, 2, 2, 2}, 4, 3},
		"it ends before the chunk":  {[]int{4, 2, 2, 2}, -2, 3}, // the one that came with it is counted, wherever it ended
		"there is one":              {[]int{10}, 0, 0},
		"nothing is told":           {nil, 3, 0},
		"it is not the text's size": {[]int{4, 2}, 1, 0},
	} {
		chunk := Chunk{Text: []byte("some words"), TokenBytes: c.sizes}
		if n := chunk.TokensPast(c.at); n != c.n {
			t.Errorf("%s: %d, want %d", name, n, c.n)
		}
	}
	// Behind "the 🤖" ends "the "; the token that begins with the space shows nothing until the next one ends the character.
	chunk := Chunk{Text: []byte("the 🤖 a"), TokenBytes: []int{3, 2, 3, 2}}
	if n := chunk.TokensPast(len("the ")); n != 1 {
		t.Errorf("it ends in a token that ends within a character: %d, want 1", n)
	}
}

func TestTheBytesOfTokensAreToldWhereTheyAreTheText(t *testing.T) {
	whole := Chunk{Text: []byte("ab c"), IDs: []int32{1, 2}, Logprobs: []float64{-1, -1}, TokenBytes: []int{2, 2}}
	short, noID, noLogprob := whole, whole, whole
	short.TokenBytes, noID.IDs, noLogprob.Logprobs = []int{2, 1}, []int32{1}, nil
	for name, c := range map[string]struct {
		chunk Chunk
		want  bool
	}{"they are": {whole, true}, "they are not": {short, false}, "an id is missing": {noID, false}, "no logprobs": {noLogprob, false}, "nothing": {Chunk{}, true}} {
		if got := c.chunk.BytesReported(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
