// Package llamatest gives tests a real engine: llama.cpp on the CPU, behind a small server that speaks llama-server's
// wire (.ci/clients/llama), with models that a test makes. It is for tests alone. Start at [Start].
package llamatest

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Model describes a model file: Llama's architecture in 0.6 MB, with random weights. Its answers are words without sense.
// They have 10 to 200 tokens as a rule, and end the sooner the longer the prompt was.
type Model struct {
	Name string // general.name
	Seed uint64 // of the weights
	// Noise is the standard deviation of what is added to all output weights, relative to theirs. Models of one seed have
	// one tokenizer and otherwise the same weights: with Noise 0.06 the first choices of both agree in nine places of ten.
	Noise float64
	// Window is the longest context in tokens that the file promises; 0 is 4096.
	Window int
}

// A pair of models as a cascade has it: the first choices of both agree in nine places of ten.
var (
	Draft  = Model{Name: "tiny-draft", Seed: 1}
	Target = Model{Name: "tiny-target", Seed: 1, Noise: 0.06}
)

// Sizes of all models.
const (
	width   = 64 // of the hidden state
	layers  = 2
	heads   = 4
	wide    = 96 // of the hidden layer of the feed-forward network
	epsilon = 1e-5
)

// Places of the hidden state that are not random: they let an answer end.
const (
	placeOne   = 0 // is the same for all tokens
	placeBegin = 1 // is that of the first token alone
	placeAge   = 2 // gets the mean of placeBegin over all tokens so far: 1 over their number
	places     = 3
)

// Strengths of what is not random, tuned by looking at answers.
const (
	strength  = 3.0  // of placeOne and placeBegin in the embeddings
	contrast  = 0.55 // standard deviation of the output weights: how sure the model is
	silence   = -30  // output weight of placeOne for tokens that no answer has
	endAlways = 9.0  // output weight of placeOne for the end of an answer
	endLater  = -8.0 // output weight of placeAge for it: less, the shorter the text is
	ageGain   = 40.0
)

// Write writes the model to a file.
func (m Model) Write(path string) error {
	v := newVocabulary()
	g := &gguf{}
	m.describe(g, v)
	m.weights(g, v)
	if err := g.write(path); err != nil {
		return fmt.Errorf("the model %s cannot be written: %w", m.Name, err)
	}
	return nil
}

func (m Model) describe(g *gguf, v *vocabulary) {
	window := m.Window
	if window == 0 {
		window = 4096
	}
	g.text("general.architecture", "llama")
	g.text("general.name", m.Name)
	g.number("llama.context_length", uint32(window))
	g.number("llama.embedding_length", width)
	g.number("llama.block_count", layers)
	g.number("llama.feed_forward_length", wide)
	g.number("llama.attention.head_count", heads)
	g.number("llama.attention.head_count_kv", heads)
	g.float("llama.attention.layer_norm_rms_epsilon", epsilon)
	g.number("llama.rope.dimension_count", width/heads)
	g.number("llama.vocab_size", uint32(len(v.tokens)))
	g.text("tokenizer.ggml.model", "gpt2")
	g.text("tokenizer.ggml.pre", "gpt-2")
	g.texts("tokenizer.ggml.tokens", v.tokens)
	g.numbers("tokenizer.ggml.token_type", v.kinds)
	g.texts("tokenizer.ggml.merges", v.merges)
	g.number("tokenizer.ggml.bos_token_id", begin)
	g.number("tokenizer.ggml.eos_token_id", finish)
	g.flag("tokenizer.ggml.add_bos_token", true)
	g.text("tokenizer.chat_template", template)
}

func (m Model) weights(g *gguf, v *vocabulary) {
	r := rand.New(rand.NewPCG(m.Seed, 1))
	embedding := normal(r, len(v.tokens), width, 1)
	for id := range v.tokens {
		row := embedding[id*width:]
		clear(row[:places])
		row[placeOne] = strength
		if id == begin {
			row[placeBegin] = strength
		}
	}
	add := func(name string, rows, columns int, data []float32) {
		g.tensors = append(g.tensors, tensor{name: name, columns: columns, rows: rows, data: data})
	}
	add("token_embd.weight", len(v.tokens), width, embedding)
	for i := range layers {
		m.block(r, i, add)
	}
	add("output_norm.weight", 0, width, ones(width))
	add("output.weight", len(v.tokens), width, m.output(r, v))
}

// block adds one layer. The first head of the first one looks at all tokens alike, and writes placeAge.
func (m Model) block(r *rand.Rand, i int, add func(string, int, int, []float32)) {
	scale := 1 / math.Sqrt(width)
	q, k := normal(r, width, width, 1.5*scale), normal(r, width, width, 1.5*scale)
	value, out := normal(r, width, width, scale), normal(r, width, width, scale)
	down := normal(r, width, wide, 1/math.Sqrt(wide))
	clear(out[:places*width]) // nothing else is written to the places
	clear(down[:places*wide])
	if i == 0 {
		clear(q[:width/heads*width])
		clear(value[:width])
		value[placeBegin] = ageGain
		for row := range width {
			out[row*width] = 0
		}
		out[placeAge*width] = 1
	}
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", i, s) }
	add(name("attn_norm"), 0, width, ones(width))
	add(name("attn_q"), width, width, q)
	add(name("attn_k"), width, width, k)
	add(name("attn_v"), width, width, value)
	add(name("attn_output"), width, width, out)
	add(name("ffn_norm"), 0, width, ones(width))
	add(name("ffn_gate"), wide, width, normal(r, wide, width, scale))
	add(name("ffn_up"), wide, width, normal(r, wide, width, scale))
	add(name("ffn_down"), width, wide, down)
}

// output are the output weights, with noise of the model's own.
func (m Model) output(r *rand.Rand, v *vocabulary) []float32 {
	w := normal(r, len(v.tokens), width, contrast)
	own := rand.New(rand.NewPCG(m.Seed, math.Float64bits(m.Noise)))
	for i, n := range normal(own, len(v.tokens), width, contrast*m.Noise) {
		w[i] += n
	}
	for id := range v.tokens {
		row := w[id*width:]
		clear(row[:places])
		switch {
		case id == finish:
			row[placeOne], row[placeAge] = endAlways, endLater
		case !v.spoken[id]:
			row[placeOne] = silence
		}
	}
	return w
}

func normal(r *rand.Rand, rows, columns int, deviation float64) []float32 {
	w := make([]float32, rows*columns)
	for i := range w {
		w[i] = float32(r.NormFloat64() * deviation)
	}
	return w
}

func ones(n int) []float32 {
	w := make([]float32, n)
	for i := range w {
		w[i] = 1
	}
	return w
}
