// Package operator knows the operators of a gateway: their tokens, the scopes of each token, and the sessions
// of operators who signed in at the console. Start at [Set]. It guarantees that comparing a token takes a
// time that reveals nothing about the known tokens, that a session is valid only while its token is
// unchanged, and that an ended session ends at once on this replica. Other replicas learn this through Redis,
// within two seconds. While Redis is unavailable they still accept the session; they are told when it
// returns. No error and no log line repeats a token.
package operator

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/files"
)

// Scope is a permission of a token.
type Scope string

// The scopes.
const (
	Metrics Scope = "metrics" // read the metrics
	Drain   Scope = "drain"   // see the backends' state, drain and undrain them
	Operate Scope = "operate" // everything
)

// Tokens parses a file of lines "NAME SCOPES SECRET", scopes separated by commas. Errors name the line.
func Tokens(file []byte) ([]files.Token, error) {
	return files.Tokens(file, string(Metrics), string(Drain), string(Operate))
}

// Operator is the owner of a token.
type Operator struct {
	Name string

	scopes   []string
	tokenMAC []byte // of the token, with the key of its Set
	key      []byte // signs this token's sessions while its line is unchanged
}

// HasScope reports whether the token has this scope.
func (o *Operator) HasScope(s Scope) bool {
	return slices.Contains(o.scopes, string(s)) || slices.Contains(o.scopes, string(Operate))
}

// Options configure a [Set].
type Options struct {
	Redis  redis.UniversalClient // shares ended sessions with the other replicas; nil: not shared
	Logger zerolog.Logger
	Now    func() time.Time // nil is time.Now
}

// Set holds all operators and their sessions. It is empty before [Set.Apply]. It is safe for concurrent use.
type Set struct {
	now         func() time.Time
	tokenKey    []byte // for comparing tokens
	operators   atomic.Pointer[[]*Operator]
	revocations revocations
}

// New makes an empty set.
func New(o Options) *Set {
	s := &Set{now: o.Now, tokenKey: make([]byte, sha256.Size), revocations: revocations{redis: o.Redis, log: o.Logger}}
	if s.now == nil {
		s.now = time.Now
	}
	_, _ = rand.Read(s.tokenKey) // never fails
	s.operators.Store(&[]*Operator{})
	return s
}

// Apply replaces the operators by those of a file, the only one of contents. Others are refused from then on,
// and so are sessions of changed tokens.
func (s *Set) Apply(contents [][]byte) error {
	if len(contents) != 1 {
		return errors.New("want one file")
	}
	tokens, err := Tokens(contents[0])
	if err != nil {
		return err
	}
	all := make([]*Operator, 0, len(tokens))
	for _, t := range tokens {
		all = append(all, &Operator{
			Name: t.Name, scopes: t.Scopes, tokenMAC: mac(s.tokenKey, string(t.Secret)),
			key: mac(t.Secret, "foregate admin sessions", t.Name, strings.Join(t.Scopes, ",")),
		})
	}
	s.operators.Store(&all)
	return nil
}

// Authenticate returns the operator of a token, nil if there is none. It compares the token with all known
// ones.
func (s *Set) Authenticate(token string) *Operator {
	proof := mac(s.tokenKey, token)
	var found *Operator
	for _, o := range *s.operators.Load() {
		if hmac.Equal(proof, o.tokenMAC) {
			found = o
		}
	}
	return found
}

// named returns the operator with this name, nil if there is none.
func (s *Set) named(name string) *Operator {
	for _, o := range *s.operators.Load() {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// mac is the HMAC of parts, encoded unambiguously.
func mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		_, _ = h.Write(size[:]) // a hash never fails
		_, _ = h.Write([]byte(p))
	}
	return h.Sum(nil)
}
