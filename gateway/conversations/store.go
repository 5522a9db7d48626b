package conversations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/internal/redis/calls"
)

// Why there is no result.
var (
	ErrMissing = errors.New("there is no such response, or it has expired or was deleted")
	ErrAway    = errors.New("the store of responses does not answer")
	ErrLarge   = errors.New("the conversation is longer than a request may be")

	errGone     = fmt.Errorf("%w", ErrMissing) // the response before it is not there any more
	errUnsealed = fmt.Errorf("%w", ErrMissing) // a value does not open
)

const (
	// PutTime is the longest that the end of an answer waits until it is stored.
	PutTime = 250 * time.Millisecond
	// readTime is the longest that a request waits for what it goes on from: it cannot be answered without.
	readTime = time.Second
	// maxTurns bounds the responses of a conversation.
	maxTurns = 1024
	// maxInFlight bounds the calls in progress, and so the memory of their replies.
	maxInFlight = 16
)

// Config is the live configuration.
type Config struct {
	Enabled     bool          `setting:"responses.store,fleet" default:"on" choice:"on,off" doc:"'on': answers of the Responses API are stored, unless the request says 'store: false' or the tenant has 'forget_responses'. 'off': none are stored, and what was is not found."`
	TTL         time.Duration `setting:"responses.ttl,fleet" default:"1h" min:"1s" max:"720h" doc:"How long a stored conversation is kept after its last response."`
	TenantBytes int           `setting:"responses.max_tenant_bytes,fleet" default:"67108864" min:"1024" max:"1099511627776" doc:"Bytes of stored responses of a tenant, as they are in Redis. For new ones those conversations are forgotten whose last response is the oldest."`
}

// Options configures a [Store].
type Options struct {
	Redis  redis.UniversalClient                         // its timeouts should be about readTime
	Sealer *cache.Sealer                                 // nil is one without keys
	Epochs func(tenant string) (e cache.Epochs, ok bool) // of purges; not ok: they are not known, and nothing is stored or read; nil knows none
	Config func() Config                                 // live
	// MaxBytes bounds the items of a conversation, up to any of its responses, before they are sealed. Sealed, with all branches and
	// whole responses, a conversation may take twice as much.
	MaxBytes int64

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	Now        func() time.Time      // nil is time.Now
}

// Store keeps responses. It is safe for concurrent use. [Store.Run] must run.
type Store struct {
	o       Options
	scripts *calls.Runner
	asker   *calls.Client
	calls   *prometheus.CounterVec
	putTime time.Duration // PutTime; tests on a busy machine wait longer
}

// New returns a store; it does not use Redis before it is asked.
func New(o Options) *Store {
	if o.Sealer == nil {
		o.Sealer, _ = cache.NewSealer() // cannot fail without keys
	}
	if o.Epochs == nil {
		o.Epochs = func(string) (cache.Epochs, bool) { return cache.Epochs{}, true }
	}
	s := &Store{o: o, scripts: calls.NewRunner(o.Redis, putScript, readScript, deleteScript), calls: newCalls(o.Registerer), putTime: PutTime}
	s.asker = calls.New(calls.Options{
		Budget: func() time.Duration { return s.putTime }, Slots: maxInFlight, Now: o.Now,
		IsAnswer: func(err error) bool {
			return calls.Answered(err) || errors.Is(err, ErrMissing) || errors.Is(err, ErrLarge)
		},
		OnAway: func(err error) { o.Logger.Warn().Err(err).Msg("responses are not stored: Redis does not answer") },
	})
	return s
}

// Run tries a Redis that is left alone, until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	s.asker.Run(ctx, calls.Background{
		Probe: func(ctx context.Context) error {
			_, err := s.read(ctx, owner{}, ID{}, "")
			return err
		},
		Back: func(context.Context) { s.o.Logger.Info().Msg("responses are stored again") },
	})
	return nil
}

// Config is the configuration now.
func (s *Store) Config() Config { return s.o.Config() }

// Turn is one request and its answer.
type Turn struct {
	ID     ID
	Before ID // the response that it goes on from; the zero ID is none

	Input  []json.RawMessage // the items that it added
	Output json.RawMessage   // the items of the answer: an array
	Whole  []byte            // the response, as GET shows it
}

// record is a turn in Redis.
type record struct {
	Before string            `json:"before,omitempty"`
	Input  []json.RawMessage `json:"input"`
	Output json.RawMessage   `json:"output"`
}

// Put stores a turn, past of whose input was kept before, in bytes. It waits for PutTime at most, also if ctx has ended; an error
// says that the turn is not stored. One that is stored can be read at every replica at once.
func (s *Store) Put(ctx context.Context, tenant string, t Turn, past int64) error {
	epochs, ok := s.o.Epochs(tenant)
	if !ok {
		return s.end(callPut, ErrAway)
	}
	r, of, before := record{Input: t.Input, Output: t.Output}, owner{tenant, epochs}, ""
	if t.Before != (ID{}) {
		r.Before, before = t.Before.String(), of.field(t.Before)
	}
	items, err := jsonv2.Marshal(&r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) // without escapes for HTML, which would make texts longer
	switch {
	case err != nil:
		return s.end(callPut, err)
	case past+int64(len(items)) > s.o.MaxBytes:
		return s.end(callPut, ErrLarge)
	}
	c := s.o.Config()
	keys, conversation := of.keys(t.ID)
	args := []any{
		conversation, of.field(t.ID), before, s.o.Sealer.SealText(of.seal("items", t.ID), items), s.o.Sealer.SealText(of.seal("whole", t.ID), t.Whole),
		c.TTL.Milliseconds(), c.TenantBytes, 2 * s.o.MaxBytes, maxTurns,
	}
	late := calls.Late[string]{OnLate: func(ctx context.Context, _ string) { _, _ = s.remove(ctx, of, t.ID) }} // the client is told that it is not stored
	said, err := calls.Do(ctx, s.asker, func(ctx context.Context) (string, error) {
		return s.scripts.Run(ctx, putScript, keys, args...).Text()
	}, late)
	switch said {
	case "gone":
		err = errGone
	case "large":
		err = ErrLarge
	}
	return s.end(callPut, err)
}

// ends are the errors of calls, the narrower ones first, and their names in metrics. Those of Redis are told as ErrAway.
var ends = []struct {
	err, told error
	result    string
}{
	{errUnsealed, ErrMissing, "unsealed"}, {errGone, ErrMissing, "gone"}, {ErrMissing, ErrMissing, "missing"}, {ErrLarge, ErrLarge, "large"},
	{calls.ErrLate, ErrAway, "late"}, {calls.ErrAway, ErrAway, "away"}, {calls.ErrBusy, ErrAway, "away"}, {ErrAway, ErrAway, "away"},
}

// end counts a call that ended with an error or nil, and returns what its caller is told.
func (s *Store) end(call string, err error) error {
	if err == nil {
		s.calls.WithLabelValues(call, "ok").Inc()
		return nil
	}
	for _, e := range ends {
		if errors.Is(err, e.err) {
			s.calls.WithLabelValues(call, e.result).Inc()
			return e.told
		}
	}
	s.calls.WithLabelValues(call, "error").Inc() // Redis refused, or the connection failed
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// read reads the items of a conversation, or, with the field of a response, that response, all sealed.
func (s *Store) read(ctx context.Context, of owner, id ID, field string) ([]string, error) {
	keys, conversation := of.keys(id)
	return s.scripts.Run(ctx, readScript, keys, conversation, field).StringSlice()
}

// remove deletes a response.
func (s *Store) remove(ctx context.Context, of owner, id ID) (int, error) {
	keys, conversation := of.keys(id)
	return s.scripts.Run(ctx, deleteScript, keys, conversation, of.field(id)).Int()
}

// ask makes a call that a request waits for, for readTime at most.
func ask[T any](ctx context.Context, s *Store, tenant string, call func(context.Context, owner) (T, error)) (answer T, err error) {
	epochs, ok := s.o.Epochs(tenant)
	if !ok {
		return answer, ErrAway
	}
	return calls.Do(ctx, s.asker, func(ctx context.Context) (T, error) { return call(ctx, owner{tenant, epochs}) },
		calls.Late[T]{Extra: readTime - PutTime})
}

// Turns yields the turns up to a response, the last one first, without whole responses. A turn is opened when its time comes. An
// error is the last that is yielded.
func (s *Store) Turns(ctx context.Context, tenant string, id ID) iter.Seq2[Turn, error] {
	return func(yield func(Turn, error) bool) {
		c, err := ask(ctx, s, tenant, func(ctx context.Context, of owner) (conversation, error) {
			fields, err := s.read(ctx, of, id, "")
			return conversation{of, fields}, err
		})
		if err == nil {
			err = s.walk(c, id, yield)
		}
		if err := s.end(callRead, err); err != nil {
			yield(Turn{}, err)
		}
	}
}

// conversation is what Redis has of one: names and sealed values in turns.
type conversation struct {
	owner  owner
	fields []string
}

// walk goes back from a response to the first one, or until yield is false.
func (s *Store) walk(c conversation, id ID, yield func(Turn, error) bool) error {
	sealed := map[string]string{}
	for pair := range slices.Chunk(c.fields, 2) {
		if len(pair) == 2 {
			sealed[pair[0]] = pair[1]
		}
	}
	left := s.o.MaxBytes
	for range maxTurns + 1 {
		value, ok := sealed[c.owner.field(id)]
		if !ok {
			return ErrMissing
		}
		text, err := s.o.Sealer.OpenText(c.owner.seal("items", id), []byte(value), int(s.o.MaxBytes))
		var r record
		if err != nil || json.Unmarshal(text, &r) != nil {
			return errUnsealed
		}
		if left -= int64(len(text)); left < 0 {
			return ErrLarge
		}
		turn := Turn{ID: id, Input: r.Input, Output: r.Output}
		if id, ok = ParseID(r.Before); !ok && r.Before != "" {
			return errUnsealed
		}
		turn.Before = id
		if !yield(turn, nil) || r.Before == "" {
			return nil
		}
	}
	return ErrMissing
}

// Whole returns a response as it was answered.
func (s *Store) Whole(ctx context.Context, tenant string, id ID) ([]byte, error) {
	whole, err := ask(ctx, s, tenant, func(ctx context.Context, of owner) ([]byte, error) {
		values, err := s.read(ctx, of, id, of.field(id))
		switch {
		case err != nil:
			return nil, err
		case len(values) == 0:
			return nil, ErrMissing
		}
		text, err := s.o.Sealer.OpenText(of.seal("whole", id), []byte(values[0]), int(2*s.o.MaxBytes))
		if err != nil {
			return nil, errUnsealed
		}
		return text, nil
	})
	return whole, s.end(callRead, err)
}

// Delete deletes a response. Those that go on from a response can be read as before, but
// nothing goes on from them any more.
func (s *Store) Delete(ctx context.Context, tenant string, id ID) error {
	_, err := ask(ctx, s, tenant, func(ctx context.Context, of owner) (int, error) {
		n, err := s.remove(ctx, of, id)
		if err == nil && n == 0 {
			err = ErrMissing
		}
		return n, err
	})
	return s.end(callDelete, err)
}
