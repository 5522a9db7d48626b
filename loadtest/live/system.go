package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/chaos"
	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

const undoTimeout = 30 * time.Second // for the settings of the case to be taken back

// The tiers, as pools are called in the gateway's configuration.
const (
	tierDraft  = "draft"
	tierTarget = "target"
)

// system is what a case runs against: everything that was started for it.
type system struct {
	opts     Options
	pools    []*pool
	replicas []*chaos.Gateway
	redis    *chaos.Server // nil: it is another one's
	redisURL string
	undo     func(context.Context) error // of the settings
	dir      string
	fail     context.CancelCauseFunc // told when a child ends by itself
	watchers sync.WaitGroup
}

// pool is a tier's simulators.
type pool struct {
	tier     string
	spec     *loadtest.Pool
	backends []*backend
}

// backend is one simulator.
type backend struct {
	sim *vllmsim.Server
}

// startSystem starts simulators, Redis and replicas, in this order. fail is told
// of children that end by themselves.
func startSystem(ctx context.Context, o Options, fail context.CancelCauseFunc) (*system, error) {
	s := &system{opts: o, fail: fail}
	whole := false
	defer func() { // also on a panic
		if !whole {
			s.stop()
		}
	}()
	if err := s.startAll(ctx); err != nil {
		return nil, err
	}
	whole = true
	return s, nil
}

func (s *system) startAll(ctx context.Context) (err error) {
	if s.dir, err = os.MkdirTemp("", "foregate-loadtest-"); err != nil {
		return err
	}
	if err := s.startPools(); err != nil {
		return err
	}
	if err := s.startSettings(ctx); err != nil {
		return err
	}
	for i := range max(1, s.opts.Case.Replicas) {
		r, err := s.startReplica(ctx, i)
		if err != nil {
			return err
		}
		s.replicas = append(s.replicas, r)
		s.watch(r.Process())
	}
	for _, r := range s.replicas {
		if err := obeys(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// startPools starts the simulators: one language, strayed from by the draft.
func (s *system) startPools() error {
	c := s.opts.Case
	if c.Draft != nil {
		if err := s.startPool(tierDraft, c.Draft); err != nil {
			return err
		}
	}
	return s.startPool(tierTarget, &c.Target)
}

func (s *system) startPool(tier string, spec *loadtest.Pool) error {
	p := &pool{tier: tier, spec: spec}
	s.pools = append(s.pools, p)
	o := vllmsim.Options{
		Model: spec.Model, Profile: spec.Profile, Seed: s.opts.Seed, TimeScale: s.opts.Scenario.TimeScale,
		BlocksOverride: spec.Blocks, MaxNumSeqs: spec.MaxSeqs, MaxBatchedTokens: spec.MaxBatchedTokens,
		Policy: spec.Policy, OOM: spec.OOM, Restart: spec.Restart,
		PromptTokensDetails: true,
	}
	if tier == tierDraft {
		o.Divergence, o.Blind = spec.Divergence, spec.Blind
	}
	for i := range max(1, spec.Count) {
		sim, err := vllmsim.New(o)
		if err != nil {
			return fmt.Errorf("pool %s: %w", tier, err)
		}
		p.backends = append(p.backends, &backend{sim: sim})
		if err := sim.Start("127.0.0.1:0"); err != nil {
			return fmt.Errorf("pool %s, backend %d: %w", tier, i, err)
		}
	}
	return nil
}

// startSettings finds or starts the Redis, and writes the case's settings into it.
func (s *system) startSettings(ctx context.Context) (err error) {
	if s.redisURL = s.opts.Redis; s.redisURL == "" {
		s.redis, err = chaos.NewServer(ctx, s.dir, "redis-server")
		if err != nil {
			return fmt.Errorf("%w, or use --redis URL", err)
		}
		s.redisURL = "redis://" + s.redis.Addr + "/0"
		s.watch(s.redis.Process())
	}
	if s.opts.Settings == nil {
		return errors.New("live: Options.Settings is nil: nobody can write the case's settings")
	}
	s.undo, err = s.opts.Settings(ctx, s.redisURL, scaled(s.opts.Case.Settings, s.opts.Scenario.TimeScale))
	return err
}

// watch makes the run fail when a child ends by itself.
func (s *system) watch(p *process.Process) {
	s.watchers.Go(func() {
		<-p.Exited
		if !p.Stopping() {
			s.fail(p.Died())
		}
	})
}

// stop ends everything that was started, in the order in which it depends on
// each other, and waits for it.
func (s *system) stop() {
	var ending sync.WaitGroup
	for _, r := range s.replicas {
		ending.Go(func() { _ = r.Process().Stop() }) // one that must be killed has served all the same
	}
	ending.Wait()
	if s.undo != nil {
		ctx, cancel := context.WithTimeout(context.Background(), undoTimeout)
		_ = s.undo(ctx) // a Redis that is away has nothing left of ours either, or its owner must see
		cancel()
	}
	if s.redis != nil {
		_ = s.redis.Stop() // as above
	}
	for _, p := range s.pools {
		for _, b := range p.backends {
			ending.Go(func() { _ = b.sim.Close() }) // nobody is left to miss an answer
		}
	}
	ending.Wait()
	s.watchers.Wait()
	if s.dir != "" {
		_ = os.RemoveAll(s.dir) // in the temporary folder; the system will get it
	}
}

// bases are the URLs that the client spreads its requests over.
func (s *system) bases() []string {
	var urls []string
	for _, r := range s.replicas {
		urls = append(urls, r.Base())
	}
	return urls
}

// targetBase is a --target as the client needs it: people copy base URLs with and
// without the /v1.
func targetBase(url string) string {
	return strings.TrimSuffix(strings.TrimRight(url, "/"), "/v1")
}
