package accept

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// ownAt is a target that always says the next number, and 99 when it comes to its end.
func ownAt(place, end int) int32 {
	if place >= end {
		return 99
	}
	return int32(place)
}

// saidOf is what that target says of a block behind so many tokens, of answers that are so
// many long.
func saidOf(block []int32, at, end int) []Choice {
	out := make([]Choice, len(block))
	for i, id := range block {
		best := ownAt(at+i, end)
		out[i] = Choice{ID: best, TargetScore: TargetScore{Logprob: -0.5, Top: -0.1, First: id == best}}
		if id == best {
			out[i].Logprob = -0.1
		}
	}
	return out
}

func TestABlockIsKeptAsFarAsTheTargetWouldHaveWrittenIt(t *testing.T) {
	for name, c := range map[string]struct {
		block    []int32
		next     int32
		limit    int
		ids      []int32
		kept     int
		accepted int
		finish   string
	}{
		"all of it, and one more":         {[]int32{0, 1, 2}, 3, 0, []int32{0, 1, 2, 3}, 3, 3, ""},
		"all of it, the next not known":   {[]int32{0, 1, 2}, -1, 0, []int32{0, 1, 2}, 3, 3, ""},
		"none of it":                      {[]int32{7, 1, 2}, 3, 0, []int32{0}, 0, 0, ""},
		"its beginning":                   {[]int32{0, 7, 2}, 3, 0, []int32{0, 1}, 1, 1, ""},
		"up to the end":                   {[]int32{0, 1, 2, 3, 4, 99}, 5, 0, []int32{0, 1, 2, 3, 4, 99}, 6, 6, "stop"},
		"nothing behind the end":          {[]int32{0, 1, 2, 3, 4, 99, 6}, 7, 0, []int32{0, 1, 2, 3, 4, 99}, 6, 6, "stop"},
		"the target's end for a word":     {[]int32{0, 1, 2, 3, 4, 5}, 6, 0, []int32{0, 1, 2, 3, 4, 99}, 5, 5, "stop"},
		"no end where it would go on":     {[]int32{0, 99}, 2, 0, []int32{0, 1}, 1, 1, ""},
		"the limit within":                {[]int32{0, 1}, 2, 2, []int32{0, 1}, 2, 2, "length"},
		"the limit by the target's token": {[]int32{0, 1}, 2, 3, []int32{0, 1, 2}, 2, 2, "length"},
		"the limit by a correction":       {[]int32{0, 7}, 2, 2, []int32{0, 1}, 1, 1, "length"},
		"the end at the limit":            {[]int32{0, 1, 2, 3, 4, 99}, 5, 6, []int32{0, 1, 2, 3, 4, 99}, 6, 6, "stop"},
	} {
		e := BlockVerifier{Block: 8, Limit: c.limit, EOS: []int32{99}, Tie: -1}
		kept := e.Verify(c.block, saidOf(c.block, 0, 5), c.next)
		if kept != c.kept || e.Accepted != c.accepted || !slices.Equal(e.IDs, c.ids) || e.Finish != c.finish || e.Drafted != len(c.block) || e.Rounds != 1 {
			t.Errorf("%s: kept %d: %+v", name, kept, e)
		}
	}
}

func TestABlockIsNoLongerThanTheAnswerMayStillBe(t *testing.T) {
	for _, c := range []struct{ block, limit, have, want int }{
		{4, 0, 100, 4}, {0, 0, 0, 1}, {4, 10, 0, 4}, {4, 10, 8, 2}, {4, 10, 9, 1}, {16, 3, 0, 3}, {0, 3, 2, 1},
	} {
		e := BlockVerifier{Block: c.block, Limit: c.limit, IDs: make([]int32, c.have)}
		if got := e.NextBlock(); got != c.want {
			t.Errorf("%+v: %d are wanted", c, got)
		}
		if e.Finish = "stop"; e.NextBlock() != 0 {
			t.Errorf("%+v: more is wanted of an answer that is over", c)
		}
	}
}

// TestAnswersInTurnsAreTheTargetsOwn: whatever is drafted, in whatever blocks, and whether or
// not the next token is known.
func TestAnswersInTurnsAreTheTargetsOwn(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		end, limit := rng.IntN(40), rng.IntN(50)
		e := BlockVerifier{Block: rng.IntN(9), Limit: limit, EOS: []int32{99}, Tie: -1}
		for e.Finish == "" {
			at := len(e.IDs)
			block := make([]int32, 1+rng.IntN(e.NextBlock()))
			for i := range block {
				if block[i] = ownAt(at+i, end); rng.IntN(4) == 0 {
					block[i] = []int32{98, 99}[rng.IntN(2)]
				}
			}
			next := ownAt(at+len(block), end)
			if rng.IntN(3) == 0 {
				next = -1
			}
			if e.Verify(block, saidOf(block, at, end), next); len(e.IDs) == at {
				t.Fatal("a round that gives nothing would never end")
			}
		}
		n, finish := end+1, "stop"
		if limit > 0 && limit <= end {
			n, finish = limit, "length"
		}
		for i, id := range e.IDs {
			if id != ownAt(i, end) {
				t.Fatalf("%v is not the target's own, end %d", e.IDs, end)
			}
		}
		if len(e.IDs) != n || e.Finish != finish || e.Accepted > e.Drafted {
			t.Fatalf("end %d, limit %d: %+v", end, limit, e)
		}
	}
}

func TestATieStandsWithinTheToleranceOnly(t *testing.T) {
	for _, c := range []struct {
		tie, gap Nats
		want     int
	}{{-1, 0, 0}, {-1, 0.1, 0}, {0, 0, 1}, {0, 0.001, 0}, {0.125, 0.125, 1}, {0.125, 0.126, 0}} {
		e := BlockVerifier{Block: 1, Tie: c.tie}
		result := []Choice{{ID: 1, TargetScore: TargetScore{Logprob: -1 - c.gap, Top: -1}}}
		if kept := e.Verify([]int32{2}, result, -1); kept != c.want || e.IDs[0] != int32(1+c.want) {
			t.Errorf("tie %g, gap %g: kept %d, %v", c.tie, c.gap, kept, e.IDs)
		}
		if got := CheckGreedy([]TargetScore{result[0].TargetScore}, c.tie); got.Pass != (c.want == 1) || got.Kept != c.want {
			t.Errorf("tie %g, gap %g: greedy %+v", c.tie, c.gap, got)
		}
	}
}
