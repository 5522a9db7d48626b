// Package docs_test holds the documents to the program: links, commands, names and sizes.
package docs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode"
)

const root = ".."

// paper is one Markdown file of the repository.
type paper struct {
	name    string // from the root, with slashes
	text    string
	anchors map[string]bool
}

// vendored are folders with files that others publish.
var vendored = regexp.MustCompile(`(^|/)(vendor|node_modules|testdata|bin|dist|\.git)(/|$)`)

// files are the names of the repository's files, from the root.
var files = sync.OnceValues(func() (names []string, err error) {
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && vendored.MatchString(name):
			return fs.SkipDir
		case !d.IsDir():
			names = append(names, name)
		}
		return nil
	})
	return names, err
})

// eachFile visits the repository's files whose names the pattern matches.
func eachFile(t *testing.T, pattern *regexp.Regexp, visit func(name, text string)) {
	t.Helper()
	names, err := files()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !pattern.MatchString(name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		visit(name, string(text))
	}
}

// papers returns every Markdown file by its name.
func papers(t *testing.T) map[string]*paper {
	t.Helper()
	if len(read) > 0 {
		return read
	}
	all := map[string]*paper{}
	eachFile(t, regexp.MustCompile(`\.md$`), func(name, text string) {
		all[name] = &paper{name: name, text: text, anchors: anchorsOf(text)}
	})
	if len(all) < 15 {
		t.Fatalf("only %d papers", len(all))
	}
	read = all
	return all
}

// read are the papers, once they were.
var read map[string]*paper

var heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)

// anchorsOf returns the anchors that GitHub gives a text's headings.
func anchorsOf(text string) map[string]bool {
	anchors := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(withoutFences(text), -1) {
		var b strings.Builder
		for _, r := range strings.ToLower(m[1]) {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				b.WriteRune(r)
			case r == ' ':
				b.WriteByte('-')
			}
		}
		anchors[b.String()] = true
	}
	return anchors
}

var fence = regexp.MustCompile("(?ms)^ *```.*?^ *```")

func withoutFences(text string) string { return fence.ReplaceAllString(text, "") }

var (
	codeSpan = regexp.MustCompile("`[^`\n]*`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

func TestEveryRelativeLinkAndAnchorResolves(t *testing.T) {
	all := papers(t)
	for _, p := range all {
		for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(withoutFences(p.text), ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := p.name
			if file != "" {
				target = path.Join(path.Dir(p.name), file)
			}
			resolves(t, all, p.name, target, anchor)
		}
	}
}

// resolves fails the test unless the target exists, with the anchor if there is one.
func resolves(t *testing.T, all map[string]*paper, from, target, anchor string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, target)); err != nil {
		t.Errorf("%s links to %s: %v", from, target, err)
	} else if p := all[target]; anchor != "" && (p == nil || !p.anchors[anchor]) {
		t.Errorf("%s links to %s, which has no #%s", from, target, anchor)
	}
}

var cited = regexp.MustCompile(`([\w./-]*\w\.md)\b(?:#([\w-]+))?`)

// TestEveryPaperThatCodeCitesIsThere: a comment may name a paper of the repository, from the root, from
// its own folder or by its base name, and no other.
func TestEveryPaperThatCodeCitesIsThere(t *testing.T) {
	all := papers(t)
	bases := map[string]bool{}
	for name := range all {
		bases[path.Base(name)] = true
	}
	eachFile(t, regexp.MustCompile(`(\.(go|ya?ml|lua|js|tpl|txt|cfg|conf)|Makefile|Dockerfile)$`), func(name, text string) {
		if strings.HasPrefix(name, "docs/") || strings.HasPrefix(name, ".github/") {
			return
		}
		for _, m := range cited.FindAllStringSubmatch(linesThatCite(name, text), -1) {
			target := strings.TrimPrefix(strings.TrimLeft(m[1], "./"), "../")
			if !strings.Contains(target, "/") && bases[target] && m[2] == "" {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				target = path.Join(path.Dir(name), m[1])
			}
			resolves(t, all, name, target, m[2])
		}
	})
}

// linesThatCite returns the lines that may name a paper: of Go the comments.
func linesThatCite(name, text string) string {
	if !strings.Contains(text, ".md") {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, ".md") {
			continue
		}
		if strings.HasSuffix(name, ".go") {
			_, comment, found := strings.Cut(line, "//")
			if !found {
				continue
			}
			line = comment
		}
		b.WriteString(line)
	}
	return b.String()
}

var generatedParts = regexp.MustCompile(`(?s)<!-- (packages|imports): generated -->.*?<!-- /(packages|imports) -->`)

func TestPapersStayShort(t *testing.T) {
	for name, most := range map[string]int{"README.md": 8, "docs/architecture.md": 7, "CONTRIBUTING.md": 4} {
		if text := generatedParts.ReplaceAllString(papers(t)[name].text, ""); len(text) > most*1000 {
			t.Errorf("%s has %d bytes, more than %d kB", name, len(text), most)
		}
	}
	images, err := filepath.Glob("images/*")
	if err != nil || len(images) == 0 {
		t.Fatalf("%d images: %v", len(images), err)
	}
	for _, file := range images {
		if info, err := os.Stat(file); err != nil || info.Size() > 200_000 {
			t.Errorf("%s: %v, or more than 200 kB", file, err)
		}
	}
}
