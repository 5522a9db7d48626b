package gateway

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
	noScope      Scope = ""        // of public paths, which need no token
	ScopeMetrics Scope = "metrics" // read the metrics
	ScopeDrain   Scope = "drain"   // see the backends' state, drain and undrain them
	ScopeOperate Scope = "operate" // everything
)

// OperatorTokens parses a file of lines "NAME SCOPES SECRET", scopes separated by commas. Errors name the line.
func OperatorTokens(file []byte) ([]files.Token, error) {
	return files.Tokens(file, string(ScopeMetrics), string(ScopeDrain), string(ScopeOperate))
}

// operator is the owner of a token.
type operator struct {
	name     string
	scopes   []string
	tokenMAC []byte // of the token, with the key of its Operators
}

// hasScope reports whether the token has this scope.
func (o *operator) hasScope(s Scope) bool {
	return slices.Contains(o.scopes, string(s)) || slices.Contains(o.scopes, string(ScopeOperate))
}

// Operators are the operators with their tokens. They are none before [Operators.Apply]. Comparing a token takes a time that
// tells nothing of the known ones, and no error repeats one. It is safe for concurrent use.
type Operators struct {
	tokenKey  []byte // for comparing tokens
	operators atomic.Pointer[[]*operator]
}

// NewOperators returns operators that are none yet.
func NewOperators() *Operators {
	s := &Operators{tokenKey: make([]byte, sha256.Size)}
	_, _ = rand.Read(s.tokenKey) // never fails
	s.operators.Store(&[]*operator{})
	return s
}

// Apply replaces the operators by those of a file, the only one of contents. Others are refused from then on.
func (o *Operators) Apply(contents [][]byte) error {
	if len(contents) != 1 {
		return errors.New("want one file")
	}
	tokens, err := OperatorTokens(contents[0])
	if err != nil {
		return err
	}
	all := make([]*operator, 0, len(tokens))
	for _, t := range tokens {
		all = append(all, &operator{name: t.Name, scopes: t.Scopes, tokenMAC: o.mac(string(t.Secret))})
	}
	o.operators.Store(&all)
	return nil
}

// authenticate returns the operator of a token, nil if there is none. It compares the token with all known ones.
func (o *Operators) authenticate(token string) *operator {
	proof := o.mac(token)
	var found *operator
	for _, known := range *o.operators.Load() {
		if hmac.Equal(proof, known.tokenMAC) {
			found = known
		}
	}
	return found
}

// mac is what stands for a token when it is compared.
func (o *Operators) mac(token string) []byte {
	h := hmac.New(sha256.New, o.tokenKey)
	_, _ = h.Write([]byte(token)) // a hash never fails
	return h.Sum(nil)
}
