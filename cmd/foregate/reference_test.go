package main

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/internal/golden"
	"github.com/foregate/foregate/internal/yamlfile"
)

func TestTheReferenceIsUpToDate(t *testing.T) {
	const path = "../../docs/reference.md"
	commands, err := flagsText()
	if err != nil {
		t.Fatal(err)
	}
	got, err := referencePage(t.Context(), commands)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, path, got) // if it is stale, run make docs
}

// flagsText is the help of every command.
func flagsText() (string, error) {
	var c cli
	var out bytes.Buffer
	parser, err := kong.New(&c, kong.Name("foregate"), kong.Writers(&out, &out), kong.Exit(func(int) {}))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, leaf := range parser.Model.Leaves(true) {
		out.Reset()
		_, _ = parser.Parse(append(strings.Fields(leaf.Path()), "--help")) // help was printed; the rest of the line does not matter
		fmt.Fprintf(&b, "### foregate %s\n\n```\n%s\n```\n\n", leaf.Path(), strings.TrimSpace(out.String()))
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}

// example returns a guide and its first configuration, which is sound.
func example(t *testing.T, path string) (guide string, f *config.File) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```yaml\n")
	first, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatalf("%s has no yaml example", path)
	}
	if f, err = config.Parse(path, []byte(first)); err != nil {
		t.Fatal(err)
	}
	return string(text), f
}

func TestTheExampleOfAHostedTargetIsSoundAndItsDraftsPay(t *testing.T) {
	_, f := example(t, "../../docs/guides/hosted-target.md")
	f.Cache.SealKeysFile, f.Pools["hosted"] = "", func() config.Pool { // files that only its reader has
		p := f.Pools["hosted"]
		p.Auth = config.PoolAuth{}
		return p
	}()
	checked, err := app.Check(f)
	if ofRoutes := slices.ContainsFunc(checked.Warnings, func(w string) bool { return strings.HasPrefix(w, "route") }); err != nil || ofRoutes {
		t.Errorf("%v; its prices are warned of: %q", err, checked.Warnings)
	}
}

// TestTheGuidesConfigurationStartsAsItStands: it is sound, and each of its backends is simulated by a line of the guide.
func TestTheGuidesConfigurationStartsAsItStands(t *testing.T) {
	guide, f := example(t, "../../docs/guides/first-deployment.md")
	checked, err := app.Check(f)
	if ofRoutes := slices.ContainsFunc(checked.Warnings, func(w string) bool { return strings.HasPrefix(w, "route") }); err != nil || ofRoutes {
		t.Errorf("%v; its prices are warned of: %q", err, checked.Warnings)
	}
	simulated := map[string]string{} // URL: model
	for _, line := range regexp.MustCompile(`bin/vllmsim --listen (\S+) --model (\S+) `).FindAllStringSubmatch(guide, -1) {
		simulated["http://"+line[1]] = line[2]
	}
	configured := map[string]string{}
	for _, def := range f.Pools {
		for _, url := range def.Backends {
			configured[url] = def.Model
		}
	}
	if diff := cmp.Diff(configured, simulated); diff != "" {
		t.Errorf("-backends of the configuration +simulated:\n%s", diff)
	}
}

// fieldDoc is a field in the reference. Names in capitals are chosen by operators.
type fieldDoc struct{ Name, Default, Allowed, Doc string }

// fieldDocs describe the fields of a struct by their tags: doc says what a field means, and absent, in the place of its default, what is
// in force where there is none; a word between two ' is printed as code. A struct with a doc has no rows for its fields: it says
// where they are.
func fieldDocs(prefix string, t reflect.Type, without []string) (all []fieldDoc) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		_, documented := f.Tag.Lookup("doc")
		switch inner, suffix := element(f.Type); {
		case option == "inline":
			all = append(all, fieldDocs(prefix, inner, without)...)
		case name == "" || slices.Contains(without, name):
		case documented || inner.Kind() != reflect.Struct:
			all = append(all, fieldDocOf(prefix+name, f))
		default:
			all = append(all, fieldDocs(prefix+name+suffix+".", inner, strings.Split(f.Tag.Get("without"), ","))...)
		}
	}
	return all
}

// element is the type of the members of a list or mapping, or t, and what their names have besides that of the field.
func element(t reflect.Type) (elem reflect.Type, suffix string) {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem(), ".NAME"
	case reflect.Slice:
		return t.Elem(), "[]"
	case reflect.Pointer:
		return t.Elem(), ""
	}
	return t, ""
}

func fieldDocOf(name string, f reflect.StructField) fieldDoc {
	r := fieldDoc{Name: name, Default: "none", Doc: yamlfile.Code(f.Tag.Get("doc"))}
	byDefault, has := f.Tag.Lookup("default")
	absent, said := f.Tag.Lookup("absent")
	_, needed := f.Tag.Lookup("need")
	switch {
	case said:
		r.Default = yamlfile.Code(absent)
	case has && f.Type.Kind() == reflect.Slice:
		r.Default = "`[" + strings.ReplaceAll(byDefault, ",", ", ") + "]`"
	case has:
		r.Default = "`" + byDefault + "`"
	case needed:
		r.Default = "required"
	case f.Type.Kind() == reflect.Bool:
		r.Default = "`false`"
	}
	switch words, chosen := f.Tag.Lookup("choice"); {
	case chosen:
		r.Allowed = "`" + strings.ReplaceAll(words, ",", "`, `") + "`"
	case f.Tag.Get("max") != "":
		r.Allowed = f.Tag.Get("min") + " … " + f.Tag.Get("max")
	}
	return r
}

// configTable is the table of all fields of the configuration file. A name in capitals is chosen by the operator.
func configTable() string {
	var b strings.Builder
	b.WriteString("| field | default | allowed | meaning |\n|---|---|---|---|\n")
	for _, f := range fieldDocs("", reflect.TypeFor[config.File](), nil) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Name, f.Default, f.Allowed, f.Doc)
	}
	return b.String()
}

func TestEveryFieldSaysWhatItMeans(t *testing.T) {
	all := fieldDocs("", reflect.TypeFor[config.File](), nil)
	if len(all) < 80 {
		t.Errorf("only %d fields", len(all))
	}
	for _, f := range all {
		if f.Doc == "" || f.Default == "" {
			t.Errorf("%s: default %q, meaning %q", f.Name, f.Default, f.Doc)
		}
	}
}
