package display

import (
	"fmt"
	"io"
	"time"

	"github.com/foregate/foregate/gateway/ledger"
)

// Usage prints what tenants used.
func Usage(w io.Writer, r *ledger.Report) {
	whose := "all replicas"
	if r.Scope == ledger.ScopeReplica {
		whose = "this replica, which shares nothing"
	}
	if r.Since != nil {
		whose += ", since its start at " + r.Since.UTC().Format(time.RFC3339)
	}
	Line(w, fmt.Sprintf("%s … %s (UTC), of %s", r.From, r.To, whose))
	if r.Damaged > 0 {
		Line(w, fmt.Sprintf("%s in Redis could not be read and are not counted", Count(r.Damaged, "field", "fields")))
	}
	t := Table{}
	var head []string
	for _, by := range r.By {
		head = append(head, string(by))
	}
	t.Add(append(head, "requests", "not ok", "cached", "prompt tokens", "answer tokens", "by drafts", "USD", "saved by drafts", "saved by cache")...)
	for i := range r.Rows {
		var names []string
		for _, by := range r.By {
			names = append(names, r.Rows[i].Group(by))
		}
		t.Add(append(names, usageCells(&r.Rows[i])...)...)
	}
	total := []string{"total"}
	for range len(r.By) - 1 {
		total = append(total, "")
	}
	t.Add(append(total, usageCells(&r.Total)...)...)
	t.Write(w)
}

func usageCells(r *ledger.Row) []string {
	return []string{
		fmt.Sprint(r.Requests), fmt.Sprint(r.Requests - r.OK), fmt.Sprint(r.Cached + r.Coalesced),
		fmt.Sprint(r.Prompt), fmt.Sprint(r.Completion), fmt.Sprint(r.DraftTokens),
		amount(r.USD), amount(r.DraftsSaved), amount(r.CacheSaved),
	}
}

// amount formats an amount, "–" where it is unknown.
func amount(n ledger.Nanos) string {
	if n == ledger.Unknown {
		return "–"
	}
	return SignedDollars(n.USD())
}
