package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/config"
)

// call runs the program in this process.
func call(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(args, &o, &e)
	return status, o.String(), e.String()
}

// configFile writes a configuration and returns its path.
func configFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "foregate.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAnswersThatCanBeForgedAreToldByCheckAtTheStartAndToTheConsole(t *testing.T) {
	const warning = "cache.seal_keys_file: there is none, so who can write to the Redis of answers and knows a request can forge its answer"
	shared := "redis://" + miniredis.RunT(t).Addr()
	for redis, want := range map[string]bool{
		"{url: \"" + shared + "\"}":                   true,
		"{url: none, cache_url: \"" + shared + "\"}":  true,
		"{url: \"" + shared + "\", cache_url: none}":  false,
		"{url: \"" + shared + "\"}, cache: WITH KEYS": false,
		"{url: embedded}":                             false,
		"{url: none}":                                 false,
	} {
		redis = strings.Replace(redis, ", cache: WITH KEYS", "\ncache: {seal_keys_file: "+secretFile(t, oneKey)+"}", 1)
		file := configFile(t, minConfig+"redis: "+redis+"\n")
		if _, _, errs := call(t, "check", file); strings.Contains(errs, "warning: "+warning) != want {
			t.Errorf("%s: check says %q, want a warning: %t", redis, errs, want)
		}
		f, err := config.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		r, _ := assembled(t, f, func(p *app.Options) { p.Logger = zerolog.New(&log) })
		if got := strings.Contains(log.String(), warning); got != want {
			t.Errorf("%s: the log warns: %t, want %t:\n%s", redis, got, want, log.String())
		}
		status := r.Status()
		if got := len(status.Warnings) == 1 && strings.HasPrefix(status.Warnings[0], warning); got != want {
			t.Errorf("%s: operators are told %q, want a warning: %t", redis, status.Warnings, want)
		}
	}
}
