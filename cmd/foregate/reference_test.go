package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/config"

	"github.com/foregate/foregate/internal/golden"
)

func TestTheReferenceIsUpToDate(t *testing.T) {
	const path = "../../docs/reference.md"
	commands, err := flagsText()
	if err != nil {
		t.Fatal(err)
	}
	got, err := referencePage(t.Context(), commands)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, path, got) // if it is stale, run make docs
}

// flagsText is the help of every command.
func flagsText() (string, error) {
	var c cli
	var out bytes.Buffer
	parser, err := kong.New(&c, kong.Name("foregate"), kong.Writers(&out, &out), kong.Exit(func(int) {}))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, leaf := range parser.Model.Leaves(true) {
		out.Reset()
		_, _ = parser.Parse(append(strings.Fields(leaf.Path()), "--help")) // help was printed; the rest of the line does not matter
		fmt.Fprintf(&b, "### foregate %s\n\n```\n%s\n```\n\n", leaf.Path(), strings.TrimSpace(out.String()))
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}

// example returns a guide and its first configuration, which is sound.
func example(t *testing.T, path string) (guide string, f *config.File) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```yaml\n")
	first, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatalf("%s has no yaml example", path)
	}
	if f, err = config.Parse(path, []byte(first)); err != nil {
		t.Fatal(err)
	}
	return string(text), f
}

func TestTheExampleOfAHostedTargetIsSoundAndItsDraftsPay(t *testing.T) {
	_, f := example(t, "../../docs/guides/hosted-target.md")
	f.Cache.SealKeysFile, f.Pools["hosted"] = "", func() config.Pool { // files that only its reader has
		p := f.Pools["hosted"]
		p.Auth = config.PoolAuth{}
		return p
	}()
	checked, err := app.Check(f)
	if ofRoutes := slices.ContainsFunc(checked.Warnings, func(w string) bool { return strings.HasPrefix(w, "route") }); err != nil || ofRoutes {
		t.Errorf("%v; its prices are warned of: %q", err, checked.Warnings)
	}
}

// TestTheGuidesConfigurationStartsAsItStands: it is sound, and each of its backends is simulated by a line of the guide.
func TestTheGuidesConfigurationStartsAsItStands(t *testing.T) {
	guide, f := example(t, "../../docs/guides/first-deployment.md")
	checked, err := app.Check(f)
	if ofRoutes := slices.ContainsFunc(checked.Warnings, func(w string) bool { return strings.HasPrefix(w, "route") }); err != nil || ofRoutes {
		t.Errorf("%v; its prices are warned of: %q", err, checked.Warnings)
	}
	simulated := map[string]string{} // URL: model
	for _, line := range regexp.MustCompile(`bin/vllmsim --listen (\S+) --model (\S+) `).FindAllStringSubmatch(guide, -1) {
		simulated["http://"+line[1]] = line[2]
	}
	configured := map[string]string{}
	for _, def := range f.Pools {
		for _, url := range def.Backends {
			configured[url] = def.Model
		}
	}
	if diff := cmp.Diff(configured, simulated); diff != "" {
		t.Errorf("-backends of the configuration +simulated:\n%s", diff)
	}
}
