package shared

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers/compare"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var pair = compare.Pair{Route: "chat", Kind: compare.Canary, Incumbent: "a", Candidate: "b", Shares: [2]float64{0.95, 0.05}}

// lossy loses the replies of scripts.
type lossy struct{ on bool }

func (l *lossy) DialHook(next redis.DialHook) redis.DialHook { return next }
func (l *lossy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if l.on && cmd.Name() == "evalsha" && err == nil {
			err = context.DeadlineExceeded
			cmd.SetErr(err)
		}
		return err
	}
}
func (l *lossy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestReplicasAddUpAndALostReplyIsCountedOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, c *redis.Client) {
		ctx := t.Context()
		hook := &lossy{}
		other := redistest.Client(t, redistest.Background(addr))
		other.AddHook(hook)
		one, two := New(Options{Client: c}), New(Options{Client: other})
		for _, s := range []*Store{one, two} {
			s.AddAnswer(pair, compare.Answer{Side: compare.Candidate, Total: time.Second, Tokens: 3, USD: 0.25})
			s.AddOpinion(pair, compare.Incumbent, true)
			s.AddMirror(pair, 7, 8, 0.5, "")
		}
		if err := one.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if err := two.Flush(ctx); err != nil { // loads nothing anew, so the next call is one EVALSHA
			t.Fatal(err)
		}
		two.AddUnanswered(pair, compare.Incumbent, compare.Left)
		hook.on = true
		if two.Flush(ctx) == nil {
			t.Fatal("the lost reply is no error")
		}
		hook.on = false
		if err := two.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		all, err := one.Read(ctx, "chat")
		b := all[pair]
		if err != nil || b == nil || b.Candidate.Answers != 2 || b.Candidate.USD.Sum != 0.5 || b.Incumbent.Opinions.Good != 2 ||
			b.Incumbent.Unanswered[compare.Left] != 1 || b.Mirror != (compare.MirrorCost{Made: 2, Generated: 14, Scored: 16, USD: 1}) {
			t.Fatalf("%v: %+v", err, b)
		}
		if err := one.Reset(ctx, pair); err != nil {
			t.Fatal(err)
		}
		if all, err := one.Read(ctx, ""); err != nil || len(all) != 0 {
			t.Errorf("after the reset: %v, %v", all, err)
		}
	})
}

func TestPairsAreBounded(t *testing.T) {
	redistest.Each(t, func(t *testing.T, _ string, c *redis.Client) {
		for i := range 2 {
			s := New(Options{Client: c})
			for j := range MaxPairs + 5 {
				s.AddUnanswered(compare.Pair{Route: fmt.Sprint(i, j)}, compare.Candidate, compare.Failed)
			}
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if all, err := New(Options{Client: c}).Read(t.Context(), ""); err != nil || len(all) != MaxPairs {
			t.Errorf("%d pairs, %v", len(all), err)
		}
	})
}

func FuzzFieldsOfRedis(f *testing.F) {
	f.Add("i|answers", "1")
	f.Add("c|usd.sum", "NaN")
	f.Fuzz(func(t *testing.T, name, value string) {
		b, err := parse(map[string]string{name: value})
		if err != nil {
			return
		}
		each(b, func(name string, v *float64) {
			if !(*v >= 0) {
				t.Errorf("%s is %v", name, *v)
			}
		})
	})
}
