package settings

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestEverySettingIsWellFormed(t *testing.T) {
	name := regexp.MustCompile(`^[a-z]+(\.[a-z_]+)$`)
	all := Specs()
	if !slices.IsSortedFunc(all, func(a, b Spec) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted")
	}
	defaults := Defaults()
	for i, s := range all {
		if !name.MatchString(s.Name) || s.Doc == "" || !strings.HasSuffix(s.Doc, ".") || strings.ContainsAny(s.Doc+s.Range, "|\n") || s.Range == "" {
			t.Errorf("%+v", s)
		}
		if i > 0 && all[i-1].Name == s.Name {
			t.Errorf("%s is there twice", s.Name)
		}
		// of pools, connections, tenants and requests whose route is not known yet
		shared := slices.Contains([]string{"breaker", "route", "scrape", "limit", "redis", "receipts", "responses"}, strings.Split(s.Name, ".")[0]) ||
			slices.Contains([]string{"redis.timeout", "cache.max_entry_bytes", "timeout.connect", "timeout.body"}, s.Name)
		if s.PerRoute == shared {
			t.Errorf("%s: per route %v", s.Name, s.PerRoute)
		}
		if err := check(&s, s.Default); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if err := check(&s, s.Value(&defaults)); err != nil {
			t.Errorf("%s: what it shows it does not read: %v", s.Name, err)
		}
	}
}

func TestARefusalTellsWhatIsWrong(t *testing.T) {
	for _, tc := range [][3]string{
		{"shed.low", "0.8", ""},
		{"shed.low@any-route", "1e-1", ""},
		{"timeout.stream_idle", "1m30s", ""},
		{"speculation.threshold_nats", "-20", ""},
		{"shed.low", "", `shed.low: "" is refused: want a plain decimal number, 0 … 1`},
		{"shed.low", "NaN", `shed.low: "NaN" is refused: want a plain decimal number, 0 … 1`},
		{"shed.low", "+Inf", `shed.low: "+Inf" is refused: want a plain decimal number, 0 … 1`},
		{"shed.low", "infinity", `shed.low: "infinity" is refused: want a plain decimal number, 0 … 1`},
		{"shed.low", "1e309", `shed.low: "1e309" is refused: want a plain decimal number, 0 … 1`},
		{"shed.low", "0x1p-1", `shed.low: "0x1p-1" is refused: want a plain decimal number, 0 … 1`},
		{"shed.low", "0_1", `shed.low: "0_1" is refused: want a plain decimal number, 0 … 1`},
		{"shed.low", "0,8", `shed.low: "0,8" is refused: want a plain decimal number, 0 … 1`},
		{"shed.low", "85", `shed.low: "85" is refused: out of range; want 0 … 1`},
		{"shed.low", "85%", `shed.low: "85%" is refused: want a plain decimal number, 0 … 1`},
		{"shed.low", "-0.1", `shed.low: "-0.1" is refused: must not be negative; want 0 … 1`},
		{"shed.low", " 0.8", `shed.low: " 0.8" is refused: there is white space in it; want 0 … 1`},
		{"shed.low", "0.8\n", `shed.low: "0.8?" is refused: there is white space in it; want 0 … 1`},
		{"retry.max_retries", "1.5", `retry.max_retries: "1.5" is refused: want a whole number in plain decimal digits, 0 … 10`},
		{"retry.max_retries", "11", `retry.max_retries: "11" is refused: out of range; want 0 … 10`},
		{"retry.max_retries", "0x2", `retry.max_retries: "0x2" is refused: want a whole number in plain decimal digits, 0 … 10`},
		{"retry.max_retries", "99999999999999999999", `retry.max_retries: "99999999999999999999" is refused: want a whole number in plain decimal digits, 0 … 10`},
		{"speculation.holdback_ms", "1200ms", `speculation.holdback_ms: "1200ms" is refused: want a plain decimal number, 0 … 60000`},
		{"timeout.stream_idle", "20", `timeout.stream_idle: "20" is refused: want a duration with its unit, such as "5s" or "1500ms", 10ms … 1h`},
		{"timeout.stream_idle", "soon", `timeout.stream_idle: "soon" is refused: want a duration with its unit, such as "5s" or "1500ms", 10ms … 1h`},
		{"timeout.stream_idle", "-5s", `timeout.stream_idle: "-5s" is refused: must not be negative; want 10ms … 1h`},
		{"timeout.stream_idle", "9999999h", `timeout.stream_idle: "9999999h" is refused: want a duration with its unit, such as "5s" or "1500ms", 10ms … 1h`},
		{"speculation.mode", "On", `speculation.mode: "On" is refused: want one of off, shadow, confidence, risk, verify`},
		{"shed.allow_high", "true", `shed.allow_high: "true" is refused: want one of yes, no`},
		{"shed.lo", "1", `shed.lo: unknown setting`},
		{"banana", "1", `banana: unknown setting`},
		{"breaker.open_duration@any-route", "3s", `breaker.open_duration@any-route: "3s" is refused: is the same for every route and cannot be overridden`},
	} {
		s, _ := FromHash(map[string]string{tc[0]: tc[1]}, []string{"any-route"}, nil)
		got := ""
		for _, r := range s.Rejected {
			got += problemText(r)
		}
		for _, r := range s.Unknown {
			got += r.Name + ": " + r.Reason
		}
		if got != tc[2] {
			t.Errorf("%s %q:\n got %s\nwant %s", tc[0], tc[1], got, tc[2])
		}
	}
}
