package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

func TestATenantBeyondItsRequestsIsToldAsOpenAITells(t *testing.T) {
	b := limited(t, simulator(t).URL(), nil, identity.Tenant{ID: "acme", MaxPriority: identity.High, RPM: 10}, identity.Tenant{ID: "free", MaxPriority: identity.High})
	first := b.chat(t, "acme", short)
	if first.status != http.StatusOK || first.head.Get("X-Ratelimit-Limit-Requests") != "10" || first.head.Get("X-Ratelimit-Remaining-Requests") != "0" {
		t.Fatalf("%d %v %s", first.status, first.head, first.body)
	}
	if reset, err := time.ParseDuration(first.head.Get("X-Ratelimit-Reset-Requests")); err != nil || reset != 6*time.Second {
		t.Errorf("reset %v, %v", reset, err)
	}
	second := b.chat(t, "acme", short)
	kind, code, message := second.says()
	if second.status != http.StatusTooManyRequests || kind != "requests" || code != "rate_limit_exceeded" || !strings.Contains(message, "10 requests per minute") {
		t.Errorf("%d %s", second.status, second.body)
	}
	if n := second.seconds(t); n < 5 || n > 10 {
		t.Errorf("retry after %d s, want 6 s less what has passed, and the spread", n)
	}
	if second.head.Get("X-Ratelimit-Limit-Requests") != "10" || second.head.Get("X-Should-Retry") != "true" {
		t.Errorf("%v", second.head)
	}
	for name := range b.chat(t, "free", short).head {
		if strings.HasPrefix(name, "X-Ratelimit") {
			t.Errorf("a tenant without a limit is told %s", name)
		}
	}
}

func TestARequestTooLargeForAMinuteIsToldNotToComeAgain(t *testing.T) {
	b := limited(t, simulator(t).URL(), nil, identity.Tenant{ID: "acme", TPM: 1000})
	r := b.chat(t, "acme", `,"max_tokens":2000`)
	kind, code, message := r.says()
	if r.status != http.StatusTooManyRequests || kind != "tokens" || code != "rate_limit_exceeded" || !strings.Contains(message, "2001 tokens") ||
		r.head.Get("X-Should-Retry") != "false" || r.head.Get("Retry-After") != "" {
		t.Errorf("%d %v %s", r.status, r.head, r.body)
	}
}

func TestAListOfPromptsIsAsManyAnswersToATenantsLimits(t *testing.T) {
	b := limited(t, simulator(t).URL(), nil, identity.Tenant{ID: "tokens", TPM: 20_000}, identity.Tenant{ID: "places", Concurrent: 3})
	list := func(n, limit int) string {
		prompts := strings.TrimSuffix(strings.Repeat(`"tell",`, n), ",")
		return fmt.Sprintf(`{"model":"llama-3","max_tokens":%d,"prompt":[%s]}`, limit, prompts)
	}
	for _, c := range []struct {
		tenant, body string
		status       int
		says         string
	}{
		{"tokens", list(100, 500), http.StatusTooManyRequests, "it may need 50100 tokens"},
		{"tokens", list(4, 5), http.StatusOK, ""},
		{"tokens", list(400, 500), http.StatusBadRequest, "400 answers"},
		{"places", list(4, 5), http.StatusTooManyRequests, "4 answers at once"},
		{"places", list(3, 5), http.StatusOK, ""},
	} {
		r := b.to(t, "/v1/completions", c.tenant, c.body)
		if _, _, message := r.says(); r.status != c.status || !strings.Contains(message, c.says) || c.status == http.StatusTooManyRequests && r.head.Get("X-Should-Retry") != "false" {
			t.Errorf("%s, %.60s: %d %v %s", c.tenant, c.body, r.status, r.head, r.body)
		}
	}
}

func TestWhatNoRouteAnswersCostsATenantNothing(t *testing.T) {
	b := limited(t, simulator(t).URL(), nil, identity.Tenant{ID: "acme", TPM: 10_000})
	for range 3 {
		r := b.to(t, chatPath, "acme", `{"model":"other","max_tokens":9000,"messages":[{"role":"user","content":"hi"}]}`)
		if r.status != http.StatusNotFound || r.head.Get("X-Ratelimit-Limit-Tokens") != "" {
			t.Errorf("%d %v", r.status, r.head)
		}
	}
}

// TestEachFailureInvitesToWaitForATurn: a client is told to stop only when its turn is too far, however often others were refused.
func TestEachFailureInvitesToWaitForATurn(t *testing.T) {
	sim := vllmsim.Start(t, vllmsim.Options{Model: "m", Seed: 1, TimeScale: 50})
	sim.SetFault(vllmsim.Fault{Status: 503})
	b := limited(t, sim.URL(), nil, identity.Tenant{ID: "free"})
	var waits []int
	for i := range 60 { // a first try and two retries, as the SDKs do when they are not told to stop
		r := b.chat(t, "free", short, "X-Stainless-Retry-Count", fmt.Sprint(i%3))
		if r.status != http.StatusServiceUnavailable && r.status != http.StatusBadGateway {
			t.Fatalf("%d %s", r.status, r.body)
		}
		if r.head.Get("X-Should-Retry") == "true" {
			waits = append(waits, r.seconds(t))
		}
	}
	if len(waits) < 3 || len(waits) > 8 || !slices.IsSorted(waits) || waits[len(waits)-1] < 25 || waits[len(waits)-1] > 60 {
		t.Errorf("60 refusals invite to come again after %v s: a turn every 7 to 14 s within 50 s", waits)
	}
	if r := b.chat(t, "calm", short); r.head.Get("X-Should-Retry") != "true" {
		t.Errorf("another tenant: %d %v", r.status, r.head)
	}
}

// TestEachRefusalAtALimitInvitesToWaitForAPlace: what an earlier refusal said, obeyed or not, is no reason to give up.
func TestEachRefusalAtALimitInvitesToWaitForAPlace(t *testing.T) {
	b := limited(t, simulator(t).URL(), nil, identity.Tenant{ID: "acme", RPM: 10})
	b.chat(t, "acme", short)
	for i := range 10 {
		r := b.chat(t, "acme", short, "X-Stainless-Retry-Count", fmt.Sprint(i%2))
		// A place every 6 s, and at most half a wait and a second more.
		if told := r.seconds(t); r.status != http.StatusTooManyRequests || i < 8 && (r.head.Get("X-Should-Retry") != "true" || told < 6*i+4 || told > 6*i+13) || i > 8 && r.head.Get("X-Should-Retry") != "false" {
			t.Errorf("refusal %d: %d %v", i, r.status, r.head)
		}
	}
}

func TestAWaitIsNeverToldShorterThanItIs(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Millisecond, time.Second, 1500 * time.Millisecond, 50 * time.Second, 2 * time.Minute} {
		for range 200 {
			p := limitProblem(&ledger.LimitError{Limit: ledger.Requests, Max: 1, Wait: wait, Retry: wait < time.Minute})
			told := time.Duration(wholeSeconds(p.retry)) * time.Second
			if told < wait || told < time.Second || told > wait+wait/2+2*time.Second {
				t.Fatalf("%v is told as %v", wait, told)
			}
			if p.retryable != (wait < time.Minute) || p.retryable && p.retry > maxObeyed {
				t.Fatalf("%v: a retry may help: %t", p.retry, p.retryable)
			}
		}
	}
}

func TestABudgetThatIsSpentReservedOrUnknownIsToldAsSuch(t *testing.T) {
	month := identity.Budget{Tokens: 2000, Per: identity.Month}
	for name, c := range map[string]struct {
		err       ledger.BudgetError
		code      string
		retryable bool
		says      string
	}{
		"spent":    {ledger.BudgetError{Budget: month, Wait: time.Hour}, "insufficient_quota", false, "You have used up your budget of 2000 tokens per month. The next month (UTC) begins in 3600s."},
		"too much": {ledger.BudgetError{Budget: month, Wait: time.Hour, Left: 5, Need: 9}, "insufficient_quota", false, "Your budget of 2000 tokens per month has 5 tokens left, and this request may need 9 tokens."},
		"reserved": {ledger.BudgetError{Budget: month, Wait: time.Second, Reserved: true}, "insufficient_quota", true, "Requests in progress have reserved what is left of your budget of 2000 tokens per month."},
		"unknown":  {ledger.BudgetError{Budget: month, Uncounted: true}, "budget_unavailable", true, "cannot be counted"},
	} {
		if p := budgetProblem(&c.err); p.body.Code != c.code || p.retryable != c.retryable || p.retry < c.err.Wait || !strings.Contains(p.body.Message, c.says) {
			t.Errorf("%s: %+v, retry after %v: %v", name, p.body, p.retry, p.retryable)
		}
	}
}
