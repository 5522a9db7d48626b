package gateway

import (
	"net/http"
	"strconv"

	"github.com/foregate/foregate/tiers/openai"
)

// livez says that the process is up.
func (g *Gateway) livez(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok\n") }

// readyz says whether new requests should come here, and if not, why. How much Redis
// there is stands in a line of its own, and changes nothing: without any, requests are
// answered as well.
func (g *Gateway) readyz(w http.ResponseWriter, _ *http.Request) {
	if why := g.unready(); why != "" {
		writeText(w, http.StatusServiceUnavailable, why+"\n")
		return
	}
	text := "ok\n"
	if g.opts.Rung != nil {
		text += "redis: " + g.opts.Rung() + "\n"
	}
	writeText(w, http.StatusOK, text)
}

// unready is why new requests should not come here, "" when they should.
func (g *Gateway) unready() string {
	if g.draining.Load() {
		return "draining"
	}
	if g.opts.Ready != nil {
		if err := g.opts.Ready(); err != nil {
			return err.Error()
		}
	}
	return ""
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // a prober that hung up needs no answer
}

// models lists the routes.
func (g *Gateway) models(l *exchangeLog, w http.ResponseWriter, r *http.Request) error {
	caller, err := g.opts.Identity.Identify(r)
	if err != nil {
		return err
	}
	l.caller = caller
	created := strconv.FormatInt(g.now().Unix(), 10)
	b := []byte(`{"object":"list","data":[`)
	for i, m := range g.opts.Models {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = append(b, openai.Quote(m.ID)...)
		b = append(b, `,"object":"model","created":`+created+`,"owned_by":"foregate"}`...)
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(append(b, "]}"...))
	if err != nil {
		l.code = statusGone
	}
	return nil
}
