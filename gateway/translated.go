package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/gateway/clientapi/messages"
	"github.com/foregate/foregate/gateway/clientapi/responses"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// The paths of the other APIs that the cascade answers.
const (
	messagesPath  = "/v1/messages"
	responsesPath = "/v1/responses"
)

// clientAPI is another API that the cascade answers.
type clientAPI struct {
	clientapi.API
	image        string // the type of a content part with an image
	stateful     bool   // its requests may go on from answers that are kept
	overloaded   int    // its status for a gateway or engines that are overloaded; 0 is 503
	namesRequest bool   // its errors and the header Request-Id have the request's id
}

// clientAPIs are the other APIs that the cascade answers, by path.
var clientAPIs = map[string]*clientAPI{
	messagesPath:  {API: messages.API{}, image: "image", overloaded: messages.StatusOverloaded, namesRequest: true},
	responsesPath: {API: responses.API{}, image: "input_image", stateful: true},
}

// apiOf returns the API in whose form a request is refused; nil is OpenAI's completions.
func apiOf(path string) *clientAPI {
	if strings.HasPrefix(path, messagesPath+"/") {
		path = messagesPath
	}
	return clientAPIs[path]
}

// translation turns an answer of the cascade into the form of another API. The zero value turns none.
type translation struct {
	encoder  clientapi.Encoder  // nil: the answer stays as it is
	endsLate bool               // the end of a stream is left to the goroutine of the request: it waits for a store, and others may wait for who writes the parts
	ended    bool               // that is to be done
	held     tiers.ResponseHead // of an answer in one piece, until that is there
	whole    []byte             // the chat completion so far
	out      []byte
}

// part returns a part of a stream.
func (t *translation) part(p []byte) (out []byte, err error) {
	var ended bool
	if t.out, ended, err = clientapi.Recode(t.out[:0], p, t.encoder); ended && t.endsLate {
		t.ended = true
	} else if ended {
		t.out, err = t.encoder.End(t.out)
	}
	return t.out, badAnswer(err)
}

// end returns the end of a stream, where it was left.
func (t *translation) end() ([]byte, error) {
	if !t.ended {
		return nil, nil
	}
	out, err := t.encoder.End(nil)
	return out, badAnswer(err)
}

// inOnePiece returns an answer in one piece.
func (t *translation) inOnePiece() ([]byte, error) {
	p, err := clientapi.ParsePart(t.whole)
	if err != nil {
		return nil, badAnswer(err)
	}
	body, err := t.encoder.Whole(nil, p)
	return body, badAnswer(err)
}

// badAnswer wraps the error of an encoder; nil stays nil.
func badAnswer(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, clientapi.ErrTooLarge):
		return &engine.Failure{Kind: engine.TooLarge, Err: err}
	}
	return fmt.Errorf("%w (%w)", errBadAnswer, err)
}

// generateAs answers the requests of another API through the cascade. Requests that only an engine's own implementation
// can serve are forwarded to the target if passthrough lists the path, and refused otherwise.
func (g *Gateway) generateAs(api *clientAPI, path string) handler {
	return g.admit(func(in *admittedRequest, l *accessRecord, w http.ResponseWriter, r *http.Request) error {
		limits := g.opts.Scan
		if api.stateful {
			limits.Own = responses.Stateful
		}
		asked, err := openai.Peek(path, in.body, limits) // syntax, duplicate names, media: as for every path
		if err != nil {
			return err
		}
		translated, err := g.translate(g.translator(r.Context(), api, in, l), in)
		if e, ok := errors.AsType[*clientapi.EngineOnlyError](err); ok {
			if asked.Own {
				return e
			}
			return g.forwardOr(engineOnly(path, e), path, asked)(l, w, r)
		}
		if err != nil {
			return err
		}
		translated.TellThinking(g.opts.Cascade.Thinks(asked.Model))
		return g.answer(g.chatOf(translated, l), in, l, w, r)
	})
}

// translate translates a body. The memory for that is charged while it lasts, and the chat completion as long as the body is.
func (g *Gateway) translate(api clientapi.API, in *admittedRequest) (*clientapi.Request, error) {
	before := in.reservation.bytes
	if err := in.reservation.borrow(translationCost(in.body)); err != nil {
		return nil, err
	}
	r, err := api.Translate(in.body)
	if err != nil {
		_ = in.reservation.charge(before) // less is never refused
		return nil, err
	}
	return r, in.reservation.charge(int64(cap(in.body) + cap(r.Chat) + r.Kept))
}

// chatOf is the chat that a request of another API was translated into.
func (g *Gateway) chatOf(t *clientapi.Request, l *accessRecord) clientBody {
	l.fieldName, l.dropped = t.Param, t.Dropped
	return clientBody{openai.Chat, t.Chat, g.chatLimits(l.api), t}
}

// addedDepth is how many levels deeper a chat may nest than the request that it was translated from: the schema of a tool is
// in an object "function" there.
const addedDepth = 1

// chatLimits are the limits of a chat that was translated from a request of another API, which [openai.Peek] has accepted: a
// route that lists the API's own type of images accepts them, and what the translation adds is no fault of the client's.
func (g *Gateway) chatLimits(api *clientAPI) openai.Limits {
	limits := g.opts.Scan
	limits.Depth += addedDepth
	if allow := limits.Allow; allow != nil {
		limits.Allow = func(model string) []string {
			listed := allow(model)
			if slices.Contains(listed, api.image) {
				return append(slices.Clip(listed), "image_url")
			}
			return listed
		}
	}
	return limits
}

// offset is where in a body something is refused.
var offset = regexp.MustCompile(` \(at byte \d+\)| at byte \d+`)

// withoutOffset returns a refusal of a translated body without the offset in it, because the client does not know that body.
func withoutOffset(err error) error {
	refused, ok := errors.AsType[*openai.RequestError](err)
	if !ok {
		return err
	}
	own := *refused
	own.Message = offset.ReplaceAllLiteralString(refused.Message, "")
	return &own
}

// inOwnNames returns a refusal of a translated request, by the gateway or an engine, with the API's own name of the field.
func (a *accessRecord) inOwnNames(p *problem) *problem {
	field := p.body.Param
	if a.fieldName == nil || field == "" || a.ownName(field) == field {
		return p
	}
	own := *p
	own.body.Param = a.ownName(field)
	if rest, ok := strings.CutPrefix(p.body.Message, field+" "); ok {
		own.body.Message = own.body.Param + " " + rest
	}
	return &own
}

// inOwnStatus returns a refusal with the API's own status. a is nil for OpenAI's completions.
func (a *clientAPI) inOwnStatus(p *problem) *problem {
	if a == nil || a.overloaded == 0 || p.status != http.StatusServiceUnavailable {
		return p
	}
	own := *p
	own.status = a.overloaded
	return &own
}

// ownName returns the API's own name of a field of the chat completion, or of a part of the field.
func (a *accessRecord) ownName(field string) string {
	if own := a.fieldName(field); own != field {
		return own
	}
	if at := strings.IndexAny(field, ".["); at > 0 {
		return a.fieldName(field[:at]) + field[at:]
	}
	return field
}

// engineOnly refuses a request that only an engine's own implementation of the API can serve. It names the path that an operator can
// list for that; "" is none, for a request that no engine may get.
func engineOnly(path string, e *clientapi.EngineOnlyError) *problem {
	message := e.Error() + "."
	if path != "" {
		message += " An operator can list " + path + " under passthrough; requests with it then go to the target's engines."
	}
	return refuse("unsupported_parameter", message).of(e.Field)
}

// forwardOr forwards a request that was read if the configuration lists its path, else refuses it.
func (g *Gateway) forwardOr(refusal error, path string, asked *openai.Request) handler {
	return func(l *accessRecord, w http.ResponseWriter, r *http.Request) error {
		if !slices.Contains(g.opts.Forward, path) {
			return refusal
		}
		return g.forwardBody(path, asked, l, w, r)
	}
}
