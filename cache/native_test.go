package cache

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/embedded"
	"github.com/foregate/foregate/internal/redis/script"
	"github.com/foregate/foregate/internal/redistest"
)

// step is one command of a model: the same for a server and for the Redis inside the process.
type step func(ctx context.Context, c redis.UniversalClient, r *script.Runner) any

// longTTL is longer than a test on a busy machine, in ms.
const longTTL = 3_600_000

// anyStep is a random step on few keys, of which some have values of other types.
func anyStep(chance *rand.Rand) (name string, do step) {
	k := keyNo(chance.IntN(2))
	lease := leaseOf(k)
	lease.Token = fmt.Sprint("token", chance.IntN(2))
	key := [...]string{k.Name(), lease.Name, lease.chunks()}[chance.IntN(3)]
	run := func(name string, s *script.Script, keys []string, args ...any) (string, step) {
		return fmt.Sprint(name, keys, args), func(ctx context.Context, _ redis.UniversalClient, r *script.Runner) any {
			return result(r.Run(ctx, s, keys, args...))
		}
	}
	plain := func(args ...any) (string, step) {
		return fmt.Sprint(args...), func(ctx context.Context, c redis.UniversalClient, _ *script.Runner) any {
			return c.Do(ctx, args...).Err() == nil
		}
	}
	keys := []string{lease.Name, lease.chunks()}
	switch chance.IntN(12) {
	case 0, 1, 2:
		return run("look", lookScript, []string{k.Name(), lease.Name, lease.chunks()}, 10, lease.Token, longTTL)
	case 3:
		return run("look", lookScript, []string{k.Name()}, 10)
	case 4:
		return run("beat", beatScript, keys, lease.Token, longTTL)
	case 5:
		return run("publish", publishScript, keys, lease.Token, 1, "piece", maxPieces)
	case 6:
		return run("end", endScript, keys, lease.Token, longTTL, 3, [...]string{"", "entry", askWhether}[chance.IntN(3)])
	case 7:
		return plain("SET", key, [...]string{"", "value", "a long value"}[chance.IntN(3)])
	case 8:
		return plain("SET", key, "value", "PX", 60_000)
	case 9:
		return plain("RPUSH", key, "x")
	case 10:
		return plain("XADD", key, "*", "x", "y")
	}
	return plain("UNLINK", key)
}

// result is a script's reply, of which a time to live is rounded, and errors are not told apart.
func result(cmd *redis.Cmd) any {
	reply, err := cmd.Result()
	if err != nil {
		return "an error"
	}
	if list, ok := reply.([]any); ok && len(list) == 3 && list[0] == string(FoundHit) {
		if n, ok := list[2].(int64); ok && n > 0 {
			list[2] = "lives for a while"
		}
	}
	return fmt.Sprint(reply)
}

// state is what a key holds, without ids and times.
func state(ctx context.Context, c redis.UniversalClient, key string) string {
	kind := c.Type(ctx, key).Val()
	ends := c.PTTL(ctx, key).Val() > 0
	var elements []map[string]any
	for _, m := range c.XRange(ctx, key, "-", "+").Val() {
		elements = append(elements, m.Values)
	}
	return fmt.Sprint(kind, ends, c.Get(ctx, key).Val(), elements)
}

func TestScriptsInGoDoWhatTheirLuaDoes(t *testing.T) {
	server := redistest.Start(t).Client
	const rounds, steps = 20, 60
	for seed := range uint64(rounds) {
		must(t, server.FlushAll(t.Context()).Err())
		inside, stop := embedded.OpenAnswers(NativeScripts())
		chance := rand.New(rand.NewPCG(seed, 22))
		var past []string
		for range steps {
			name, do := anyStep(chance)
			past = append(past, name)
			want := do(t.Context(), server, leaseAndLook(server))
			got := do(t.Context(), inside, leaseAndLook(inside))
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: %v, want %v, after %q", seed, got, want, past)
			}
			for i := range 2 {
				l := leaseOf(keyNo(i))
				for _, key := range []string{keyNo(i).Name(), l.Name, l.chunks()} {
					if got, want := state(t.Context(), inside, key), state(t.Context(), server, key); got != want {
						t.Fatalf("seed %d: %s holds %s, want %s, after %q", seed, key, got, want, past)
					}
				}
			}
		}
		stop()
	}
}

// leaseAndLook runs all scripts of requests.
func leaseAndLook(c redis.UniversalClient) *script.Runner {
	return script.NewRunner(c, lookScript, beatScript, publishScript, endScript)
}

func TestAStoreInsideTheProcessKeepsAndFinds(t *testing.T) {
	client, stop := embedded.OpenAnswers(NativeScripts())
	defer stop()
	s := NewStore(Options{Redis: client, Budget: patient})
	defer running(t, s)()
	const keys = 300
	if found := lookAtOnce(t, s, keys, leaseOf); found[FoundLead] != keys {
		t.Errorf("before: %v", found)
	}
	keepMany(t, s, keys)
	large := numbered(keys)
	e := &Entry{Answer: make([]byte, 500_000)}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range e.Answer {
		e.Answer[i] = byte(r.Uint32())
	}
	e.Created = time.UnixMilli(time.Now().UnixMilli())
	keep(t, s, large, e)
	if got := wantFound(t, s, large, nil, FoundHit); !reflect.DeepEqual(got, e) {
		t.Error("a large answer comes back otherwise")
	}
}
