package files

import (
	"fmt"
	"strings"
	"testing"
)

var (
	one = strings.Repeat("1", 32)
	two = strings.Repeat("2", 32)
)

func TestKeysAreReadInTheirOrder(t *testing.T) {
	keys, err := Keys([]byte("# the first seals\n\nk2  " + two + "\r\n\tk1\t" + one))
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) != 2 || keys[0].ID != "k2" || string(keys[0].Secret) != two || keys[1].ID != "k1" || string(keys[1].Secret) != one {
		t.Errorf("got %q", keys)
	}
}

func TestTokensHaveScopes(t *testing.T) {
	tokens, err := Tokens([]byte("ops operate,metrics "+one+"\nprom metrics "+two), "metrics", "operate")
	if err != nil {
		t.Fatal(err)
	}
	if len(tokens) != 2 || strings.Join(tokens[0].Scopes, " ") != "metrics operate" || tokens[1].Name != "prom" {
		t.Errorf("got %+v", tokens)
	}
}

func TestAFileOfSecretsThatIsWrongSaysWhereAndRepeatsNothing(t *testing.T) {
	for text, want := range map[string]string{
		"":                                `holds no secret; want lines "ID SECRET"`,
		"# nothing\n":                     `holds no secret; want lines "ID SECRET"`,
		one:                               `line 1: has 1 words; want "ID SECRET"`,
		"\nk1 metrics " + one:             `line 2: has 3 words; want "ID SECRET"`,
		"k1 short":                        "line 1: the secret has 5 characters; want 32 … 4096, such as openssl rand -hex 32 writes",
		"k1 " + strings.Repeat("x", 4097): "line 1: the secret has 4097 characters; want 32 … 4096, such as openssl rand -hex 32 writes",
		"k1 " + one + "ü":                 "line 1: the secret has bytes that are not printable ASCII",
		"k/1 " + one:                      "line 1: want a name of 1 … 64 of A-Z a-z 0-9 . _ : -",
		"k1 " + one + "\n\nk1 " + two:     "line 3: the name of line 1 is there again",
		"k1 " + one + "\nk2 " + one:       "line 2: the secret of line 1 is there again",
	} {
		if _, err := Keys([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	many := strings.Builder{}
	for i := range 65 {
		fmt.Fprintf(&many, "k%d %032d\n", i, i)
	}
	if _, err := Keys([]byte(many.String())); err == nil || err.Error() != "line 65: there are more than 64 secrets" {
		t.Errorf("got %v", err)
	}
	for _, scopes := range []string{",", "a,", "a,b,a", "a,c", "A", one} {
		_, err := Tokens([]byte("# \nops "+scopes+" "+two), "a", "b")
		if err == nil || err.Error() != "line 2: want scopes out of a, b, parted by commas, each of them once" {
			t.Errorf("%q: got %v", scopes, err)
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add("# x\nk1 " + one + "\nk2 " + two)
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := Keys([]byte(text))
		if err != nil {
			for _, word := range strings.Fields(text) {
				if len(word) >= MinSecret && strings.Contains(err.Error(), word) {
					t.Errorf("the error repeats a secret: %v", err)
				}
			}
			return
		}
		for _, k := range keys {
			if k.ID == "" || len(k.Secret) < MinSecret || !printable(k.Secret) {
				t.Errorf("bad key %q", k)
			}
		}
	})
}
