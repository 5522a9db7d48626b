package messages

import (
	"github.com/foregate/foregate/gateway/clientapi"
)

// document adds a document whose text is in the request: its title and context, then its text. Files and addresses must be
// read or fetched, which nothing here does.
func (t *turn) document(b clientapi.Object) error {
	if err := t.headings(b, "title", "context"); err != nil {
		return err
	}
	s, err := b.Object("source")
	if err != nil {
		return err
	}
	kind, err := s.Required("type")
	if err != nil {
		return err
	}
	switch kind {
	case "text":
		text, err := s.Text("data")
		t.addText(text)
		return err
	case "content":
		if !s.Has("content") {
			return clientapi.Missing(s.Member("content"))
		}
		return t.read(s.Raw("content"), s.Member("content"), "tool")
	}
	return s.EngineOnly("type", clientapi.ReasonNoChat)
}

// searchResult adds what a search of the client's has found: its title and source, then its text.
func (t *turn) searchResult(b clientapi.Object) error {
	if err := t.headings(b, "title", "source"); err != nil {
		return err
	}
	if !b.Has("content") {
		return clientapi.Missing(b.Member("content"))
	}
	return t.read(b.Raw("content"), b.Member("content"), "tool")
}

// headings adds members that are texts, and notes that nothing is cited.
func (t *turn) headings(b clientapi.Object, names ...string) error {
	for _, name := range names {
		text, err := b.Text(name)
		if err != nil {
			return err
		}
		if text != "" {
			t.addText(text)
		}
	}
	cited, err := b.Object("citations")
	if err != nil {
		return err
	}
	on, err := cited.Flag("enabled")
	if on {
		t.dropped.Add(b.Member("citations"))
	}
	return err
}
