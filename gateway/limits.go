package gateway

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/foregate/foregate/gateway/ledger"
)

const (
	// maxObeyed is the longest Retry-After that the SDKs obey. They replace a longer one by a few seconds, so the
	// gateway then tells them not to retry.
	maxObeyed = time.Minute
	// budgetSpread spreads the requests of clients that wait for the next window of a budget.
	budgetSpread = 5 * time.Second
)

// isRetry reports whether an SDK marked a request as a retry.
func isRetry(h http.Header) bool {
	count := h["X-Stainless-Retry-Count"]
	if len(count) == 0 {
		return false
	}
	n, err := strconv.Atoi(count[0])
	return err == nil && n > 0
}

// setRateLimitHeaders sets the headers that OpenAI's clients read.
func setRateLimitHeaders(h http.Header, s ledger.Status) {
	tell := func(kind string, w ledger.Window) {
		if w.Limit == 0 {
			return
		}
		h.Set("X-Ratelimit-Limit-"+kind, strconv.Itoa(w.Limit))
		h.Set("X-Ratelimit-Remaining-"+kind, strconv.Itoa(w.Remaining))
		h.Set("X-Ratelimit-Reset-"+kind, w.Reset.Round(time.Millisecond).String())
	}
	tell("Requests", s.Requests)
	tell("Tokens", s.Tokens)
}

// limitProblem is a refusal in OpenAI's words: the type names the limit. Concurrent requests count as
// requests.
func limitProblem(e *ledger.LimitError) *problem {
	p := refuse("rate_limit_exceeded", "")
	p.body.Type = string(e.Limit)
	maximum, asked := strconv.Itoa(e.Max), strconv.Itoa(e.Requested)
	switch {
	case e.NeverFits && e.Limit == ledger.Concurrency:
		p.body.Type = string(ledger.Requests)
		p.body.Message = "Request too large: it asks for " + asked + " answers at once (n for each prompt), and the limit is " + maximum +
			". Lower n or send fewer prompts; a retry cannot help."
		return p
	case e.NeverFits:
		p.body.Message = "Request too large: it may need " + asked + " tokens (prompt and longest answer), and the limit is " + maximum +
			" tokens per minute. Shorten the prompt or lower max_tokens; a retry cannot help."
		return p
	case e.Limit == ledger.Concurrency:
		p.body.Type = string(ledger.Requests)
		p.body.Message = "Too many requests under way: the limit is " + maximum + " at once."
		if e.Here < e.Max {
			p.body.Message = "Too many requests under way: the limit is " + maximum + " at once, and the share of this replica " + strconv.Itoa(e.Here) + "."
		}
	default:
		p.body.Message = "Rate limit reached: the limit is " + maximum + " " + string(e.Limit) + " per minute."
	}
	p.retry, p.retryable = e.Wait+rand.N(min(e.Wait/2, 5*time.Second)+time.Second), e.Retry // never earlier, and spread
	p.body.Message += " Please try again in " + strconv.Itoa(wholeSeconds(p.retry)) + "s."
	return p
}

// budgetProblem is a refusal in OpenAI's words. A budget that cannot be counted is a fault of the gateway's side, so it is
// no 429.
func budgetProblem(e *ledger.BudgetError) *problem {
	if e.Uncounted {
		return refuse("budget_unavailable", "Your budget cannot be counted now.").after(jitter(time.Second))
	}
	p, b := refuse("insufficient_quota", ""), e.Budget
	per := string(b.Per)
	budget := ledger.Amount(b, max(b.Tokens, b.NanoUSD)) + " per " + per
	if e.Reserved {
		p.retry, p.retryable = jitter(e.Wait), true
		p.body.Message = "Requests in progress have reserved what is left of your budget of " + budget + ". Try again when they have ended."
		return p
	}
	p.retry = e.Wait + rand.N(budgetSpread)
	p.retryable = p.retry <= maxObeyed
	p.body.Message = "You have used up your budget of " + budget + "."
	if e.Left > 0 {
		p.body.Message = "Your budget of " + budget + " has " + ledger.Amount(b, e.Left) + " left, and this request may need " + ledger.Amount(b, e.Need) +
			". Lower max_tokens or shorten the prompt."
	}
	p.body.Message += " The next " + per + " (UTC) begins in " + strconv.Itoa(wholeSeconds(e.Wait)) + "s."
	return p
}
