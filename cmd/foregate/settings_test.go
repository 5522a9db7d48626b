package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/identity"
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
	file := apptest.File(t, "foregate.yaml", `listen: 127.0.0.1:0
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

func TestCommandsAndReplicasShowThePasswordsOfFiles(t *testing.T) {
	t.Setenv("FOREGATE_REDIS", "")
	m := miniredis.RunT(t)
	m.RequireUserAuth("foregate", "password-of-replicas")
	m.RequireUserAuth("operator", "password-of-operators")
	own, operators := apptest.File(t, "secret", "password-of-replicas\n"), apptest.File(t, "secret", "password-of-operators\n")
	text := minConfig + "redis:\n  url: redis://foregate@" + m.Addr() + "\n  settings_url: redis://operator@" + m.Addr() +
		"\n  password_file: " + own + "\n  settings_password_file: " + operators + "\n"
	file := apptest.File(t, "foregate.yaml", text)
	if status, _, errs := call(t, "settings", "set", "-c", file, "shed.low=0.7"); status != 0 {
		t.Fatalf("settings set: %s", errs)
	}
	r := apptest.ServeFile(t, file)
	apptest.Eventually(t, "the replica shares", func() bool { return r.Fleet.Sharing() })
	if got := r.App.Settings.Snapshot().Global().Admission.Threshold[identity.Low]; got != 0.7 {
		t.Errorf("the replica reads shed.low %v", got)
	}
	if err := r.Options.Stores.Settings.Ping(t.Context()).Err(); err != nil {
		t.Errorf("who writes settings there: %v", err)
	}
	if err := os.WriteFile(operators, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"check", file}, {"serve", "-c", file}, {"settings", "list", "-c", file}} {
		status, _, errs := call(t, command...)
		if status != 1 || !strings.Contains(errs, "redis.settings_password_file: has 0 characters; want 1 … 4096") || strings.Contains(errs, operators) {
			t.Errorf("%s: status %d: %s", command[0], status, errs)
		}
	}
}

// sealed is a configuration with a file of seal keys.
func sealed(t *testing.T, more, keys string) string {
	t.Helper()
	return apptest.File(t, "foregate.yaml", minConfig+more+fmt.Sprintf("cache: {seal_keys_file: %q}\n", apptest.File(t, "secret", keys)))
}

func TestSealKeysThatAreNoneAreToldByCheckAndAtStart(t *testing.T) {
	for want, keys := range map[string]string{
		"cache.seal_keys_file: holds no secret; want lines \"ID SECRET\"":    "# none yet\n",
		"cache.seal_keys_file: line 2: the secret has 7 characters; want 32": oneKey + "k2 hunter2\n",
	} {
		file := sealed(t, "", keys)
		for _, command := range [][]string{{"check", file}, {"serve", "-c", file}} {
			status, out, errs := call(t, command...)
			if status != 1 || out != "" || !strings.Contains(errs, want) {
				t.Errorf("%s: status %d: %s%s, want %s", command[0], status, out, errs, want)
			}
			if strings.Contains(errs, "hunter2") || strings.Contains(errs, "/secret") {
				t.Errorf("%s: a secret may be told: %s", command[0], errs)
			}
		}
	}
}

func TestAnswersAreKeptWhereTheURLSaysAndNothingElseIs(t *testing.T) {
	t.Parallel()
	control, own := miniredis.RunT(t), miniredis.RunT(t)
	dir := "redis: {url: \"redis://" + control.Addr() + "\", cache_url: \"redis://" + own.Addr() + "\"}\n"
	r := apptest.ServeFile(t, sealed(t, dir, oneKey))
	key := cache.KeyOf(&cache.Parts{Tenant: "acme", Route: "m"}).Name()
	apptest.Eventually(t, "it hears of purges", r.Cache.Hears) // until then a purge may become one of everything
	apptest.Eventually(t, "the answer is kept", func() bool {
		r.Cache.Put(cache.KeyOf(&cache.Parts{Tenant: "acme", Route: "m"}), &cache.Entry{Created: time.Now(), Answer: []byte("an answer")}, time.Minute, nil)
		return own.Exists(key)
	})
	apptest.Eventually(t, "it shares", func() bool { return control.Exists("foregate:{fg}:replicas") })
	if control.Exists(key) {
		t.Errorf("answers: %v, others: %v", own.Keys(), control.Keys())
	}
	for _, name := range own.Keys() {
		if !strings.HasPrefix(name, "foregate:cache:") {
			t.Errorf("%s is with the answers", name)
		}
	}
	if _, err := r.Cache.Purge(t.Context(), cache.Scope{Tenant: "acme"}); err != nil {
		t.Error(err)
	}
	if control.HGet("foregate:{fg}:told1", "purges:1/tenant:acme") == "" {
		t.Error("a purge is not noted with what replicas tell each other")
	}
}

func TestAnswersThatCanBeForgedAreToldByCheckAtTheStartAndToTheConsole(t *testing.T) {
	const warning = "cache.seal_keys_file: there is none, so who can write to the Redis of answers and knows a request can forge its answer"
	shared := "redis://" + miniredis.RunT(t).Addr()
	for redis, want := range map[string]bool{
		"{url: \"" + shared + "\"}":                   true,
		"{url: \"" + shared + "\", cache_url: none}":  false,
		"{url: \"" + shared + "\"}, cache: WITH KEYS": false,
		"{url: embedded}":                             false,
		"{url: none}":                                 false,
	} {
		redis = strings.Replace(redis, ", cache: WITH KEYS", "\ncache: {seal_keys_file: "+apptest.File(t, "secret", oneKey)+"}", 1)
		file := apptest.File(t, "foregate.yaml", minConfig+"redis: "+redis+"\n")
		if _, _, errs := call(t, "check", file); strings.Contains(errs, "warning: "+warning) != want {
			t.Errorf("%s: check says %q, want a warning: %t", redis, errs, want)
		}
		r := apptest.ServeFile(t, file)
		if got := strings.Contains(r.Log.String(), warning); got != want {
			t.Errorf("%s: the log warns: %t, want %t:\n%s", redis, got, want, r.Log)
		}
		told := r.App.Status().Warnings
		if got := len(told) == 1 && strings.HasPrefix(told[0], warning); got != want {
			t.Errorf("%s: operators are told %q, want a warning: %t", redis, told, want)
		}
	}
}
