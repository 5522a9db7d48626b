// Package operator knows who the operators of a gateway are: the tokens that they show, what each token may do,
// and the sessions of those who signed in at the console. Start at [Set].
//
// It guarantees that a token is compared in a time that tells nothing of any, that a session is good for no longer
// than its token stays as it is, and that a session which was ended is over here at once. Other replicas learn
// of the end through Redis, within two seconds. While Redis is away they do not, and take the session until it is
// back; what was ended meanwhile is then told. No error and no log line repeats a token.
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

	"github.com/foregate/foregate/gateway/secrets"
)

// Scope is something that a token may be good for.
type Scope string

// The scopes that there are.
const (
	Metrics Scope = "metrics" // read the metrics
	Drain   Scope = "drain"   // see how backends stand, and drain and undrain them
	Operate Scope = "operate" // everything
)

// Tokens reads a file of lines "NAME SCOPES SECRET", scopes parted by commas. Errors name the line.
func Tokens(file []byte) ([]secrets.Token, error) {
	return secrets.Tokens(file, string(Metrics), string(Drain), string(Operate))
}

// Operator is whoever shows a token.
type Operator struct {
	Name string

	scopes   []string
	tokenMAC []byte // of the token, by the key of its Set
	key      []byte // signs the sessions of this token, for as long as its line stays the same
}

// HasScope reports whether the token is good for something.
func (o *Operator) HasScope(s Scope) bool {
	return slices.Contains(o.scopes, string(s)) || slices.Contains(o.scopes, string(Operate))
}

// Options are what a [Set] needs to know.
type Options struct {
	Redis  redis.UniversalClient // tells the other replicas which sessions were ended; nil tells nobody
	Logger zerolog.Logger
	Now    func() time.Time // nil is time.Now
}

// Set is all operators, and their sessions. It knows nobody before [Set.Apply]. It is safe for concurrent use.
type Set struct {
	now         func() time.Time
	tokenKey    []byte // keys the comparison of tokens
	operators   atomic.Pointer[[]*Operator]
	revocations revocations
}

// New makes a set of no operators.
func New(o Options) *Set {
	s := &Set{now: o.Now, tokenKey: make([]byte, sha256.Size), revocations: revocations{redis: o.Redis, log: o.Logger}}
	if s.now == nil {
		s.now = time.Now
	}
	_, _ = rand.Read(s.tokenKey) // never fails
	s.operators.Store(&[]*Operator{})
	return s
}

// Apply takes the operators of a file, the only one of contents. Who is not among them is refused from then on,
// and so are the sessions of tokens that are not there as they were.
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

// Authenticate is the operator whose token this is, nil where it is nobody's. It compares the token with all there are.
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

// named is the operator of a name, nil where there is none.
func (s *Set) named(name string) *Operator {
	for _, o := range *s.operators.Load() {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// mac is the HMAC of parts, none of which can be mistaken for two.
func mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		_, _ = h.Write(size[:]) // a hash takes all
		_, _ = h.Write([]byte(p))
	}
	return h.Sum(nil)
}
