package console

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/internal/uplot"
)

// eachAsset visits what is in the binary.
func eachAsset(t *testing.T, visit func(name, text string)) {
	t.Helper()
	seen := 0
	walk := func(files fs.FS, root, at string) {
		err := fs.WalkDir(files, root, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := fs.ReadFile(files, file)
			seen++
			visit(at+strings.TrimPrefix(file, root+"/"), string(text))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	walk(assets, "assets", "")
	walk(uplot.Files, ".", library)
	if seen == 0 {
		t.Fatal("there are no pages in the binary")
	}
}

// fetch is GET of a path of the console.
func fetch(t *testing.T, h http.Handler, where string) *http.Response {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, where, nil))
	return w.Result()
}

// strict are headers that everything under /console/ has.
var strict = map[string]string{
	"Content-Security-Policy":      policy,
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
}

func wantStrict(t *testing.T, where string, resp *http.Response) {
	t.Helper()
	for key, want := range strict {
		if got := resp.Header.Get(key); got != want {
			t.Errorf("%s: %s %q, want %q", where, key, got, want)
		}
	}
}

// kinds are the types that a browser which does not guess needs.
var kinds = map[string]string{
	".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".png": "image/png", ".woff2": "font/woff2", ".json": "application/json",
}

func TestEveryFileIsServedWithAStrictPolicy(t *testing.T) {
	h := New(Options{}).Handler()
	eachAsset(t, func(name, text string) {
		where := "/console/" + name
		if path.Base(name) == "index.html" {
			where = "/console/" + strings.TrimSuffix(name, "index.html")
		}
		resp := fetch(t, h, where)
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK || string(body) != text {
			t.Errorf("%s: status %d, %d bytes of %d", where, resp.StatusCode, len(body), len(text))
		}
		wantStrict(t, where, resp)
		if want := kinds[path.Ext(name)]; want != "" && !strings.HasPrefix(resp.Header.Get("Content-Type"), want) {
			t.Errorf("%s: Content-Type %q, want %s", where, resp.Header.Get("Content-Type"), want)
		}
		if got := resp.Header.Get("Cache-Control"); got != "no-cache" {
			t.Errorf("%s: Cache-Control %q", where, got)
		}
	})
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	h := New(Options{}).Handler()
	for _, where := range []string{"/console/nothing", "/console/nothing/", "/console/nothing.js", "/console/assets/", "/console/pages.go", "/console/live/"} {
		resp := fetch(t, h, where)
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d", where, resp.StatusCode)
		}
		wantStrict(t, where, resp)
	}
	for _, where := range []string{"/console/..%2f..%2fetc/passwd", "/console/%2e%2e/pages.go", "/console//etc/passwd"} {
		if resp := fetch(t, h, where); resp.StatusCode == http.StatusOK {
			t.Errorf("%s is served", where)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/console/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST /console/: status %d", w.Code)
	}
}

// elsewhere is an address of another host. Namespaces are names that nothing is fetched from.
var (
	elsewhere = regexp.MustCompile(`(?i)(?:\b(?:https?|wss?|ftp):)?//[a-z0-9_-]+(?:\.[a-z0-9_-]+)+[^\s"'` + "`" + `)]*`)
	remark    = regexp.MustCompile(`(?s)/\*.*?\*/|<!--.*?-->|(?m:^\s*//.*$)`)
	namespace = "http://www.w3.org/"
)

func TestNothingIsFetchedFromElsewhere(t *testing.T) {
	eachAsset(t, func(name, text string) {
		if !slices.Contains([]string{".html", ".js", ".mjs", ".css", ".svg"}, path.Ext(name)) {
			return
		}
		for _, found := range elsewhere.FindAllString(remark.ReplaceAllString(text, ""), -1) {
			if !strings.HasPrefix(found, namespace) {
				t.Errorf("%s names %s", name, found)
			}
		}
	})
}

// codeFromText are ways to make code or markup of text, which a strict policy and a careful page do without.
var codeFromText = regexp.MustCompile(`\beval\(|\bnew Function\b|\bdocument\.write|\.(?:inner|outer)HTML\b|\binsertAdjacentHTML\b|\bset(?:Timeout|Interval)\(\s*["'` + "`" + `]|\bsetAttribute\(\s*["'](?:style|on)|\bjavascript:`)

func TestScriptsMakeNoCodeOfText(t *testing.T) {
	eachAsset(t, func(name, text string) {
		if strings.Contains(name, "vendor/") || !slices.Contains([]string{".js", ".mjs", ".html"}, path.Ext(name)) {
			return
		}
		for _, found := range codeFromText.FindAllString(remark.ReplaceAllString(text, ""), -1) {
			t.Errorf("%s has %s", name, found)
		}
	})
}

// vouched is a line of a README with a file and its SHA-256.
var vouched = regexp.MustCompile("(?m)([0-9a-f]{64})[ |`*]+([A-Za-z0-9_.-]+)|([A-Za-z0-9_.-]+\\.(?:js|css))[ |`*:]+([0-9a-f]{64})")

// TestVendoredFilesAreWhatTheirREADMESays holds that nobody has changed what others wrote.
func TestVendoredFilesAreWhatTheirREADMESays(t *testing.T) {
	said := map[string]string{}
	eachAsset(t, func(name, text string) {
		if path.Base(name) != "README.md" {
			return
		}
		for _, m := range vouched.FindAllStringSubmatch(text, -1) {
			if m[1] != "" {
				said[path.Join(path.Dir(name), m[2])] = m[1]
			} else {
				said[path.Join(path.Dir(name), m[3])] = m[4]
			}
		}
	})
	seen := 0
	eachAsset(t, func(name, text string) {
		if !strings.Contains(name, "uPlot") || path.Ext(name) == ".md" {
			return
		}
		seen++
		sum := sha256.Sum256([]byte(text))
		if got := hex.EncodeToString(sum[:]); said[name] != got {
			t.Errorf("%s has SHA-256 %s, and its README says %q", name, got, said[name])
		}
	})
	if seen == 0 {
		t.Error("there is no uPlot among the files")
	}
}
