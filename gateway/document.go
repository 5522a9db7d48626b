package gateway

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// The paths of the OpenAPI documents.
const (
	publicDocumentPath = "/openapi.json"
	adminDocumentPath  = "/admin/openapi.json"
)

// document is an OpenAPI document: made once, the same for all callers.
type document struct {
	body         []byte
	etag, length string
	cacheControl string
}

// newDocument wraps an encoded document.
func newDocument(body []byte, cacheControl string) *document {
	sum := sha256.Sum256(body)
	return &document{body: body, etag: `"` + hex.EncodeToString(sum[:16]) + `"`, length: strconv.Itoa(len(body)), cacheControl: cacheControl}
}

// documents are written by hand: paths and bodies, and the headers of the admin listener. generated.json has what the gateway has
// as a table or a Go type: headers, error codes, the request fields that are removed, refused or forbidden, and answers of the admin
// listener; make golden writes it. Paths of the public listener name a group of its headers.
//
//go:embed openapi/*.json
var documents embed.FS

// object is a JSON object.
type object = map[string]any

// readDocument reads a file of documents.
func readDocument(name string) (o object) {
	text, err := documents.ReadFile("openapi/" + name)
	if err = cmp.Or(err, json.Unmarshal(text, &o)); err != nil {
		panic(err) // it is embedded JSON
	}
	return o
}

// makeDocument makes the document of a listener, public or admin. It has a path for each one that is passed through to the target.
func makeDocument(listener string, forward []string) []byte {
	doc, generated := readDocument(listener+".json"), readDocument("generated.json")
	components := doc["components"].(object)
	for kind, members := range generated[listener].(object) {
		if of, ok := components[kind].(object); ok {
			maps.Copy(of, members.(object))
		} else {
			components[kind] = members
		}
	}
	paths := doc["paths"].(object)
	for _, path := range forward {
		if paths[path] == nil {
			paths[path] = forwarded(path, doc["passthrough"].(object))
		}
	}
	delete(doc, "passthrough")
	for _, item := range paths {
		for _, operation := range item.(object) {
			nameHeaders(operation.(object), generated["headers"].(object))
		}
	}
	body, err := json.Marshal(doc)
	if err != nil {
		panic(err) // it came from JSON
	}
	return body
}

// nameHeaders puts the headers of a group in the place of its name, in an operation and in its answers.
func nameHeaders(operation, groups object) {
	if name, ok := operation["headers"].(string); ok {
		delete(operation, "headers")
		own, _ := operation["parameters"].([]any)
		operation["parameters"] = append(own, groups["request"].(object)[name].([]any)...)
	}
	for _, answer := range operation["responses"].(object) {
		if name, ok := answer.(object)["headers"].(string); ok {
			answer.(object)["headers"] = groups["response"].(object)[name]
		}
	}
}

// forwarded returns the item of a path that is passed through.
func forwarded(path string, template object) object {
	post := maps.Clone(template["post"].(object))
	id := "post"
	for _, word := range strings.FieldsFunc(path, func(c rune) bool { return strings.ContainsRune("/_.-", c) }) {
		id += strings.ToUpper(word[:1]) + word[1:]
	}
	post["operationId"] = id
	return object{"post": post}
}

// makeDocuments makes the documents of both listeners.
func (g *Gateway) makeDocuments() {
	g.publicDocument = newDocument(makeDocument("public", g.opts.Forward), "public, max-age=300")
	g.adminDocument = newDocument(makeDocument("admin", nil), "private, no-cache")
}

// serve answers GET and HEAD, with 304 to a caller that has the document, and returns the status. It reads one header of
// the request and writes fixed bytes.
func (d *document) serve(w http.ResponseWriter, r *http.Request) (status int) {
	h := w.Header()
	h.Set("ETag", d.etag)
	h.Set("Cache-Control", d.cacheControl)
	if known := r.Header.Get("If-None-Match"); known == "*" || strings.Contains(known, d.etag) { // weak comparison, as RFC 9110 wants
		w.WriteHeader(http.StatusNotModified)
		return http.StatusNotModified
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", d.length)
	if r.Method != http.MethodHead {
		_, _ = w.Write(d.body) // the client may have disconnected
	}
	return http.StatusOK
}

// showDocument answers GET and HEAD /openapi.json. It needs no key: what the document tells, a caller without a key
// finds out by the statuses of the paths.
func (g *Gateway) showDocument(l *accessRecord, w http.ResponseWriter, r *http.Request) error {
	l.code = g.publicDocument.serve(w, r)
	return nil
}
