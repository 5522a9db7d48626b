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

// TestTheGuidesConfigurationStartsAsItStands: it is sound, and each of its backends is simulated by a line of the guide.
func TestTheGuidesConfigurationStartsAsItStands(t *testing.T) {
	const path = "../../docs/guides/first-deployment.md"
	guide, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(guide), "```yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("the guide has no yaml example")
	}
	f, err := config.Parse(path, []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	checked, err := app.Check(f)
	if ofRoutes := slices.ContainsFunc(checked.Warnings, func(w string) bool { return strings.HasPrefix(w, "route") }); err != nil || ofRoutes {
		t.Errorf("%v; its prices are warned of: %q", err, checked.Warnings)
	}
	simulated := map[string]string{} // URL: model
	for _, line := range regexp.MustCompile(`bin/vllmsim --listen (\S+) --model (\S+) `).FindAllStringSubmatch(string(guide), -1) {
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
