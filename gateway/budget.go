package gateway

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/tiers/openai"
)

// budgetSpread spreads the requests of clients that wait for the next window of a budget.
const budgetSpread = 5 * time.Second

// budgetProblem is a refusal in OpenAI's words. A budget that cannot be counted is a fault of the gateway's side, so it is
// no 429.
func budgetProblem(e *ledger.BudgetError) *problem {
	if e.Uncounted {
		return &problem{
			status: http.StatusServiceUnavailable, retry: jitter(time.Second), retryable: true,
			body: openai.ErrorBody{Message: "Your budget cannot be counted now.", Type: "overloaded_error", Code: "budget_unavailable"},
		}
	}
	p := &problem{
		status: http.StatusTooManyRequests, retry: e.Wait + rand.N(budgetSpread),
		body: openai.ErrorBody{Type: "insufficient_quota", Code: "insufficient_quota"},
	}
	b := e.Budget
	if e.Reserved {
		p.retry, p.retryable = jitter(e.Wait), true
		p.body.Message = "Requests in progress have reserved what is left of your budget of " + ledger.Amount(b, max(b.Tokens, b.NanoUSD)) + " per " + string(b.Per) + ". Try again when they have ended."
		return p
	}
	p.retryable = p.retry <= maxObeyed
	p.body.Message = "You have used up your budget of " + ledger.Amount(b, max(b.Tokens, b.NanoUSD)) + " per " + string(b.Per) + "."
	if e.Left > 0 {
		p.body.Message = "Your budget of " + ledger.Amount(b, max(b.Tokens, b.NanoUSD)) + " per " + string(b.Per) + " has " + ledger.Amount(b, e.Left) +
			" left, and this request may need " + ledger.Amount(b, e.Need) + ". Lower max_tokens or shorten the prompt."
	}
	p.body.Message += " The next " + string(b.Per) + " (UTC) begins in " + strconv.Itoa(wholeSeconds(e.Wait)) + "s."
	return p
}
