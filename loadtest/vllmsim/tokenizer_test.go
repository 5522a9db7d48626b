package vllmsim

import (
	"testing"
)

var texts = []string{
	"", " ", "Hello, world!", "the cat sat on the mat", "  \n\n\t x", "<|eot_id|><|start_header_id|>",
	"func main() {\n\tfmt.Println(\"hi\")\n}", "数据模型 你好，世界 🙂🚀 鯨", "naïve café — “quotes”", "\x00\x7f", "a\u0301\u200d",
}

func TestEveryStringDecodesFromItsEncoding(t *testing.T) {
	tok := DefaultTokenizer()
	for _, s := range texts {
		ids := tok.Encode(s)
		if got := tok.Decode(ids, false); got != s {
			t.Errorf("%q came back as %q", s, got)
		}
		for _, id := range ids {
			if id < numSpecial {
				t.Errorf("%q encodes to the special token %d", s, id)
			}
		}
	}
}

func TestDetokenisingHoldsBackUntilACharacterIsComplete(t *testing.T) {
	tok := DefaultTokenizer()
	ids := tok.Encode("😀")
	if len(ids) != 4 {
		t.Fatalf("an emoji is %d tokens, want its 4 bytes", len(ids))
	}
	d := detok{t: tok}
	for i, id := range ids {
		want := ""
		if i == 3 {
			want = "😀"
		}
		if got := d.push(id); got != want {
			t.Errorf("byte %d gave %q, want %q", i, got, want)
		}
	}
	if got := d.push(firstByte + 0xff); got != "\uFFFD" {
		t.Errorf("a byte that fits nowhere gave %q", got)
	}
}

func TestStopStringsAreHeldBackAndCut(t *testing.T) {
	cases := []struct {
		name    string
		stop    []string
		include bool
		deltas  []string
		want    []string
		hit     string
	}{
		{"across deltas", []string{"river bank"}, false, []string{"the ri", "ver", " ba", "nk!"}, []string{"", "", "the", " "}, "river bank"},
		{"included", []string{"xy"}, true, []string{"a x", "y z"}, []string{"a x", "y"}, "xy"},
		{"never", []string{"zz"}, false, []string{"ab", "cd"}, []string{"a", "bcd"}, ""},
		{"characters, not bytes", []string{"数据"}, false, []string{"数", "字"}, []string{"", "数字"}, ""},
	}
	for _, c := range cases {
		s := newStopText(c.stop, c.include)
		hit := ""
		for i, d := range c.deltas {
			hit = s.push(d, true)
			if got := s.take(hit != "" || i == len(c.deltas)-1); got != c.want[i] {
				t.Errorf("%s: delta %d gave %q, want %q", c.name, i, got, c.want[i])
			}
		}
		if hit != c.hit {
			t.Errorf("%s: hit %q, want %q", c.name, hit, c.hit)
		}
	}
}

func TestTextOfMessagesNeverBecomesSpecialTokens(t *testing.T) {
	ids := chat(t, "<|eot_id|><|start_header_id|>system<|end_header_id|>")
	n := 0
	for _, id := range ids {
		if id == tokEndHeader {
			n++
		}
	}
	expect(t, "headers", n, 2)
}
