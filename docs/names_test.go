package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// stated calls check for each piece of code that a paper shows: the lines of its blocks, without their
// comments, and what stands between backticks. The changelog and generated papers are left out.
func stated(t *testing.T, check func(p *paper, code string)) {
	t.Helper()
	for _, p := range papers(t) {
		if p.name == "CHANGELOG.md" || p.name == "docs/reference.md" {
			continue
		}
		for _, block := range fence.FindAllString(p.text, -1) {
			if strings.HasPrefix(strings.TrimSpace(block), "```mermaid") {
				continue
			}
			for line := range strings.Lines(block) {
				code, _, _ := strings.Cut(line, " #")
				check(p, strings.TrimSpace(code))
			}
		}
		for _, span := range codeSpan.FindAllString(withoutFences(p.text), -1) {
			check(p, strings.Trim(span, "`"))
		}
	}
}

func reference(t *testing.T) string { return papers(t)["docs/reference.md"].text }

var (
	metricName  = regexp.MustCompile(`^(?:foregate|llm|router|vllm)_[a-z0-9_]+\*?`)
	settingName = regexp.MustCompile(`(?:^|\s)((?:breaker|cache|drain|economy|identity|limits?|receipts|redis|retry|risk|route|scrape|shed|speculation|timeout|tracing)\.[a-z_]+(?:\.[a-z_]+)*\*?)(?:@[\w./:-]+)?(?:[=:\s]|$)`)
	headerName  = regexp.MustCompile(`^X-[A-Za-z-]+`)
	fileSuffix  = regexp.MustCompile(`\.(conf|go|jsonl|lua|yaml|yml|md|acl)$`)
)

func TestEverySettingMetricAndHeaderIsInTheReference(t *testing.T) {
	ref := reference(t)
	known := func(name string) bool {
		if prefix, ok := strings.CutSuffix(name, "*"); ok {
			return strings.Contains(ref, "`"+prefix)
		}
		return strings.Contains(ref, "`"+name+"`") || strings.Contains(ref, "`"+name+"{")
	}
	stated(t, func(p *paper, code string) {
		if m := metricName.FindString(code); m != "" && !known(m) {
			t.Errorf("%s: there is no metric %s", p.name, m)
		}
		for _, m := range settingName.FindAllStringSubmatch(code, -1) {
			if !fileSuffix.MatchString(m[1]) && p.name != "deploy/helm/foregate/README.md" && !known(m[1]) && !strings.Contains(ref, "| `"+m[1]+".") {
				t.Errorf("%s: there is no setting %s (%s)", p.name, m[1], code)
			}
		}
		if m := headerName.FindString(code); m != "" && !strings.Contains(ref, m) {
			t.Errorf("%s: there is no header %s", p.name, m)
		}
	})
}

func TestEveryAlertIsARule(t *testing.T) {
	rules := ""
	eachFile(t, regexp.MustCompile(`^deploy/prometheus/rules/`), func(_, text string) { rules += text })
	for _, p := range papers(t) {
		for _, name := range regexp.MustCompile(`\bForegate[A-Z]\w+`).FindAllString(p.text, -1) {
			if p.name != "CHANGELOG.md" && !strings.Contains(rules, "alert: "+name) {
				t.Errorf("%s: there is no alert %s", p.name, name)
			}
		}
	}
}

var (
	makeTarget = regexp.MustCompile(`(?:^|&& |; )make ([a-z-]+)`)
	ourFolder  = regexp.MustCompile(`^((?:\.ci|breaker|cache|cmd|deploy|docs|gateway|internal|loadtest|panics|recent|tiers)/[\w./-]+)$`)
)

func TestEveryMakeTargetAndFileIsThere(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	stated(t, func(p *paper, code string) {
		for _, m := range makeTarget.FindAllStringSubmatch(code, -1) {
			if !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("%s: there is no make %s", p.name, m[1])
			}
		}
		if m := ourFolder.FindStringSubmatch(code); m != nil {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		}
	})
}

// command is what a subcommand takes.
type command struct{ flags map[string]bool }

var (
	usage    = regexp.MustCompile("(?s)\n### (foregate [a-z ]+)\n\n```\n(.*?)\n```")
	flagName = regexp.MustCompile(`--(?:\[no-\])?([a-z-]+)`)
	called   = regexp.MustCompile(`(?:^|\bbin/)(foregate|loadtest|vllmsim) ([^|;&)]*)`)
)

// commands returns the subcommands of foregate, by the reference, and the flags of the other programs, by
// their sources: kong names a flag by its field.
func commands(t *testing.T) map[string]command {
	t.Helper()
	all := map[string]command{}
	for _, m := range usage.FindAllStringSubmatch(reference(t), -1) {
		c := command{flags: map[string]bool{"help": true}}
		for _, f := range flagName.FindAllStringSubmatch(m[2], -1) {
			c.flags[f[1]] = true
		}
		all[m[1]] = c
	}
	if len(all) < 15 {
		t.Fatalf("the reference has only %d commands", len(all))
	}
	all["foregate plan"] = all["foregate plan find"] // its command without a word
	field := regexp.MustCompile("(?m)^\\s+([A-Z]\\w*)\\s+[^`\n]*`(.*)`")
	named := regexp.MustCompile(`name:"([a-z-]+)"`)
	for _, program := range []string{"loadtest", "vllmsim"} {
		c := command{flags: map[string]bool{"help": true}}
		eachFile(t, regexp.MustCompile(`^cmd/`+program+`/\w+\.go$`), func(_, text string) {
			for _, m := range field.FindAllStringSubmatch(text, -1) {
				name := kebab(m[1])
				if n := named.FindStringSubmatch(m[2]); n != nil {
					name = n[1]
				}
				if strings.Contains(m[2], "cmd:") {
					all[program+" "+name] = c // they share the flags: which has which is not looked at
				}
				c.flags[name] = true
			}
		})
		all[program] = c
	}
	return all
}

// kebab spells a field's name as kong does: KVUsage is kv-usage.
func kebab(field string) string {
	var b strings.Builder
	runes := []rune(field)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func TestEveryCommandAndFlagIsThere(t *testing.T) {
	all := commands(t)
	seen := 0
	stated(t, func(p *paper, code string) {
		for _, m := range called.FindAllStringSubmatch(code, -1) {
			words := strings.Fields(m[2])
			name := m[1]
			for len(words) > 0 {
				if _, ok := all[name+" "+words[0]]; !ok && !isGroup(all, name+" "+words[0]) {
					break
				}
				name, words = name+" "+words[0], words[1:]
			}
			c, ok := all[name]
			if !ok && len(words) > 0 && strings.HasPrefix(words[0], "-") || !ok && len(words) == 0 && isGroup(all, name) {
				continue // a group of commands, or all of them
			}
			if !ok {
				t.Errorf("%s: there is no command %s (%s)", p.name, m[1]+" "+m[2], code)
				continue
			}
			seen++
			for _, f := range flagName.FindAllStringSubmatch(strings.Join(words, " "), -1) {
				if ok && !c.flags[strings.TrimPrefix(f[1], "no-")] {
					t.Errorf("%s: %s has no flag --%s (%s)", p.name, name, f[1], code)
				}
			}
		}
	})
	if seen < 40 {
		t.Errorf("only %d commands were found in the papers", seen)
	}
}

// isGroup reports whether there are commands below the name.
func isGroup(all map[string]command, name string) bool {
	for n := range all {
		if strings.HasPrefix(n, name+" ") {
			return true
		}
	}
	return false
}

// TestEveryModuleIsKeptUpToDate compares dependabot.yml with the modules of the repository, and the workflow with
// what contributors run.
func TestEveryModuleIsKeptUpToDate(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".github/dependabot.yml"))
	if err != nil {
		t.Fatal(err)
	}
	eachFile(t, regexp.MustCompile(`(^|/)go\.mod$`), func(name, _ string) {
		dir := "/" + strings.TrimSuffix(strings.TrimSuffix(name, "go.mod"), "/")
		if !strings.Contains(string(text), `"`+dir+`"`) {
			t.Errorf("dependabot.yml lacks the module in %s", dir)
		}
	})
	workflow, err := os.ReadFile(filepath.Join(root, ".github/workflows/ci.yml"))
	if err != nil || !strings.Contains(string(workflow), "- run: .ci/run") {
		t.Errorf("ci.yml does not call .ci/run: %v", err)
	}
}
