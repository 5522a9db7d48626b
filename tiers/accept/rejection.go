package accept

import (
	"math"
	"slices"
)

// Token is one token that an engine lists at a position, with its raw logprob: over the whole vocabulary at temperature
// 1, whatever the request's sampling is.
type Token struct {
	ID      int32
	Logprob Nats
}

// Sampling says how tokens are drawn: logits over the temperature, then min_p, top_k, and top_p of the rest, as in vLLM.
type Sampling struct {
	Temperature float64 // above 0
	TopP        float64 // 0 … 1; 1 cuts nothing off
	TopK        int     // 0 is all
	MinP        float64 // of a draft only: tokens less likely than this share of the likeliest, at the temperature, are left out first; 0 leaves all
	Vocabulary  int     // ids that may be drawn; 0 is unknown, and taken for maxVocabulary
}

// maxVocabulary is more ids than any public model has: the largest have 2^18.
const maxVocabulary = 1 << 19

// TokenProbability is the probability of a token.
type TokenProbability struct {
	ID int32
	P  float64
}

// Distribution holds the probabilities of some tokens. All others have 0.
type Distribution []TokenProbability

// Probability returns the probability of a token.
func (s Distribution) Probability(id int32) float64 {
	for i := range s {
		if s[i].ID == id {
			return s[i].P
		}
	}
	return 0
}

const (
	// rounded is by how much sums of an engine's probabilities, which are of 32 bits, may be off.
	// It is a share of the likeliest token's weight, or of all probability.
	rounded = 1e-6
	// overdone is by how much listed probabilities may sum to more than 1 in a logit format of 16 bits.
	overdone = .01
	// nearEdge is how close to top_p or min_p a share may be for an engine of 32 bits to cut on the other side.
	nearEdge = 1e-4
)

// DraftDistribution is the law q that a token of the draft was drawn by: of the listed tokens those that min_p leaves, of
// these the first TopK, and of these those that top_p leaves:
//
//	w_y = exp(lp_y/T),  left are w_y ≥ min_p·w₁, TopK of them at most,
//	and of these y if Σ_{z before y} w_z / Σ w < top_p;  q(y) = w_y / Σ_left w
//
// More than TopK tokens must be listed, the likeliest of all, and s.TopK must be above 0. It is nil where the law is not
// known: where an engine may have left out one of equals or kept both, and where rounding decides. Of bfloat16 logits equals
// are common at the twentieth place, so that a min_p which leaves fewer is what makes the law known.
func DraftDistribution(listed []Token, s Sampling) Distribution {
	l := sortedByLogprob(listed)
	if s.TopK < 1 || len(l) <= s.TopK || !plausibleTop(l) {
		return nil
	}
	w, _ := weights(l, s.Temperature)
	n := 1
	for n < s.TopK && w[n] >= s.MinP {
		n++
	}
	cut := w[n] < s.MinP // by min_p: below it, there are no equals to choose from
	if s.MinP > 0 && (nearEdgeOf(w[n]/s.MinP, 1) || nearEdgeOf(w[n-1]/s.MinP, 1)) || !cut && l[n].Logprob >= l[n-1].Logprob {
		return nil
	}
	sum := 0.0
	for _, v := range w[:n] {
		sum += v
	}
	left, before := 0, 0.0
	for ; left < n; left++ {
		if left > 0 && s.TopP < 1 {
			if nearEdgeOf(before/sum, s.TopP) {
				return nil
			}
			if before/sum >= s.TopP {
				break
			}
		}
		before += w[left]
	}
	if left < n && l[left].Logprob >= l[left-1].Logprob {
		return nil
	}
	out := make(Distribution, left)
	for i := range out {
		out[i] = TokenProbability{l[i].ID, w[i] / before}
	}
	return out
}

// nearEdgeOf reports whether 32-bit engines may fall on either side of an edge.
func nearEdgeOf(v, edge float64) bool { return math.Abs(v-edge) < nearEdge }

// sortedByLogprob returns a copy with the likeliest first. Equal ones are in the order of their ids.
func sortedByLogprob(listed []Token) []Token {
	l := slices.Clone(listed)
	slices.SortFunc(l, func(a, b Token) int {
		switch {
		case a.Logprob > b.Logprob:
			return -1
		case a.Logprob < b.Logprob:
			return 1
		}
		return int(a.ID) - int(b.ID)
	})
	return l
}

// plausibleTop reports whether sorted logprobs can be those of a vocabulary's likeliest tokens: the first is at least as
// likely as the mean, and their sum is at most 1.
func plausibleTop(l []Token) bool {
	sum := 0.0
	for i := range l {
		sum += math.Exp(float64(l[i].Logprob))
	}
	return len(l) > 0 && math.Exp(float64(l[0].Logprob)) >= 1./maxVocabulary && sum <= 1+overdone
}

// weights returns exp((lp − lp₁)/T), relative to the first, so that no temperature makes all of them 0.
func weights(l []Token, temperature float64) (w []float64, sum float64) {
	w = make([]float64, len(l))
	for i := range l {
		w[i] = math.Exp(float64(l[i].Logprob-l[0].Logprob) / temperature)
		sum += w[i]
	}
	return w, sum
}

// TargetLowerBounds is a certified lower bound of what the target draws each listed token with, by raw scores
// of its likeliest tokens. With u = 1/T, Zv = Σ_listed exp(u·lp), m the mass
// that is not listed, spread over n tokens at most, and p_k the least listed probability, the
// normaliser is between
//
//	T ≤ 1:  Zv + n^(1−u)·m^u    and  Zv + p_k^(u−1)·m
//	T > 1:  Zv + p_k^(u−1)·m    and  Zv + n^(1−u)·m^u
//
// since Σp^u over tokens of mass m, none above p_k, is least where all are equal and most where they
// are as large as may be, and the other way round for u < 1. A token is surely left by top_p if the
// sum before it and its equals, in whatever order an engine has these, over the lesser normaliser is below top_p; its bound is
// its weight over the weight of all that may be left. Tokens that may be cut off have none. A top_k below the number of listed ones makes
// the law known exactly; where the last it keeps has an equal, nothing is known and the bounds are nil.
//
// listed must be the likeliest tokens and no other: the scored token itself, where it is not among
// them, would make the bounds depend on what was drawn.
func TargetLowerBounds(listed []Token, s Sampling) Distribution {
	l := sortedByLogprob(listed)
	n := len(l)
	if !plausibleTop(l) {
		return nil
	}
	if s.TopK > 0 && s.TopK < n {
		if l[s.TopK].Logprob >= l[s.TopK-1].Logprob {
			return nil
		}
		n = s.TopK
	}
	w, sum := weights(l[:n], s.Temperature)
	var low, high float64 // of the weight that is not listed
	if n == len(l) {
		low, high = s.unlisted(l)
	}
	if s.TopK > 0 {
		low = 0 // who is cut off is not known
	}
	low, high = sum+low, sum+high+rounded
	out, before, maximum := make(Distribution, 0, n), 0.0, rounded
	for i := 0; i < n; {
		if i > 0 && s.TopP < 1 && before/high >= s.TopP+nearEdge {
			break
		}
		end := i + 1 // of its equals
		for end < n && l[end].Logprob == l[i].Logprob {
			end++
		}
		last := before + w[i]*float64(end-i-1) // before the last of them
		alone := i == 0 && end == 1 && n > 1
		hidden := end == n && n == len(l) // more equals may not be listed
		for ; i < end; i++ {
			if alone || s.TopP >= 1 || !hidden && last/low < s.TopP-nearEdge {
				out = append(out, TokenProbability{l[i].ID, w[i]})
			}
			before += w[i]
			maximum += w[i]
		}
	}
	if s.TopP >= 1 || before/high < s.TopP+nearEdge {
		maximum += high - sum // all that is not listed may be left, too
	}
	for i := range out {
		out[i].P /= maximum
	}
	return out
}

// unlisted bounds the weight of the tokens that are not listed, in units of the likeliest one's.
func (s Sampling) unlisted(l []Token) (low, high float64) {
	u := 1 / s.Temperature
	mass, first := 1.0, math.Exp(float64(l[0].Logprob))
	for i := range l {
		mass -= math.Exp(float64(l[i].Logprob))
	}
	vocabulary := s.Vocabulary
	if vocabulary == 0 {
		vocabulary = maxVocabulary
	}
	n := max(vocabulary-len(l), 0)
	if n == 0 {
		return 0, 0
	}
	minimum, maximum := max(mass-rounded, 0)/first, (max(mass, 0)+rounded)/first
	edge := math.Exp((u - 1) * float64(l[len(l)-1].Logprob-l[0].Logprob))
	spread := func(m float64) float64 { return math.Pow(float64(n), 1-u) * math.Pow(m, u) }
	if u >= 1 {
		return spread(minimum), edge * maximum
	}
	return edge * minimum, spread(maximum)
}

// Position is one position of a draft. kept is the part of its distribution q that is kept: q(y)·a(y) = min(q(y),
// p_lo(y)) for each token, where a(y) = min(1, p_lo(y)/q(y)) is the probability that y is accepted if it was drawn. It
// does not depend on which token was drawn.
type Position struct{ drafted, kept Distribution }

// NewPosition combines the distribution of the draft with the lower bounds of the target's. If either is unknown nothing
// is kept, which costs one draw and is exact.
func NewPosition(drafted, atLeast Distribution) Position {
	p := Position{drafted: drafted}
	for _, q := range drafted {
		if low := atLeast.Probability(q.ID); low > 0 {
			p.kept = append(p.kept, TokenProbability{q.ID, min(q.P, low)})
		}
	}
	return p
}

// acceptsDraft reports whether the draft's token is accepted: with probability a(id). random is drawn evenly from 0 … 1.
func (p Position) acceptsDraft(id int32, random float64) bool {
	q := p.drafted.Probability(id)
	return q > 0 && random*q < p.kept.Probability(id)
}

// acceptsDraw reports whether a draw of the target belongs to the rest after the kept tokens: with probability 1 −
// q(y)·a(y)/p(y), where p is the probability it was drawn with.
func (p Position) acceptsDraw(id int32, logprob Nats, random float64) bool {
	kept := p.kept.Probability(id)
	return kept == 0 || random*math.Exp(float64(logprob)) >= kept
}

// maxDraws is how many draws of the target are thrown away at one place at most. Where a place has
// acceptance 1−R, the last of them is taken although it does not stand with probability R·(1−R)^D: what that moves
// the law of the token by, in total variation, is 1/(e·D) = 0.0058 at most.
const maxDraws = 64

// unlike is how many times as likely as it was drawn with a token's lower bound may be for rounding to explain it: engines
// that read a text and engines that write one differ by some hundredths of a nat.
const unlike = 1.5

// RejectionSampler follows an answer above temperature 0 that was drafted as a whole and is verified exactly by
// rejection sampling. Start with the limits, tell it the draft by Take, and give it draws
// of the target by Draw for as long as it wants any. Then IDs is the beginning of an answer of the
// target's own law, and the rest, if Finish is "", is for the target to write. It knows neither clock nor network.
//
// Why it is exact: at a place with R = 1 − Σ q(y)·a(y), a token y comes from the draft with q(y)·a(y),
// and from a draw that stands with R·(p(y) − q(y)·a(y))/R. The sum is p(y). It needs q·a ≤ p and the
// same a for both, no more. A draw stands with probability R, so that a place which refuses the draft, with
// probability R, costs 1/R draws on average, and a tested place one.
type RejectionSampler struct {
	Limit int     // tokens of the answer; 0 is unbounded
	EOS   []int32 // ids that end an answer

	IDs    []int32 // of the answer so far; the one that ends it is the last
	Finish string  // "stop" or "length" when it is over

	Accepted    int  // of IDs, those that the draft gave
	Tested      int  // places
	Draws       int  // of the target
	Refused     bool // a token of the draft did not stand
	Approximate bool // the law is not exact: maxDraws was reached, or draws are not of the law that scores tell of

	at        Position
	needsDraw bool
	position  int // draws at this place
}

// TestDraft tests the draft's ids in order, each at its position, up to the first rejected one. random draws evenly from
// 0 … 1.
func (t *RejectionSampler) TestDraft(ids []int32, places []Position, random func() float64) {
	for i, id := range ids[:min(len(ids), len(places))] {
		if t.Finish != "" {
			return
		}
		t.Tested++
		if !places[i].acceptsDraft(id, random()) {
			t.Refused, t.needsDraw, t.at = true, true, places[i]
			return
		}
		t.Accepted++
		t.emit(id)
	}
}

// NeedsDraw reports whether a draw of the target after IDs is needed.
func (t *RejectionSampler) NeedsDraw() bool { return t.needsDraw }

// Draw takes a draw with its processed logprob, that is after temperature, top_k and top_p.
func (t *RejectionSampler) Draw(id int32, logprob Nats, random float64) {
	if !t.needsDraw {
		return
	}
	t.Draws++
	t.position++
	if t.at.kept.Probability(id) > unlike*math.Exp(float64(logprob)) {
		t.Approximate = true
	}
	if !t.at.acceptsDraw(id, logprob, random) {
		if t.position < maxDraws {
			return
		}
		t.Approximate = true
	}
	t.needsDraw = false
	t.emit(id)
}

// Append adds a token that the target wrote after IDs.
func (t *RejectionSampler) Append(id int32) { t.emit(id) }

func (t *RejectionSampler) emit(id int32) {
	t.IDs = append(t.IDs, id)
	switch {
	case slices.Contains(t.EOS, id):
		t.Finish = "stop"
	case t.Limit > 0 && len(t.IDs) >= t.Limit:
		t.Finish = "length"
	}
}
