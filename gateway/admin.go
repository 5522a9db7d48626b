package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxActionBytes = 64 << 10        // bytes of an action's body
	bodyTimeout    = time.Minute     // for the client to send it
	actionTimeout  = 5 * time.Second // for an action, and for what operators ask of Redis
	maxWhy         = 256             // bytes of an operator's reason
)

// thisReplicaOnly is the message of an action that Redis could not be told.
const thisReplicaOnly = "Done on this replica only: Redis does not answer. The other replicas follow within one second of its return, if this replica still runs."

// adminHandler answers a request of the admin listener: with a value, which is sent as JSON, with nil if it has written its
// answer itself, or with an error, which the error table maps.
type adminHandler func(w http.ResponseWriter, r *http.Request) (any, error)

// forOperators is the handler of a path of the admin listener.
func forOperators(h adminHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := h(w, r)
		if err == nil {
			writeJSON(w, answer)
			return
		}
		p := problemOf(err)
		if p == errPanic {
			p = errAction
		}
		writeProblem(w, p)
	}
}

// writeJSON answers 200 with v, which must be encodable; nil writes nothing.
func writeJSON(w http.ResponseWriter, v any) {
	if v == nil {
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		writeProblem(w, errAction)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(b, '\n')) // the client may have disconnected
}

// untilDone returns a context for an action, which goes on when its client disconnects.
func untilDone(r *http.Request, most time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), most)
}

// readActionBody reads the body of an action, of at most maxActionBytes bytes.
func readActionBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return bodyReader{max: maxActionBytes, wait: bodyTimeout}.take(w, r)
}

// query parses parameters strictly: with a misspelt or repeated parameter an action could hit another backend.
func query(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badParam("", "the query is malformed; escape & ; % + as in a URL")
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(known, name) {
			return nil, badParam(clip(name), "unknown parameter; known here: "+strings.Join(known, ", "))
		}
		if len(q[name]) > 1 {
			return nil, badParam(name, "is given twice")
		}
	}
	return q, nil
}

// count reads the parameter n, a number from 1 to most; the default is some.
func count(q url.Values, some, maximum int) (int, error) {
	if !q.Has("n") {
		return some, nil
	}
	n, err := strconv.Atoi(q.Get("n"))
	if err != nil || n < 1 || n > maximum {
		return 0, badParam("n", fmt.Sprintf("want a whole number, 1 … %d", maximum))
	}
	return n, nil
}

// checkWhy refuses a reason that would fill or break a line of the log.
func checkWhy(why string) error {
	if len(why) > maxWhy || !utf8.ValidString(why) || strings.ContainsFunc(why, unicode.IsControl) {
		return badParam("why", fmt.Sprintf("want at most %d bytes of text in one line", maxWhy))
	}
	return nil
}

// routeParam returns the parameter route, the only one allowed; "" means all.
func (g *Gateway) routeParam(r *http.Request) (string, error) {
	q, err := query(r, "route")
	if err != nil {
		return "", err
	}
	route := q.Get("route")
	if route == "" {
		return "", nil
	}
	return route, g.hasRoute(route)
}

// hasRoute refuses the name of a route that does not exist.
func (g *Gateway) hasRoute(name string) error {
	if _, err := g.opts.Cascade.Route(name); err != nil {
		return unknownModel(name)
	}
	return nil
}
