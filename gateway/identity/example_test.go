package identity_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

// How a load balancer signs a request, with nothing but the standard library.
// The shell does the same; $secret is the second word of a line of identity.signing_keys_file:
//
//	said="v1;t=acme;p=high;exp=$(($(date +%s) + 60));kid=k1"
//	sig=$(printf '%s\nPOST\n/v1/chat/completions' "$said" |
//	  openssl dgst -sha256 -hmac "$secret" -binary | base64 | tr '+/' '-_' | tr -d '=\n')
//	curl -H "X-Identity: $said;sig=$sig" …/v1/chat/completions …
func Example_sign() {
	secret := []byte("0123456789abcdef0123456789abcdef") // the second word of its line in identity.signing_keys_file
	sign := func(req *http.Request, tenant, priority string, expires time.Time) {
		signedPart := fmt.Sprintf("v1;t=%s;p=%s;exp=%d;kid=k1", tenant, priority, expires.Unix())
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "%s\n%s\n%s", signedPart, req.Method, req.URL.EscapedPath())
		req.Header.Set("X-Identity", signedPart+";sig="+base64.RawURLEncoding.EncodeToString(mac.Sum(nil)))
	}
	req, _ := http.NewRequest(http.MethodPost, "http://gateway/v1/chat/completions", nil)
	sign(req, "acme", "high", time.Unix(1_800_000_060, 0)) // time.Now().Add(time.Minute)
	fmt.Println(req.Header.Get("X-Identity"))
	// Output: v1;t=acme;p=high;exp=1800000060;kid=k1;sig=Y8YcIwUBab55pK4ikfPk1sjkG0xveoBwZP7ZPoxR7Is
}

// TestOpenSSLSignsAsDocumented runs the shell's lines of the example.
func TestOpenSSLSignsAsDocumented(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("there is no openssl here")
	}
	const secret = "0123456789abcdef0123456789abcdef"
	script := `said="v1;t=acme;p=high;exp=$(($(date +%s) + 60));kid=k1"
sig=$(printf '%s\nPOST\n/v1/chat/completions' "$said" |
  openssl dgst -sha256 -hmac "$secret" -binary | base64 | tr '+/' '-_' | tr -d '=\n')
printf '%s' "$said;sig=$sig"`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Env = append(os.Environ(), "secret="+secret)
	header, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	r, err := identity.New(identity.Options{Mode: identity.Signed, Tenants: []identity.Tenant{{ID: "acme", MaxPriority: identity.High}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.SetSigningKeys([]identity.SigningKey{{ID: "k1", Secret: []byte(secret)}}); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway/v1/chat/completions", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Identity", string(header))
	if c, err := r.Identify(req); err != nil || c.Tenant != "acme" || c.Priority != identity.High {
		t.Errorf("got %+v, %v", c, err)
	}
}
