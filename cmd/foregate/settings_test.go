package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/internal/golden"
)

var (
	// clock is a time in what the commands print.
	clock = regexp.MustCompile(`(\d{4}-)?\d\d-\d\d \d\d:\d\d(:\d\dZ)?`)
	// untouched is a line of the list that nobody changed; they are not in the file, so
	// that a setting more does not change it.
	untouched = regexp.MustCompile(`(?m)^[a-z]+\.\S+ +\S+ +\S+ {15,}\S.*\n`)
)

// TestSettingsAreChangedFromTheCommandLine goes through a day of an operator; the file
// holds what was typed and what came.
func TestSettingsAreChangedFromTheCommandLine(t *testing.T) {
	m := miniredis.RunT(t)
	file := configFile(t, `listen: 127.0.0.1:0
redis: {url: "redis://`+m.Addr()+`/0"}
pools: {p: {model: m, backends: ["http://h:1"]}}
routes: [{model: llama-3, target: p}, {model: qwen, target: p}]
`)
	t.Setenv("FOREGATE_REDIS", "")
	var b strings.Builder
	enter := func(line string) {
		t.Helper()
		args := append(strings.Fields(line), "-c", file)
		if strings.Contains(line, " set ") || strings.Contains(line, "unset") || strings.Contains(line, "rollback") {
			args = append(args, "--as", "anne@desk")
		}
		status, out, errs := call(t, args...)
		b.WriteString("$ foregate " + line + "\n" + untouched.ReplaceAllString(out, "") + errs)
		if status != 0 {
			b.WriteString("(status " + string(rune('0'+status)) + ")\n")
		}
		b.WriteString("\n")
	}
	enter("settings set shed.low=0.8 shed.low@llama-3=0.7 timeout.stream_idle=5s --because=burst")
	enter("settings set shed.low 0.75")
	enter("settings set shed.low 0.75")
	enter("settings set shed.low=0.99 retry.max_retries=many shed.lo=1 shed.low@lama-3=0.5 breaker.open_duration@qwen=3s")
	enter("settings set shed.low")
	enter("settings set shed.low=1 shed.low=2")
	enter("settings set warp.factor=9 --force")
	m.HSet("foregate:settings", "retry.max_retries", "1", "shed.normal", "banana")
	enter("settings unset timeout.stream_idle warp.factor")
	enter("settings unset timeout.stream_idle")
	enter("settings list")
	enter("settings list --route llama-3")
	enter("settings list --route lama-3")
	enter("settings rollback 1 --dry-run")
	enter("settings rollback 1")
	enter("settings rollback 77")
	enter("settings rollback")
	enter("settings log")
	enter("settings log shed.low --limit 1")
	golden.Check(t, "testdata/settings.txt", clock.ReplaceAllString(b.String(), "MM-DD HH:MM"))
}

func TestARedisThatCannotBeUsedIsToldWithoutItsPassword(t *testing.T) {
	for _, tc := range []struct{ url, want string }{
		{"", "no Redis is named"},
		{"none", "no Redis is named"},
		{"embedded", "an embedded Redis is inside its replica"},
		{"redis://u:hunter2@127.0.0.1:1", "no answer from Redis (single 127.0.0.1:1): "},
		{"redis://u:hunter2@", "--redis: "},
	} {
		t.Setenv("FOREGATE_REDIS", tc.url)
		for _, args := range [][]string{{"list"}, {"set", "shed.low=0.8"}, {"unset", "shed.low"}, {"log"}, {"rollback", "1"}} {
			status, out, errs := call(t, append([]string{"settings"}, args...)...)
			if status != 1 || out != "" || !strings.Contains(errs, tc.want) || strings.Contains(errs, "hunter2") || !strings.HasPrefix(errs, "foregate: ") {
				t.Errorf("%q %v: status %d, %q, %q", tc.url, args, status, out, errs)
			}
		}
	}
}
