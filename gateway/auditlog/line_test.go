package auditlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/tiers/evidence"
)

// goodLine is a line as export writes it.
const goodLine = `{"when":"2026-01-02T03:04:05.678Z","route":"chat","traffic_class":"to_1k.0a1b2c3d","ticket":"T-1","score":-0.25,"floor":-0.5,"threshold":1e9,"served":false,"features":[-0.25,-1,-0.5,-2,-4],"tokens":80,"map":0,"grid":1700000000000000,"label":"lost"}`

// labelledLine is a line with what every label says.
var labelledLine = strings.Replace(goodLine, `"label":"lost"`,
	`"label":"bad","request":"0a1b","labels":{"exact":"bad","lenient":"good"}`, 1)

func TestWhatIsNoAuditIsRefusedByLineAndField(t *testing.T) {
	for old, tc := range map[string]struct{ with, want string }{
		`"score":-0.25`:                {`"score":NaN`, "line 2: score: invalid character 'N' looking for beginning of value"},
		`"floor":-0.5`:                 {`"floor":1e400`, "line 2: floor: want a number from -1e9 to 1e9"},
		`"threshold":1e9`:              {`"threshold":1e10`, "line 2: threshold: want a number from -1e9 to 1e9"},
		`"served":false`:               {`"served":0`, "line 2: served: want true or false"},
		`"features":[-0.25,`:           {`"features":[0,0,0,0,0,`, "line 2: features: want at most 8 numbers from -1e9 to 1e9"},
		`[-0.25,-1,`:                   {`["x",-1,`, "line 2: features: want at most 8 numbers from -1e9 to 1e9"},
		`"tokens":80`:                  {`"tokens":-1`, "line 2: tokens: want a count"},
		`"map":0`:                      {`"map":1.5`, "line 2: map: want a count"},
		`"grid":17`:                    {`"grid":-17`, "line 2: grid: want a count"},
		`"label":"lost`:                {`"label":"fine`, "line 2: label: want good, bad or lost"},
		`"ticket":"T-1"`:               {`"ticket":"T 1"`, "line 2: ticket: want 1 to 64 letters, digits and hyphens"},
		`"route":"chat"`:               {`"route":"ch\u0007at"`, "line 2: route: want a name of at most 256 bytes that can be printed"},
		`"traffic_class":"to_1k.0a1b2`: {`"traffic_class":"","x":"`, "line 2: x: an unknown field, or one given twice"},
		`"when":"2026`:                 {`"when":"yesterday 2026`, "line 2: when: want a time such as 2006-01-02T15:04:05Z"},
		`2026-01-02`:                   {`1026-01-02`, "line 2: when: want a time such as 2006-01-02T15:04:05Z"},
		`,"label":"lost"`:              {``, "line 2: label: is missing"},
		`"map":0,`:                     {`"map":0,"map":0,`, "line 2: map: an unknown field, or one given twice"},
		`"score":-`:                    {`"score":null,"s":-`, "line 2: score: is null"},
		`"lost"}`:                      {`"lost"} {}`, "line 2: something follows the object"},
		`:"lost"}`:                     {`:"lost"`, "line 2: the object has no end"},
		`{"when"`:                      {`["when"`, "line 2: want a JSON object"},
		`"label":"lost"`:               {`"label":"lost","request":"a b"`, "line 2: request: want 1 to 64 letters, digits and hyphens"},
		`,"label":"lost"}`:             {`,"label":"lost","labels":{"strict":"bad"}}`, "line 2: labels: want good or bad by the name of a label"},
		`0,"label":"lost"}`:            {`0,"label":"lost","labels":{"lenient":"fine"}}`, "line 2: labels: want good or bad by the name of a label"},
		`-4]`:                          {strings.Repeat(" ", maxLineBytes) + `-4]`, "line 2: has more than 16384 bytes"},
	} {
		line := strings.Replace(goodLine, old, tc.with, 1)
		if line == goodLine {
			t.Fatalf("%s is not in the line", old)
		}
		n := 0
		err := Read(strings.NewReader(goodLine+"\n"+line+"\n"), func(int, evidence.LogEntry) error { n++; return nil })
		if err == nil || err.Error() != tc.want || n != 1 {
			t.Errorf("%s: %d lines, %v, want %s", old, n, err, tc.want)
		}
	}
}

func TestALineIsReadAsItWasWritten(t *testing.T) {
	for _, line := range []string{goodLine, labelledLine} {
		var got evidence.LogEntry
		if err := Read(strings.NewReader(line), func(_ int, e evidence.LogEntry) error { got = e; return nil }); err != nil {
			t.Fatal(err)
		}
		back, err := json.Marshal(lineOf(got))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Replace(line, "1e9", "1000000000", 1), string(back)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestAnErrorOfWhoIsGivenTheAuditsEndsTheReadingAndNamesTheLine(t *testing.T) {
	full := errors.New("it is full")
	given := 0
	err := Read(strings.NewReader(strings.Repeat(goodLine+"\n", 3)), func(n int, _ evidence.LogEntry) error {
		if given++; n == 2 {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) || err.Error() != "line 2: it is full" || given != 2 {
		t.Errorf("%d audits were given, then %v", given, err)
	}
}

func TestAFileOfMoreKindsThanCanBeImportedIsRefusedByLine(t *testing.T) {
	var file strings.Builder
	for i := range maxBatches + 1 {
		file.WriteString(strings.Replace(goodLine, `"chat"`, fmt.Sprintf(`"chat%d"`, i), 1) + "\n")
	}
	want := fmt.Sprintf("line %d: more than %d kinds of request", maxBatches+1, maxBatches)
	if batches, err := ReadBatches(strings.NewReader(file.String()), ""); err == nil || err.Error() != want || len(batches) != maxBatches {
		t.Errorf("%d kinds, %v", len(batches), err)
	}
	if batches, err := ReadBatches(strings.NewReader(file.String()), "chat7"); err != nil || len(batches) != 1 {
		t.Errorf("of one route: %d kinds, %v", len(batches), err)
	}
}

func FuzzAFileOfAudits(f *testing.F) {
	f.Add([]byte(goodLine))
	f.Add([]byte(goodLine + "\n\n"))
	f.Add([]byte(labelledLine))
	f.Add([]byte(`{"when":"2026-01-02T03:04:05Z","features":[[[[`))
	f.Add([]byte(strings.ReplaceAll(goodLine, "-0.25", "-1e-320")))
	f.Fuzz(func(t *testing.T, data []byte) {
		var lines [][]byte
		var kept []evidence.LogEntry
		_ = Read(bytes.NewReader(data), func(n int, e evidence.LogEntry) error { // most of it is no file
			if n != len(kept)+1 {
				t.Fatalf("line %d after %d", n, len(kept))
			}
			line, err := json.Marshal(lineOf(e))
			if err != nil {
				t.Fatalf("what was read cannot be written: %v", err)
			}
			lines, kept = append(lines, line), append(kept, e)
			return nil
		})
		again := 0
		err := Read(bytes.NewReader(bytes.Join(lines, []byte("\n"))), func(n int, e evidence.LogEntry) error {
			if diff := cmp.Diff(lineOf(kept[n-1]), lineOf(e)); diff != "" {
				t.Fatalf("line %d is another when it is read again: %s", n, diff)
			}
			again++
			return nil
		})
		if err != nil || again != len(kept) {
			t.Fatalf("%d of %d lines are read again: %v", again, len(kept), err)
		}
	})
}

func BenchmarkAFileOfAudits(b *testing.B) {
	line := []byte(goodLine)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseLine(line); err != nil {
			b.Fatal(err)
		}
	}
}
