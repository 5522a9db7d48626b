package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/tiers/openai"
)

// countUsage counts a finished request for its tenant. Requests without a known route are not counted: they used nothing.
func (g *Gateway) countUsage(l *accessRecord) {
	if l.route == "" {
		return
	}
	c := usageOf(l)
	g.opts.Ledger.Add(l.Began, l.Caller.Tenant, l.route, &c)
}

// usageOf returns the usage of one request, as its receipt tells it.
func usageOf(l *accessRecord) ledger.Counts {
	c := ledger.Counts{Requests: 1}
	switch {
	case l.code == statusGone:
		c.ClientLeft = 1
	case l.code == http.StatusTooManyRequests:
		c.Limited = 1
	case l.code == http.StatusServiceUnavailable:
		c.Shed = 1
	case l.code >= http.StatusInternalServerError && !l.isClients():
		c.Failed = 1
	case l.code >= http.StatusBadRequest:
		c.Refused = 1
	default:
		c.OK = 1
	}
	if e := l.Entry; e != nil {
		if l.Cache == cache.ResultCoalesced {
			c.Coalesced = 1
		} else {
			c.Cached = 1
		}
		c.Prompt, c.Completion = int64(e.Prompt), int64(e.Accepted+e.Target)
		c.CachedTokens, c.CacheSaved = c.Prompt+c.Completion, ledger.NanosOf(e.USD)
		return c
	}
	if rc := l.Receipt; rc != nil {
		c.Prompt, c.Completion, c.DraftTokens = int64(rc.PromptTokens), int64(rc.AcceptedTokens+rc.TargetTokens), int64(rc.AcceptedTokens)
		c.DraftUSD = ledger.NanosOf(rc.DraftUSD)
		c.TargetUSD = ledger.NanosOf(rc.USD) - c.DraftUSD
		c.TargetAloneUSD = ledger.NanosOf(rc.TargetAloneUSD)
		c.DraftsSaved = c.TargetAloneUSD - ledger.NanosOf(rc.SpentUSD)
	}
	return c
}

var (
	errUsageAway = &problem{status: http.StatusServiceUnavailable, retryable: true, body: openai.ErrorBody{
		Message: "Usage cannot be read: Redis does not answer. Replicas keep what they count and write it when Redis is back.", Type: "server_error", Code: "usage_away",
	}}
	errUsageRows = invalid(http.StatusBadRequest, "too_many_rows", fmt.Sprintf("The usage has more than %d rows. Ask for fewer days, or for fewer of tenant, route and day in by.", ledger.MaxReportRows))
)

// usage answers GET /admin/usage?from=&to=&by=&format= with JSON or CSV.
func (g *Gateway) usage(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(usageTimeout)) // net/http always supports it
	report, asCSV, err := g.readUsage(r)
	if err != nil {
		writeProblem(w, usageProblem(err))
		return
	}
	if !asCSV {
		writeJSON(w, report)
		return
	}
	var table bytes.Buffer
	if err := writeCSV(&table, report); err != nil {
		writeProblem(w, errAction)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="foregate-usage-%s-%s.csv"`, report.From, report.To))
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(table.Bytes()) // the client may have disconnected
}

// usageTimeout bounds reading and sending usage.
const usageTimeout = 30 * time.Second

// readUsage reads what a request asks for.
func (g *Gateway) readUsage(r *http.Request) (report *ledger.Report, asCSV bool, err error) {
	q, err := query(r.URL.RawQuery, []string{"from", "to", "by", "format"})
	if err != nil {
		return nil, false, err
	}
	switch format := q.Get("format"); {
	case format == "csv":
		asCSV = true
	case q.Has("format") && format != "json":
		return nil, false, badParam("format", "want json or csv")
	}
	for _, name := range []string{"from", "to", "by"} {
		if q.Has(name) && q.Get(name) == "" {
			return nil, false, badParam(name, "is empty")
		}
	}
	now := g.opts.Now()
	if wanted, err := ledger.ParseQuery(q.Get("from"), q.Get("to"), q.Get("by"), now); err != nil {
		return nil, false, err
	} else if report, err = g.opts.Ledger.Read(r.Context(), wanted); err != nil {
		return nil, false, err
	}
	return report, asCSV, nil
}

// usageProblem is problemOf for the errors of usage.
func usageProblem(err error) *problem {
	if p, ok := errors.AsType[*ledger.ParamError](err); ok {
		return badParam(p.Name, p.Message)
	}
	switch {
	case errors.Is(err, ledger.ErrTooManyRows):
		return errUsageRows
	case errors.Is(err, ledger.ErrAway):
		return errUsageAway
	}
	return problemOf(err)
}
