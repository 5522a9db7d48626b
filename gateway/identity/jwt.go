package identity

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// JWT says which tokens are accepted, mode JWTs.
type JWT struct {
	Issuer   string `yaml:"issuer" form:"printable" need:"give the iss of the tokens, such as https://login.example.com/" absent:"required with 'jwt'" doc:"Required value of every token's 'iss'."`
	Audience string `yaml:"audience" form:"printable" need:"give the aud that names this gateway, so that tokens for other services are not accepted here" absent:"required with 'jwt'" doc:"The audience that names this gateway; a token's 'aud' must contain it."`
	JWKSFile string `yaml:"jwks_file" form:"file" need:"give the path of the issuer's key set (what its jwks_uri serves)" absent:"required with 'jwt'" doc:"Path of the issuer's public keys (a JSON Web Key Set, as its 'jwks_uri' serves it). Read again when it changes, see *Files that are read again*."` // for [Resolver.SetKeySet]

	// Algorithms of signatures: public keys only. With a shared secret, anyone who verifies a token could make one.
	Algorithms    []jose.SignatureAlgorithm `yaml:"algorithms,distinct" default:"RS256,ES256,EdDSA" choice:"RS256,RS384,RS512,PS256,PS384,PS512,ES256,ES384,ES512,EdDSA" hint:"none and HS… are never accepted" empty:"name the issuer's, or leave it out for RS256, ES256 and EdDSA" doc:"Allowed signature algorithms: these, or 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES384', 'ES512'."`
	TenantClaim   string                    `yaml:"tenant_claim" default:"tenant" form:"printable" doc:"Claim that names the tenant. A token without it is refused. Use 'sub' only if users cannot choose it at the issuer."`
	PriorityClaim string                    `yaml:"priority_claim" default:"priority" form:"printable" doc:"Claim that names the highest priority. Without it a token has 'normal'."`
}

// maxToken is the maximum length of a token in bytes; with RSA keys of 4,096 bits, 5 KiB are left for claims.
const maxToken = 8 << 10

const maxClockSkew = 30 * time.Second // allowed between the clocks of issuer and gateway

// byToken returns the tenant of the request's token.
func (r *Resolver) byToken(t *table, h http.Header, name string) (claim, error) {
	c, err := bearer(h, maxToken)
	if err != nil {
		return claim{}, err
	}
	tenant, ceiling, err := r.jwt.read(c.text, t.keys, r.now())
	if err != nil {
		return claim{}, c.refused(err.Error())
	}
	if err := sameTenant(name, tenant); err != nil {
		return claim{}, err
	}
	return t.named(tenant, ceiling)
}

// read verifies a token with these keys and returns its tenant and ceiling. The error is the reason why it is refused.
func (t *JWT) read(text string, keys map[string]publicKey, now time.Time) (tenant string, ceiling Priority, err error) {
	token, err := jwt.ParseSigned(text, t.Algorithms)
	if err != nil {
		return "", Low, errors.New("the token is not a JWT signed with an accepted algorithm")
	}
	key, ok := keys[token.Headers[0].KeyID]
	if !ok || (key.algorithm != "" && key.algorithm != token.Headers[0].Algorithm) {
		return "", Low, errors.New("the token is signed with a key that is not known")
	}
	var (
		standard jwt.Claims
		all      map[string]any
	)
	if err := token.Claims(key.public, &standard, &all); err != nil {
		return "", Low, errors.New("the token's signature or claims are not valid")
	}
	if err := t.check(standard, now); err != nil {
		return "", Low, err
	}
	return t.caller(all)
}

// check compares the registered claims with the configuration and the clock.
func (t *JWT) check(c jwt.Claims, now time.Time) error {
	if c.Expiry == nil {
		return errors.New("the token has no exp")
	}
	err := c.ValidateWithLeeway(jwt.Expected{Issuer: t.Issuer, AnyAudience: jwt.Audience{t.Audience}, Time: now}, maxClockSkew)
	switch {
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return errors.New("the token's iss is not accepted here")
	case errors.Is(err, jwt.ErrInvalidAudience):
		return errors.New("the token's aud is not this gateway")
	case errors.Is(err, jwt.ErrExpired):
		return errors.New("the token has expired")
	case err != nil: // nbf or iat
		return errors.New("the token is not valid yet")
	}
	return nil
}

// caller reads tenant and ceiling from verified claims. A claim of the wrong type is refused, because
// ignoring it would be a guess. A token without the tenant's claim is refused, too: issuers let users choose
// their sub (a name, an address), so a user could choose another tenant's name.
func (t *JWT) caller(claims map[string]any) (tenant string, ceiling Priority, err error) {
	tenant, _ = claims[t.TenantClaim].(string)
	if !valid(tenant, maxIdentity) {
		return "", Low, errors.New("the token names no tenant, or one that is not 1–64 of A-Z a-z 0-9 . _ : -")
	}
	claim, ok := claims[t.PriorityClaim]
	if !ok {
		return tenant, Normal, nil
	}
	class, _ := claim.(string)
	if ceiling, err = ParsePriority(class); err != nil {
		return "", Low, errors.New("the token's priority is not low, normal or high")
	}
	return tenant, ceiling, nil
}

// credential is the key or the token of a request, and the header that it came in.
type credential struct{ text, header string }

// refused is the error for a credential that is not accepted.
func (c credential) refused(reason string) *Error {
	return &Error{Kind: Unauthorized, Header: c.header, Reason: reason}
}

// bearer returns the key or token in the Authorization header, or in X-Api-Key, where Anthropic's clients send it.
func bearer(h http.Header, longest int) (credential, error) {
	values, bare := h[headerAuthorization], h[headerAPIKey]
	c := credential{header: headerAuthorization}
	switch {
	case len(bare) > 1 || len(values) > 0 && len(bare) > 0:
		return c, &Error{Kind: BadHeader, Header: headerAPIKey, Reason: "is given more than once, or beside Authorization"}
	case len(bare) == 1:
		c = credential{bare[0], headerAPIKey}
		if c.text == "" || len(c.text) > longest {
			return c, c.refused(fmt.Sprintf("want a key or token of 1–%d bytes", longest))
		}
		return c, nil
	case len(values) == 0:
		return c, c.refused("missing; send Bearer and a key or token")
	case len(values) > 1:
		return c, &Error{Kind: BadHeader, Header: headerAuthorization, Reason: "is given more than once"}
	}
	scheme, key, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || key == "" || len(key) > longest {
		return c, c.refused("want Bearer and a key or token")
	}
	c.text = key
	return c, nil
}
