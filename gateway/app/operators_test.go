package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// pages are what a browser keeps of a session.
type pages struct{ cookie, csrf string }

func signInAt(t *testing.T, admin, token string) pages {
	t.Helper()
	status, decoded, cookies := orderAs(t, admin+"/admin/session", fmt.Sprintf(`{"token":%q}`, token), nil)
	csrf, _ := decoded["csrf"].(string)
	if status != http.StatusOK || csrf == "" || len(cookies) != 1 {
		t.Fatalf("signing in: status %d %v", status, decoded)
	}
	return pages{cookies[0].Name + "=" + cookies[0].Value, csrf}
}

// ask sends a page's request to /admin/session and returns the answer.
func (p pages) ask(t *testing.T, method, admin string) (decoded gateway.SignOutResult) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, admin+"/admin/session", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Cookie", p.cookie)
	req.Header.Set("X-Csrf-Token", p.csrf)
	resp, err := apptest.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(&decoded); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v", method, resp.StatusCode, err)
	}
	return decoded
}

func TestACookieThatWasCopiedIsOfNoUseAtAnyReplicaAfterSignOut(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	const token = "the-token-of-ann-who-operates-a-pair"
	file := secretFile(t, "ann operate "+token+"\n")
	redis := redistest.Start(t)
	var admin [2]string
	for i := range admin {
		admin[i] = apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
admin_tokens_file: %s
redis: {url: "redis://%s"}
pools: {only: {model: m, backends: ["http://127.0.0.1:1"]}}
routes: [{model: m, target: only}]
drain: {delay: 0s, grace: 1s}
`, file, redis.Addr)).Admin
	}
	first, second := signInAt(t, admin[0], token), signInAt(t, admin[0], token)
	for _, s := range []pages{first, second} {
		if decoded := s.ask(t, http.MethodGet, admin[1]); !decoded.SignedIn || decoded.Operator != "ann" {
			t.Fatalf("the other replica does not know the session: %+v", decoded)
		}
	}
	if decoded := first.ask(t, http.MethodDelete, admin[0]); !decoded.Shared || decoded.SignedIn {
		t.Errorf("signing out: %+v", decoded)
	}
	if first.ask(t, http.MethodGet, admin[0]).SignedIn {
		t.Error("here the session goes on")
	}
	apptest.Eventually(t, "it ends at the other", func() bool { return !first.ask(t, http.MethodGet, admin[1]).SignedIn })
	redis.Freeze()
	if decoded := second.ask(t, http.MethodDelete, admin[0]); decoded.Shared || !strings.Contains(decoded.Message, "until Redis is back") {
		t.Errorf("signing out without Redis: %+v", decoded)
	}
	if second.ask(t, http.MethodGet, admin[0]).SignedIn || first.ask(t, http.MethodGet, admin[1]).SignedIn {
		t.Error("without Redis a session is good again")
	}
	redis.Thaw()
	apptest.Eventually(t, "the second ends at the other when Redis is back", func() bool { return !second.ask(t, http.MethodGet, admin[1]).SignedIn })
}

func TestOperatorsTokensAreReplacedUnderAStreamOfOrders(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	was, next := strings.Repeat("1", 32), strings.Repeat("2", 32)
	file := secretFile(t, "ann operate "+was+"\n")
	sim := vllmsim.Start(t, vllmsim.Options{Model: "m", TimeScale: 20})
	p := apptest.Serve(t, fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nadmin_tokens_file: %s\npools: {only: {model: m, backends: [%q]}}\nroutes: [{model: llama-3, target: only}]\ndrain: {delay: 0s, grace: 1s}\n", file, sim.URL()))
	page := signInAt(t, p.Admin, was)
	order := func(token string) int {
		status, _, _ := orderAs(t, p.Admin+"/admin/undrain?pool=only&backend="+strings.TrimPrefix(sim.URL(), "http://"), "", map[string]string{"Authorization": "Bearer " + token})
		return status
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var token atomic.Value // the one that orders show; both are good when it changes
	token.Store(was)
	var sent atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for ; ; sent.Add(1) {
			select {
			case <-stop:
				return
			default:
			}
			if status := order(token.Load().(string)); status != http.StatusOK {
				t.Errorf("an order was answered %d", status)
				return
			}
		}
	}()
	write("ann operate " + was + "\nann-2 operate " + next + "\n")
	apptest.Eventually(t, "the new token is good", func() bool { return order(next) == http.StatusOK })
	token.Store(next)
	for before := sent.Load(); sent.Load() < before+2; { // no order shows the old one any more
		<-time.After(10 * time.Millisecond)
	}
	write("ann-2 operate " + next + "\n")
	apptest.Eventually(t, "the old token is refused", func() bool { return order(was) == http.StatusUnauthorized })
	if page.ask(t, http.MethodGet, p.Admin).SignedIn {
		t.Error("a session outlives its token")
	}
	write("ann-2 everything " + next + "\n")
	apptest.Eventually(t, "what is wrong is told", func() bool {
		return strings.Contains(p.Log.String(), "line 1: want scopes out of metrics, drain, operate")
	})
	if status := order(next); status != http.StatusOK {
		t.Errorf("the last good token is answered %d", status)
	}
	close(stop)
	<-done
	if log := p.Log.String(); strings.Contains(log, was) || strings.Contains(log, next) || strings.Contains(log, file) {
		t.Errorf("the log tells a secret or its path")
	}
	t.Logf("%d orders", sent.Load())
}
