package gateway

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/gateway/clientapi/messages"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// countTokensPath is that of the Messages API at which a prompt's tokens are counted.
const countTokensPath = messagesPath + "/count_tokens"

// errNoTokenizer refuses to count what no engine counts.
var errNoTokenizer = refuse("unknown_url", "The engines of this model tell no tokens of a prompt. "+
	"An operator can list "+countTokensPath+" under passthrough if they serve that path themselves.")

// countTokens counts the tokens of the prompt of a message, as the tokenizer of the target's engines does. What only an engine
// can do is forwarded if passthrough lists the path, and refused otherwise.
func (g *Gateway) countTokens(in *admittedRequest, l *accessRecord, w http.ResponseWriter, r *http.Request) error {
	passed, err := openai.Peek(countTokensPath, in.body, g.opts.Scan)
	if err != nil {
		return err
	}
	route, err := g.routeFor(&l.Caller, passed.Model)
	if err != nil {
		return err
	}
	if !route.Target.Tokenizes() {
		return g.forwardOr(errNoTokenizer, countTokensPath, passed)(l, w, r)
	}
	t, err := g.translate(messages.API{Counts: true}, in)
	if e, ok := errors.AsType[*clientapi.EngineOnlyError](err); ok {
		return g.forwardOr(engineOnly(countTokensPath, e), countTokensPath, passed)(l, w, r)
	}
	if err != nil {
		return err
	}
	t.TellThinking(g.opts.Cascade.Thinks(passed.Model))
	asked, err := g.scan(g.chatOf(t, l), l, r)
	if err != nil {
		return err
	}
	tokens, err := g.pipeline.CountTokens(r.Context(), asked, &l.Record)
	if err != nil {
		return err
	}
	body := fmt.Appendf(nil, `{"input_tokens":%d}`, tokens)
	to := g.open(l, w, r, false)
	if err := to.Begin(tiers.ResponseHead{Length: int64(len(body)), Tier: string(plan.Target)}); err != nil {
		return err
	}
	return to.Write(body)
}
