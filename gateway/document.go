package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"

	"github.com/foregate/foregate/gateway/openapi"
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

// makeDocuments makes the documents of both listeners.
func (g *Gateway) makeDocuments() error {
	tables := openapi.Tables{
		RequestHeaders: RequestHeaders, ResponseHeaders: ResponseHeaders, ErrorCodes: ErrorCodes, Forward: g.opts.Forward,
	}
	public, err := openapi.Public(tables)
	if err != nil {
		return err
	}
	admin, err := openapi.Admin(tables)
	if err != nil {
		return err
	}
	g.publicDocument = newDocument(public, "public, max-age=300")
	g.adminDocument = newDocument(admin, "private, no-cache")
	return nil
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
