// Package operator knows the operators of a gateway: their tokens, and the scopes of each token. Start at
// [Set]. It guarantees that comparing a token takes a time that reveals nothing about the known tokens. No
// error and no log line repeats a token.
package operator

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"slices"
	"sync/atomic"

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
}

// HasScope reports whether the token has this scope.
func (o *Operator) HasScope(s Scope) bool {
	return slices.Contains(o.scopes, string(s)) || slices.Contains(o.scopes, string(Operate))
}

// Set holds all operators. It is empty before [Set.Apply]. It is safe for concurrent use.
type Set struct {
	tokenKey  []byte // for comparing tokens
	operators atomic.Pointer[[]*Operator]
}

// New makes an empty set.
func New() *Set {
	s := &Set{tokenKey: make([]byte, sha256.Size)}
	_, _ = rand.Read(s.tokenKey) // never fails
	s.operators.Store(&[]*Operator{})
	return s
}

// Apply replaces the operators by those of a file, the only one of contents. Others are refused from then on.
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
		all = append(all, &Operator{Name: t.Name, scopes: t.Scopes, tokenMAC: s.mac(string(t.Secret))})
	}
	s.operators.Store(&all)
	return nil
}

// Authenticate returns the operator of a token, nil if there is none. It compares the token with all known
// ones.
func (s *Set) Authenticate(token string) *Operator {
	proof := s.mac(token)
	var found *Operator
	for _, o := range *s.operators.Load() {
		if hmac.Equal(proof, o.tokenMAC) {
			found = o
		}
	}
	return found
}

// mac is what stands for a token when it is compared.
func (s *Set) mac(token string) []byte {
	h := hmac.New(sha256.New, s.tokenKey)
	_, _ = h.Write([]byte(token)) // a hash never fails
	return h.Sum(nil)
}
