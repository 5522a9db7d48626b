package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/app/apptest"
)

func TestWhatTheDemonstrationPrintsToOperateItWorks(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	d := launchDemo(t, "--no-traffic", "--time-scale", "20")
	if _, out, _ := call(t, "status", "--admin", d.base); strings.Contains(out, "not probed yet") {
		t.Errorf("it invites to try it before anything can be drafted:\n%s", out)
	}
	printed := func(pattern string) []string {
		t.Helper()
		var found []string
		apptest.Within(t, startWait, pattern+" is printed", func() bool {
			found = regexp.MustCompile(pattern).FindStringSubmatch(d.log.String())
			return found != nil
		})
		return found
	}
	line := printed(`redis-cli -h (\S+) -p (\d+) HSET (\S+) (\S+) (\S+) `)
	secret := printed(`export REDISCLI_AUTH=(\S+) FOREGATE_REDIS=(\S+)\n`)
	c := redis.NewClient(&redis.Options{Addr: line[1] + ":" + line[2], Password: secret[1]})
	defer func() { _ = c.Close() }()
	if err := c.HSet(t.Context(), line[3], line[4], line[5]).Err(); err != nil {
		t.Fatal(err)
	}
	apptest.Within(t, startWait, "it is in force", func() bool {
		_, out, _ := call(t, "status", "--admin", d.base)
		return regexp.MustCompile(`speculation\.mode@llama-3 +off`).MatchString(out)
	})
	if status, _, errs := call(t, "settings", "set", "--redis", secret[2], "--because", "a try", "shed.low=0.7"); status != 0 {
		t.Error(errs)
	}
	curl := printed(`curl -X POST -H '(\w+): ([^']+)' '([^']+)'`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, curl[3], nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(curl[1], curl[2])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", curl[3], resp.Status)
	}
}
