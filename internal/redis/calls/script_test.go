package calls_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/panics"
	"github.com/foregate/foregate/internal/redis/calls"
	"github.com/foregate/foregate/internal/redis/connect"
	"github.com/foregate/foregate/internal/redistest"
)

var (
	count = calls.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	wrong = calls.NewScript("local a = 1\nreturn redis.call('NONE', KEYS[1])")
)

const (
	key      = "foregate:{fg}:count"
	deadline = 10 * time.Second // of a busy machine
)

// each runs a test with a runner on each topology. forget makes every master forget the scripts.
func each(t *testing.T, test func(t *testing.T, client redis.UniversalClient, r *calls.Runner, forget func())) {
	t.Helper()
	redistest.EachTopology(t, func(t *testing.T, where connect.Options, masters []*redistest.Server) {
		o := connect.Background(where)
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = deadline, deadline, deadline, deadline
		c := connect.New(o)
		t.Cleanup(func() { _ = c.Close() })
		test(t, c, calls.NewRunner(c, count, wrong), func() {
			for _, m := range masters {
				m.Do("SCRIPT", "FLUSH")
			}
		})
	})
}

func TestAScriptThatRedisDoesNotKnowIsLoadedAndRunOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, _ redis.UniversalClient, r *calls.Runner, forget func()) {
		for want := range int64(3) {
			if got, err := r.Run(t.Context(), count, []string{key}, 1).Int64(); got != want+1 || err != nil {
				t.Errorf("call %d: %d, %v", want, got, err)
			}
			forget()
		}
	})
}

func TestOfAPipelineOnlyCallsOfUnknownScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, client redis.UniversalClient, r *calls.Runner, forget func()) {
		for round := range int64(3) {
			pipe := r.Pipeline()
			plain := pipe.Incr(t.Context(), key+":plain")
			first := count.EvalSha(t.Context(), pipe, []string{key}, 1)
			second := count.EvalSha(t.Context(), pipe, []string{key}, 10)
			refused := wrong.EvalSha(t.Context(), pipe, []string{key})
			if err := r.Exec(t.Context(), pipe, deadline); err != nil {
				t.Fatal(err)
			}
			a, _ := first.Int64()
			b, _ := second.Int64()
			if plain.Val() != round+1 || a != 11*round+1 || b != 11*round+11 || !calls.Answered(refused.Err()) {
				t.Errorf("round %d: %v, %v, %v, %v", round, plain, first, second, refused)
			}
			forget()
		}
		if n, err := client.Get(t.Context(), key).Int(); n != 33 || err != nil {
			t.Errorf("counted %d, %v", n, err)
		}
	})
}

func TestAPipelineThatCannotBeSentIsAnErrorWithinItsTime(t *testing.T) {
	t.Parallel()
	c := redistest.Client(t, redistest.Background(redistest.StartFrozen(t)))
	r := calls.NewRunner(c, count)
	pipe := r.Pipeline()
	cmd := count.EvalSha(t.Context(), pipe, []string{key}, 1)
	began := time.Now()
	if err := r.Exec(t.Context(), pipe, 50*time.Millisecond); err == nil || calls.Answered(err) || cmd.Err() == nil {
		t.Errorf("%v, %v", err, cmd.Err())
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("after %v", took)
	}
}

func TestEveryCommandOfAPipelineHasTheErrorOfARefusedUser(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "gate", "on", ">secret", "~*", "+@all")
	o := redistest.Background(s.Addr)
	o.Username, o.Password = "gate", "wrong"
	r := calls.NewRunner(redistest.Client(t, o))
	pipe := r.Pipeline()
	hash, number := pipe.HGetAll(t.Context(), key+":hash"), pipe.Incr(t.Context(), key)
	if err := r.Exec(t.Context(), pipe, deadline); err != nil || !calls.Answered(hash.Err()) || !calls.Answered(number.Err()) {
		t.Errorf("%v, %v, %v", err, hash, number)
	}
}

func TestAScriptThatMayNotBeLoadedIsToldAndStaysUnknown(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "gate", "on", "nopass", "~*", "+@all", "-script|load")
	o := redistest.Background(s.Addr)
	o.Username, o.Password = "gate", "any"
	r := calls.NewRunner(redistest.Client(t, o), count)
	pipe := r.Pipeline()
	cmd := count.EvalSha(t.Context(), pipe, []string{key}, 1)
	if err := r.Exec(t.Context(), pipe, deadline); !calls.Answered(err) || !strings.Contains(err.Error(), "NOPERM") || !calls.Unknown(cmd.Err()) {
		t.Errorf("%v, %v", err, cmd.Err())
	}
	if err := r.Run(t.Context(), count, []string{key}, 1).Err(); !calls.Answered(err) || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("%v", err)
	}
}

// landmine is a hook at which a node's client panics when scripts are loaded, as go-redis does at some replies.
type landmine struct{}

func (landmine) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (landmine) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (landmine) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { panic("a reply") }
}

func TestAClusterWhoseOtherNodesMakeTheClientPanicIsGivenTheScriptsAllTheSame(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	_, owner, _ := cluster.Of(key)
	var told atomic.Int64
	o := connect.Background(connect.Options{Network: "tcp", Cluster: true, Addrs: []string{owner.Addr}}).Cluster()
	o.ReadTimeout, o.DisableRoutingPolicies = deadline, true
	c := redis.NewClusterClient(o)
	t.Cleanup(func() { _ = c.Close() })
	c.OnNewNode(func(node *redis.Client) {
		if node.Options().Addr != owner.Addr {
			node.AddHook(landmine{})
		}
	})
	ctx := panics.OnPanic(t.Context(), func(error) { told.Add(1) })
	if got, err := calls.NewRunner(c, count).Run(ctx, count, []string{key}, 7).Int64(); got != 7 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	if told.Load() != 2 {
		t.Errorf("%d panics are told", told.Load())
	}
}

func TestANodeThatForgotTheScriptsIsGivenThemWhileAnotherIsFrozen(t *testing.T) {
	t.Parallel()
	well, frozen := redistest.Start(t), redistest.StartFrozen(t)
	o := connect.Background(connect.Options{Network: "tcp", Cluster: true}).Cluster()
	o.DisableRoutingPolicies = true
	o.ClusterSlots = func(context.Context) ([]redis.ClusterSlot, error) { // {fg} is slot 15821
		return []redis.ClusterSlot{
			{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: frozen}}},
			{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: well.Addr}}},
		}, nil
	}
	c := redis.NewClusterClient(o)
	t.Cleanup(func() { _ = c.Close() })
	r := calls.NewRunner(c, count)
	for call := range int64(2) { // the second time it had them
		well.Do("SCRIPT", "FLUSH")
		if got, err := r.Run(t.Context(), count, []string{key}, 1).Int64(); got != 2*call+1 || err != nil {
			t.Errorf("run %d: %d, %v", call, got, err)
		}
		well.Do("SCRIPT", "FLUSH")
		pipe := r.Pipeline()
		cmd := count.EvalSha(t.Context(), pipe, []string{key}, 1)
		err := r.Exec(t.Context(), pipe, time.Second)
		if got, _ := cmd.Int64(); got != 2*call+2 || err != nil {
			t.Errorf("pipeline %d: %d, %v", call, got, err)
		}
	}
}
