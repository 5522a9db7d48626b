package gateway

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/foregate/foregate/tiers/engine"
)

// operationsOf are method and path of each operation of a document.
func operationsOf(t *testing.T, document []byte) map[string]bool {
	t.Helper()
	var decoded struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(document, &decoded); err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for path, methods := range decoded.Paths {
		for method := range methods {
			all[strings.ToUpper(method)+" "+anyName.ReplaceAllString(path, "{}")] = true
		}
	}
	return all
}

func TestTheDocumentTellsTheScopeOfEachPath(t *testing.T) {
	o, _, _ := openGuarded(t, true)
	o.makeDocuments()
	var decoded struct {
		Paths map[string]map[string]struct{ Security []map[string][]string }
	}
	if err := json.Unmarshal(o.adminDocument.body, &decoded); err != nil {
		t.Fatal(err)
	}
	scopes := map[string]Scope{}
	for _, a := range o.adminTable() {
		scopes[anyName.ReplaceAllString(a.path, "{}")] = a.scope
	}
	for path, methods := range decoded.Paths {
		for method, operation := range methods {
			var got, want []string
			if scope := scopes[anyName.ReplaceAllString(path, "{}")]; scope != "" {
				want = []string{string(scope)}
			}
			if len(operation.Security) > 0 {
				got = operation.Security[0]["token"]
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s %s: the document tells the scope %q, it is %q: correct gateway/openapi/admin.json", method, path, got, want)
			}
		}
	}
}

// anyName is a parameter in a path.
var anyName = regexp.MustCompile(`\{[^}]*\}|\*`)

// registered are method and path of each route of a mux. The profiles of package pprof take any method; they are
// documented for GET.
func registered(t *testing.T, r chi.Routes) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := chi.Walk(r, func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if method == http.MethodGet || !strings.HasPrefix(path, "/debug/pprof/") {
			all[method+" "+anyName.ReplaceAllString(path, "{}")] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTheDocumentsHaveEveryRouteAndNoOther(t *testing.T) {
	o, _, _ := openGuarded(t, true)
	o.opts.Forward = []string{"/v1/embeddings", "/v1/rerank"}
	o.makeDocuments()
	for _, c := range []struct {
		where      string
		mux        chi.Routes
		document   *document
		operations string
	}{
		{"public", o.publicRoutes(o.posts()), o.publicDocument, "gateway/openapi/public.json"},
		{"admin", o.adminRoutes(), o.adminDocument, "gateway/openapi/admin.json"},
	} {
		routes, operations := registered(t, c.mux), operationsOf(t, c.document.body)
		for _, route := range slices.Sorted(maps.Keys(routes)) {
			if !operations[route] {
				t.Errorf("%s is a route of the %s listener and not in its OpenAPI document: add it to %s", route, c.where, c.operations)
			}
		}
		for _, operation := range slices.Sorted(maps.Keys(operations)) {
			if !routes[operation] {
				t.Errorf("%s is in the OpenAPI document of the %s listener and not a route of it: remove it from %s", operation, c.where, c.operations)
			}
		}
	}
}

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
			t.Errorf("%s: the code %q is not in ErrorCodes (gateway/errorcodes.go), which the OpenAPI documents have: add it, and make docs", at, code)
		}
	}
	kinds := inSource(t, regexp.MustCompile(`FailureKind += "([^"]+)"`), "../tiers/engine/failure.go")
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

func TestTheDocumentIsPublicStaticAndCacheable(t *testing.T) {
	b := startBench(t, simulator(t).URL(), func(o *Options) { o.Forward = []string{"/v1/embeddings"} })
	get := func(method string, headers ...string) reply {
		t.Helper()
		return b.call(t, method, b.url+"/openapi.json", "", headers...)
	}
	whole := get(http.MethodGet)
	if whole.status != http.StatusOK || !json.Valid([]byte(whole.body)) || !strings.Contains(whole.body, `"/v1/embeddings":{"post"`) {
		t.Fatalf("%d %.100s", whole.status, whole.body)
	}
	body, length := whole.body, strconv.Itoa(len(whole.body))
	etag := whole.head.Get("ETag")
	if len(body) > 256<<10 || len(etag) < 20 || whole.head.Get("Cache-Control") != "public, max-age=300" {
		t.Errorf("%d bytes, ETag %q, Cache-Control %q", len(body), etag, whole.head.Get("Cache-Control"))
	}
	for _, c := range []struct {
		method  string
		headers []string
		status  int
		length  string // Content-Length
	}{
		{http.MethodHead, nil, http.StatusOK, length},
		{http.MethodGet, []string{"If-None-Match", etag}, http.StatusNotModified, ""},
		{http.MethodGet, []string{"If-None-Match", `"other", W/` + etag}, http.StatusNotModified, ""},
		{http.MethodHead, []string{"If-None-Match", "*"}, http.StatusNotModified, ""},
		{http.MethodGet, []string{"If-None-Match", `"other"`}, http.StatusOK, length},
		{http.MethodGet, []string{"Range", "bytes=0-1"}, http.StatusOK, length},
		{http.MethodPost, nil, http.StatusMethodNotAllowed, "any"},
		{http.MethodOptions, nil, http.StatusMethodNotAllowed, "any"},
	} {
		r := get(c.method, c.headers...)
		if r.status != c.status || c.length != "any" && r.head.Get("Content-Length") != c.length || c.length == "any" && r.head.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %q: %d %v", c.method, c.headers, r.status, r.head)
		}
	}
}
