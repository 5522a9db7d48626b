package usage

import (
	"fmt"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func TestQueriesAreReadAndTheirDefaultIsTheMonthByTenant(t *testing.T) {
	for _, c := range []struct{ from, to, by, want string }{
		{"", "", "", "2026-11-01 2026-11-23 [tenant]"},
		{"2026-10-05", "", "", "2026-10-05 2026-11-23 [tenant]"},
		{"", "2026-02-28", "", "2026-02-01 2026-02-28 [tenant]"},
		{"2026-11-23", "2026-11-23", "day", "2026-11-23 2026-11-23 [day]"},
		{"2025-10-20", "2026-11-23", "route, day,tenant", "2025-10-20 2026-11-23 [route day tenant]"},
		{"2026-11-24", "2027-01-01", "tenant", "2026-11-24 2027-01-01 [tenant]"},
	} {
		q, err := ParseQuery(c.from, c.to, c.by, noon)
		if got := fmt.Sprint(q.From, q.To, q.By); err != nil || got != c.want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
}

func TestMistakesInQueriesAreNamed(t *testing.T) {
	for _, c := range []struct{ from, to, by, want string }{
		{"yesterday", "", "", "from: want a UTC day such as 2026-11-23"},
		{"", "2026-02-30", "", "to: want a UTC day such as 2026-11-23"},
		{"0001-01-01", "", "", "from: want a UTC day such as 2026-11-23"},
		{"2026-11-24", "", "", "from: 2026-11-24 is after 2026-11-23; both are UTC days and included"},
		{"2025-10-19", "2026-11-23", "", "from: 2025-10-19 … 2026-11-23 are 401 days; want at most 400"},
		{"", "", "tenant,tenant", "by: want tenant, route and day, one or more of them, each once, such as tenant,day"},
		{"", "", "tenant,", "by: want tenant, route and day, one or more of them, each once, such as tenant,day"},
		{"", "", "model", "by: want tenant, route and day, one or more of them, each once, such as tenant,day"},
	} {
		if q, err := ParseQuery(c.from, c.to, c.by, noon); err == nil || err.Error() != c.want {
			t.Errorf("%+v: %+v, %v", c, q, err)
		}
	}
}
