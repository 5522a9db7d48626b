package console

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/foregate/foregate/internal/uplot"
)

//go:embed assets
var assets embed.FS

// policy allows only files of this listener: no inline scripts or styles, no framing by other pages, no forms
// to other sites.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pages serves the files.
func pages() http.Handler {
	root, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the folder is embedded
	}
	files := http.StripPrefix("/console", http.FileServerFS(site{root}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache") // the next version may use the same address
		files.ServeHTTP(w, r)
	})
}

// library is the folder of uPlot's files.
const library = "vendor/uplot/"

// site is the console's own files and uPlot's. Folders without a page are hidden: they would be listed.
type site struct{ fs.FS }

func (s site) Open(name string) (fs.File, error) {
	if file, ok := strings.CutPrefix(name, library); ok {
		return uplot.Files.Open(file)
	}
	if name != "." && path.Ext(name) == "" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return s.FS.Open(name)
}
