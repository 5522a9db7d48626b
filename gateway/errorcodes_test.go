package gateway

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/tiers/engine"
)

// codeInSource finds where the code of an error body stands as a literal: Code: "…", "code": "…", p.body.Code = "…", refuse("…", …),
// refuseWith(status, "…", …), badField(name, "…", …), w.bad(name, "…", …), and constants whose name begins with code.
var codeInSource = regexp.MustCompile(`(?:\bCode: |"code": |\.Code = (?:[^"\n]*, )?|\brefuse\(|\b(?:refuseWith|badField|bad)\([^,()]+(?:\([^()]*\))?[^,()]*, |(?m:^\s*(?:const )?code\w+(?: string)?) += )"([^"]+)"`)

// inSource are the matches of a pattern in the files of a folder without tests, and where they stand.
func inSource(t *testing.T, pattern *regexp.Regexp, files string) map[string]string {
	t.Helper()
	found := map[string]string{}
	names, err := filepath.Glob(files)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %d files, %v", files, len(names), err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "errorcodes.go") {
			continue
		}
		for _, m := range pattern.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = name
		}
	}
	return found
}

func TestEveryErrorCodeIsInTheTable(t *testing.T) {
	listed := map[string]bool{}
	for _, c := range ErrorCodes {
		if listed[c.Code] {
			t.Errorf("%s is listed twice", c.Code)
		}
		listed[c.Code] = true
		if len(c.Statuses) == 0 || !strings.HasSuffix(c.Meaning, ".") {
			t.Errorf("%s: say its statuses, and its meaning as a sentence", c.Code)
		}
	}
	found := inSource(t, codeInSource, "*.go")
	maps.Copy(found, inSource(t, codeInSource, "../tiers/openai/*.go"))
	if len(found) < 40 {
		t.Fatalf("found only %d codes in the source", len(found))
	}
	for code, at := range found {
		if !listed[code] {
			t.Errorf("%s: the code %q is not in ErrorCodes (gateway/errorcodes.go), which the reference has: add it, and make docs", at, code)
		}
	}
	kinds := inSource(t, regexp.MustCompile(`FailureKind += "([^"]+)"`), "../tiers/engine/engine.go")
	if len(kinds) < 15 {
		t.Fatalf("found only the kinds %v", kinds)
	}
	for kind := range kinds {
		p := failureProblem(&engine.Failure{Kind: engine.FailureKind(kind)})
		found[p.body.Code] = "failureProblem"
		row := func(c ErrorCode) bool { return c.Code == p.body.Code && slices.Contains(c.Statuses, p.status) }
		if !slices.ContainsFunc(ErrorCodes, row) {
			t.Errorf("a failure of kind %s is answered %d %q, which is not in ErrorCodes (gateway/errorcodes.go): add it", kind, p.status, p.body.Code)
		}
	}
	for code := range listed {
		if found[code] == "" {
			t.Errorf("ErrorCodes has %q, which nothing answers: remove it", code)
		}
	}
}
