package yamlfile

import (
	"strings"
	"testing"
	"time"
)

// reading is what a file of these fields becomes.
type reading struct {
	text    string
	texts   []string
	whole   int
	number  float64
	flag    bool
	wait    time.Duration
	size    int64
	inner   string
	choice  string
	digests []string
}

// read reads a file of all kinds of values.
func read(data string) (got reading, err error) {
	f, root, ok := Open(Options{Name: "a.yaml", Needs: "text", MaxBytes: 1 << 10}, []byte(data))
	if !ok {
		return got, f.Err()
	}
	b := root.Fields()
	b.Need("text", "a word").Text(&got.text)
	b.At("texts").Texts(&got.texts)
	b.At("whole").Whole(&got.whole, 1, 10)
	b.At("number").Number(&got.number, 0, 1)
	b.At("flag").Bool(&got.flag)
	b.At("wait").Duration(&got.wait, time.Second, time.Minute)
	b.At("size").Size(&got.size, 1, 1<<20)
	inner := b.At("inner").Fields()
	inner.At("name").Text(&got.inner)
	inner.Done()
	b.At("choice").Choice(&got.choice, "one", "two")
	for _, v := range b.At("digests").Items() {
		var s string
		v.Opaque(&s)
		got.digests = append(got.digests, s)
	}
	b.Done()
	return got, f.Err()
}

func TestAFileIsReadIntoItsPlaces(t *testing.T) {
	got, err := read("text: a\ntexts: [b, c]\nwhole: 3\nnumber: 0.5\nflag: true\nwait: 5s\nsize: 4KiB\ninner: {name: d}\nchoice: two\ndigests: [0123]")
	if err != nil {
		t.Fatal(err)
	}
	if got.text != "a" || len(got.texts) != 2 || got.whole != 3 || got.number != 0.5 || !got.flag || got.wait != 5*time.Second ||
		got.size != 4096 || got.inner != "d" || got.choice != "two" || got.digests[0] != "0123" {
		t.Errorf("%+v", got)
	}
}

func TestAMistakeIsToldWithItsLineAndIsNotRead(t *testing.T) {
	for data, want := range map[string]string{
		"whole: 3":                       "a.yaml:1: text: missing; want a word",
		"text: a\nwhole: 11":             "a.yaml:2: whole: out of range; want 1 … 10",
		"text: a\nwhole: -1":             "a.yaml:2: whole: must not be negative; want 1 … 10",
		"text: a\nnumber: .nan":          "a.yaml:2: number: want a plain decimal number, 0 … 1",
		"text: a\nwait: 100ms":           "a.yaml:2: wait: out of range; want 1s … 1m",
		"text: a\nsize: 2MiB":            "a.yaml:2: size: out of range; want 1 … 1048576 bytes",
		"text: 5":                        "a.yaml:1: text: want text, got a number; put it in quotes",
		"text: a\nflag: 1":               "a.yaml:2: flag: want true or false, got a number",
		"text: a\nchoice: three":         "a.yaml:2: choice: want one of one, two",
		"text: a\ninner:\n  nam: x":      "a.yaml:3: inner.nam: unknown field; known here: name",
		"text: a\ninner: [x]":            "a.yaml:2: inner: want fields (name: value), got a list",
		"text: a\ntexts:\n- b\n- {c: d}": "a.yaml:4: texts[1]: want text, got fields",
		"text: a\ntext: b":               "a.yaml:2: text: is already given in line 1; remove one",
		"text: &x a":                     "a.yaml:1: text: anchors and aliases are not read; write the value out",
		"text: !!str a":                  "a.yaml:1: text: tags (!name) are not read; remove it",
		"text:":                          "a.yaml:1: text: has no value; give one or remove the field",
		"":                               "a.yaml:1: the file is empty; it needs at least text",
		"text: a\n---\ntext: b":          "a.yaml:2: a second document begins here; the file must be one document, so remove the --- between them",
		"text: *secret":                  "a.yaml:1: not YAML (here or in the line before): a value that begins with * or & stands for an anchor; put it in quotes",
		strings.Repeat("#", 1025):        "a.yaml:1: the file is larger than 1024 bytes",
	} {
		if _, err := read(data); err == nil || err.Error() != want {
			t.Errorf("%q: got %v\nwant %s", data, err, want)
		}
	}
	if got, _ := read("text: a\nwhole: 11"); got.whole != 0 {
		t.Errorf("a value out of range was read: %d", got.whole)
	}
}

func TestNoMistakeTellsAValue(t *testing.T) {
	for _, data := range []string{
		"text: [hunter2]", "whole: hunter2", "number: hunter2", "flag: hunter2", "wait: hunter2", "size: hunter2", "choice: hunter2",
		"redis://:hunter2@h: 1", "text: *hunter2", "text: !hunter2 a", "inner: hunter2",
	} {
		if _, err := read(data); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", data, err)
		}
	}
}
