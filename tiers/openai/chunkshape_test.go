package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// sameAsFresh parses chunks with one parser, each also with a fresh one, and fails where the results differ.
func sameAsFresh(t *testing.T, settings ChunkParser, chunks ...[]byte) {
	t.Helper()
	p := settings
	for i, data := range chunks {
		fresh := settings
		want, wantErr := fresh.Parse(bytes.Clone(data))
		got, err := p.Parse(data)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("chunk %d, %s: %v; alone %v", i, data, err, wantErr)
		}
		if err != nil {
			if err.Error() != wantErr.Error() {
				t.Fatalf("chunk %d, %s: %v; alone %v", i, data, err, wantErr)
			}
			continue
		}
		if !sameChunk(got, want) {
			t.Fatalf("chunk %d, %s: alone and after the others\n%s", i, data, cmp.Diff(want, got, cmp.AllowUnexported(Chunk{}), cmpopts.EquateEmpty()))
		}
		if !json.Valid(data) {
			t.Fatalf("%s is not JSON", data)
		}
	}
}

// sameChunk compares all fields. It is a hundred times faster than cmp.
func sameChunk(a, b *Chunk) bool {
	x, y := *a, *b
	same := bytes.Equal(x.Raw, y.Raw) && bytes.Equal(x.Text, y.Text) && bytes.Equal(x.Finish, y.Finish) && bytes.Equal(x.Stop, y.Stop) &&
		slices.Equal(x.Ended, y.Ended) && slices.Equal(x.PromptIDs, y.PromptIDs) && slices.Equal(x.IDs, y.IDs) &&
		slices.Equal(x.Logprobs, y.Logprobs) && slices.Equal(x.TokenBytes, y.TokenBytes) && slices.Equal(x.tops, y.tops) &&
		slices.Equal(x.topEnd, y.topEnd) && (x.Fault == nil) == (y.Fault == nil)
	if same && x.Fault != nil {
		same = *x.Fault == *y.Fault
	}
	x.Fault, y.Fault = nil, nil
	x.Raw, x.Text, x.Finish, x.Stop, x.Ended, x.PromptIDs, x.IDs, x.Logprobs, x.TokenBytes, x.tops, x.topEnd = nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil
	y.Raw, y.Text, y.Finish, y.Stop, y.Ended, y.PromptIDs, y.IDs, y.Logprobs, y.TokenBytes, y.tops, y.topEnd = nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil
	return same && reflect.DeepEqual(x, y)
}

// llamaChunk is a chunk with a token and its id as llama.cpp writes them, but with the model in front, so that it has a shape.
func llamaChunk(id int) string {
	return fmt.Sprintf(`{"model":"m","choices":[{"finish_reason":null,"index":0,"delta":{"content":" a%d"},"logprobs":{"content":[{"id":%d,"token":" a","bytes":[32,97],"logprob":-0.5,"top_logprobs":[`+
		`{"id":%d,"token":" a","bytes":[32,97],"logprob":-0.5},{"id":%d,"token":"b","bytes":[98],"logprob":-1.5}]}]}}],"created":1,"id":"c"}`, id, id, id, id+7)
}

// TestIDsInLogprobsAreReadFromEachChunk: also from one that is like the one before, which is read by its shape.
func TestIDsInLogprobsAreReadFromEachChunk(t *testing.T) {
	p := ChunkParser{Judged: true, LogprobIDs: true}
	for _, id := range []int{1, 2, 33, 151645, 4} {
		c, err := p.Parse([]byte(llamaChunk(id)))
		if err != nil || !slices.Equal(c.IDs, []int32{int32(id)}) || len(c.Logprobs) != 1 || len(c.Top(0)) != 2 || c.Foreign {
			t.Errorf("%d: ids %v, logprobs %v, %v", id, c.IDs, c.Logprobs, err)
		}
		if len(p.alike.text) == 0 || len(p.token.text) == 0 {
			t.Errorf("%d: the chunk has no shape: each one is parsed in full", id)
		}
	}
	for _, wrong := range []string{`1.5`, `1e3`, `99999999999`} {
		if _, err := p.Parse([]byte(strings.Replace(llamaChunk(1), `"id":1,`, `"id":`+wrong+`,`, 1))); err == nil {
			t.Errorf("%s is taken for an id", wrong)
		}
	}
	both := strings.Replace(llamaChunk(5), `"index":0`, `"index":0,"token_ids":[5]`, 1)
	if c, err := p.Parse([]byte(both)); err != nil || !slices.Equal(c.IDs, []int32{5}) {
		t.Errorf("ids %v, %v", c.IDs, err)
	}
}

// parserSettings are the ways to parse a stream.
func parserSettings() []ChunkParser {
	return []ChunkParser{{}, {Judged: true}, {Judged: true, NoTop: true}, {Judged: true, LogprobIDs: true}, {Judged: true, NoTop: true, LogprobIDs: true}}
}

func TestAChunkLikeTheOneBeforeSaysWhatItSaysAlone(t *testing.T) {
	last := `{"id":"1","model":"m","choices":[{"index":0,"delta":{"content":"x"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`
	for name, changed := range map[string][2]string{
		"text":                   {`"x"`, `" é\n\"\u00e9"`},
		"empty text":             {`"x"`, `""`},
		"text that is null":      {`"x"`, `null`},
		"text that is a list":    {`"x"`, `[]`},
		"text with a brace":      {`"x"`, `"}]}"`},
		"text that ends early":   {`"x"`, `"x"x"`},
		"text that is not UTF-8": {`"x"`, "\"\xff\""},
		"a lone surrogate":       {`"x"`, `"\ud800"`},
		"a control character":    {`"x"`, "\"\n\""},
		"an id":                  {`"1"`, `"2"`},
		"a longer model":         {`"m"`, `"mm"`},
		"an end":                 {`"finish_reason":null`, `"finish_reason":"stop"`},
		"a usage":                {`}]}`, `}],"usage":{"prompt_tokens":1}}`},
		"what follows":           {`}]}`, `}]}}`},
		"white space":            {`}]}`, `}]} `},
		"nothing at all":         {last, ``},
		"an error":               {`}]}`, `}],"error":"x"}`},
		"another choice":         {`}]}`, `},{"index":1,"delta":{"content":"y"}}]}`},
		"logprobs":               {`"logprobs":null`, `"logprobs":{"content":[{"token":"a","logprob":-1,"bytes":[97],"top_logprobs":[]}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			next := strings.Replace(last, changed[0], changed[1], 1)
			for _, s := range parserSettings() {
				sameAsFresh(t, s, []byte(last), []byte(next), []byte(next), []byte(last))
			}
		})
	}
}

func TestAJudgedChunkLikeTheOneBeforeSaysWhatItSaysAlone(t *testing.T) {
	for name, changed := range map[string][2]string{
		"nothing":                     {`"x"`, `"x"`},
		"a logprob":                   {`-0.5`, `-1.25e-3`},
		"a logprob that is null":      {`-0.5`, `null`},
		"a logprob that is a string":  {`-0.5`, `"-0.5"`},
		"a malformed logprob":         {`-0.5`, `-0.`},
		"a logprob with zeros":        {`-0.5`, `-00.5`},
		"a positive logprob":          {`-0.5`, `3`},
		"another alternative":         {`-2.5`, `-3`},
		"an alternative that is null": {`{"token":"b","logprob":-2.5,"bytes":[98]}`, `null`},
		"one alternative less":        {`,{"token":"b","logprob":-2.5,"bytes":[98]}`, ``},
		"no alternatives":             {`{"token":"a","logprob":-0.5,"bytes":[97]},{"token":"b","logprob":-2.5,"bytes":[98]}`, ``},
		"an odd alternative":          {`{"token":"b","logprob":-2.5,"bytes":[98]}`, `{"token":"b","logprob":-2.5,"bytes":[98],"more":1}`},
		"a comma too many":            {`[98]}]`, `[98]},]`},
		"other bytes":                 {`[97]`, `[240,159,146,169]`},
		"bytes that are null":         {`[97]`, `null`},
		"no bytes":                    {`[97]`, `[]`},
		"bytes with a zero in front":  {`[97]`, `[097]`},
		"large bytes":                 {`[97]`, `[1000]`},
		"negative bytes":              {`[97]`, `[-1]`},
		"bytes that end early":        {`[97]`, `[97,]`},
		"bytes with a space":          {`[97]`, `[97, 98]`},
		"no token":                    {`[{"token":"x"`, `[],"x":[{"token":"x"`},
		"two tokens":                  {`[{"token":"x"`, `[{"token":"y","logprob":-3,"bytes":[121],"top_logprobs":[]},{"token":"x"`},
		"another id":                  {`[7]`, `[123456]`},
		"several ids":                 {`[7]`, `[1,20,0]`},
		"no id":                       {`[7]`, `[]`},
		"ids that are null":           {`[7]`, `null`},
		"a large id":                  {`[7]`, `[2147483647]`},
		"an id that is too large":     {`[7]`, `[2147483648]`},
		"an id that is none":          {`[7]`, `[7.5]`},
		"an id with a zero in front":  {`[7]`, `[07]`},
		"a negative id":               {`[7]`, `[-7]`},
	} {
		t.Run(name, func(t *testing.T) {
			last := `{"model":"m","choices":[{"index":0,"delta":{"content":"x"},"logprobs":{"content":[{"token":"x","logprob":-0.5,"bytes":[97],"top_logprobs":[` +
				`{"token":"a","logprob":-0.5,"bytes":[97]},{"token":"b","logprob":-2.5,"bytes":[98]}]}]},"finish_reason":null,"token_ids":[7]}]}`
			next := strings.Replace(last, changed[0], changed[1], 1)
			for _, s := range parserSettings() {
				sameAsFresh(t, s, []byte(last), []byte(next), []byte(next), []byte(last))
			}
		})
	}
}

func TestAStreamIsParsedWithoutAllocations(t *testing.T) {
	for _, judged := range []bool{false, true} {
		p := ChunkParser{Judged: judged}
		chunks := make([][]byte, 16)
		for i := range chunks {
			chunks[i] = []byte(vllmChunk(i, judged))
		}
		parse := func() {
			for i, data := range chunks {
				p.NoTop = i >= len(chunks)/2
				if _, err := p.Parse(data); err != nil {
					t.Fatal(err)
				}
			}
		}
		parse()
		if n := testing.AllocsPerRun(10, parse); n > 0 {
			t.Errorf("judged %t: %.0f allocations for %d chunks", judged, n, len(chunks))
		}
	}
}

// FuzzChunksAlike: what a chunk says does not depend on the chunk before it.
func FuzzChunksAlike(f *testing.F) {
	for i, judged := range []bool{false, true, true} {
		f.Add([]byte(vllmChunk(i, judged)), []byte(vllmChunk(i+1, judged)), uint8(i))
	}
	f.Add([]byte(chatChunk), []byte(chatChunk), uint8(1))
	f.Add([]byte(`{"choices":[{"delta":{"content":"a","reasoning":"b"},"x":[1]}]}`), []byte(`{"choices":[{"delta":{"content":"b","reasoning":""},"x":[1]}]}`), uint8(0))
	f.Add([]byte(`{"choices":[{"text":"a","logprobs":{"tokens":["a"]}}]}`), []byte(`{"choices":[{"text":"b","logprobs":null}]}`), uint8(0))
	f.Add([]byte(llamaChunk(1)), []byte(llamaChunk(22)), uint8(3))
	f.Add([]byte(llamaChunk(1)), []byte(strings.Replace(llamaChunk(1), `"id":1,`, `"id":1e99,`, 1)), uint8(4))
	f.Add([]byte(`{"choices":[{"text":"a","stop_reason":3,"token_ids":[1]}],"model":"m"}`), []byte(`{"choices":[{"text":"b","stop_reason":3,"token_ids":[2]}],"model":"m"}`), uint8(2))
	f.Fuzz(func(t *testing.T, first, second []byte, setting uint8) {
		s := parserSettings()[int(setting)%len(parserSettings())]
		sameAsFresh(t, s, first, second, first)
	})
}

// FuzzChunksThatDiffer: the same for a chunk that differs from the one before in a few bytes.
func FuzzChunksThatDiffer(f *testing.F) {
	f.Add(uint16(150), uint8(1), []byte(`\u00e9`), uint8(1))
	f.Add(uint16(151), uint8(0), []byte(`"`), uint8(0))
	f.Add(uint16(220), uint8(3), []byte(`[`), uint8(2))
	f.Fuzz(func(t *testing.T, at uint16, drop uint8, with []byte, setting uint8) {
		s := parserSettings()[int(setting)%len(parserSettings())]
		first := []byte(vllmChunk(1, s.Judged))
		from := int(at) % len(first)
		to := min(from+int(drop), len(first))
		second := append(append(bytes.Clone(first[:from]), with...), first[to:]...)
		sameAsFresh(t, s, first, second, second, first)
	})
}
