package main

import (
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/engines"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// demoWorld is a running `foregate demo`.
type demoWorld struct {
	t              testing.TB
	cmd            *exec.Cmd
	requests, base string // URLs: where requests are taken, and of the admin listener
	link           string // that signs in at the console

	log  *apptest.Log // what it has printed
	stop func() error // interrupts it, once, and says how it ended
}

// launchDemo starts one that says where it is, and stops it with the test.
func launchDemo(t testing.TB, args ...string) *demoWorld {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, append([]string{"demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--redis-listen", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), beForegate+"=1")
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close() // the child has its own
	d := &demoWorld{t: t, cmd: cmd, log: &apptest.Log{}}
	var reading sync.WaitGroup
	reading.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := out.Read(buf)
			d.log.Write(buf[:n])
			if err != nil {
				return
			}
		}
	})
	d.stop = sync.OnceValue(func() error {
		_ = cmd.Process.Signal(os.Interrupt)
		kill := time.AfterFunc(stopWait, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		err := cmd.Wait()
		reading.Wait()
		_ = out.Close()
		return err
	})
	t.Cleanup(func() {
		if err := d.stop(); err != nil {
			t.Errorf("the demo ended with %v\n%s", err, d.log.String())
		}
	})
	apptest.Within(t, startWait, "the demo says where its console is", func() bool {
		d.requests, d.base, d.link = d.told("requests"), strings.TrimSuffix(d.told("metrics"), "/metrics"), d.told("console")
		return d.requests != "" && d.base != "" && d.link != ""
	})
	return d
}

// told is what follows a label in what the demo has printed, "" before.
func (d *demoWorld) told(label string) string {
	for line := range strings.Lines(d.log.String()) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), label+" "); ok && strings.HasSuffix(line, "\n") {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

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
	apptest.Post(t, curl[3], "", curl[1], curl[2])
}

// launchPair starts the demonstration in front of two engines, and waits until it has said everything.
func launchPair(t *testing.T, draft, target string, args ...string) *demoWorld {
	t.Helper()
	d := launchDemo(t, append([]string{"--draft", draft, "--target", target}, args...)...)
	apptest.Within(t, startWait, "it has said how to operate it", func() bool {
		return strings.Contains(d.log.String(), "Ctrl-C stops the gateway; your engines go on running.")
	})
	return d
}

// chat asks the demonstration once.
func (d *demoWorld) chat(body string) (http.Header, string) {
	d.t.Helper()
	text, head := apptest.Post(d.t, d.requests, body)
	return head, text
}

func TestTheDemonstrationRunsInFrontOfTwoEnginesThatRunAlready(t *testing.T) {
	sim := func(model string) string {
		return vllmsim.Start(t, vllmsim.Options{Model: model, Seed: 1, TimeScale: 50}).URL()
	}
	d := launchPair(t, sim("small"), sim("large"))
	said := d.log.String()
	for _, want := range []string{"  small  (", "  large  (", "risk         works", "verify       works", "console    http://"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q was not said:\n%s", want, said)
		}
	}
	header, text := d.chat(`{"model":"demo","max_tokens":20,"messages":[{"role":"user","content":"Why do cats purr?"}]}`)
	if header.Get("X-Tier") == "" || !strings.Contains(text, `"model":"demo"`) {
		t.Errorf("%v: %s", header, text)
	}
	command := regexp.MustCompile(`bin/foregate (settings set .*)\n`).FindStringSubmatch(said)
	if command == nil {
		t.Fatalf("it says no command that changes the mode:\n%s", said)
	}
	if status, _, errs := call(t, strings.Fields(strings.ReplaceAll(command[1], "'more drafts'", "more"))...); status != 0 {
		t.Error(errs)
	}
	apptest.Within(t, startWait, "the mode is in force", func() bool {
		_, out, _ := call(t, "status", "--admin", d.base)
		return regexp.MustCompile(`speculation\.mode@demo +confidence`).MatchString(out)
	})
	if strings.Contains(d.log.String(), "(simulated") {
		t.Error("it started simulators")
	}
}

func TestTheDemonstrationRunsInFrontOfARealPair(t *testing.T) {
	draft := engines.Start(t, engines.Options{Kind: engines.LlamaCpp, Model: engines.LlamaDraft, Name: "smol-draft"})
	target := engines.Start(t, engines.Options{Kind: engines.LlamaCpp, Model: engines.LlamaTarget, Name: "smol-target"})
	d := launchPair(t, draft.URL, target.URL)
	said := d.log.String()
	for _, want := range []string{"  smol-draft  (", "  smol-target  (", "risk         works", "verify       not available: pool target: "} {
		if !strings.Contains(said, want) {
			t.Errorf("%q was not said:\n%s", want, said)
		}
	}
	header, text := d.chat(`{"model":"demo","max_tokens":20,"temperature":0,"messages":[{"role":"user","content":"What is the capital of France?"}]}`)
	if accepted := header.Get("X-Acceptance"); !strings.Contains(accepted, "mode=risk") || !strings.Contains(text, `"usage":{"completion_tokens":`) {
		t.Errorf("%s: %s", accepted, text)
	}
}
