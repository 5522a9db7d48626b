package openai

import "testing"

func TestATextAgreesWithItsTokens(t *testing.T) {
	type step struct{ token, text string }
	told := func(s string) (out TokenText) {
		out.Text = []byte(s)
		out.end(0)
		return out
	}
	for name, c := range map[string]struct {
		steps []step
		want  bool
	}{
		"word by word":                        {[]step{{"It", "It"}, {" rains", " rains"}, {".", "."}}, true},
		"no token tells its text":             {[]step{{"", "It"}, {"", " rains"}}, true},
		"decoded one by one":                  {[]step{{"It", "It"}, {"rains", " rains"}}, true},
		"the end has a name":                  {[]step{{"It", "It"}, {"<|eot_id|>", ""}}, true},
		"held back for a while":               {[]step{{"It", ""}, {" rains", ""}, {".", "It rains."}}, true},
		"bytes of a character":                {[]step{{"\xe6", ""}, {"\x97", ""}, {"\xa5", "日"}, {"!", "!"}}, true},
		"parts of a character, not told":      {[]step{{"a", "a"}, {"\ufffd", ""}, {"\ufffd", "日"}, {"!", "!"}}, true},
		"parts of a character, silent":        {[]step{{"a", "a"}, {"", ""}, {"日", "日"}, {"!", "!"}}, true},
		"another word":                        {[]step{{"It", "It"}, {" rains", " snows"}}, false},
		"a word more":                         {[]step{{"It", "It"}, {" rains", " never rains"}}, false},
		"a word that no token tells":          {[]step{{"It", "It"}, {"", " rains"}}, false},
		"a word less":                         {[]step{{"It", "It"}, {" never", ""}, {" rains", " rains"}}, false},
		"the end is missing":                  {[]step{{"It", "It"}, {" rains", ""}, {" often", ""}, {"<|eot_id|>", ""}}, false},
		"letters where characters are spread": {[]step{{"a", "a"}, {"\ufffd", ""}, {"\ufffd", "so"}}, false},
		"nothing but what is held back":       {[]step{{string(make([]byte, maxDue+1)), ""}}, false},
	} {
		var m TextMatch
		got := true
		for _, s := range c.steps {
			got = got && m.Add(told(s.token), []byte(s.text))
		}
		if got = got && m.Ends(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTokensTellTheirTextInEachShape(t *testing.T) {
	for name, c := range map[string]struct{ data, want string }{
		"chat":            {`{"choices":[{"delta":{"content":"ab"},"logprobs":{"content":[{"token":"a","logprob":-1,"bytes":[97]},{"token":"b","logprob":-1}]}}]}`, "ab"},
		"bytes win":       {`{"choices":[{"delta":{"content":"ab"},"logprobs":{"content":[{"bytes":[230,151],"token":"?","logprob":-1}]}}]}`, "\xe6\x97"},
		"ids":             {`{"choices":[{"delta":{"content":"ab"},"logprobs":{"content":[{"token":"token_id:7","logprob":-1,"bytes":null}]}}]}`, ""},
		"a completion":    {`{"choices":[{"text":"ab","logprobs":{"tokens":["a","b"],"token_logprobs":[-1,-1],"top_logprobs":[{},{}]}}]}`, "ab"},
		"another choice":  {`{"choices":[{"index":1,"delta":{"content":"ab"}}]}`, "!"},
		"the first named": {`{"choices":[{"index":0,"delta":{"content":"ab"}}]}`, ""},
	} {
		p := ChunkParser{Judged: true}
		k, err := p.Parse([]byte(c.data))
		if err != nil {
			t.Fatal(err)
		}
		if c.want == "!" {
			if k.Plain {
				t.Errorf("%s: it is the first", name)
			}
		} else if string(k.Told.Text) != c.want || !k.Plain {
			t.Errorf("%s: told %q, plain %v", name, k.Told.Text, k.Plain)
		}
	}
}
