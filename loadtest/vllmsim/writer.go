package vllmsim

import "math"

// Sampling is how a [Writer] picks tokens.
type Sampling struct {
	Temperature float64
	MaxTokens   int
	IgnoreEOS   bool
	Seed        uint64
}

// SampleSeed is the seed with which a server samples choice number choice of a request that names none: the language's
// seed, the served model's name and the prompt up to its last header decide. Without a header nobody can tell a prompt
// from what was generated since, so that the prompt has no say.
func (m *Model) SampleSeed(name string, prompt []int32, choice int) uint64 {
	key := mix(hashSeed, 2)
	if c := m.readTo(prompt); c.anchored {
		key = c.key()
	}
	return mix(mix(hashString(m.language, name), key), uint64(choice))
}

// Writer is a [Source] that samples from a model, without a server around it: it makes the tokens that a server would
// make of the same prompt.
type Writer struct {
	spec genSpec
	gen  *generator
}

// NewWriter returns the writer of what follows prompt.
func NewWriter(m *Model, prompt []int32, s Sampling) *Writer {
	w := &Writer{spec: genSpec{sampling: sampling{temperature: s.Temperature, seed: s.Seed},
		maxTokens: s.MaxTokens, ignoreEOS: s.IgnoreEOS, logprobs: none}}
	w.gen = newGenerator(m, prompt, &w.spec, 0)
	return w
}

// Next implements [Source].
func (w *Writer) Next() (id int32, done bool) { return w.gen.Next() }

// Logprob returns the natural logarithm of the last token's probability, before temperature and truncation.
func (w *Writer) Logprob() float64 { return clampLogprob(w.gen.dist.LogProb(w.gen.last.id)) }

// Top appends the logprobs of the n most probable tokens at the last token's place.
func (w *Writer) Top(dst []float64, n int) []float64 {
	for _, c := range w.gen.dist.topN(n) {
		dst = append(dst, math.Log(c.P))
	}
	return dst
}

// Text returns the text that the last token completed: "" inside a character.
func (w *Writer) Text() string { return w.gen.last.text }

// Finish returns why the sequence ended with the last token: "stop", "length", or "" when it goes on.
func (w *Writer) Finish() string { return w.gen.last.finish }
