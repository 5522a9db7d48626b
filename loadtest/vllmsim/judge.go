package vllmsim

import (
	"math"
	"slices"
	"strings"
)

// judgeQuestion is what a gateway asks about an answer that stands before it (docs/science.md, Scores), and judgeCompares how
// it ends the question that shows another answer, too. The simulated judge says the same to both.
const (
	judgeQuestion = "Is the previous answer correct, complete and in the requested format? Answer yes or no."
	judgeCompares = "Do both answers say the same? Answer yes or no."
)

// The judge's log odds: judgeSure for an answer that the target would have given, less for each token that it is sure is
// wrong (at most judgeMax of them count) and for the mean distance to its first choices. What a draft makes of this is
// noise mostly.
const (
	judgeSure   = 3.0
	judgeWrong  = 1.5
	judgeMax    = 4
	judgeGap    = 10.0 // per nat of mean distance
	judgeNoise  = 1.0  // standard deviation of a target's log odds
	judgeStrays = 8.0  // more, per divergence
)

// Judge returns the log odds of yes with which the model answers whether answer is correct, complete and in the requested
// format: by how far the target of its language stands by the answer that follows prompt and by its end, with noise that
// prompt and answer seed. A draft knows less: its noise grows with its divergence.
func (m *Model) Judge(prompt, answer []int32) float64 {
	whole := slices.Concat(answer, []int32{tokEOT})
	wrong, gap := 0, 0.0
	NewModel(m.language, 0).Score(prompt, whole, func(i int, d *Dist) bool {
		own := d.LogProb(whole[i])
		gap += math.Log(d.Top[0].P) - own
		if d.Top[0].P >= 0.9 && own < math.Log(0.01) {
			wrong++
		}
		return true
	})
	h := mix(hashIDs(hashIDs(mix(m.seed, 0x1d9e), prompt), whole), math.Float64bits(m.divergence))
	noise := (judgeNoise + judgeStrays*m.divergence) * normal((float64(h>>12)+0.5)/(1<<52))
	return judgeSure - judgeWrong*float64(min(wrong, judgeMax)) - judgeGap*gap/float64(len(whole)) + noise
}

// judged returns the answer to judgeQuestion when a chat ends with it, and with what other probabilities it begins; nil to
// any other.
func (s *Server) judged(w *wireRequest) (answer []scripted, others []Cand) {
	n := len(w.Messages)
	if n < 3 || w.ContinueFinalMessage || w.Messages[n-1].Role != "user" || w.Messages[n-2].Role != "assistant" {
		return nil, nil
	}
	question, err := w.Messages[n-1].text()
	if question = strings.TrimSpace(question); err != nil || question != judgeQuestion && !strings.HasSuffix(question, judgeCompares) {
		return nil, nil
	}
	in := s.templateInput(w)
	in.messages = w.Messages[:n-2]
	prompt, err := s.tok.render(in)
	text, wrong := w.Messages[n-2].text()
	if err != nil || wrong != nil {
		return nil, nil
	}
	odds := s.model.Judge(prompt, s.tok.Encode(strings.TrimSpace(text)))
	return s.tok.yesOrNo(1 / (1 + math.Exp(-odds)))
}

// yesOrNo answers with the likelier one, and hardly with anything else.
func (t *Tokenizer) yesOrNo(yes float64) (answer []scripted, others []Cand) {
	const said = 0.998
	first, other := scripted{id: t.ids["Yes"], p: said * yes}, Cand{ID: t.ids["No"], P: said * (1 - yes)}
	if yes < 0.5 {
		first, other = scripted{id: other.ID, p: other.P}, Cand{ID: first.id, P: first.p}
	}
	return []scripted{first, {id: tokEOT, p: 0.97}}, []Cand{other}
}
