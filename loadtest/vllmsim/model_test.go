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
		messages: []wireMessage{{Role: "user", Content: encode(text)}}})
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

// likeness is how a draft's greedy answers compare with the target's.
type likeness struct {
	agree  float64 // share of the answers that are the target's to the token
	auroc  float64 // of the worst token's probability, as a predictor of agreement
	mean   float64 // length of the target's answers
	strays float64 // places per answer where the draft's token is not what the target would have said there
}

func compare(t testing.TB, divergence, blind float64, n int) likeness {
	target, draft := NewModel(1, 0), NewDraft(1, divergence, blind)
	var c likeness
	var yes, no []float64
	for k := range n {
		prompt := chat(t, fmt.Sprintf("Please explain item %d of the list", k))
		want, _ := greedy(target, prompt, 5000)
		got, worst := greedy(draft, prompt, 5000)
		c.mean += float64(len(want)) / float64(n)
		if slices.Equal(got, want) {
			yes = append(yes, worst)
			continue
		}
		no = append(no, worst)
		target.Score(prompt, got, func(i int, d *Dist) bool {
			if d.Argmax() != got[i] {
				c.strays += 1 / float64(n)
			}
			return true
		})
	}
	c.agree = float64(len(yes)) / float64(n)
	for _, y := range yes {
		for _, x := range no {
			if y > x {
				c.auroc += 1 / float64(len(yes)*len(no))
			}
		}
	}
	return c
}

// At divergence 0.2 most whole answers are the target's own, and the draft's confidence tells which, but not perfectly.
func TestAtDivergenceAFifthMostAnswersAgreeAndConfidencePredictsIt(t *testing.T) {
	skipRaced(t)
	c := compare(t, 0.2, 0, 1000)
	t.Logf("%+v", c)
	if c.agree < 0.6 || c.agree > 0.75 {
		t.Errorf("%.3f of the answers agree, want 0.60 to 0.75", c.agree)
	}
	if c.mean < 150 || c.mean > 190 {
		t.Errorf("mean length %.1f, want 150 to 190", c.mean)
	}
	if c.auroc < 0.7 || c.auroc > 0.99 {
		t.Errorf("AUROC %.3f, want a true but imperfect predictor", c.auroc)
	}
}

// skipRaced leaves a test of one goroutine to make baselines: the race detector would only make
// it slow.
func skipRaced(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("left out under the race detector; make baselines runs it without")
	}
}

// The blinder the draft, the less its confidence says, while it is wrong as often.
func TestTheBlinderADraftTheLessItsConfidenceSays(t *testing.T) {
	skipRaced(t)
	for _, divergence := range []float64{0.1, 0.2, 0.5} {
		sees := compare(t, divergence, 0, 1000)
		half, blind := compare(t, divergence, 0.5, 1000), compare(t, divergence, 1, 1000)
		t.Logf("divergence %v:\n%+v\n%+v\n%+v", divergence, sees, half, blind)
		if !(sees.auroc-0.08 > half.auroc && half.auroc-0.08 > blind.auroc && blind.auroc > 0.42 && blind.auroc < 0.58) {
			t.Errorf("divergence %v: AUROC %.3f, %.3f, %.3f at blindness 0, 0.5, 1: want a fall to 0.5",
				divergence, sees.auroc, half.auroc, blind.auroc)
		}
		for _, c := range []likeness{half, blind} {
			if math.Abs(c.agree-sees.agree) > 0.06 {
				t.Errorf("divergence %v: %.3f of the answers agree, %.3f when it sees", divergence, c.agree, sees.agree)
			}
		}
	}
}

// Output of the Azure conversation trace of 2023: p50 129, p95 451 tokens.
func TestAnswersAreAsLongAsThoseOfThePublicTrace(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	const n = 4000
	m := NewModel(7, 0)
	for _, temperature := range []float64{0, 0.7} {
		var lengths []int
		for k := range n {
			w := NewWriter(m, chat(t, fmt.Sprintf("How long is answer %d?", k)), Sampling{Temperature: temperature, MaxTokens: 20000})
			tokens := 1
			for done := false; !done; tokens++ {
				_, done = w.Next()
			}
			lengths = append(lengths, tokens-1)
		}
		slices.Sort(lengths)
		p5, p50, p95, p99 := lengths[n/20], lengths[n/2], lengths[n*19/20], lengths[n*99/100]
		t.Logf("temperature %v: p5 %d, p50 %d, p95 %d, p99 %d", temperature, p5, p50, p95, p99)
		if math.Abs(float64(p50)/129-1) > 0.1 || math.Abs(float64(p95)/451-1) > 0.1 {
			t.Errorf("temperature %v: p50 %d and p95 %d, want 129 and 451 within a tenth", temperature, p50, p95)
		}
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
