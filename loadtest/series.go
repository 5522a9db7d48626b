package loadtest

import "time"

const (
	seriesLen   = 240                    // buckets at most
	firstBucket = 250 * time.Millisecond // width to begin with
)

// bucket is what fell into one span of the run.
type bucket struct {
	arrived                 int // by when they should have been sent
	answered, shed, errored int // by when they ended
	tokens                  int // of the answers that ended
	ttft                    latency
}

func (b *bucket) merge(o *bucket) {
	b.arrived += o.arrived
	b.answered += o.answered
	b.shed += o.shed
	b.errored += o.errored
	b.tokens += o.tokens
	b.ttft.merge(&o.ttft)
}

// series is a course of events over time. Its buckets are all of one width,
// which doubles whenever there would be more than [seriesLen] of them: a run of
// any length takes the same room.
type series struct {
	from    time.Duration // begin of the first
	last    time.Duration // the latest time asked for
	width   time.Duration
	buckets []bucket
}

// at is the bucket a time falls into.
func (s *series) at(t time.Duration) *bucket {
	if s.width == 0 {
		s.width = firstBucket
	}
	s.last = max(s.last, t)
	t = max(t-s.from, 0)
	for t/s.width >= seriesLen {
		s.buckets = pairs(s.buckets, 2)
		s.width *= 2
	}
	for int(t/s.width) >= len(s.buckets) {
		s.buckets = append(s.buckets, bucket{ttft: latency{digits: 2}})
	}
	return &s.buckets[t/s.width]
}

// pairs merges each n neighbours into one.
func pairs(in []bucket, n int) []bucket {
	out := make([]bucket, (len(in)+n-1)/n)
	for i := range in {
		if i%n == 0 {
			out[i/n].ttft.digits = in[i].ttft.digits
		}
		out[i/n].merge(&in[i])
	}
	return out
}

// instant is what a plot shows of a span of the run.
type instant struct {
	From, To                                time.Duration
	Arrived, Answered, Shed, Errors, Tokens float64 // per second
	TTFT50, TTFT95                          float64 // ms
	Timed                                   int     // answers that TTFT50 and TTFT95 are of
}

// instants is the series in at most n spans. The last ends with the run, and is
// at least half as long as the others, for a rate over less would say little.
func (s *series) instants(n int) []instant {
	if len(s.buckets) == 0 {
		return nil
	}
	group := (len(s.buckets) + n - 1) / n
	width := s.width * time.Duration(group)
	merged, end := pairs(s.buckets, group), max(s.last, s.from+1)
	if k := len(merged) - 1; k > 0 && end-s.from-width*time.Duration(k) < width/2 {
		merged[k-1].merge(&merged[k])
		merged = merged[:k]
	}
	out := []instant{}
	for i := range merged {
		from := s.from + time.Duration(i)*width
		to := from + width
		if i > 0 && i == len(merged)-1 {
			to = max(end, from+width/2)
		}
		out = append(out, merged[i].instant(from, to))
	}
	return out
}

// instant is the bucket as what happened from one time to another.
func (b *bucket) instant(from, to time.Duration) instant {
	q, per := b.ttft.at(0.5, 0.95), 1/(to-from).Seconds()
	return instant{
		From: from, To: to,
		Arrived: float64(b.arrived) * per, Answered: float64(b.answered) * per,
		Shed: float64(b.shed) * per, Errors: float64(b.errored) * per,
		Tokens: float64(b.tokens) * per,
		TTFT50: q[0], TTFT95: q[1], Timed: b.ttft.count(),
	}
}
