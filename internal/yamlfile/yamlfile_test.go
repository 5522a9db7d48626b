package yamlfile

import (
	"reflect"
	"slices"
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
		"whole: 3":                       "a.yaml:1:1: text: missing; want a word",
		"text: a\nwhole: 11":             "a.yaml:2:1: whole: out of range; want 1 … 10",
		"text: a\nwhole: -1":             "a.yaml:2:1: whole: must not be negative; want 1 … 10",
		"text: a\nnumber: .nan":          "a.yaml:2:1: number: want a plain decimal number, 0 … 1",
		"text: a\nwait: 100ms":           "a.yaml:2:1: wait: out of range; want 1s … 1m",
		"text: a\nsize: 2MiB":            "a.yaml:2:1: size: out of range; want 1 … 1048576 bytes",
		"text: 5":                        "a.yaml:1:1: text: want text, got a number; put it in quotes",
		"text: a\nflag: 1":               "a.yaml:2:1: flag: want true or false, got a number",
		"text: a\nchoice: three":         "a.yaml:2:1: choice: want one of one, two",
		"text: a\ninner:\n  nam: x":      "a.yaml:3:3: inner.nam: unknown field; known here: name",
		"text: a\ninner: [x]":            "a.yaml:2:1: inner: want fields (name: value), got a list",
		"text: a\ntexts:\n- b\n- {c: d}": "a.yaml:4:3: texts[1]: want text, got fields",
		"text: a\ntext: b":               "a.yaml:2:1: text: is already given in line 1; remove one",
		"text: &x a":                     "a.yaml:1:1: text: anchors and aliases are not read; write the value out, or put text that begins with * or & in quotes",
		"text: !!str a":                  "a.yaml:1:1: text: tags (!name) are not read; remove it",
		"text:":                          "a.yaml:1:1: text: has no value; give one or remove the field",
		"":                               "a.yaml:1:1: the file is empty; it needs at least text",
		"text: a\n---\ntext: b":          "a.yaml:2:1: a second document begins here; the file must be one document, so remove the --- between them",
		"text: *secret":                  "a.yaml:1:1: not YAML (here or in the line before): a value that begins with * or & stands for an anchor; put it in quotes",
		"text: a\n\tflag: true":          "a.yaml:2:1: not YAML (here or in the line before): found a tab character that violates indentation",
		"text: \"\\q\"":                  "a.yaml:1:1: not YAML (here or in the line before): found unknown escape character",
		"text: a\nbad: \x00":             "a.yaml:2:1: not YAML (here or in the line before): control characters are not allowed",
		strings.Repeat("[", 500) + strings.Repeat("]", 500): "a.yaml:1:22: nested more than 20 deep",
		strings.Repeat("- ", 500):                           "a.yaml:1:43: nested more than 20 deep",
		strings.Repeat("? ", 500):                           "a.yaml:1:43: nested more than 20 deep",
		strings.Repeat("#", 1025):                           "a.yaml:1:1: the file is larger than 1024 bytes",
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
		"redis://:hunter2@h: 1", "text: *hunter2", "*hunter2", "text: *hunter2 x: y", "text: !hunter2 a", "%YAML hunter2\n---\na: b", "text: 'hunter2", "inner: hunter2",
	} {
		if _, err := read(data); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", data, err)
		}
	}
}

// tagged is a file of all kinds of tags.
type tagged struct {
	Word    string            `yaml:"word" default:"one" choice:"one,two"`
	Texts   []string          `yaml:"texts" default:"a,b"`
	Digests []string          `yaml:"digests,opaque"`
	Flag    bool              `yaml:"flag"`
	Whole   int               `yaml:"whole" default:"3" min:"1" max:"10"`
	Number  float64           `yaml:"number" default:"0.5" min:"0" max:"1"`
	Wait    time.Duration     `yaml:"wait" default:"5s" min:"1s" max:"1m"`
	Size    int64             `yaml:"size" default:"4KiB" min:"1" max:"1MiB"`
	Named   map[string]member `yaml:"named"`
	List    []member          `yaml:"list"`
	Inner   member            `yaml:"inner" without:"name"`
	Unread  string
}

type member struct {
	Name string `yaml:"name"`
	Rate int    `yaml:"rate" default:"7" min:"0" max:"9"`
}

func readTagged(t *testing.T, data string) (got tagged, err error) {
	t.Helper()
	f, root, ok := Open(Options{Name: "a.yaml", Needs: "text", MaxBytes: 1 << 10}, []byte(data))
	if !ok {
		t.Fatal(f.Err())
	}
	root.Into(&got)
	return got, f.Err()
}

func TestTagsSayWhatIsReadAndWhatAFileThatGivesNothingMeans(t *testing.T) {
	want := tagged{Word: "one", Texts: []string{"a", "b"}, Whole: 3, Number: 0.5, Wait: 5 * time.Second, Size: 4096,
		Named: map[string]member{}, Inner: member{Rate: 7}}
	var got tagged
	if (Value{}).Into(&got); !reflect.DeepEqual(got, want) {
		t.Errorf("nothing: %+v", got)
	}
	got, err := readTagged(t, "word: two\ntexts: []\ndigests: [0123]\nflag: true\nwhole: 1\nnumber: 0\nwait: 1m\nsize: 1MiB\n"+
		"named: {x: {name: n}}\nlist: [{rate: 0}, {name: m}]\ninner: {rate: 9}")
	want = tagged{Word: "two", Texts: []string{}, Digests: []string{"0123"}, Flag: true, Whole: 1, Wait: time.Minute, Size: 1 << 20,
		Named: map[string]member{"x": {"n", 7}}, List: []member{{"", 0}, {"m", 7}}, Inner: member{Rate: 9}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("all: %+v, %v", got, err)
	}
}

func TestAllMistakesAgainstTagsAreToldAtOnce(t *testing.T) {
	_, err := readTagged(t, "word: three\nwhole: 11\nwait: 2m\nnamed: {x: {rate: 10}}\nlist: [{names: n}]\ninner: {name: n}\nunread: x")
	want := `a.yaml:1:1: word: want one of one, two
a.yaml:2:1: whole: out of range; want 1 … 10
a.yaml:3:1: wait: out of range; want 1s … 1m
a.yaml:4:13: named.x.rate: out of range; want 0 … 9
a.yaml:5:9: list[0].names: unknown field; known here: name, rate
a.yaml:6:9: inner.name: unknown field; known here: rate
a.yaml:7:1: unread: unknown field; known here: digests, flag, inner, list, named, number, size, texts, wait, whole, word`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestAnAddressWithAPortIsTextWhereverItStands(t *testing.T) {
	for _, data := range []string{"a: {b: [http://h:1, http://h:2]}", "a: {b: [\"http://h:1\", http://h:2]}", "a:\n  b:\n    - http://h:1\n    - http://h:2"} {
		f, root, ok := Open(Options{Name: "a.yaml", MaxBytes: 1 << 10}, []byte(data))
		if !ok {
			t.Fatal(f.Err())
		}
		var got []string
		outer := root.Fields()
		inner := outer.At("a").Fields()
		inner.At("b").Texts(&got)
		if err := f.Err(); err != nil || !slices.Equal(got, []string{"http://h:1", "http://h:2"}) {
			t.Errorf("%s: %q, %v", data, got, err)
		}
	}
}
