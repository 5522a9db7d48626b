package yamlfile

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// file has all kinds of tags.
type file struct {
	Text    string            `yaml:"text" need:"want a word" form:"no x" doc:"A word such as 'a', or the tenant's own."`
	Texts   []string          `yaml:"texts,distinct" default:"a,b" empty:"give one" doc:"Words."`
	Digests []string          `yaml:"digests" absent:"'none' at all" doc:"Digests."`
	Sum     [32]byte          `yaml:"sum" doc:"A hash."`
	Flag    bool              `yaml:"flag" doc:"A flag."`
	Deny    bool              `yaml:"deny" default:"share" choice:"deny,share" doc:"A flag in words."`
	Choice  string            `yaml:"choice" default:"one" choice:"one,two" hint:"as you like" doc:"A word of two."`
	Whole   int               `yaml:"whole" default:"3" min:"1" max:"10" doc:"A number."`
	Number  float64           `yaml:"number" default:"0.5" min:"0" max:"1" doc:"A share."`
	Wait    time.Duration     `yaml:"wait" default:"5s" min:"1s" max:"1m" with:"flag, to be on" doc:"A time."`
	Size    int64             `yaml:"size" default:"4KiB" min:"1" max:"1MiB" doc:"A size."`
	Nano    int64             `yaml:"nano" scale:"1e9" min:"0" max:"10" doc:"A price."`
	Level   level             `yaml:"level" default:"low" doc:"A type with a text of its own."`
	Named   map[string]member `yaml:"named"`
	List    []member          `yaml:"list" max:"2"`
	Ptr     *member           `yaml:"ptr"`
	Seed    uint64            `yaml:"seed" doc:"A seed."`
	Any     int               `yaml:"any" word:"all=-1" min:"0" max:"9" doc:"A number, or all."`
	Self    self              `yaml:"self" doc:"Reads itself."`
	Inner   member            `yaml:"inner" without:"name"`
	Other   member            `yaml:"other" doc:"As 'inner'."`
	Inlined *member           `yaml:",inline"`
	Unread  string
}

type member struct {
	Name string `yaml:"name" doc:"A name."`
	Rate int    `yaml:"rate" default:"7" min:"0" max:"9" doc:"A rate."`
}

// level is a type with a text of its own.
type level int

func (l *level) UnmarshalText(text []byte) error {
	*l = level(strings.Index("low high", string(text)))
	if *l < 0 {
		return errors.New("want low or high")
	}
	return nil
}

// self reads itself.
type self string

func (s *self) ReadYAML(v Value, _ reflect.StructTag) {
	if text, ok := v.Scalar("a word"); ok {
		*s = self("<" + text + ">")
	}
}

// forms refuses words with an x.
var forms = map[string]Form{"no x": func(s string) (string, error) {
	if strings.Contains(s, "x") {
		return "", errors.New("want a word without x")
	}
	return strings.ToLower(s), nil
}}

// readFile reads a file.
func readFile(data string) (got file, err error) {
	f, root, ok := Open(Options{Name: "a.yaml", Needs: "text", MaxBytes: 1 << 10, Forms: forms}, []byte(data))
	if ok {
		root.Into(&got)
	}
	return got, f.Err()
}

func TestAMistakeIsToldWithItsLineAndIsNotRead(t *testing.T) {
	for data, want := range map[string]string{
		"whole: 3":                         "a.yaml:1:1: text: missing; want a word",
		"text: a\nwhole: 11":               "a.yaml:2:1: whole: out of range; want 1 … 10",
		"text: a\nwhole: -1":               "a.yaml:2:1: whole: must not be negative; want 1 … 10",
		"text: a\nnumber: .nan":            "a.yaml:2:1: number: want a plain decimal number, 0 … 1",
		"text: a\nflag: true\nwait: 100ms": "a.yaml:3:1: wait: out of range; want 1s … 1m",
		"text: a\nsize: 2MiB":              "a.yaml:2:1: size: out of range; want 1 … 1MiB",
		"text: 5":                          "a.yaml:1:1: text: want text, got a number; put it in quotes",
		"text: a\nflag: 1":                 "a.yaml:2:1: flag: want true or false, got a number",
		"text: a\nchoice: three":           "a.yaml:2:1: choice: want one of one, two; as you like",
		"text: a\ninner:\n  nam: x":        "a.yaml:3:3: inner.nam: unknown field; known here: rate",
		"text: a\ninner: [x]":              "a.yaml:2:1: inner: want fields (name: value), got a list",
		"text: a\ntexts:\n- b\n- {c: d}":   "a.yaml:4:3: texts[1]: want text, got fields",
		"text: a\ntext: b":                 "a.yaml:2:1: text: is already given in line 1; remove one",
		"text: &x a":                       "a.yaml:1:1: text: anchors and aliases are not read; write the value out, or put text that begins with * or & in quotes",
		"text: !!str a":                    "a.yaml:1:1: text: tags (!name) are not read; remove it",
		"text: x":                          "a.yaml:1:1: text: want a word without x",
		"text: a\ntexts: []":               "a.yaml:2:1: texts: is empty; give one",
		"text: a\ntexts: [a, b, a]":        "a.yaml:2:15: texts[2]: is the same as texts[0]; remove one",
		"text: a\nwait: 5s":                "a.yaml:2:1: wait: needs flag, to be on",
		"text: a\ndeny: true":              "a.yaml:2:1: deny: want one of deny, share, got true or false",
		"text: a\nlevel: medium":           "a.yaml:2:1: level: want low or high",
		"text: a\nnano: 11":                "a.yaml:2:1: nano: out of range; want 0 … 10",
		"text: a\nlist: []":                "a.yaml:2:1: list: has 0 entries; want 1 … 2",
		"text: a\nseed: -1":                "a.yaml:2:1: seed: want a whole number of 0 … 18446744073709551615",
		"text: a\nptr: {rate: 10}":         "a.yaml:2:7: ptr.rate: out of range; want 0 … 9",
		"text: a\nany: none":               "a.yaml:2:1: any: want a whole number, got text",
		"text: a\nsum: 00":                 "a.yaml:2:1: sum: want the 64 hex digits of the key's SHA-256 (printf %s \"$KEY\" | sha256sum), got 2 characters",
		"text:":                            "a.yaml:1:1: text: has no value; give one or remove the field",
		"":                                 "a.yaml:1:1: the file is empty; it needs at least text",
		"text: a\n---\ntext: b":            "a.yaml:2:1: a second document begins here; the file must be one document, so remove the --- between them",
		"text: *secret":                    "a.yaml:1:1: not YAML (here or in the line before): a value that begins with * or & stands for an anchor; put it in quotes",
		"text: a\n\tflag: true":            "a.yaml:2:1: not YAML (here or in the line before): found a tab character that violates indentation",
		"text: \"\\q\"":                    "a.yaml:1:1: not YAML (here or in the line before): found unknown escape character",
		"text: a\nbad: \x00":               "a.yaml:2:1: not YAML (here or in the line before): control characters are not allowed",
		strings.Repeat("#", 1025):          "a.yaml:1:1: the file is larger than 1024 bytes",
	} {
		if _, err := readFile(data); err == nil || err.Error() != want {
			t.Errorf("%q: got %v\nwant %s", data, err, want)
		}
	}
	if got, _ := readFile("text: a\nwhole: 11"); got.Whole != 3 {
		t.Errorf("a value out of range was read: %d", got.Whole)
	}
}

func TestNoMistakeTellsAValue(t *testing.T) {
	for _, data := range []string{
		"text: [hunter2]", "whole: hunter2", "number: hunter2", "flag: hunter2", "wait: hunter2", "size: hunter2", "choice: hunter2",
		"redis://:hunter2@h: 1", "text: *hunter2", "*hunter2", "text: *hunter2 x: y", "text: !hunter2 a", "%YAML hunter2\n---\na: b", "text: 'hunter2", "inner: hunter2",
	} {
		if _, err := readFile(data); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", data, err)
		}
	}
}

func TestTagsSayWhatIsReadAndWhatAFileThatGivesNothingMeans(t *testing.T) {
	want := file{Choice: "one", Texts: []string{"a", "b"}, Whole: 3, Number: 0.5, Wait: 5 * time.Second, Size: 4096,
		Named: map[string]member{}, Inner: member{Rate: 7}, Other: member{Rate: 7}, Inlined: &member{Rate: 7}}
	var got file
	if (Value{}).Into(&got); !reflect.DeepEqual(got, want) {
		t.Errorf("nothing: %+v", got)
	}
	got, err := readFile("text: A\ntexts: [http://h:1]\ndigests: ['0123']\nsum: " + strings.Repeat("01", 32) + "\nflag: true\ndeny: deny\nchoice: two\nwhole: 1\nnumber: 0\nwait: 1m\nsize: 1MiB\n" +
		"nano: 0.5\nlevel: high\nnamed: {x: {name: n}}\nlist: [{rate: 0}, {name: m}]\ninner: {rate: 9}\nname: in\nrate: 2\nptr: {rate: 1}\nseed: 18446744073709551615\nany: all\nself: me")
	want = file{Text: "a", Choice: "two", Texts: []string{"http://h:1"}, Digests: []string{"0123"}, Sum: [32]byte([]byte(strings.Repeat("\x01", 32))), Flag: true, Deny: true,
		Whole: 1, Wait: time.Minute, Size: 1 << 20, Nano: 5e8, Level: 4, Named: map[string]member{"x": {"n", 7}}, List: []member{{"", 0}, {"m", 7}},
		Ptr: &member{Rate: 1}, Seed: 1<<64 - 1, Any: -1, Self: "<me>", Inner: member{Rate: 9}, Other: member{Rate: 7}, Inlined: &member{"in", 2}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("all: %+v, %v", got, err)
	}
}

func TestAllMistakesAgainstTagsAreToldAtOnce(t *testing.T) {
	_, err := readFile("choice: three\nwhole: 11\nnamed: {x: {rate: 10}}\nlist: [{names: n}]\ninner: {name: n}\nunread: x")
	want := `a.yaml:1:1: text: missing; want a word
a.yaml:1:1: choice: want one of one, two; as you like
a.yaml:2:1: whole: out of range; want 1 … 10
a.yaml:3:13: named.x.rate: out of range; want 0 … 9
a.yaml:4:9: list[0].names: unknown field; known here: name, rate
a.yaml:5:9: inner.name: unknown field; known here: rate
a.yaml:6:1: unread: unknown field; known here: any, choice, deny, digests, flag, inner, level, list, name, named, nano, number, other, ptr, rate, seed, self, size, sum, text, texts, wait, whole`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
