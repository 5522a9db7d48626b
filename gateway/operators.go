package gateway

import (
	"crypto/sha256"
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

// operator is the owner of a token; nil is nobody.
type operator struct {
	name   string
	scopes []string
}

// label is the operator's name, "" for nobody.
func (o *operator) label() string {
	if o == nil {
		return ""
	}
	return o.name
}

// hasScope reports whether the token has this scope.
func (o *operator) hasScope(s Scope) bool {
	return o != nil && (slices.Contains(o.scopes, string(s)) || slices.Contains(o.scopes, string(ScopeOperate)))
}

// Operators are the operators by the SHA-256 of their tokens, after the first Apply. No error repeats a token. It is safe for
// concurrent use.
type Operators struct {
	known atomic.Pointer[map[[sha256.Size]byte]*operator]
}

// Apply replaces the operators by those of a file, the only one of contents. Others are refused from then on.
func (o *Operators) Apply(contents [][]byte) error {
	tokens, err := OperatorTokens(contents[0])
	if err != nil {
		return err
	}
	known := map[[sha256.Size]byte]*operator{}
	for _, t := range tokens {
		known[sha256.Sum256(t.Secret)] = &operator{t.Name, t.Scopes}
	}
	o.known.Store(&known)
	return nil
}

// authenticate returns the operator of a token, nil if there is none.
func (o *Operators) authenticate(token string) *operator {
	return (*o.known.Load())[sha256.Sum256([]byte(token))]
}
