package calibrate

// maxPoints bounds the points of a reliability curve.
const maxPoints = 50

// Point says of the drafts that score about the same how many were expected to be good and how
// many were. Of points in the order of their scores, Good never falls.
type Point struct {
	Score    float64 // least of them, log odds
	Expected float64 // mean probability that the score gives, 0 … 1
	Good     float64 // share that was good, 0 … 1
	N        int     // drafts
}

// isotonic is the rising curve that is nearest to what was seen: pooling adjacent violators (Ayer
// et al. 1955) over bins of about the same number of drafts. Drafts of the same score share a bin.
func isotonic(scores []float64, good []bool) []Point {
	order := byScore(scores)
	size := (len(order) + maxPoints - 1) / maxPoints
	var pools []block
	for from := 0; from < len(order); {
		to := min(from+size, len(order))
		for to < len(order) && scores[order[to]] == scores[order[to-1]] {
			to++
		}
		p := block{minScore: scores[order[from]], n: to - from}
		for _, i := range order[from:to] {
			p.expected += sigmoid(scores[i])
			p.good += indexOf(good[i])
		}
		for len(pools) > 0 && pools[len(pools)-1].share() >= p.share() {
			last := pools[len(pools)-1]
			p = block{last.minScore, last.expected + p.expected, last.good + p.good, last.n + p.n}
			pools = pools[:len(pools)-1]
		}
		pools, from = append(pools, p), to
	}
	curve := make([]Point, len(pools))
	for i, p := range pools {
		curve[i] = Point{Score: p.minScore, Expected: p.expected / float64(p.n), Good: p.share(), N: p.n}
	}
	return curve
}

// block is a point under way: sums, so that shares of 0 and 1 come out as such.
type block struct {
	minScore, expected float64
	good, n            int
}

func (p *block) share() float64 { return float64(p.good) / float64(p.n) }
