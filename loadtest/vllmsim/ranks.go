package vllmsim

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// This file is data parallelism: several engines behind one address, each with its own scheduler, KV cache and prefix cache
// (vLLM's --data-parallel-size with its internal load balancer).

// balanceEvery is how old the engines' counts may be that the balancer goes by: vLLM's coordinator publishes them every
// 100 ms (vllm/v1/engine/coordinator.py). Of the profile's time.
const balanceEvery = 100 * time.Millisecond

// balancer picks an engine as vLLM's API server does (DPLBAsyncMPClient in vllm/v1/engine/core_client.py, as quoted in
// public copies of it): least waiting*4+running, the lowest rank of equals, by counts up to balanceEvery old in which each
// request sent since then waits. vLLM's counts are those of the last publication; these are read when they have grown old.
type balancer struct {
	every time.Duration // on the wall's clock

	mu     sync.Mutex
	at     time.Time
	counts []struct{ waiting, running int }
}

// pick chooses the engine of one sequence.
func (b *balancer) pick(engines []*engine) *engine {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); b.counts == nil || now.Sub(b.at) >= b.every {
		b.at, b.counts = now, b.counts[:0]
		for _, e := range engines {
			st := e.state()
			b.counts = append(b.counts, struct{ waiting, running int }{st.Waiting, st.Running})
		}
	}
	best, minimum := 0, 0
	for i, c := range b.counts {
		if score := c.waiting*4 + c.running; i == 0 || score < minimum {
			best, minimum = i, score
		}
	}
	b.counts[best].waiting++
	return engines[best]
}

// rank reads the header that sends a request to one engine; -1 leaves it to the balancer. As in vLLM, what is no integer
// is no header, and a rank that there is not is found by the engine's input processor: under stream after the 200.
func (s *Server) rank(header string) (int, *apiError) {
	r, err := strconv.Atoi(header)
	if err != nil {
		return -1, nil
	}
	if n := s.opts.DataParallelSize; r < 0 || r >= n {
		return -1, refused(fmt.Sprintf("data_parallel_rank %d is out of range [0, %d).", r, n))
	}
	return r, nil
}

// preflight refuses a request before anything is done for it, when an engine is dead.
func (l *life) preflight() *apiError {
	for _, e := range l.engines {
		if err := e.preflight(); err != nil {
			return err
		}
	}
	return nil
}

// submit queues jobs in the engine of the given rank, or each where the balancer puts it, also the choices of one prompt.
func (l *life) submit(jobs []*job, rank int) {
	for _, j := range jobs {
		if j.engine = l.engines[max(rank, 0)]; len(l.engines) > 1 && rank < 0 {
			j.engine = l.balancer.pick(l.engines)
		}
	}
	l.each(jobs, (*engine).add)
}

// abort takes jobs out, wherever they are.
func (l *life) abort(jobs []*job) { l.each(jobs, (*engine).abort) }

// each hands every engine its jobs.
func (l *life) each(jobs []*job, do func(*engine, []*job)) {
	if len(l.engines) == 1 {
		do(l.engines[0], jobs)
		return
	}
	for _, e := range l.engines {
		var its []*job
		for _, j := range jobs {
			if j.engine == e {
				its = append(its, j)
			}
		}
		if len(its) > 0 {
			do(e, its)
		}
	}
}

// run drives the engines until ctx ends or one dies, which takes the process and so the others with it.
func (l *life) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, e := range l.engines {
		all.Go(func() {
			e.run(ctx)
			if e.dead() {
				l.kill()
			}
		})
	}
	all.Wait()
}

// kill makes every engine die before its next step.
func (l *life) kill() {
	for _, e := range l.engines {
		e.kill()
	}
}

// dead reports whether an engine has died.
func (l *life) dead() bool {
	for _, e := range l.engines {
		if e.dead() {
			return true
		}
	}
	return false
}

// outOfMemory reports whether a full cache killed one.
func (l *life) outOfMemory() bool {
	for _, e := range l.engines {
		if e.outOfMemory() {
			return true
		}
	}
	return false
}

// ail makes the engines as slow as the fault says, or hang.
func (l *life) ail(f *Fault) {
	for _, e := range l.engines {
		e.setSlow(f.Slow)
		e.setHung(f.Hang == hangProcess)
	}
}

func (l *life) state() []EngineState {
	out := make([]EngineState, len(l.engines))
	for i, e := range l.engines {
		out[i] = e.state()
	}
	return out
}

// setHung stops the step under way, and any that comes after it, from ending; or lets it go on where it stood.
func (e *engine) setHung(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if on == e.hung {
		return
	}
	now := e.now()
	if on {
		e.since = now
	} else if e.step != nil {
		e.step.End += now - max(e.since, min(e.step.Start, now))
	}
	e.hung = on
	signal(e.other)
}
