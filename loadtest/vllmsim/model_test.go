package vllmsim

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// chat renders one user message with a generation prompt.
func chat(t testing.TB, text string) []int32 {
	t.Helper()
	ids, err := DefaultTokenizer().render(templateInput{generation: true,
		messages: []wireMessage{{Role: "user", Content: appendQuoted(nil, text)}}})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// greedy generates at temperature 0 until the end of the answer, at most limit tokens.
func greedy(m *Model, prompt []int32, limit int) (ids []int32, worst float64) {
	cur := m.cursorAt(prompt)
	var d Dist
	worst = 1
	for len(ids) < limit {
		m.fill(&cur, &d)
		id := d.Argmax()
		worst = min(worst, d.Top[0].P)
		ids = append(ids, id)
		if id == tokEOT {
			break
		}
		cur.push(id)
	}
	return ids, worst
}

func TestDistributionsSumToOneAndNextIsAPureFunctionOfIDs(t *testing.T) {
	for _, div := range []float64{0, 0.2, 1} {
		m := NewModel(3, div)
		for k := range 40 {
			ctx := chat(t, fmt.Sprintf("question %d about 数据 and 😀", k))
			for range 60 {
				d := m.Next(ctx)
				sum := d.Tail * float64(d.Vocab-len(d.Top))
				for _, c := range d.Top {
					sum += c.P
				}
				if math.Abs(sum-1) > 1e-9 {
					t.Fatalf("probabilities sum to %v", sum)
				}
				if d.Rank(d.Argmax()) != 1 {
					t.Fatalf("the argmax has rank %d", d.Rank(d.Argmax()))
				}
				ctx = append(ctx, d.Argmax())
			}
		}
	}
}

func TestADraftOfDivergenceZeroIsTheTarget(t *testing.T) {
	ctx := chat(t, "hello")
	a, b, other := NewModel(9, 0).Next(ctx), NewModel(9, 0).Next(ctx), NewModel(9, 0.3).Next(ctx)
	if !slices.Equal(a.Top, b.Top) {
		t.Error("the same seed gave two distributions")
	}
	if slices.Equal(a.Top, other.Top) {
		t.Error("a diverging draft has the target's distribution")
	}
}

// At divergence 0.2 most whole answers are the target's own, and the draft's confidence tells which, but not perfectly.
func TestAtDivergenceAFifthMostAnswersAgreeAndConfidencePredictsIt(t *testing.T) {
	const n = 400
	target, draft := NewModel(1, 0), NewModel(1, 0.2)
	var agree, tokens, confident, confidentWrong int
	var yes, no []float64
	for k := range n {
		prompt := chat(t, fmt.Sprintf("Please explain item %d of the list", k))
		want, _ := greedy(target, prompt, 2000)
		got, worst := greedy(draft, prompt, 2000)
		tokens += len(want)
		same := slices.Equal(got, want)
		if same {
			agree++
			yes = append(yes, worst)
		} else {
			no = append(no, worst)
		}
		if worst > 0.6 {
			confident++
			if !same {
				confidentWrong++
			}
		}
	}
	var wins float64
	for _, y := range yes {
		for _, x := range no {
			if y > x {
				wins++
			}
		}
	}
	auroc := wins / float64(len(yes)*len(no))
	all := append(slices.Clone(yes), no...)
	slices.Sort(all)
	t.Logf("worst-token confidence, deciles: %.2f %.2f %.2f %.2f %.2f", all[n/10], all[n*3/10], all[n*35/100], all[n*4/10], all[n/2])
	t.Logf("agree %.3f, mean length %.1f, confident %.3f, of them wrong %d, AUROC %.3f",
		float64(agree)/n, float64(tokens)/n, float64(confident)/n, confidentWrong, auroc)
	if share := float64(agree) / n; share < 0.6 || share > 0.75 {
		t.Errorf("%.3f of the answers agree, want 0.60 to 0.75", share)
	}
	if mean := float64(tokens) / n; mean < 150 || mean > 195 {
		t.Errorf("mean length %.1f, want 150 to 195: the mean of a lognormal through 129 and 451 is 172", mean)
	}
	if auroc < 0.7 || auroc > 0.99 {
		t.Errorf("AUROC %.3f, want a true but imperfect predictor", auroc)
	}
}

func TestAnswersEncodeToTheIDsTheyWereMadeOf(t *testing.T) {
	tok, m := DefaultTokenizer(), NewModel(5, 0)
	for k := range 300 {
		ids, _ := greedy(m, chat(t, fmt.Sprintf("prompt %d", k)), 1000)
		ids = ids[:len(ids)-1]
		if again := tok.Encode(tok.Decode(ids, false)); !slices.Equal(again, ids) {
			t.Fatalf("answer %d encodes differently: %q", k, tok.Decode(ids, false))
		}
	}
}

func TestSamplingFollowsTheDistribution(t *testing.T) {
	m := NewModel(2, 0)
	ctx := chat(t, "chi square")
	d := m.Next(ctx)
	for len(d.Top) < 8 || d.Top[0].P > 0.6 { // a fork
		ctx = append(ctx, d.Argmax())
		d = m.Next(ctx)
	}
	for _, temp := range []float64{1, 0.7, 1.6} {
		const n = 20000
		s := sampling{temperature: temp, topP: 1, seed: 42}
		counts := map[int32]int{}
		for i := range n {
			counts[s.pick(&d, i, nil)]++
		}
		want, rest := make([]float64, len(d.Top)), 0.0
		tail := math.Pow(d.Tail, 1/temp) * float64(d.Vocab-len(d.Top))
		sum := tail
		for i, c := range d.Top {
			want[i] = math.Pow(c.P, 1/temp)
			sum += want[i]
		}
		var chi float64
		left := n
		for i, c := range d.Top {
			e := want[i] / sum * n
			if e < 5 {
				rest += e
				continue
			}
			left -= counts[c.ID]
			chi += (float64(counts[c.ID]) - e) * (float64(counts[c.ID]) - e) / e
		}
		rest += tail / sum * n
		chi += (float64(left) - rest) * (float64(left) - rest) / max(rest, 1)
		if chi > 60 { // 24 degrees of freedom: 51 is the 99.9th percentile
			t.Errorf("temperature %v: chi-square %.1f", temp, chi)
		}
	}
}

func TestTruncationKeepsTheNucleus(t *testing.T) {
	d := Dist{Top: []Cand{{1, 0.5}, {2, 0.3}, {3, 0.15}}, Tail: 0.05 / 997, Vocab: 1000}
	cases := []struct {
		name string
		s    sampling
		want int
	}{
		{"top_k 1 keeps one", sampling{temperature: 1, topP: 1, topK: 1}, 1},
		{"top_p 0.5 keeps one", sampling{temperature: 1, topP: 0.5}, 1},
		{"top_p 0.51 keeps two", sampling{temperature: 1, topP: 0.51}, 2},
		{"min_p 0.5 keeps two", sampling{temperature: 1, topP: 1, minP: 0.5}, 2},
		{"temperature 0 keeps the argmax", sampling{}, 1},
	}
	for _, c := range cases {
		seen := map[int32]bool{}
		for i := range 3000 {
			seen[c.s.pick(&d, i, nil)] = true
		}
		if len(seen) != c.want {
			t.Errorf("%s: %d tokens came up", c.name, len(seen))
		}
	}
}

func BenchmarkNext(b *testing.B) {
	m := NewModel(1, 0.2)
	cur := m.cursorAt(chat(b, "hello"))
	d := Dist{Top: make([]Cand, 0, numCands)}
	for b.Loop() {
		m.fill(&cur, &d)
		cur.push(d.Argmax())
	}
}

// answers generates n answers of a draft and of its target at temperature 0. It returns the least confidence of each
// draft, and whether it is the target's own answer.
func answers(t *testing.T, draft *Model, n int) (worst []float64, same []bool, lengths []float64) {
	t.Helper()
	target := &Model{seed: draft.seed, tok: draft.tok}
	for k := range n {
		prompt := chat(t, fmt.Sprintf("Please explain item %d of the list", k))
		want, _ := greedy(target, prompt, lengthMost)
		got, w := greedy(draft, prompt, lengthMost)
		worst, same, lengths = append(worst, w), append(same, slices.Equal(got, want)), append(lengths, float64(len(want)))
	}
	return worst, same, lengths
}

// auroc is the chance that an answer which is the target's own was the more confident of two.
func auroc(score []float64, good []bool) float64 {
	var wins, pairs float64
	for i := range score {
		for j := range score {
			if !good[i] || good[j] {
				continue
			}
			pairs++
			switch {
			case score[i] > score[j]:
				wins++
			case score[i] == score[j]:
				wins += 0.5
			}
		}
	}
	return wins / pairs
}

func TestTheBlinderADraftTheLessItsConfidenceSays(t *testing.T) {
	const n = 600
	last := 1.0
	for _, c := range []struct{ blind, low, high float64 }{{0, 0.8, 0.95}, {0.5, 0.65, 0.85}, {1, 0.45, 0.68}} {
		worst, same, _ := answers(t, NewDraft(1, 0.2, c.blind), n)
		agree := 0.0
		for _, s := range same {
			if s {
				agree += 1.0 / n
			}
		}
		got := auroc(worst, same)
		t.Logf("blind %g: agree %.3f, AUROC %.3f", c.blind, agree, got)
		if got < c.low || got > c.high || got >= last {
			t.Errorf("blind %g: AUROC %.3f, want %g to %g and below %.3f", c.blind, got, c.low, c.high, last)
		}
		if agree < 0.58 || agree > 0.75 {
			t.Errorf("blind %g: %.3f of the answers agree; the dial should not change how often it errs", c.blind, agree)
		}
		last = got
	}
}

func TestAnswersAreAsLongAsThoseOfThePublicTrace(t *testing.T) {
	_, _, lengths := answers(t, NewDraft(1, 0, 0), 3000)
	slices.Sort(lengths)
	p50, p95 := lengths[len(lengths)/2], lengths[len(lengths)*95/100]
	t.Logf("p50 %g, p95 %g", p50, p95)
	if math.Abs(p50/129-1) > 0.1 || math.Abs(p95/451-1) > 0.1 {
		t.Errorf("p50 %g, p95 %g tokens; want 129 and 451 within a tenth", p50, p95)
	}
}
